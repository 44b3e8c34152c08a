"""When detection happens, how many requests it sends, and what is believed when it fails."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from gateway.operations.caller import Call
from gateway.operations.errors import Absent
from gateway.operations.table import Op
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.dialects.daemon import DAEMON
from gateway.upstream.dialects.dialect import Dialect
from gateway.upstream.dialects.platform import PLATFORM
from tests.daemons.fake import FakeDaemon
from tests.gateway.upstream.platforms import (
    ALL,
    BRAIN,
    LIST,
    STAGE_ONE,
    STAGE_TWO,
    Clock,
    Say,
    Wild,
    names_of,
    problem,
    reaching,
    refused,
    says_detail,
)
from tests.served import listening

pytestmark = pytest.mark.not_quick

SOON = Deadlines(probe=2, connect=2)
SEARCH = {"brain": "notes", "query": "x"}


async def silence(request: Request) -> Response:
    """No answer before the other side has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return Response(status_code=499)


class Silent(Wild):
    """Says nothing to requests for these routes."""

    silent: frozenset[str] | None = None

    async def _answer(self, request: Request) -> Response:
        answer = await super()._answer(request)
        return await silence(request) if self.silent is None or self.requests[-1] in self.silent else answer


def brain_first(**said: Any) -> Wild:
    return Wild(brain_first=True, no_brain=says_detail, no_route=says_detail, **said)


async def test_nothing_is_sent_before_the_first_call() -> None:
    platform = Wild()
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            assert upstream.finds("memory/global/a.md")
            assert platform.requests == []
            await upstream.send(Call(), Op.LIST_BRAINS, {})
    assert platform.requests.count(LIST) == 2
    assert len(platform.requests) == STAGE_ONE + 1


@pytest.mark.parametrize("dialect", [PLATFORM, DAEMON], ids=lambda dialect: dialect.name)
async def test_with_one_dialect_nothing_is_found_out(dialect: Dialect) -> None:
    route = dialect.routes[Op.SEARCH].name
    platform = Wild(names_of(dialect), says={route: lambda _request: JSONResponse({"hits": [], "chunks": []})})
    with listening(platform.app()) as url:
        async with reaching(url, dialect) as upstream:
            verdict = await upstream.verdict(Call())
            assert (verdict.dialect, verdict.present, verdict.absent) == (dialect, frozenset(), [])
            assert platform.requests == []
            assert ((await upstream.send(Call(), Op.SEARCH, SEARCH)).answer)["hits"] == []
    assert platform.requests == [route]


@pytest.mark.parametrize("dialect", [PLATFORM, DAEMON], ids=lambda dialect: dialect.name)
async def test_with_one_dialect_a_missing_route_costs_one_request(dialect: Dialect) -> None:
    clock, platform = Clock(), Wild(frozenset())
    with listening(platform.app()) as url:
        async with reaching(url, dialect, clock=clock) as upstream:
            for _ in range(3):
                with pytest.raises(Absent):
                    await upstream.send(Call(), Op.CONSOLIDATE, {"brain": "notes"})
            assert platform.requests == [f"POST {BRAIN}/consolidate"]
            clock.now += 91
            with pytest.raises(Absent):
                await upstream.send(Call(), Op.CONSOLIDATE, {"brain": "notes"})
    assert platform.requests == [f"POST {BRAIN}/consolidate"] * 2


@pytest.mark.parametrize(
    ("platform", "expected"),
    [(Wild(), STAGE_ONE), (brain_first(), STAGE_ONE + STAGE_TWO)],
    ids=["ghost", "brain"],
)
async def test_fifty_first_calls_find_out_once(platform: Wild, expected: int) -> None:
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            verdicts = await asyncio.gather(*(upstream.verdict(Call()) for _ in range(50)))
    assert len({id(verdict) for verdict in verdicts}) == 1
    assert len(platform.requests) == expected


async def test_fifty_first_calls_that_fail_find_out_once_and_each_gets_an_error_of_its_own() -> None:
    platform = Wild(everywhere=lambda _request: problem(429, "slow down", "rate_limited", retry_after="7"))
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            errors = await asyncio.gather(*(refused(upstream) for _ in range(50)))
    assert {(error.code, error.retry_after_seconds) for error in errors} == {("rate_limited", 7)}
    assert len({id(error) for error in errors}) == 50
    assert platform.requests == [LIST]


