"""Bodies in memory at once: never more than there is room for, and nothing is held for longer than its call."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.admission import Admission, Pace
from gateway.operations.caller import HttpAnswer, Principal
from tests.gateway.conftest import eventually
from tests.served import Era, listening
from tests.tenants.people import House, Person, house, result_of

MIB = 1024 * 1024
ERAS: tuple[Era, ...] = ("modern", "legacy")
ANN, BEN = Person("ann", "web", "red"), Person("ben", "web", "red")


class Watched(Admission):
    """Knows the most it ever held, of all and of one caller."""

    most = 0
    most_of_one = 0

    def count(self, caller: str, size: int) -> None:
        super().count(caller, size)
        self.most = max(self.most, self.held)
        self.most_of_one = max(self.most_of_one, self._by_caller.get(caller, 0))

    @property
    def is_empty(self) -> bool:
        return self.held == 0 and not self._by_caller


@dataclass
class Reader:
    """Reads a body to its end and answers with its size, once it may."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    seconds: float = 0.0
    read: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        self.read += 1
        await asyncio.sleep(self.seconds)
        await self.open.wait()
        await JSONResponse({"size": size})(scope, receive, send)


def named(app: ASGIApp) -> ASGIApp:
    """Callers by the name they give, as the door would have them."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        caller = dict(scope.get("headers", ())).get(b"x-caller", b"ann").decode()
        await app({**scope, "state": {"principal": Principal(subject=caller), "http": HttpAnswer()}}, receive, send)

    return serve


@dataclass
class Exchange:
    """One request spoken to an application directly: what it is sent, when, and what it says."""

    admission: Admission
    messages: "asyncio.Queue[Message]" = field(default_factory=asyncio.Queue)
    sent: list[Message] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None

    def begin(self, *headers: tuple[bytes, bytes], caller: str = "ann") -> "Exchange":
        async def send(message: Message) -> None:
            self.sent.append(message)

        said = [(b"x-caller", caller.encode()), *headers]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": said}
        self.task = asyncio.create_task(named(self.admission)(scope, self.messages.get, send))  # type: ignore[arg-type]
        return self

    def say(self, body: bytes, *, more: bool = True) -> None:
        self.messages.put_nowait({"type": "http.request", "body": body, "more_body": more})

    async def end(self) -> int:
        assert self.task is not None
        await self.task
        return self.status

    @property
    def status(self) -> int:
        return int(next((m["status"] for m in self.sent if m["type"] == "http.response.start"), 0))

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(next(m["headers"] for m in self.sent if m["type"] == "http.response.start"))


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def length(size: int) -> tuple[bytes, bytes]:
    return b"content-length", str(size).encode()


def said(size: int) -> bytes:
    """The beginning of a JSON text."""
    return (b'{"' + b"x" * size)[:size]


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A room that fits the small bodies here."""
    monkeypatch.setattr("gateway.http.admission.SMALL", 50)


@pytest.fixture
def admission(tight: None, reader: Reader) -> Watched:
    return Watched(reader, room=1000, largest=400)


async def test_what_came_is_held_until_the_answer_and_what_is_announced_is_not(
    admission: Watched, reader: Reader
) -> None:
    exchange = Exchange(admission).begin(length(300))
    await settled()
    assert admission.held == 0
    exchange.say(said(100))
    await settled()
    assert admission.held == 100
    exchange.say(b"x" * 200, more=False)
    await settled()
    assert reader.read == 1
    assert admission.held == 300
    reader.open.set()
    assert await exchange.end() == 200
    assert admission.is_empty


async def test_bodies_that_are_only_announced_keep_nobody_out(admission: Watched, reader: Reader) -> None:
    waiting = [Exchange(admission).begin(length(400), caller=f"caller {n}") for n in range(50)]
    for each in waiting:
        each.say(b"{")
    reader.open.set()
    exchange = Exchange(admission).begin(length(400))
    exchange.say(said(400), more=False)
    assert await exchange.end() == 200
    for each in waiting:
        each.messages.put_nowait({"type": "http.disconnect"})
        assert await each.end() == 0
    assert admission.is_empty


async def test_small_bodies_are_let_in_though_there_is_no_room(admission: Watched, reader: Reader) -> None:
    full = [Exchange(admission).begin(caller=name) for name in ("ben", "cleo", "dora")]
    for each in full:
        each.say(said(330), more=False)
    await settled()
    assert admission.held == 990
    small, larger = Exchange(admission).begin(), Exchange(admission).begin()
    small.say(said(50), more=False)
    larger.say(said(51), more=False)
    assert await larger.end() == 503
    assert larger.headers[b"retry-after"] == b"2"
    reader.open.set()
    assert [await each.end() for each in (small, *full)] == [200] * 4
    assert admission.is_empty


