"""What was found out is corrected on use: platforms are upgraded, replaced and restarted under a gateway."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.operations.caller import Call
from gateway.operations.errors import Absent, GatewayError
from gateway.operations.table import Op
from gateway.upstream.dialects.platform import PLATFORM
from gateway.upstream.pipeline import Upstream
from gateway.upstream.wire.transport import pooled_client
from tests.daemons.fake import FakeDaemon, G, Script, T, Traits, Y
from tests.gateway.upstream.platforms import (
    BRAIN,
    LIST,
    STAGE_ONE,
    STAGE_TWO,
    Cable,
    Clock,
    PageForEvery404,
    Say,
    Switch,
    Wild,
    names_of,
    problem,
    reaching,
    refused,
    says_detail,
    says_home_page,
    says_page,
    says_plain,
    says_problem,
)
from tests.served import listening

pytestmark = pytest.mark.not_quick

MAKES = pytest.mark.parametrize("traits", [T, Y, G], ids=lambda traits: traits.name)
SEARCH = {"brain": "notes", "query": "x"}
NOTES = {"brain": "notes"}
CONSOLIDATE = f"POST {BRAIN}/consolidate"
REFLECT = f"POST {BRAIN}/reflect"


def daemon_with_notes(traits: Traits = T, **options: Any) -> FakeDaemon:
    daemon = FakeDaemon(traits, **options)
    daemon.brains["notes"] = {"memory/global/a.md": (b"# A\n\nx marks the spot", 0.0)}
    return daemon


def hosted(**options: Any) -> Wild:
    """A platform whose search finds nothing, and whose answers are whole."""

    def answer(_request: Request) -> Response:
        return JSONResponse({"answer": "from the platform"})

    def hits(_request: Request) -> Response:
        return JSONResponse({"hits": []})

    platform = Wild(**options)
    platform.says |= {f"GET {BRAIN}/search": hits, f"POST {BRAIN}/ask": answer}
    return platform


async def is_absent(upstream: Upstream, op: Op, args: dict[str, Any]) -> bool:
    try:
        await upstream.send(Call(brain=args.get("brain")), op, args)
    except Absent:
        return True
    return False


async def asked(upstream: Upstream) -> str:
    async with await upstream.open(Call(), Op.ASK, SEARCH) as coming:
        found = [frame async for frames in coming for frame in frames]
    return str(found[-1].get("answer") or "".join(frame.get("delta", "") for frame in found))


NO_ROUTE: dict[str, Say] = {
    "problem": says_problem,
    "plain": says_plain,
    "page": says_page,
    "detail": says_detail,
    "home-page": says_home_page,
}


@pytest.mark.parametrize("no_route", NO_ROUTE.values(), ids=NO_ROUTE)
async def test_a_route_that_goes_is_seen_once_and_not_tried_again(no_route: Say) -> None:
    platform = Wild(no_route=no_route)
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            assert (await upstream.send(Call(), Op.CONSOLIDATE, NOTES)).answer == {"done": True}
            platform.routes -= {CONSOLIDATE}
            del platform.requests[:]
            assert await is_absent(upstream, Op.CONSOLIDATE, NOTES)
            assert len(platform.requests) == 1 + STAGE_ONE
            for _ in range(3):
                assert await is_absent(upstream, Op.CONSOLIDATE, NOTES)
            assert len(platform.requests) == 1 + STAGE_ONE
            assert (await upstream.send(Call(), Op.COMPILE, NOTES)).answer == {"done": True}


@pytest.mark.parametrize("no_route", NO_ROUTE.values(), ids=NO_ROUTE)
async def test_an_answer_in_a_stream_that_goes_is_absent_too(no_route: Say) -> None:
    platform = hosted(no_route=no_route)
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            assert await asked(upstream) == "from the platform"
            platform.routes -= {f"POST {BRAIN}/ask"}
            platform.says.clear()
            with pytest.raises(Absent):
                await asked(upstream)


@MAKES
async def test_a_daemon_restarted_without_a_route_is_looked_at_again(traits: Traits) -> None:
    daemon, cable = daemon_with_notes(traits), Cable()
    with listening(daemon.app()) as url:
        async with reaching(url, http=pooled_client(cable)) as upstream:
            await upstream.verdict(Call())
            cable.is_cut = True
            assert (await refused(upstream, Op.CONSOLIDATE, NOTES)).code == "upstream_unavailable"
            cable.is_cut = False
            daemon.without(CONSOLIDATE)
            del daemon.requests[:]
            assert await is_absent(upstream, Op.CONSOLIDATE, NOTES)
            assert len(daemon.requests) == STAGE_ONE


@MAKES
async def test_a_route_that_comes_is_found_on_use_by_one_request(traits: Traits) -> None:
    daemon, clock = daemon_with_notes(traits).without(CONSOLIDATE), Clock()
    with listening(daemon.app()) as url:
        async with reaching(url, clock=clock) as upstream:
            assert await is_absent(upstream, Op.CONSOLIDATE, NOTES)
            daemon.with_route(CONSOLIDATE)
            clock.now += 89
            assert await is_absent(upstream, Op.CONSOLIDATE, NOTES)
            assert len(daemon.requests) == STAGE_ONE
            clock.now += 2
            assert not await is_absent(upstream, Op.CONSOLIDATE, NOTES)
    assert daemon.requests[STAGE_ONE:] == ["POST /v1/brains/notes/consolidate"]


@pytest.mark.parametrize("no_route", NO_ROUTE.values(), ids=NO_ROUTE)
async def test_a_route_that_does_not_come_costs_one_request_now_and_then(no_route: Say) -> None:
    platform, clock = Wild(names_of(PLATFORM) - {CONSOLIDATE}, no_route=no_route), Clock()
    with listening(platform.app()) as url:
        async with reaching(url, clock=clock) as upstream:
            for _ in range(3):
                clock.now += 91
                assert await is_absent(upstream, Op.CONSOLIDATE, NOTES)
                assert await is_absent(upstream, Op.CONSOLIDATE, NOTES)
    assert platform.requests[STAGE_ONE:] == [CONSOLIDATE] * 2


@MAKES
async def test_a_daemon_replaced_by_a_platform_and_back_is_spoken_to_in_its_own_way(traits: Traits) -> None:
    daemon, platform = daemon_with_notes(traits), hosted()
    switch = Switch([daemon])
    with listening(switch) as url:
        async with reaching(url) as upstream:
            for behind, dialect in ((daemon, "daemon"), (platform, "platform"), (daemon, "daemon")):
                switch.behind = [behind]
                answer = (await upstream.send(call := Call(), Op.SEARCH, SEARCH)).answer
                assert (await upstream.verdict(Call())).dialect.name == dialect
                assert bool(answer["hits"]) is (dialect == "daemon")
                assert call.route == f"{'GET' if dialect == 'platform' else 'POST'} {BRAIN}/search"


@MAKES
async def test_a_question_that_a_replaced_platform_refuses_makes_it_be_looked_at(traits: Traits) -> None:
    """The route has one name in both dialects, so its refusal is the only sign."""
    daemon, clock = daemon_with_notes(traits, llm=Script(["from the ", "daemon"])), Clock()
    switch = Switch([hosted()])
    with listening(switch) as url:
        async with reaching(url, clock=clock) as upstream:
            assert await asked(upstream) == "from the platform"
            switch.behind = [daemon]
            clock.now += 61
            with pytest.raises(GatewayError, match="validation_error"):
                await asked(upstream)
            assert await asked(upstream) == "from the daemon"
            served = switch.served
            clock.now += 59
            assert (await refused(upstream, Op.SEARCH, {**SEARCH, "query": ""})).code == "validation_error"
            assert (await refused(upstream, Op.SEARCH, {**SEARCH, "query": ""})).code == "validation_error"
            assert switch.served == served + 2


async def test_a_list_in_another_dialect_is_read_in_that_one() -> None:
    daemon, clock = daemon_with_notes(), Clock()
    switch = Switch([hosted()])
    with listening(switch) as url:
        async with reaching(url, clock=clock) as upstream:
            (hosted_brain,) = ((await upstream.send(Call(), Op.LIST_BRAINS, {})).answer)["items"]
            switch.behind = [daemon]
            clock.now += 61
            (brain,) = ((await upstream.send(Call(), Op.LIST_BRAINS, {})).answer)["items"]
            assert brain["id"] == brain["slug"] == hosted_brain["id"] == "notes"
            switch.behind = [hosted()]
            clock.now += 61
            (brain,) = ((await upstream.send(Call(), Op.LIST_BRAINS, {})).answer)["items"]
            assert brain == hosted_brain


async def test_replicas_that_disagree_cost_a_bounded_number_of_requests() -> None:
    old, new = Wild(names_of(PLATFORM) - {CONSOLIDATE}), Wild()
    switch, clock = Switch([new]), Clock()
    with listening(switch) as url:
        async with reaching(url, clock=clock) as upstream:
            await upstream.verdict(Call())
            switch.behind = [old, new]
            for _ in range(20):
                with suppress(Absent):
                    assert (await upstream.send(Call(), Op.CONSOLIDATE, NOTES)).answer == {"done": True}
            assert switch.served <= STAGE_ONE + STAGE_ONE + 22
            switch.behind = [new]
            clock.now += 91
            assert (await upstream.send(Call(), Op.CONSOLIDATE, NOTES)).answer == {"done": True}


@pytest.mark.parametrize("status", [401, 403, 429, 503])
async def test_what_was_known_is_kept_while_looking_again_fails(status: int) -> None:
    platform, clock, cable = Wild(), Clock(), Cable()
    with listening(platform.app()) as url:
        async with reaching(url, clock=clock, http=pooled_client(cable)) as upstream:
            verdict = await upstream.verdict(Call())
            platform.says[LIST] = lambda _request: problem(status, "not now", "x")
            cable.is_cut = True
            assert (await refused(upstream, Op.CONSOLIDATE, NOTES)).code == "upstream_unavailable"
            cable.is_cut = False
            assert await upstream.verdict(Call()) is verdict
            assert (await upstream.send(Call(), Op.CONSOLIDATE, NOTES)).answer == {"done": True}
            # Not before every call: once, and again after a while.
            assert platform.requests[STAGE_ONE:] == [LIST, CONSOLIDATE]
            clock.now += 6
            platform.says.clear()
            assert await upstream.verdict(Call()) is not verdict


@pytest.mark.parametrize("status", [401, 503])
async def test_a_route_that_goes_while_looking_again_fails_is_lost_alone(status: int) -> None:
    platform = Wild()
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            verdict = await upstream.verdict(Call())
            platform.routes -= {CONSOLIDATE}
            platform.says[LIST] = lambda _request: problem(status, "not now", "x")
            assert await is_absent(upstream, Op.CONSOLIDATE, NOTES)
            assert CONSOLIDATE in verdict.absent
            assert platform.requests[STAGE_ONE:] == [CONSOLIDATE, LIST]
            assert verdict.present == names_of(PLATFORM) - {CONSOLIDATE}
            assert (await upstream.send(Call(), Op.COMPILE, NOTES)).answer == {"done": True}


REFUSALS = [400, 401, 403, 408, 409, 413, 415, 422, 425, 429, 500, 502, 503, 504, 302]


@pytest.mark.parametrize("status", REFUSALS)
async def test_no_refusal_is_taken_for_a_route_that_went(status: int) -> None:
    platform = Wild()
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            await upstream.verdict(Call())
            platform.says[CONSOLIDATE] = lambda _request: problem(status, "no", "x")
            await refused(upstream, Op.CONSOLIDATE, NOTES)
            platform.says.clear()
            assert (await upstream.send(Call(), Op.CONSOLIDATE, NOTES)).answer == {"done": True}
    # One that is asked to slow down asks again, as every request does.
    assert platform.requests[STAGE_ONE:] == [CONSOLIDATE] * (4 if status == 429 else 2)


BLURRED = pytest.mark.parametrize("say", [says_detail, says_page])
UNKNOWN = {"brain": "nowhere", "query": "x"}


@BLURRED
async def test_where_a_brain_and_a_route_are_missed_alike_an_unknown_brain_is_no_brain(say: Say) -> None:
    platform, clock = Wild(brain_first=True, no_brain=say, no_route=say), Clock()
    with listening(platform.app()) as url:
        async with reaching(url, clock=clock) as upstream:
            assert (await upstream.verdict(Call())).blurred
            del platform.requests[:]
            for _ in range(5):
                assert (await refused(upstream, Op.SEARCH, UNKNOWN)).code == "no_brain"
            assert platform.requests == [f"GET {BRAIN}/search"] * 5
            clock.now += 11
            for _ in range(5):
                assert (await refused(upstream, Op.SEARCH, UNKNOWN)).code == "no_brain"
            assert len(platform.requests) == 10 + STAGE_ONE + STAGE_TWO
            clock.now += 11
            platform.says[LIST] = lambda _request: problem(503, "not now", "x")
            assert (await refused(upstream, Op.SEARCH, UNKNOWN)).code == "no_brain"
            assert (await refused(upstream, Op.SEARCH, SEARCH)).code == "validation_error"


@BLURRED
async def test_an_unknown_brain_takes_no_route_from_the_others(say: Say) -> None:
    """A route that was never seen, because trying it would have changed something."""
    platform = Wild(brain_first=True, no_brain=say, no_route=say)
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            assert (await refused(upstream, Op.CONSOLIDATE, UNKNOWN, brain="nowhere")).code == "no_brain"
            assert (await upstream.send(Call(brain="notes"), Op.CONSOLIDATE, NOTES)).answer == {"done": True}
            platform.routes -= {f"POST {BRAIN}/compile"}
            del platform.requests[:]
            assert await is_absent(upstream, Op.COMPILE, NOTES)
            assert await is_absent(upstream, Op.COMPILE, NOTES)
            assert len(platform.requests) == 2


async def test_whether_a_brain_is_there_is_asked_by_a_route_that_changes_nothing() -> None:
    recall = f"POST {BRAIN}/sessions/{{session_id}}/recall"
    gone = {f"GET {BRAIN}/search", f"POST {BRAIN}/compile"}
    platform = Wild(names_of(PLATFORM) - gone, no_brain=says_detail, no_route=says_detail)
    for early in (recall, CONSOLIDATE):
        platform.says[early] = lambda _request: JSONResponse({"detail": []}, 422)
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            assert {recall, CONSOLIDATE} < (await upstream.verdict(Call())).present
            platform.says.clear()
            del platform.requests[:]
            assert await is_absent(upstream, Op.COMPILE, NOTES)
    assert platform.requests == [f"POST {BRAIN}/compile", f"POST {BRAIN}/documents"]
    assert platform.brains == {"notes": {"a.md": "A"}}


@BLURRED
@pytest.mark.parametrize("op", [Op.READ_DOCUMENT, Op.STAT_DOCUMENT])
async def test_a_document_that_is_missed_like_a_route_takes_no_route_away(say: Say, op: Op) -> None:
    platform = Wild(brain_first=True, no_brain=say, no_route=say)
    platform.says[PLATFORM.routes[op].name] = say
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            for _ in range(2):
                assert (await refused(upstream, op, {**NOTES, "path": "a.md"}, brain="notes")).code == "not_found"


@MAKES
async def test_a_daemon_whose_refusals_a_proxy_hides_still_takes_documents(traits: Traits) -> None:
    daemon, document = daemon_with_notes(traits), {**NOTES, "path": "memory/global/new.md"}
    with listening(PageForEvery404(daemon.app())) as url:
        async with reaching(url) as upstream:
            assert (await refused(upstream, Op.READ_DOCUMENT, document, brain="notes")).code == "not_found"
            assert (
                await upstream.send(Call(brain="notes"), Op.WRITE_DOCUMENT, {**document, "body": b"# New"})
            ).answer == {}
            assert (await upstream.send(Call(brain="notes"), Op.READ_DOCUMENT, document)).answer == {"body": b"# New"}
            unknown = {**document, "brain": "nowhere", "body": b"x"}
            assert (await refused(upstream, Op.WRITE_DOCUMENT, unknown, brain="nowhere")).code == "no_brain"
            assert (await upstream.send(Call(brain="notes"), Op.WRITE_DOCUMENT, {**document, "body": b""})).answer == {}
    assert set(daemon.brains) == {"notes"}


async def test_many_calls_that_miss_a_route_at_once_look_again_once() -> None:
    platform = Wild()
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            await upstream.verdict(Call())
            platform.routes -= {CONSOLIDATE}
            del platform.requests[:]
            gone = await asyncio.gather(*(is_absent(upstream, Op.CONSOLIDATE, NOTES) for _ in range(20)))
            assert gone == [True] * 20
    assert len([name for name in platform.requests if name == LIST]) == 1
