"""Ids that could leave their place, wherever a caller may send one: refused, or one segment of one route."""

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from contract.platform.app import create_app
from contract.platform.store import Store
from gateway.config import token_file
from gateway.operations import names
from gateway.operations.errors import CATALOGUE
from gateway.upstream.dialects.daemon import DAEMON
from gateway.upstream.dialects.dialect import Dialect
from gateway.upstream.dialects.platform import PLATFORM
from tests.daemons.fake import FakeDaemon, Script
from tests.served import Served, listening, messages_of, raw_call, serving
from tests.tiers import nth

BAD_IDS: list[str] = json.loads((Path(__file__).parents[1] / "vectors" / "bad-ids.json").read_text(encoding="utf-8"))
# Where each of them is a call over a socket, by nine tools and to two platforms.
SOME_IDS = nth(BAD_IDS, 4)
# An empty optional argument is the same as none.
NAMED_IDS = [bad for bad in SOME_IDS if bad]
# Names that only a Windows file system minds.
FINE_IDS = {"con", "nul.md"}
# What a job reads after an answer: a transcript, or the log of a session whose id is fine.
AFTERWARDS = re.compile("|".join(["transcript-", *(names.session_name(fine) for fine in sorted(FINE_IDS))]))
GOOD: dict[str, dict[str, Any]] = {
    "memory_search": {"query": "x"},
    "memory_recall": {"query": "x"},
    "memory_remember": {"content": "x"},
    "memory_ingest_file": {"path": "x.md"},
    # Nothing is fetched from there: it is not a public address.
    "memory_ingest_url": {"url": "http://127.0.0.1/"},
    "memory_extract": {"messages": [{"role": "user", "content": "x"}]},
    "memory_reflect": {"session_id": "s"},
    "memory_consolidate": {},
    "memory_ask": {"query": "x"},
}
IN_SESSION = ("memory_recall", "memory_extract", "memory_reflect")
# What is no HTTP.
ANSWERED_BY_HTTP = {"400"}
DIALECTS = {"platform": PLATFORM, "daemon": DAEMON}


@dataclass
class Recorder:
    """A platform, and before it a record of each request as it came over the wire."""

    app: ASGIApp
    targets: list[tuple[str, str, str]] = field(default_factory=list)
    headers: list[bytes] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw: bytes = scope["raw_path"]
            self.targets.append((scope["method"], raw.decode("ascii"), scope["query_string"].decode("ascii")))
            self.headers += [name for name, _ in scope["headers"]]
        await self.app(scope, receive, send)