async def test_a_body_is_stopped_when_there_is_no_room_for_more(admission: Watched, reader: Reader) -> None:
    others = [Exchange(admission).begin(caller=name) for name in ("ben", "cleo")]
    for other in others:
        other.say(said(400), more=False)
    exchange = Exchange(admission).begin(length(300))
    exchange.say(said(100))
    exchange.say(b"x" * 101)
    assert await exchange.end() == 503
    assert admission.held == 800
    reader.open.set()
    assert [await other.end() for other in others] == [200, 200]
    assert admission.is_empty


@pytest.mark.parametrize("told", [b"0", b"1", b"99", b"-5", b"1e3", b"", b"abc", b"\xd9\xa1", b"9" * 400, b"0x10"])
async def test_a_length_that_lies_frees_nothing_from_being_counted(
    admission: Watched, reader: Reader, told: bytes
) -> None:
    exchange = Exchange(admission).begin((b"content-length", told))
    exchange.say(said(350), more=False)
    await settled()
    assert admission.held == 350
    reader.open.set()
    assert await exchange.end() == 200
    assert admission.is_empty


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("room", [1000, pytest.param(400, id="room for one alone")])
@pytest.mark.usefixtures("tight")
async def test_a_body_too_large_for_any_call_is_413_and_holds_nothing(
    reader: Reader, room: int, announced: bool
) -> None:
    admission = Watched(reader, room=room, largest=400)
    exchange = Exchange(admission).begin(*([length(401)] if announced else []))
    if not announced:
        exchange.say(said(400))
        exchange.say(b"x", more=False)
    assert await exchange.end() == 413
    assert reader.read == 0
    assert admission.is_empty


async def test_one_caller_never_has_more_than_half_and_another_still_gets_in(
    admission: Watched, reader: Reader
) -> None:
    mine = [Exchange(admission).begin() for _ in range(7)]
    theirs = Exchange(admission).begin(caller="ben")
    for exchange in mine:
        exchange.say(said(100), more=False)
    theirs.say(said(400), more=False)
    await settled()
    assert [exchange.status for exchange in mine] == [0] * 5 + [503] * 2
    assert admission.held == 900
    reader.open.set()
    assert [await exchange.end() for exchange in (*mine[:5], theirs)] == [200] * 6
    assert admission.is_empty


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("room", [500, pytest.param(10, id="a room smaller than one body")])
async def test_one_body_may_be_as_large_as_any_though_it_is_more_than_half(reader: Reader, room: int) -> None:
    admission = Watched(reader, room=room, largest=400)
    exchange, again = Exchange(admission).begin(), Exchange(admission).begin()
    exchange.say(said(400), more=False)
    await settled()
    assert admission.held == 400
    again.say(said(101))
    assert await again.end() == 503
    reader.open.set()
    assert await exchange.end() == 200
    assert admission.is_empty


async def test_the_application_gets_the_body_in_one_piece_and_then_hears_who_leaves() -> None:
    heard: list[Message] = []

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        heard.extend([await receive(), await receive()])
        await JSONResponse({})(scope, receive, send)

    exchange = Exchange(Watched(serve, room=1000, largest=400)).begin()
    exchange.say(b'{"a"')
    exchange.say(b": 1}", more=False)
    exchange.messages.put_nowait({"type": "http.disconnect"})
    assert await exchange.end() == 200
    whole: Message = {"type": "http.request", "body": b'{"a": 1}', "more_body": False}
    assert heard == [whole, {"type": "http.disconnect"}]


QUICK = Pace(seconds=60, pause=0.2, least=40)


@pytest.mark.parametrize("came", [b"", b"{", said(300)], ids=["nothing", "one byte", "much"])
async def test_a_body_that_stalls_is_408_and_holds_nothing(reader: Reader, tight: None, came: bytes) -> None:
    admission = Watched(reader, room=1000, largest=400, pace=QUICK)
    exchange = Exchange(admission).begin(length(400))
    if came:
        exchange.say(came)
    assert await exchange.end() == 408
    assert exchange.headers[b"retry-after"] == b"2"
    assert exchange.headers[b"connection"] == b"close"
    assert admission.is_empty


@pytest.mark.parametrize(
    "pace", [QUICK, Pace(seconds=0.3, pause=60, least=1)], ids=["too little in a while", "too long in all"]
)
async def test_a_body_that_drips_is_408(reader: Reader, pace: Pace) -> None:
    admission = Watched(reader, room=1000, largest=400, pace=pace)
    exchange = Exchange(admission).begin()
    exchange.say(b'{"')

    async def drip() -> None:
        while True:
            exchange.say(b"x")
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    try:
        assert await exchange.end() == 408
    finally:
        dripping.cancel()
    assert reader.read == 0
    assert admission.is_empty


