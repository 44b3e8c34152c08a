"""A MemoAI core is known for what it is, and nothing else is taken for one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from gateway.operations.caller import Call
from gateway.operations.table import Op
from gateway.upstream.dialects.memoai import MEMOAI
from gateway.upstream.dialects.platform import PLATFORM
from tests.gateway.upstream.platforms import LIST, STAGE_ONE, Wild, names_of, reaching, refused, says_problem
from tests.memoai.fake import SEARCH
from tests.memoai.world import memo_world
from tests.served import listening

Say = Callable[[Request], Response]
NO_QUERY = {"detail": [{"loc": ["body", "query"], "type": "missing"}]}


def says(status: int, body: Any = NO_QUERY) -> Say:
    return lambda _request: JSONResponse(body, status)


def core_like(answer: Say) -> Wild:
    """Something without brains, and one route of a core that answers so."""
    nothing = says(404, {"detail": "Not Found"})
    return Wild(frozenset(), no_route=nothing, says={LIST: nothing, SEARCH: answer})


@pytest.mark.parametrize(
    "answer",
    [
        says(422),
        says(400, {"error": {"type": "invalid_request", "message": "Missing required parameter: query"}}),
        says(404, {"error": {"type": "not_found", "message": "Project 'x' not found or access denied"}}),
        says(403, {"error": {"type": "permission_error", "message": "no"}}),
    ],
    ids=["FastAPI", "in MemoAI's words", "no project", "not allowed"],
)
async def test_a_core_is_known_by_one_empty_search(answer: Say) -> None:
    core = core_like(answer)
    with listening(core.app()) as url:
        async with reaching(url) as upstream:
            verdict = await upstream.verdict(Call())
    assert (verdict.dialect, verdict.present) == (MEMOAI, frozenset({SEARCH}))
    assert (core.requests[0], core.requests[-1], len(core.requests)) == (LIST, SEARCH, 3)


NO_CORES: dict[str, Say] = {
    "no route": says(404, {"detail": "Not Found"}),
    "no route, in other words": says(404, {"detail": "There is nothing here."}),
    "another method": says(405),
    "not implemented": says(501),
    "a failure": says(500),
    "busy": says(503),
    "nothing wanted": says(200, []),
    "a page that nobody may see": lambda _request: HTMLResponse("<h1>No entrance</h1>", 403),
    "a page of a proxy": lambda _request: HTMLResponse("<h1>What?</h1>", 400),
    "without a word": lambda _request: Response(status_code=422),
}


@pytest.mark.parametrize("answer", NO_CORES.values(), ids=NO_CORES)
async def test_what_is_no_core_is_not_taken_for_one(answer: Say) -> None:
    other = core_like(answer)
    with listening(other.app()) as url:
        async with reaching(url) as upstream:
            error = await refused(upstream)
    assert error.code == "upstream_error"
    assert error.message.startswith("Nothing at the platform's URL answers as a brains platform does.")
    assert len(other.requests) <= STAGE_ONE


@pytest.mark.parametrize("status", [401, 403])
async def test_a_core_that_lets_nobody_in_says_which_settings_to_look_at(status: int) -> None:
    core = core_like(says(status, {"detail": "no"}))
    with listening(core.app()) as url:
        async with reaching(url) as upstream:
            error = await refused(upstream)
    assert (error.code, error.message) == ("unauthorized", MEMOAI.wants)
    assert len(core.requests) <= STAGE_ONE


@pytest.mark.parametrize("status", [401, 403])
async def test_a_platform_that_does_not_list_brains_is_no_core_because_of_a_locked_door(status: int) -> None:
    """It is known by its routes, and by no more requests than any other."""
    gate = says(status, {"detail": "no"})
    platform = Wild(names_of(PLATFORM), says={SEARCH: gate, LIST: says_problem})
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            verdict = await upstream.verdict(Call())
    assert (verdict.dialect, verdict.present) == (PLATFORM, names_of(PLATFORM))
    assert (SEARCH in platform.requests, len(platform.requests)) == (True, STAGE_ONE)


async def test_a_platform_that_lists_its_brains_is_never_asked_for_memos() -> None:
    platform = Wild(says={SEARCH: says(422)})
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            assert (await upstream.verdict(Call())).dialect is PLATFORM
    assert SEARCH not in platform.requests


async def test_a_dialect_that_is_set_needs_no_finding_out() -> None:
    core = core_like(says(200, []))
    with listening(core.app()) as url:
        async with reaching(url, MEMOAI) as upstream:
            assert (await upstream.send(Call(), Op.FIND_MEMOS, {"query": "x", "limit": 1})).answer == {"memos": []}
    assert core.requests == [SEARCH]


def test_finding_out_takes_three_requests_and_then_none(tmp_path: Path) -> None:
    with memo_world(tmp_path) as world:
        ada = world.person("ada", "acme", "orion")
        ada.search("otters")
        assert (len(world.core.requests), world.core.requests[2:]) == (4, [SEARCH, SEARCH])
        ada.search("otters")
        assert world.core.requests[4:] == [SEARCH]
        assert world.core.memos[("acme", "orion")] == [], "and nothing is changed by it"