@pytest.mark.parametrize("others", [0, 1, 3])
async def test_detection_goes_on_when_the_one_who_began_it_leaves(others: int) -> None:
    platform = Wild(gate=threading.Event())
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            first = asyncio.ensure_future(upstream.verdict(Call()))
            assert await asyncio.to_thread(platform.arrived.wait, 20)
            rest = [asyncio.ensure_future(upstream.verdict(Call())) for _ in range(others)]
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert platform.gate is not None
            platform.gate.set()
            assert {(await waiting).dialect.name for waiting in rest} <= {"platform"}
            running = upstream._detector._running
            if running is not None:
                await asyncio.wait([running])
            assert (await upstream.verdict(Call())).present == names_of(PLATFORM)
    assert len(platform.requests) == STAGE_ONE


async def test_a_gateway_that_closes_leaves_no_detection_behind() -> None:
    platform = Silent()
    with listening(platform.app()) as url:
        before = asyncio.all_tasks()
        async with reaching(url, deadlines=SOON) as upstream:
            first = asyncio.ensure_future(upstream.verdict(Call()))
            assert await asyncio.to_thread(platform.arrived.wait, 20)
            first.cancel()
        if left := asyncio.all_tasks() - before:
            await asyncio.wait(left, timeout=20)
        assert asyncio.all_tasks() == before


IN_AN_HOUR = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
FIRST_PROBE: dict[str, tuple[Say, str, bool, bool]] = {
    "401": (lambda _request: problem(401, "who?", "unauthorized"), "unauthorized", False, False),
    "403": (lambda _request: problem(403, "no", "forbidden"), "forbidden", False, False),
    "429": (lambda _request: problem(429, "slow", "rate_limited", retry_after="9"), "rate_limited", True, True),
    "429-date": (lambda _request: problem(429, "slow", "x", retry_after=IN_AN_HOUR), "rate_limited", True, True),
    "500": (lambda _request: problem(500, "oh", "internal_error"), "upstream_error", False, False),
    "502": (lambda _request: HTMLResponse("bad gateway", 502), "upstream_unavailable", True, False),
    "503": (lambda _request: problem(503, "later", "unavailable", retry_after="3"), "upstream_unavailable", True, True),
    "504": (lambda _request: HTMLResponse("", 504), "timeout", True, False),
    "407": (lambda _request: HTMLResponse("", 407), "upstream_error", False, False),
    "html": (lambda _request: HTMLResponse("<h1>hello</h1>"), "upstream_error", False, False),
    "garbage": (lambda _request: Response(b"\xff\xfe{", media_type="application/json"), "upstream_error", False, False),
    "shape": (lambda _request: JSONResponse({"items": {"a": 1}}), "upstream_error", False, False),
    "redirect": (lambda _request: RedirectResponse("/v1/brains/", 308), "upstream_error", False, False),
}


@pytest.mark.parametrize("routes", [[LIST], None], ids=["list", "everywhere"])
@pytest.mark.parametrize(("said", "code", "retryable", "waits"), FIRST_PROBE.values(), ids=FIRST_PROBE)
@pytest.mark.sampled(5)
async def test_a_first_probe_that_fails_is_an_error_and_the_next_call_finds_out(
    said: Say, code: str, retryable: bool, waits: bool, routes: list[str] | None
) -> None:
    platform = Wild(says=dict.fromkeys(routes or [], said), everywhere=None if routes else said)
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            error = await refused(upstream)
            assert (error.code, error.retryable) == (code, retryable)
            assert (error.retry_after_seconds is not None) is waits
            assert platform.requests == [LIST]
            assert (await refused(upstream, Op.SEARCH, SEARCH)).code == code
            platform.says, platform.everywhere = {}, None
            assert (await upstream.verdict(Call())).present == names_of(PLATFORM)
    assert len(platform.requests) == 2 + STAGE_ONE


NONSENSE: dict[str, tuple[Say, str]] = {
    "401": (FIRST_PROBE["401"][0], "unauthorized"),
    "429": (FIRST_PROBE["429"][0], "rate_limited"),
    "503": (FIRST_PROBE["503"][0], "upstream_unavailable"),
    "redirect": (FIRST_PROBE["redirect"][0], "upstream_error"),
}