async def test_a_body_that_comes_fast_enough_is_waited_for(reader: Reader) -> None:
    """Its pauses are longer in all than one may be."""
    admission = Watched(reader, room=1000, largest=400, pace=Pace(seconds=60, pause=0.5, least=40))
    exchange = Exchange(admission).begin()
    reader.open.set()
    exchange.say(b'{"')
    for n in range(6):
        await asyncio.sleep(0.15)
        exchange.say(b"x" * 40, more=n < 5)
    assert await exchange.end() == 200


async def test_the_clock_of_a_body_does_not_run_while_its_call_is_served() -> None:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        # As servers do, to hear of a caller who leaves.
        leaving = asyncio.ensure_future(receive())
        await asyncio.wait([leaving], timeout=0.15)
        leaving.cancel()
        await JSONResponse({})(scope, receive, send)

    admission = Watched(serve, room=1000, largest=400, pace=Pace(seconds=0.05, pause=0.05))
    exchange = Exchange(admission).begin(length(10))
    exchange.say(said(10), more=False)
    assert await exchange.end() == 200
    assert admission.is_empty


@pytest.mark.parametrize("when", ["before a byte", "within the body", "after the body"])
@pytest.mark.parametrize("how", ["disconnected", "cancelled"])
async def test_whoever_leaves_holds_nothing(admission: Watched, reader: Reader, when: str, how: str) -> None:
    exchange = Exchange(admission).begin(length(300))
    if when != "before a byte":
        exchange.say(said(100), more=when == "within the body")
    await settled()
    assert admission.held == (0 if when == "before a byte" else 100)
    assert exchange.task is not None
    if how == "cancelled":
        exchange.task.cancel()
        await asyncio.gather(exchange.task, return_exceptions=True)
    else:
        exchange.messages.put_nowait({"type": "http.disconnect"})
        # A call that is being served ends by itself.
        reader.open.set()
        await exchange.task
    assert admission.is_empty


async def test_an_application_that_fails_holds_nothing(tight: None) -> None:
    async def failing(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        raise ZeroDivisionError

    admission = Watched(failing, room=1000, largest=400)
    exchange = Exchange(admission).begin(length(300))
    exchange.say(said(300), more=False)
    with pytest.raises(ZeroDivisionError):
        await exchange.end()
    assert admission.is_empty


async def test_refusals_of_many_callers_leave_nothing_behind(admission: Watched, reader: Reader) -> None:
    others = [Exchange(admission).begin(caller=name) for name in ("ben", "cleo")]
    for other in others:
        other.say(said(400), more=False)
    await settled()
    for n in range(1000):
        refused = Exchange(admission).begin(caller=f"made up {n}")
        refused.say(said(400))
        assert await refused.end() == 503
    assert len(admission._by_caller) == 2
    reader.open.set()
    assert [await other.end() for other in others] == [200, 200]
    assert admission.is_empty


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        (b"content-encoding", b"gzip", 415),
        (b"content-encoding", b"", 415),
        (b"content-encoding", b"Identity", 200),
        (b"transfer-encoding", b"gzip, chunked", 415),
        (b"transfer-encoding", b"Chunked", 200),
    ],
)
async def test_a_body_that_says_it_is_packed_is_not_read(
    admission: Watched, reader: Reader, name: bytes, value: bytes, status: int
) -> None:
    exchange = Exchange(admission).begin((name, value))
    exchange.say(b"{}", more=False)
    reader.open.set()
    assert await exchange.end() == status
    assert reader.read == (status == 200)


async def test_a_body_of_too_many_values_is_refused_before_all_of_it_came(reader: Reader) -> None:
    admission = Watched(reader, room=10 * MIB, largest=10 * MIB)
    exchange = Exchange(admission).begin(length(10 * MIB))
    exchange.say(b'{"a": [')
    exchange.say(b"{}," * MIB)
    assert await exchange.end() == 400
    (_, body) = exchange.sent
    assert json.loads(body["body"])["error"]["code"] == -32600
    assert admission.is_empty