@dataclass
class World:
    """A gateway before a platform of one dialect."""

    dialect: Dialect
    served: Served
    platform: Recorder
    token: str | None = None
    main: str = "main"
    """The id of the one brain there is."""

    def call(self, tool: str, arguments: dict[str, Any], brain_in_url: str = "", header: bytes | None = None) -> str:
        """What comes of a call: a code of ours, `ok`, or HTTP's own status. What the platform saw is in the record."""
        self.platform.targets.clear()
        self.platform.headers.clear()
        request = raw_call("modern", tool, arguments)
        headers = {**request["headers"], "content-type": "application/json"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        # Not by httpx: it would resolve dot segments itself.
        with closing(HTTPConnection(urlsplit(self.served.url).netloc, timeout=60)) as connection:
            connection.request(
                "POST",
                f"/mcp{brain_in_url}",
                json.dumps(request["json"]),
                headers if header is None else {**headers, "x-brain": header},
            )
            return code_of(connection.getresponse())

    def seen(self) -> list[tuple[str, str, str]]:
        """What the platform saw of a call; what goes on after the answer to an earlier one is not of it."""
        brain = f"/v1/brains/{self.main}"
        return [
            (method, path, query)
            for method, path, query in self.platform.targets
            if path != f"{brain}/extract" and not (path == f"{brain}/documents/read" and AFTERWARDS.search(query))
        ]

    def check(self, code: str, *ids: str) -> None:
        """A refusal reached nobody; what did reach the platform is a route of the dialect, with these ids in it."""
        assert code in {"ok", *CATALOGUE, *ANSWERED_BY_HTTP}
        if code in {"validation_error", "not_found", *ANSWERED_BY_HTTP}:
            assert self.seen() == []
        assert b"x-evil" not in self.platform.headers
        for method, path, query in self.platform.targets:
            assert any(is_filled(route.path, path, (self.main, *ids)) for route in self.dialect.routes.values()), (
                method,
                path,
            )
            given = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
            assert len({name for name, _ in given}) == len(given)
            stays_inside(dict(given).get("path", "plain"))


def is_filled(template: str, path: str, ids: tuple[str, ...]) -> bool:
    """Whether a path is this route, with one of the ids in each of its places."""
    segments, places = path.split("/"), template.split("/")
    known = {quote(each, safe="") for each in ids}
    return len(segments) == len(places) and all(
        segment in known if place.startswith("{") else segment == place
        for segment, place in zip(segments, places, strict=True)
    )


def stays_inside(path: str) -> None:
    assert not {"", ".", ".."} & set(path.split("/")), path
    assert path.isprintable()
    assert not set("\\%?#") & set(path)


def code_of(response: HTTPResponse) -> str:
    body = response.read()
    if response.status == 400 and not body.startswith(b"{"):
        return str(response.status)
    answer = httpx.Response(response.status, headers=dict(response.headers), content=body)
    if response.status != 200:
        return str(answer.json()["code"])
    result = messages_of(answer)[-1]["result"]
    return str(result["structuredContent"]["code"]) if result["isError"] else "ok"


@contextmanager
def world_of(name: str, base: Path, **settings: Any) -> Iterator[World]:
    with closing(Store.open(base / "store")) as store:
        # Without that route there is nothing to do after an answer, but to find out that it is not there.
        daemon = FakeDaemon(llm=Script()).without("POST /v1/brains/{brain}/extract")
        daemon.brains["main"] = {}
        platform = Recorder(daemon.app() if name == "daemon" else create_app(store, token=None))
        root = base / "files"
        root.mkdir()
        (root / "x.md").write_text("x", encoding="utf-8")
        with (
            listening(platform) as upstream,
            serving(base / "data", root, upstream_url=upstream, dialect=name, **settings) as served,
        ):
            yield World(DIALECTS[name], served, platform)


@pytest.fixture(scope="module", params=DIALECTS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_of(request.param, tmp_path_factory.mktemp(request.param)) as world:
        # With the first call it is found out what the platform has.
        response = httpx.post(world.served.url + "/mcp", **raw_call("modern", "memory_search", {"query": "x"}))
        world.main = messages_of(response)[-1]["result"]["structuredContent"]["brain_id"]
        yield world


def expected(tool: str, bad: str) -> str:
    """What comes of a call on a brain of that name."""
    if bad not in FINE_IDS:
        return "validation_error"
    return "fetch_blocked" if tool == "memory_ingest_url" else "no_brain"


@pytest.mark.parametrize("tool", GOOD)
def test_a_bad_brain_in_the_call_is_refused(world: World, tool: str) -> None:
    for bad in NAMED_IDS:
        code = world.call(tool, {**GOOD[tool], "brain": bad})
        assert code == expected(tool, bad), bad
        world.check(code, bad, "s")


@pytest.mark.parametrize("tool", GOOD)
def test_a_bad_brain_in_the_url_is_refused(world: World, tool: str) -> None:
    for bad in (bad for bad in SOME_IDS if bad and "\n" not in bad):
        code = world.call(tool, GOOD[tool], f"/{quote(bad, safe='')}")
        # A slash makes another path of it, and one at the end means nothing.
        fine = expected(tool, "con") if bad == "a/" else expected(tool, bad)
        assert code in {fine, "not_found"}, bad
        world.check(code, bad.removesuffix("/"), "s")


@pytest.mark.parametrize("bad", [bad for bad in BAD_IDS if "\n" in bad] + ["main\n", "\n"], ids=ascii)
def test_a_brain_with_a_line_break_in_the_url_is_refused(world: World, bad: str) -> None:
    code = world.call("memory_search", {"query": "x"}, f"/{quote(bad, safe='')}")
    assert code == "validation_error"
    world.check(code)


@pytest.mark.parametrize(
    "bad", [bad for bad in BAD_IDS if bad.isascii() and bad.isprintable() and " " not in bad and "%0a" not in bad]
)
def test_a_bad_brain_in_the_url_is_refused_as_it_stands(world: World, bad: str) -> None:
    code = world.call("memory_search", {"query": "x"}, f"/{bad}")
    # What comes after `?` or `#` is not of the path, and a slash at its end means nothing.
    plain = re.split("[?#]", bad)[0].removesuffix("/")
    if not plain:
        # No brain is named.
        assert code == "ok"
    else:
        assert code in ({"no_brain"} if plain in {*FINE_IDS, "a"} else {"validation_error", "not_found"})
    world.check(code, plain)


@pytest.mark.parametrize("tool", GOOD)
def test_a_bad_brain_in_the_header_is_refused(world: World, tool: str) -> None:
    for bad in SOME_IDS:
        try:
            code = world.call(tool, GOOD[tool], header=bad.encode())
        except ValueError:
            assert set("\r\n") & set(bad), "only what no header can hold is not sent"
            continue
        if bad != "":
            assert code == ("validation_error" if "\0" in bad else expected(tool, bad)), bad
        world.check(code, bad, "s")


@pytest.mark.parametrize("tool", IN_SESSION)
def test_a_bad_session_is_refused(world: World, tool: str) -> None:
    for bad in NAMED_IDS if tool != "memory_reflect" else SOME_IDS:
        code = world.call(tool, {**GOOD[tool], "brain": "main", "session_id": bad})
        assert (code == "validation_error") == (bad not in FINE_IDS), bad
        world.check(code, "main", bad)


@pytest.mark.parametrize("frame", ["{}", "{}/note.md", "{}.md", "memory/global/{}", "memory/global/{}/x.md"])
def test_a_bad_path_is_refused_or_stays_where_it_is(world: World, frame: str) -> None:
    for bad in SOME_IDS:
        code = world.call(
            "memory_remember", {"content": f"{frame} {bad!a}", "brain": "main", "path": frame.format(bad)}
        )
        assert frame != "{}" or bad == "" or code == "validation_error", bad
        world.check(code, "main")


@pytest.mark.parametrize("argument", ["name", "slug"])
def test_a_brain_is_created_under_a_plain_name_or_not_at_all(world: World, argument: str) -> None:
    for bad in SOME_IDS:
        arguments = {"name": f"Brain {bad!a}"[:128], argument: bad}
        code = world.call("memory_create_brain", arguments)
        assert code in {"ok", "validation_error", "conflict"}, bad
        # An empty slug is as good as none: it is made of the name then.
        world.check(code, names.brain_slug(arguments.get("slug") or arguments["name"]))


def test_a_bad_path_of_a_file_reaches_nobody(world: World) -> None:
    for bad in SOME_IDS:
        code = world.call("memory_ingest_file", {"brain": "main", "path": bad})
        assert code in {"validation_error", "not_found", "file_not_allowed"}, bad
        assert world.seen() == []


@pytest.fixture(scope="module", params=DIALECTS)
def bound(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[World, dict[str, str]]]:
    """A gateway with a token for each bad id, bound to that as its brain: the file was written by hand."""
    base = tmp_path_factory.mktemp(request.param)
    given = {bad: token_file.make_token() for bad in BAD_IDS}
    with token_file.change(base / "tokens.json") as records:
        for number, (bad, token) in enumerate(given.items()):
            records.append(
                token_file.Record(
                    id=str(number),
                    sha256=token_file.digest(token),
                    name="bad",
                    subject="bad",
                    scope="brains:admin",
                    brain=bad,
                    created=datetime.now(UTC),
                )
            )
    settings = {"auth": "tokens", "tokens_file": base / "tokens.json", "single_tenant": True}
    with world_of(request.param, base, **settings) as world:
        yield world, given


@pytest.mark.slow
def test_a_token_that_is_bound_to_a_bad_brain_is_good_for_nothing(bound: tuple[World, dict[str, str]]) -> None:
    world, given = bound
    for bad, world.token in given.items():
        for tool, arguments in GOOD.items() if bad else ():
            code = world.call(tool, arguments)
            assert code == expected(tool, bad), (tool, bad)
            assert world.seen() == [] or bad in FINE_IDS


def test_a_token_that_is_bound_to_a_brain_without_a_name_is_good_for_nothing(
    bound: tuple[World, dict[str, str]],
) -> None:
    world, given = bound
    world.token = given[""]
    assert world.call("memory_search", {"query": "x", "brain": "main"}) == "validation_error"


@pytest.mark.parametrize("path", ["", "/main", "/", "/a%2Fb", "/%2e%2e", "/a%00b", "/a%0Db", "/%C3%A4"])
def test_no_spelling_of_a_brain_in_the_url_gets_in_without_a_token(
    bound: tuple[World, dict[str, str]], path: str
) -> None:
    world, _ = bound
    world.token = None
    assert world.call("memory_list_brains", {}, path) == "unauthorized"
    assert world.seen() == []


@pytest.mark.parametrize("path", ["/a%0Ab", "/main%0A", "/%0A"])
def test_no_line_break_in_the_url_gets_in_without_a_token(bound: tuple[World, dict[str, str]], path: str) -> None:
    world, _ = bound
    world.token = None
    assert world.call("memory_list_brains", {}, path) == "unauthorized"
    assert world.seen() == []
