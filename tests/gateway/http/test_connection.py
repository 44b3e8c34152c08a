"""The head of a request, before anybody knows who calls: how large, how long it may take, and what is no part of it."""

import asyncio
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from gateway.http.connection import Connection, OneWrite
from tests.served import listening

KIB = 1024
LONG = 60.0


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Says what headers it has, once the body is whole; at once to those who ask for that."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    while scope["path"] != "/at-once" and (await receive()).get("more_body"):
        pass
    await JSONResponse([name.decode() for name, _ in scope["headers"]])(scope, receive, send)


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with listening(app) as url:
        parts = urlsplit(url)
        yield str(parts.hostname), int(parts.port or 0)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "head_seconds", 0.3)


def opened(address: tuple[str, int], sent: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=LONG)
    connection.sendall(sent)
    return connection


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the server closes."""
    said = b""
    with connection:
        while part := connection.recv(65_536):
            said += part
    return said


def answer(address: tuple[str, int], sent: bytes) -> bytes:
    return rest_of(opened(address, sent))


def request(*fields: bytes, target: bytes = b"/") -> bytes:
    return b"\r\n".join([b"GET " + target + b" HTTP/1.1", b"host: x", b"connection: close", *fields, b"", b""])


def status_of(answer: bytes) -> int:
    return int(answer.split()[1])


def test_a_head_within_its_bounds_is_served(address: tuple[str, int]) -> None:
    assert status_of(answer(address, request(b"a: " + b"x" * 60 * KIB))) == 200
    assert status_of(answer(address, request(*[b"a: b"] * 98))) == 200


@pytest.mark.parametrize(
    "sent",
    [
        request(b"a: " + b"x" * 65 * KIB),
        request(b"x" * 65 * KIB + b": a"),
        request(*[b"a: " + b"x" * KIB] * 66),
        request(*[b"a: b"] * 99),
        request(target=b"/" + b"x" * 65 * KIB),
    ],
    ids=["value", "name", "all headers", "number", "URL"],
)
def test_a_head_that_is_too_large_is_431_in_words(address: tuple[str, int], sent: bytes) -> None:
    head, _, body = answer(address, sent).partition(b"\r\n\r\n")
    assert status_of(head) == 431
    assert b"\r\nconnection: close" in head
    assert json.loads(body)["code"] == "validation_error"


@pytest.mark.parametrize("begun", [b"GET / HTTP/1.1\r\na: ", b"GET / HTTP/1.1\r\n", b"GET /"])
def test_a_head_without_an_end_is_cut_off(address: tuple[str, int], begun: bytes) -> None:
    connection = opened(address, begun)
    with connection, pytest.raises(ConnectionError):
        connection.sendall(b"x" * 32 * KIB * KIB)


def test_a_head_is_counted_for_itself_and_without_its_body(address: tuple[str, int]) -> None:
    """Each of two requests on one connection is near the bound, and its body beyond it."""
    body = b"x" * 300 * KIB
    field = b"a: " + b"x" * 40 * KIB
    first = b"\r\n".join([b"POST / HTTP/1.1", b"host: x", field, b"content-length: %d" % len(body), b"", body])
    assert answer(address, first + request(field)).count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (request()[:-2], [408]),
        (b"G", [408]),
        (b"", []),
        (b"\r\n\r\n", []),
        # An answer, and then half of another request.
        (request().replace(b"close", b"keep-alive") + b"GET / HTT", [200, 408]),
    ],
    ids=["half a head", "one byte", "nothing", "line breaks", "half of a second head"],
)
def test_a_head_that_does_not_come_is_not_waited_for(address: tuple[str, int], sent: bytes, said: list[int]) -> None:
    if said[:1] == [200]:
        connection = opened(address, sent[: -len(b"GET / HTT")])
        first = connection.recv(65_536)
        connection.sendall(b"GET / HTT")
        told = first + rest_of(connection)
    else:
        told = answer(address, sent)
    assert [int(part[:3]) for part in told.split(b"HTTP/1.1 ")[1:]] == said


@pytest.mark.usefixtures("hasty")
def test_a_line_break_after_an_answer_does_not_keep_a_connection(address: tuple[str, int]) -> None:
    connection = opened(address, request().replace(b"close", b"keep-alive"))
    assert status_of(connection.recv(65_536)) == 200
    connection.sendall(b"\r\n")
    assert rest_of(connection) == b""


@pytest.mark.usefixtures("hasty")
def test_the_rest_of_a_body_that_was_answered_is_not_waited_for(address: tuple[str, int]) -> None:
    connection = opened(address, b"POST /at-once HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nx")
    assert status_of(connection.recv(65_536)) == 200
    connection.sendall(b"x")
    assert rest_of(connection) == b""


@pytest.mark.usefixtures("hasty")
def test_the_clock_of_a_head_does_not_run_while_its_body_comes(address: tuple[str, int]) -> None:
    connection = opened(address, b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nx")
    # Another connection is given up meanwhile, which began later.
    assert status_of(answer(address, b"G")) == 408
    connection.sendall(b"x")
    assert status_of(rest_of(connection)) == 200


def chunked(*trailers: bytes) -> bytes:
    head = [b"POST / HTTP/1.1", b"connection: close", b"transfer-encoding: chunked", b"", b""]
    return b"\r\n".join([*head, b"1", b"x", b"0", *trailers, b"", b""]).replace(b"\r\n\r\n\r\n", b"\r\n\r\n", 1)


def test_a_trailer_is_no_header(address: tuple[str, int]) -> None:
    said = answer(address, chunked(b"Host: x", b"Authorization: Bearer x"))
    assert json.loads(said.partition(b"\r\n\r\n")[2]) == ["connection", "transfer-encoding"]


def test_trailers_are_bounded_too(address: tuple[str, int]) -> None:
    assert answer(address, chunked(*[b"a: " + b"x" * KIB] * 66)) == b""


class Written:
    """A transport that notes what is written to it."""

    def __init__(self) -> None:
        self.said: list[bytes] = []
        self.is_closed = False

    def write(self, said: bytes) -> None:
        self.said.append(said)

    def close(self) -> None:
        self.is_closed = True


HEAD, PART = b"HTTP/1.1 200 OK\r\n\r\n", b"part"


@pytest.fixture
async def one_write() -> tuple[OneWrite, Written]:
    written = Written()
    return OneWrite(written, asyncio.get_running_loop()), written  # type: ignore[arg-type]  # as far as it is used


async def test_a_head_leaves_with_the_first_part_of_its_body(one_write: tuple[OneWrite, Written]) -> None:
    transport, written = one_write
    for said in (HEAD, PART, PART):
        transport.write(said)
    await asyncio.sleep(0)
    assert written.said == [HEAD + PART, PART]


async def test_a_head_does_not_wait_for_a_body_that_comes_later(one_write: tuple[OneWrite, Written]) -> None:
    transport, written = one_write
    transport.write(HEAD)
    # One turn of the loop.
    await asyncio.sleep(0)
    assert written.said == [HEAD]
    transport.write(PART)
    assert written.said == [HEAD, PART]


async def test_a_connection_that_closes_has_sent_the_head(one_write: tuple[OneWrite, Written]) -> None:
    transport, written = one_write
    transport.write(HEAD)
    transport.close()
    assert (written.said, written.is_closed) == ([HEAD], True)


async def test_a_client_is_told_at_once_to_go_on(one_write: tuple[OneWrite, Written]) -> None:
    transport, written = one_write
    transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert written.said == [b"HTTP/1.1 100 Continue\r\n\r\n"]