async def posted(url: str, body: bytes, caller: str, *, chunked: bool) -> str:
    """The status of a request whose sender also listens while it sends; with its Retry-After, if it has one."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    writer.write(f"POST /mcp HTTP/1.1\r\nHost: {parts.netloc}\r\nX-Caller: {caller}\r\n{framing}\r\n\r\n".encode())

    async def send() -> None:
        for start in range(0, len(body), 65_536):
            part = body[start : start + 65_536]
            writer.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
            await writer.drain()
        writer.write(b"0\r\n\r\n" if chunked else b"")

    sending = asyncio.create_task(send())
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    except (ConnectionError, asyncio.IncompleteReadError):
        return "broken off"
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()
    return head.split()[1] + (" wait" if "\r\nretry-after: 2\r\n" in head else "")


async def crowd(admission: Watched, *, chunked: bool) -> Counter[str]:
    """What two hundred senders of 4 MiB are told, all at once."""
    body = said(4 * MIB)
    with listening(named(admission)) as url:
        sending = (posted(url, body, f"caller {n % 10}", chunked=chunked) for n in range(200))
        told = Counter(await asyncio.gather(*sending))
        await eventually(lambda: is_empty(admission))
    return told


async def is_empty(admission: Watched) -> bool:
    return admission.is_empty


@pytest.fixture
def small_room() -> Watched:
    reader = Reader(seconds=0.02)
    reader.open.set()
    return Watched(reader, room=32 * MIB, largest=4 * MIB)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.slow
async def test_two_hundred_bodies_of_4_mib_at_once_never_take_more_than_the_room(
    small_room: Watched, chunked: bool
) -> None:
    told = await crowd(small_room, chunked=chunked)
    assert told["200"] + told["503 wait"] + told["broken off"] == 200
    assert 8 <= told["200"] < 200
    assert 16 * MIB < small_room.most <= 32 * MIB
    assert small_room.most_of_one <= 16 * MIB


async def test_whoever_is_refused_hears_that_it_was_for_want_of_room(small_room: Watched) -> None:
    told = await crowd(small_room, chunked=False)
    assert told["broken off"] == 0


def admission_of(full: House) -> Admission:
    """The one that this gateway has, below its other layers."""
    app: Any = full.app
    while not isinstance(app, Admission):
        app = app._app if hasattr(app, "_app") else app.app
    return app


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path, [ANN, BEN], max_body=MIB, max_bodies=4 * MIB) as found:
        yield found


def unfinished(full: House, person: Person, era: Era, size: int, came: int) -> bytes:
    """A request that says how much comes, and sends the beginning of it."""
    call = full.request(person, era, "memory_remember", {"content": "x", "brain": "notes"})
    headers = {**call["headers"], "host": urlsplit(full.url).netloc, "content-length": str(size)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**headers, "content-type": "application/json"}.items())
    return f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + said(came)


async def opened(full: House, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(full.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(request)
    await writer.drain()
    return reader, writer


@pytest.mark.parametrize("era", ERAS)
async def test_the_whole_gateway_answers_408_to_a_slow_body_and_holds_nothing(narrow: House, era: Era) -> None:
    admission = admission_of(narrow)
    admission.pace = Pace(pause=0.2)
    reader, writer = await opened(narrow, unfinished(narrow, ANN, era, 1000, 1))
    answer = (await reader.read()).decode()
    writer.close()
    assert answer.startswith("HTTP/1.1 408 ")
    assert "\r\nretry-after: 2\r\n" in answer.lower()
    assert '"code":"upstream_unavailable"' in answer
    assert '"retryable":true' in answer
    assert admission.held == 0


@pytest.mark.parametrize("era", ERAS)
async def test_the_whole_gateway_answers_503_when_there_is_no_room_and_serves_others(narrow: House, era: Era) -> None:
    admission = admission_of(narrow)

    async def holds(size: int) -> bool:
        return admission.held == size

    announced = [await opened(narrow, unfinished(narrow, ANN, era, MIB, 1)) for _ in range(10)]
    slow = [await opened(narrow, unfinished(narrow, ANN, era, MIB, MIB - 1)) for _ in range(2)]
    await eventually(lambda: holds(2 * MIB - 2))
    arguments = {"content": "x" * 100_000, "brain": "notes"}
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        refused = await narrow.call(http, ANN, era, "memory_remember", arguments)
        other = await narrow.call(http, BEN, era, "memory_remember", arguments)
        small = await narrow.call(http, ANN, era, "memory_remember", {"content": "x", "brain": "notes"})
        await eventually(lambda: holds(2 * MIB - 2))
        for _, writer in (*slow, *announced):
            writer.close()
        await eventually(lambda: holds(0))
        again = await narrow.call(http, ANN, era, "memory_remember", arguments)
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "2"
    assert refused.json()["retryable"]
    assert not result_of(other)["isError"]
    assert not result_of(small)["isError"]
    assert not result_of(again)["isError"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("chunked", [False, True])
async def test_the_whole_gateway_answers_413_to_what_is_too_large(narrow: House, era: Era, chunked: bool) -> None:
    call = narrow.request(ANN, era, "memory_remember", {"content": "x" * MIB, "brain": "notes"})
    body = json.dumps(call.pop("json")).encode()

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        answer = await http.post(**call, content=parts() if chunked else body)
    assert answer.status_code == 413
    assert answer.json()["code"] == "payload_too_large"
    assert admission_of(narrow).held == 0
