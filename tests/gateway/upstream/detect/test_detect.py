"""What is found out about a platform: its dialect, and which routes are there."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from contract.platform.app import create_app
from contract.platform.ingest import Page
from contract.platform.store import Store
from gateway.operations.caller import Call
from gateway.operations.table import Op
from gateway.upstream.detect.detector import _probed_empty
from gateway.upstream.detect.verdict import Verdict
from gateway.upstream.dialects.catalog import DIALECTS
from gateway.upstream.dialects.daemon import DAEMON
from gateway.upstream.dialects.dialect import Route, as_query
from gateway.upstream.dialects.platform import PLATFORM
from tests.daemons.fake import FakeDaemon, G, T, Traits, Y
from tests.gateway.upstream.platforms import (
    ALL,
    BRAIN,
    LIST,
    STAGE_ONE,
    STAGE_TWO,
    Clock,
    PageForEvery404,
    Say,
    Wild,
    names_of,
    picture,
    problem,
    reaching,
    refused,
    says_detail,
    says_foreign,
    says_home_page,
    says_inner_path,
    says_no_brain,
    says_no_such_brain,
    says_not_implemented,
    says_page,
    says_plain,
    says_problem,
    says_request_id,
    says_time_and_path,
    says_wrong_method,
    verdict_on,
)
from tests.served import listening

HARMLESS = frozenset(route.name for route in _probed_empty([d for d in DIALECTS.values() if not d.without_brains]))
LESS = names_of(PLATFORM) - {f"POST {BRAIN}/compile", f"POST {BRAIN}/recall", f"POST {BRAIN}/documents/ingest/url"}
# The daemons compile nothing, and recall in a way that nothing here uses.
DAEMONS = names_of(DAEMON) - {f"POST {BRAIN}/compile"} | {f"POST {BRAIN}/recall"}
ROUTES = {"platform": names_of(PLATFORM), "daemon": DAEMONS}
KEYS = {"platform": "id", "daemon": "brainId"}


def found(verdict: Verdict) -> tuple[str, frozenset[str], frozenset[str]]:
    return verdict.dialect.name, verdict.present, frozenset(verdict.absent)


def wild(dialect: str, **said: Any) -> Wild:
    return Wild(ROUTES[dialect], key=KEYS[dialect], **said)


@pytest.mark.parametrize("traits", [T, Y, G], ids=lambda traits: traits.name)
async def test_each_make_of_daemon_is_known_for_what_it_is(traits: Traits) -> None:
    daemon = FakeDaemon(traits)
    daemon.brains["notes"] = {"memory/global/a.md": (b"# A", 0.0)}
    before = picture(daemon.brains)
    with listening(daemon.app()) as url:
        verdict = await verdict_on(url)
    assert found(verdict) == ("daemon", DAEMONS, ALL - DAEMONS)
    assert not verdict.blurred
    assert verdict.dialect.finds("sessions/a.md") is (traits is T)
    assert verdict.dialect.finds("memory/global/a.md")
    assert (picture(daemon.brains), len(daemon.requests)) == (before, STAGE_ONE)


@pytest.mark.parametrize("traits", [T, Y, G], ids=lambda traits: traits.name)
async def test_a_daemon_without_a_brain_is_known_too(traits: Traits) -> None:
    daemon = FakeDaemon(traits)
    with listening(daemon.app()) as url:
        verdict = await verdict_on(url)
    assert found(verdict) == ("daemon", DAEMONS, ALL - DAEMONS)
    assert daemon.brains == {}


@pytest.mark.parametrize("traits", [T, Y, G], ids=lambda traits: traits.name)
async def test_what_an_older_daemon_lacks_is_seen(traits: Traits) -> None:
    gone = frozenset({f"POST {BRAIN}/reflect", f"POST {BRAIN}/ingest/file", f"POST {BRAIN}/documents/batch-ops"})
    daemon = FakeDaemon(traits).without(*gone)
    with listening(daemon.app()) as url:
        verdict = await verdict_on(url)
    assert found(verdict) == ("daemon", DAEMONS - gone, ALL - DAEMONS | gone)


@pytest.mark.parametrize("traits", [T, Y, G], ids=lambda traits: traits.name)
async def test_a_daemon_whose_refusals_a_proxy_hides_is_known_and_left_as_it_was(traits: Traits) -> None:
    daemon = FakeDaemon(traits)
    daemon.brains["notes"] = {"memory/global/a.md": (b"# A", 0.0)}
    before = picture(daemon.brains)
    with listening(PageForEvery404(daemon.app())) as url:
        verdict = await verdict_on(url)
    # One make fails over an empty ingest: that says nothing about the route.
    failed = {f"POST {BRAIN}/ingest/file"} if traits is G else set()
    there = HARMLESS & DAEMONS
    assert found(verdict) == ("daemon", there - failed, HARMLESS - there)
    assert verdict.blurred
    assert (picture(daemon.brains), len(daemon.requests)) == (before, STAGE_ONE + STAGE_TWO)


@contextmanager
def reference(data_dir: Path, *, with_fetch: bool = True, hidden: bool = False) -> Iterator[str]:
    async def fetch(_url: str) -> Page:
        raise AssertionError("nothing was to be fetched")

    store = Store.open(data_dir)
    try:
        platform = create_app(store, token="secret", fetch=fetch if with_fetch else None)
        with listening(PageForEvery404(platform) if hidden else platform) as url:
            yield url
    finally:
        store.close()


def content(data_dir: Path) -> list[str]:
    (path,) = [path for path in data_dir.iterdir() if path.read_bytes()[:6] == b"SQLite"]
    with sqlite3.connect(path) as database:
        lines = list(database.iterdump())
    database.close()
    return lines


@pytest.mark.parametrize("with_fetch", [True, False])
async def test_the_reference_platform_is_known_and_left_as_it_was(tmp_path: Path, with_fetch: bool) -> None:
    missing = set() if with_fetch else {f"POST {BRAIN}/documents/ingest/url"}
    with reference(tmp_path, with_fetch=with_fetch) as url:
        before = content(tmp_path)
        verdict = await verdict_on(url, token="secret")
        assert content(tmp_path) == before
    there = names_of(PLATFORM) - missing
    assert found(verdict) == ("platform", there, ALL - there)
    assert any("main" in line for line in before)


async def test_the_reference_platform_behind_a_proxy_that_hides_its_refusals_is_left_as_it_was(tmp_path: Path) -> None:
    with reference(tmp_path, hidden=True) as url:
        before = content(tmp_path)
        verdict = await verdict_on(url, token="secret")
        assert content(tmp_path) == before
    there = HARMLESS & names_of(PLATFORM)
    assert found(verdict) == ("platform", there, HARMLESS - there)


ROUTE_FIRST: dict[str, Say] = {
    "problem": says_problem,
    "plain": says_plain,
    "page": says_page,
    "detail": says_detail,
    "home-page": says_home_page,
    "request-id": says_request_id,
    "time-and-path": says_time_and_path,
    "405": says_wrong_method,
    "501": says_not_implemented,
}


@pytest.mark.parametrize("dialect", ROUTES)
@pytest.mark.parametrize("no_brain", [says_no_brain, says_no_such_brain, says_foreign])
@pytest.mark.parametrize("no_route", ROUTE_FIRST.values(), ids=ROUTE_FIRST)
@pytest.mark.sampled(5)
@pytest.mark.not_quick
async def test_a_route_that_is_not_there_is_told_from_a_brain_that_is_not(
    dialect: str, no_route: Say, no_brain: Say
) -> None:
    platform = wild(dialect, no_route=no_route, no_brain=no_brain)
    before = picture(platform.brains)
    with listening(platform.app()) as url:
        verdict = await verdict_on(url)
    assert found(verdict) == (dialect, ROUTES[dialect], ALL - ROUTES[dialect])
    assert not verdict.blurred
    assert (picture(platform.brains), len(platform.requests)) == (before, STAGE_ONE)


async def test_a_route_that_another_method_has_is_not_there() -> None:
    """As most frameworks do it: 405 where the path is known, 404 where it is not."""

    def no_route(request: Any) -> Any:
        is_known = any(name.endswith(request.url.path.split("/", 4)[-1]) for name in LESS)
        return says_wrong_method(request) if is_known else says_detail(request)

    with listening(Wild(LESS, no_route=no_route).app()) as url:
        verdict = await verdict_on(url)
    assert found(verdict) == ("platform", LESS, ALL - LESS)


@pytest.mark.parametrize("dialect", ROUTES)
async def test_a_platform_behind_a_prefix_may_say_the_path_without_it(dialect: str) -> None:
    platform = wild(dialect, no_route=says_inner_path, prefix="/api")
    with listening(platform.app()) as url:
        verdict = await verdict_on(url + "/api")
    assert found(verdict) == (dialect, ROUTES[dialect], ALL - ROUTES[dialect])


@pytest.mark.parametrize("dialect", ROUTES)
async def test_a_platform_behind_a_proxy_may_say_a_path_that_nobody_sent(dialect: str) -> None:
    def no_route(request: Any) -> Response:
        return problem(404, f"no route for {request.method} /internal/{request.url.path.split('/', 4)[-1]}")

    with listening(wild(dialect, no_route=no_route).app()) as url:
        verdict = await verdict_on(url)
    assert found(verdict) == (dialect, ROUTES[dialect], ALL - ROUTES[dialect])


FIND = Route("GET", "/v2/brains/{brain}/find", as_query(q="query"))
FINDER = replace(PLATFORM, name="finder", routes={**PLATFORM.routes, Op.SEARCH: FIND, Op.SORTED_SEARCH: FIND})


def says_only_the_inner_path(request: Request) -> Response:
    return JSONResponse({"path": request.url.path.removeprefix("/api")}, 404)


def says_page_outside_v1(request: Request) -> Response:
    """A front end that only hands on what is below /v1."""
    return says_problem(request) if request.url.path.startswith("/v1/") else says_home_page(request)


@pytest.mark.parametrize(
    ("no_route", "prefix"), [(says_only_the_inner_path, "/api"), (says_page_outside_v1, "")], ids=["prefix", "page"]
)
@pytest.mark.parametrize("has_find", [False, True], ids=["without", "with"])
async def test_a_route_below_another_root_is_seen_where_it_is_and_only_there(
    no_route: Say, prefix: str, has_find: bool
) -> None:
    routes = (names_of(FINDER) if has_find else names_of(PLATFORM)) - {PLATFORM.routes[Op.SEARCH].name}
    platform = Wild(routes, no_route=no_route, prefix=prefix, others=frozenset({FIND.name}))
    with listening(platform.app()) as url:
        async with reaching(url + prefix, PLATFORM, FINDER) as upstream:
            verdict = await upstream.verdict(Call())
    assert (verdict.dialect.name, verdict.present) == ("finder" if has_find else "platform", routes)


BRAIN_FIRST: dict[str, tuple[Say, Say, bool]] = {
    "problem": (says_no_such_brain, says_problem, False),
    "problem-with-id": (says_no_brain, says_problem, False),
    "detail": (says_detail, says_detail, True),
    "page": (says_page, says_page, True),
    "forbidden": (says_foreign, says_plain, False),
    "request-id": (says_request_id, says_request_id, True),
    "forbidden-both": (says_foreign, says_foreign, True),
}


@pytest.mark.parametrize("dialect", ROUTES)
@pytest.mark.parametrize(("no_brain", "no_route", "blurred"), BRAIN_FIRST.values(), ids=BRAIN_FIRST)
@pytest.mark.sampled(3)
@pytest.mark.not_quick
async def test_where_brains_are_looked_up_first_one_that_exists_is_asked(
    dialect: str, no_brain: Say, no_route: Say, blurred: bool
) -> None:
    platform = wild(dialect, brain_first=True, no_brain=no_brain, no_route=no_route)
    before = picture(platform.brains)
    with listening(platform.app()) as url:
        verdict = await verdict_on(url)
    there = HARMLESS & ROUTES[dialect]
    assert found(verdict) == (dialect, there, HARMLESS - there)
    assert verdict.blurred is blurred
    assert (picture(platform.brains), len(platform.requests)) == (before, STAGE_ONE + STAGE_TWO)


@pytest.mark.parametrize("dialect", ROUTES)
async def test_where_some_routes_look_at_the_body_first_the_others_are_not_taken_for_absent(dialect: str) -> None:
    """Frameworks check a body before the handler looks for the brain, and word both kinds of 404 alike."""
    early = {f"POST {BRAIN}/ask", f"POST {BRAIN}/documents/append"}
    platform = wild(dialect, no_brain=says_detail, no_route=says_detail)
    platform.says = dict.fromkeys(early, lambda _request: JSONResponse({"detail": []}, 422))
    before = picture(platform.brains)
    with listening(platform.app()) as url:
        verdict = await verdict_on(url)
    there = HARMLESS & ROUTES[dialect] | early
    assert found(verdict) == (dialect, there, HARMLESS - there)
    assert verdict.blurred
    assert (picture(platform.brains), len(platform.requests)) == (before, STAGE_ONE + STAGE_TWO)


@pytest.mark.parametrize("dialect", ROUTES)
@pytest.mark.parametrize("status", [200, 400, 422])
async def test_a_platform_that_refuses_no_brain_is_known_by_what_it_takes(dialect: str, status: int) -> None:
    platform = wild(dialect, no_brain=lambda _request: JSONResponse({"hits": []}, status), brains={})
    with listening(platform.app()) as url:
        verdict = await verdict_on(url)
    assert found(verdict) == (dialect, ROUTES[dialect], ALL - ROUTES[dialect])


@pytest.mark.parametrize("bad_id", [".", "..", "", 7, None])
async def test_a_brain_that_no_path_can_name_is_not_asked(bad_id: Any) -> None:
    platform = wild("platform", brain_first=True, no_brain=says_detail, no_route=says_detail)
    items = [{"id": bad_id}, {"id": "notes"}]
    platform.says[LIST] = lambda _request: JSONResponse({"items": items})
    with listening(platform.app()) as url:
        verdict = await verdict_on(url)
    assert found(verdict) == ("platform", HARMLESS & names_of(PLATFORM), HARMLESS - names_of(PLATFORM))


async def test_without_any_brain_to_ask_the_verdict_is_for_a_moment_only() -> None:
    clock = Clock()
    platform = wild("daemon", brain_first=True, no_brain=says_detail, no_route=says_detail, brains={})
    with listening(platform.app()) as url:
        async with reaching(url, clock=clock) as upstream:
            provisional = await upstream.verdict(Call())
            assert (provisional.present, provisional.absent) == (frozenset(), [])
            assert await upstream.verdict(Call()) is provisional
            platform.brains["notes"] = {}
            clock.now += 6
            assert found(await upstream.verdict(Call()))[0] == "daemon"
    assert len(platform.requests) == STAGE_ONE + STAGE_ONE + STAGE_TWO


@pytest.mark.parametrize("status", [404, 405, 501])
@pytest.mark.parametrize("dialect", ROUTES)
async def test_a_platform_need_not_list_its_brains(dialect: str, status: int) -> None:
    platform = wild(dialect, says={LIST: lambda _request: JSONResponse({"detail": "no"}, status)})
    with listening(platform.app()) as url:
        verdict = await verdict_on(url)
    assert found(verdict) == (dialect, ROUTES[dialect], ALL - ROUTES[dialect])


NO_PLATFORM: dict[str, Say] = {
    "page": says_page,
    "plain": says_plain,
    "detail": says_detail,
    "405": says_wrong_method,
    "501": says_not_implemented,
    "home-page": says_home_page,
    "echo": lambda request: JSONResponse({"method": request.method}),
    "list": lambda _request: JSONResponse([]),
    "text": lambda _request: PlainTextResponse("hello"),
    "nothing": lambda _request: Response(status_code=204),
    "to-login": lambda _request: RedirectResponse("/login", 302),
    "to-slash": lambda request: RedirectResponse(request.url.path + "/", 307),
    "binary": lambda _request: Response(bytes(range(256)), media_type="application/json"),
}


@pytest.mark.parametrize("everywhere", NO_PLATFORM.values(), ids=NO_PLATFORM)
@pytest.mark.not_quick
async def test_what_is_no_brains_platform_gives_an_error_and_no_verdict(everywhere: Say) -> None:
    platform = Wild(everywhere=everywhere)
    with listening(platform.app()) as url:
        async with reaching(url) as upstream:
            error = await refused(upstream)
            assert (error.code, error.retryable) == ("upstream_error", False)
            assert upstream.finds("anything")
            platform.everywhere = None
            assert (await refused(upstream, Op.STAT_DOCUMENT, {"brain": "x", "path": "a"})).code == "not_found"