@pytest.mark.parametrize(("said", "code"), NONSENSE.values(), ids=NONSENSE)
async def test_how_no_route_is_answered_must_be_known_first(said: Say, code: str) -> None:
    """Without that, a route that is not there cannot be told from one that is."""
    platform = Wild(no_route=said)
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            error = await refused(upstream)
            assert error.code == code
            assert len(platform.requests) == 3
            platform.no_route = says_detail
            assert (await upstream.verdict(Call())).present == names_of(PLATFORM)


@pytest.mark.not_quick
async def test_a_platform_that_is_silent_or_gone_gives_an_error_and_no_verdict() -> None:
    platform = Silent()
    with listening(platform.app()) as url:
        async with reaching(url, deadlines=SOON) as upstream:
            assert ((error := await refused(upstream)).code, error.retryable) == ("timeout", True)
            platform.silent = frozenset()
            assert (await upstream.verdict(Call())).present == names_of(PLATFORM)
    async with reaching(url, deadlines=SOON) as upstream:
        assert ((error := await refused(upstream)).code, error.retryable) == ("upstream_unavailable", True)
        assert (await refused(upstream, Op.CREATE_DOCUMENT, SEARCH)).code == "upstream_unavailable"


@pytest.mark.parametrize("status", [401, 408, 425, 429, 500, 502, 503, 504, 302])
@pytest.mark.parametrize("op", [Op.SEARCH, Op.CONSOLIDATE, Op.APPEND_MESSAGE])
@pytest.mark.sampled(5)
async def test_a_probe_among_many_that_fails_leaves_that_route_open(op: Op, status: int) -> None:
    name = PLATFORM.routes[op].name
    platform = Wild(says={name: lambda _request: problem(status, "not now", "x", location="/login")})
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            verdict = await upstream.verdict(Call())
            assert verdict.present == names_of(PLATFORM) - {name}
            assert frozenset(verdict.absent) == ALL - names_of(PLATFORM)
            del platform.says[name]
            args = {"brain": "ghost", "session_id": "s"}
            assert (await refused(upstream, op, {**args, "query": "x"})).code == "no_brain"
    assert platform.requests[STAGE_ONE:] == [name]


@pytest.mark.not_quick
async def test_a_probe_among_many_that_gets_no_answer_leaves_that_route_open() -> None:
    name = f"POST {BRAIN}/consolidate"
    platform = Silent()
    platform.silent = frozenset({name})
    with listening(platform.app()) as url:
        async with reaching(url, deadlines=SOON) as upstream:
            verdict = await upstream.verdict(Call())
            assert (verdict.present, frozenset(verdict.absent)) == (
                names_of(PLATFORM) - {name},
                ALL - names_of(PLATFORM),
            )
            platform.silent = frozenset()
            assert (await upstream.send(Call(), Op.CONSOLIDATE, {"brain": "notes"})).answer == {"done": True}


@pytest.mark.parametrize("status", [401, 429, 503])
async def test_when_every_route_is_behind_a_gate_nothing_is_concluded(status: int) -> None:
    said = dict.fromkeys(ALL, lambda _request: problem(status, "not now", "x"))
    platform = Wild(says=said)
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            error = await refused(upstream)
            assert error.code == {401: "unauthorized", 429: "rate_limited", 503: "upstream_unavailable"}[status]
            platform.says = {}
            assert (await upstream.verdict(Call())).present == names_of(PLATFORM)


async def test_a_token_is_sent_with_every_probe() -> None:
    daemon = FakeDaemon(token="secret")
    with listening(daemon.app()) as url:
        async with reaching(url, token="secret") as upstream:
            assert (await upstream.verdict(Call())).dialect.name == "daemon"
        async with reaching(url, token="wrong") as upstream:
            assert (await refused(upstream)).code == "forbidden"
        async with reaching(url) as upstream:
            assert (await refused(upstream)).code == "unauthorized"


async def test_a_bug_in_a_probe_is_not_taken_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Wild()
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            sent = upstream._detector._probe

            async def broken(call: Call, method: str, path: str) -> Any:
                if path.endswith("/ask"):
                    raise KeyError("a bug")
                return await sent(call, method, path)

            monkeypatch.setattr(upstream._detector, "_probe", broken)
            with pytest.raises(KeyError):
                await upstream.verdict(Call())
            monkeypatch.undo()
            assert (await upstream.verdict(Call())).present == names_of(PLATFORM)
