"""Each switch of the fake daemon does what it says, off and on."""

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import httpx
import pytest

from tests.daemons.fake import BRAIN, FakeDaemon, G, Script, T, Traits, Y

B = "/v1/brains/b"
FILES = {
    "memory/global/tea.md": b"---\nname: Tea\nscope: project\n---\n\nGreen tea.",
    "memory/project/alpha/a.md": b"Alpha tea.",
    "memory/agent/bot/b.md": b"Agent tea.",
    "memory/global/_c.md": b"Generated tea.",
    "wiki/d.md": b"Wiki tea.",
    "notes/e.md": b"Noted tea.",
}
TEA, ALPHA, AGENT, GENERATED, WIKI, NOTED = FILES
INDEX = "memory/global/MEMORY.md"
PAGES = {"http://127.0.0.1/": ("text/plain", b"A page."), "https://pages.test/": ("text/html", b"<p>A page.</p>")}
TOLD_OF = "- [Tea](tea.md) — no description"
Look = Callable[[httpx.Response], Any]


@dataclass(frozen=True)
class Sent:
    """A request, and the language model and token of the daemon it goes to."""

    method: str
    path: str
    json: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    llm: Script | None = None
    token: str | None = None

    async def to(self, traits: Traits) -> httpx.Response:
        daemon = daemon_with(traits, self.llm, self.token)
        async with client_of(daemon) as client:
            body = {} if self.json is None else {"json": self.json}
            return await client.request(self.method, self.path, headers=self.headers, **body)


def daemon_with(traits: Traits, llm: Script | None = None, token: str | None = None) -> FakeDaemon:
    daemon = FakeDaemon(traits, llm=llm, token=token, pages=PAGES)
    daemon.brains["b"] = {path: (content, 1_700_000_000.5) for path, content in FILES.items()}
    return daemon


def client_of(daemon: FakeDaemon) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(daemon.app()), base_url="http://daemon")


def get(path: str) -> Sent:
    return Sent("GET", path)


def post(suffix: str, body: Any = None, llm: Script | None = None) -> Sent:
    return Sent("POST", f"{B}/{suffix}", {} if body is None else body, llm=llm)


def search(query: str = "tea", **filters: Any) -> Sent:
    return post("search", {"query": query, "filters": filters})


def batch(*ops: dict[str, Any]) -> Sent:
    return post("documents/batch-ops", {"ops": ops})


def write(content: str) -> dict[str, str]:
    return {"type": "write", "path": "x.md", "content_base64": content}


def ingest(path: str, content: str, **more: str) -> Sent:
    return post("ingest/file", {"path": path, "contentBase64": b64(content), **more})


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def status(response: httpx.Response) -> int:
    return response.status_code


def at(*names: str | int) -> Look:
    """What is at this place in a JSON body."""

    def look(response: httpx.Response) -> Any:
        value = response.json()
        for name in names:
            value = value[name]
        return value

    return look


def has(key: str, *names: str | int) -> Look:
    return lambda response: key in at(*names)(response)


def paths(*names: str) -> Look:
    return lambda response: sorted(item["path"] for item in at(*names)(response) or [])


def indexes(response: httpx.Response) -> list[str]:
    return [path for path in paths("ops")(response) if path.endswith("/MEMORY.md")]


def first_key(response: httpx.Response) -> str:
    return str(next(iter(response.json())))


def header(name: str) -> Look:
    return lambda response: response.headers.get(name)


def events(response: httpx.Response) -> list[tuple[str, Any]]:
    frames = [dict(line.split(": ", 1) for line in part.split("\n")) for part in response.text.strip().split("\n\n")]
    return [(frame["event"], json.loads(frame["data"])) for frame in frames]


def kinds(response: httpx.Response) -> list[str]:
    return [kind for kind, _ in events(response)]


ANSWERED = Script()
FAILING, PROSE = Script(fails=True), Script(prose=True)
TOLD = {"messages": [{"role": "user", "content": "I prefer tea."}], "sessionId": "s"}
ASKED = {"question": "wiki"}
DOCUMENTS = f"{B}/documents"
PAGE = post("ingest/url", {"url": "https://pages.test/"})
HTML = ingest("p.html", "<p>Hi</p>", contentType="text/html", title="T")

# The switch, its other value, a request, what to look at, and what is seen with the value of T and with the other.
Row = tuple[str, Any, Sent, Look, Any, Any]
ROUTING: list[Row] = [
    ("name", "X", get("/healthz"), status, 200, 200),
    (
        "unknown_route",
        "Nope",
        get("/x"),
        header("content-type"),
        "application/problem+json",
        "text/plain; charset=utf-8",
    ),
    ("wrong_method", "allow", Sent("PATCH", DOCUMENTS), status, 404, 405),
    ("wrong_method", "allow", Sent("PATCH", DOCUMENTS), header("allow"), None, "GET, HEAD, PUT, DELETE"),
    ("wrong_method", "allow_first", Sent("PATCH", DOCUMENTS), header("allow"), None, "GET"),
    ("head_of_get", True, Sent("HEAD", "/healthz"), status, 404, 200),
    ("redirects_slash", True, post("search/"), status, 404, 307),
    ("encoded_slash", False, get("/v1/brains/a%2Fb"), has("brain not found: a/b", "detail"), True, False),
    ("version", "1.2", get("/version"), status, 404, 200),
    ("exact_bearer", False, Sent("GET", B, headers={"authorization": "bearer t"}, token="t"), status, 403, 200),
    ("created", "then", get(B), has("created"), False, True),
    (
        "brain_conflict",
        "no",
        Sent("POST", "/v1/brains", {"brainId": "b"}),
        has("already exists", "detail"),
        True,
        False,
    ),
    ("checks_brain_ids", True, Sent("POST", "/v1/brains", {"brainId": "../evil"}), status, 201, 400),
]
REFUSALS: list[Row] = [
    ("bad_request_title", "No", post("search"), at("title"), "Bad Request", "No"),
    ("confirmation_title", "No", Sent("DELETE", B), at("title"), "Confirmation Required", "No"),
    ("json_oversize", 400, search("x" * 262_144), status, 413, 400),
    ("ingest_cap_of_json", True, ingest("x.md", "x" * 6_291_456), status, 200, 413),
    *(
        ("caps", replace(T.caps, **{cap: 5}), sent, status, usual, 413)
        for cap, sent, usual in (
            ("single", Sent("PUT", f"{DOCUMENTS}?path=x.md", {"a": "body"}), 204),
            ("single", post("documents/append?path=x.md", {"a": "body"}), 204),
            ("batch", batch(write(b64("longer"))), 200),
            ("batch_ops", batch(*[write("")] * 6), 200),
            ("query", search(), 200),
            ("query", post("ask", ASKED), 200),
            ("query", post("remember", {"note": "n"}), 201),
            ("small", post("recall", {"query": "tea"}), 200),
            ("small", Sent("POST", "/v1/brains", {"brainId": "new"}), 201),
            ("messages", post("extract", TOLD), 200),
            ("messages", post("reflect", TOLD), 200),
            ("ingest", ingest("x.md", "longer"), 200),
            ("request", search(), 200),
        )
    ),
]
STORE: list[Row] = [
    (
        "missing_document",
        "no {path}",
        get(f"{DOCUMENTS}/read?path=x.md"),
        at("detail"),
        "brain: not found: x.md",
        "no x.md",
    ),
    *(
        ("mtime", tense, get(f"{DOCUMENTS}/stat?path={TEA}"), at("mtime"), "2023-11-14T22:13:20.500Z", shown)
        for tense, shown in (("us", "2023-11-14T22:13:20.500000+00:00"), ("ns", "2023-11-14T22:13:20.500000321Z"))
    ),
    ("lists_directories", True, get(f"{DOCUMENTS}?recursive=1&glob=bot"), paths("items"), [], ["memory/agent/bot"]),
    ("leaks_index", True, get(f"{DOCUMENTS}?glob=*.db"), paths("items"), [], [".search.db"]),
    ("leaks_index", True, get(f"{DOCUMENTS}/read?path=.search.db"), status, 404, 200),
    ("unknown_op", 400, batch({"type": "burn", "path": "x"}), status, 500, 400),
    ("requires_ops", True, post("documents/batch-ops"), status, 200, 400),
    ("lenient_base64", False, batch(write("!")), status, 200, 400),
    ("batch_delete_missing", 200, batch({"type": "delete", "path": "x"}), status, 404, 200),
]
FINDING: list[Row] = [
    ("indexed", ("wiki/",), search(), paths("chunks"), sorted(FILES), [WIKI]),
    ("indexes_underscore", False, search("generated"), paths("chunks"), [GENERATED], []),
    ("null_lists", True, search("zebra"), at("chunks"), [], None),
    ("chunk_keys", "all", search("wiki"), has("metadata", "chunks", 0), False, True),
    ("chunk_keys", "nonzero", search("wiki"), has("title", "chunks", 0), True, False),
    ("snake_trace", True, search(), has("original_query", "trace"), False, True),
    ("strict_ints", True, post("search", {"query": "tea", "topK": "3"}), status, 200, 400),
    ("strict_ints", True, post("search", {"query": "tea", "topK": 2.7}), status, 200, 400),
    ("scope_leaks", True, search(scope="all"), paths("chunks"), [], [NOTED, WIKI]),
    ("scope_leaks", True, search(scope="agent"), paths("chunks"), [AGENT], [NOTED, WIKI]),
    ("scope_of_matter", False, search(scope="global"), paths("chunks"), [GENERATED], [GENERATED, TEA]),
    ("project_filter_leaks", False, search("wiki alpha", project="alpha"), paths("chunks"), [ALPHA, WIKI], [ALPHA]),
    ("scans_plainly", False, search("ki te"), paths("chunks"), [WIKI], []),
    ("recall", "picked", post("recall", {"query": "green tea"}), paths("memories"), [TEA], []),
]
ASKING: list[Row] = [
    ("bare_ask_chunks", True, post("ask", ASKED), lambda r: "bm25Rank" in events(r)[0][1]["chunks"][0], True, False),
    ("sse_ids", False, post("ask", ASKED), lambda r: "\nid: 1\n" in r.text, True, False),
    ("default_mode", "", post("ask", ASKED), lambda r: events(r)[0][1]["mode"], "auto", ""),
    ("no_cache", "no-store", post("ask", ASKED), header("cache-control"), "no-cache", "no-store"),
    (
        "llm_stand_in",
        "ok",
        post("ask", ASKED),
        kinds,
        ["retrieve", "error", "done"],
        ["retrieve", "answer_delta", "citation", "done"],
    ),
    (
        "failed_llm_is_ok",
        False,
        post("ask", ASKED, FAILING),
        kinds,
        ["retrieve", "error", "citation", "done"],
        ["retrieve", "error", "done"],
    ),
    ("failed_llm_is_ok", False, post("ask", ASKED, FAILING), lambda r: events(r)[-1][1], {"ok": True}, {"ok": False}),
]
INGESTING: list[Row] = [
    ("pascal_replies", True, HTML, first_key, "documentId", "DocumentID"),
    ("slug_of", "title", HTML, at("path"), "raw/documents/p-html.md", "raw/documents/t.md"),
    (
        "slug_length",
        7,
        ingest("a-long-name", "x"),
        at("path"),
        "raw/documents/a-long-name.md",
        "raw/documents/a-long.md",
    ),
    ("page_name", "text", PAGE, at("path"), "raw/documents/https-pages-test-md.md", "raw/documents/p-a-page-p.md"),
    ("converts", True, ingest("a.bin", "x"), status, 200, 500),
    ("empty_ingest", 500, post("ingest/file"), status, 400, 500),
    ("blocks_private", True, post("ingest/url", {"url": "http://127.0.0.1/"}), status, 200, 500),
]
STAGES: list[Row] = [
    ("tolerates_roles", True, post("extract", {"messages": [{"role": "robot", "content": "x"}]}), status, 400, 200),
    ("rule_extracts", False, post("extract", TOLD), lambda r: len(r.json()["memories"]), 1, 0),
    ("extract_snake", True, post("extract", TOLD), has("index_entry", "memories", 0), False, True),
    ("extract_extra", True, post("extract", TOLD), has("supersedes", "memories", 0), False, True),
    ("non_json_extract", 500, post("extract", TOLD, PROSE), status, 200, 500),
    ("reflects_unknown", False, post("reflect", TOLD, PROSE), lambda r: r.json()["result"] is None, False, True),
    ("reflect_snake", True, post("reflect", TOLD), has("retry_feedback", "result"), False, True),
    ("reflect_writes", False, post("reflect", TOLD), has("path", "result"), True, False),
    ("bad_slug", "refused", post("remember", {"note": "n", "slug": "../../evil"}), status, 201, 500),
    ("consolidates", "camel", post("consolidate"), first_key, "merged", "mode"),
    ("consolidates", "pascal", post("consolidate"), first_key, "merged", "Mode"),
    ("index_of", "folders", post("consolidate"), indexes, [INDEX], [INDEX, "memory/project/alpha/MEMORY.md"]),
]
ROWS = [*ROUTING, *REFUSALS, *STORE, *FINDING, *ASKING, *INGESTING, *STAGES]
# These show in how several requests get along; their tests are below.
OVERLAPS = {
    "drops_equal_bodies",
    "batch_atomic",
    "batch_appends_race",
    "puts_collide",
    "put_collisions",
    "write_seconds",
    "block_seconds",
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}"[:40])
async def test_a_switch_changes_what_it_says(row: Row) -> None:
    switch, value, sent, look, off, on = row
    assert look(await sent.to(T)) == off
    assert look(await sent.to(replace(T, **{switch: value}))) == on


def test_every_switch_has_a_test() -> None:
    assert {row[0] for row in ROWS} | OVERLAPS == {switch.name for switch in fields(Traits)}


@pytest.mark.parametrize(("traits", "found"), [(T, [ALPHA, "memory/project/beta/a.md"]), (G, [ALPHA])])
async def test_of_equal_bodies_one_is_shown(traits: Traits, found: list[str]) -> None:
    daemon = daemon_with(traits)
    daemon.brains["b"]["memory/project/beta/a.md"] = (b"---\nname: Beta\n---\n\nalpha  tea.\n", 1_700_000_000.5)
    sent = search("alpha", pathPrefix="memory/project/")
    async with client_of(daemon) as client:
        answer = await client.post(sent.path, json=sent.json)
    assert paths("chunks")(answer) == found


@pytest.mark.parametrize(("traits", "line"), [(T, "- tea.md: Green tea."), (Y, TOLD_OF), (G, TOLD_OF)])
async def test_an_index_tells_of_notes_after_a_consolidation(traits: Traits, line: str) -> None:
    daemon = daemon_with(traits)
    async with client_of(daemon) as client:
        await client.post(f"{B}/consolidate", json={})
        found = await client.post(f"{B}/search", json={"query": "tea"})
    assert line in daemon.brains["b"][INDEX][0].decode()
    assert INDEX in paths("chunks")(found)


@pytest.mark.parametrize("traits", [Y, G], ids=lambda traits: traits.name)
async def test_two_pages_of_one_heading_overwrite_each_other(traits: Traits) -> None:
    daemon = daemon_with(traits)
    daemon.state.pages = {f"https://{n}.test/": ("text/markdown", f"# Tea\n\n{n}".encode()) for n in range(2)}
    async with client_of(daemon) as client:
        answers = [(await client.post(f"{B}/ingest/url", json={"url": url})).json() for url in daemon.state.pages]
    assert len({answer.get("path") or answer["Path"] for answer in answers}) == 1


@pytest.mark.parametrize(("atomic", "kept"), [(True, False), (False, True)])
async def test_a_batch_that_fails_late_is_undone_if_batches_are_atomic(atomic: bool, kept: bool) -> None:
    daemon = daemon_with(replace(T, batch_atomic=atomic))
    late = batch(write(b64("x")), {"type": "delete", "path": "nope.md"})
    async with client_of(daemon) as client:
        assert (await client.post(late.path, json=late.json)).status_code == 404
    assert ("x.md" in daemon.brains["b"]) is kept


@pytest.mark.parametrize(("races", "statuses", "lines"), [(False, [200] * 3, 3), (True, [200, 200, 400], 1)])
async def test_racing_batch_appends_lose_lines(races: bool, statuses: list[int], lines: int) -> None:
    daemon = daemon_with(replace(T, batch_appends_race=races, write_seconds=0.05))
    async with client_of(daemon) as client:
        line = {"type": "append", "path": "log.jsonl", "content_base64": b64("line\n")}
        calls = [client.post(f"{B}/documents/batch-ops", json={"ops": [line]}) for _ in range(3)]
        answers = await asyncio.gather(*calls)
    assert sorted(answer.status_code for answer in answers) == statuses
    assert daemon.brains["b"]["log.jsonl"][0].count(b"line") == lines


@pytest.mark.parametrize(("collide", "statuses"), [(False, [204, 204]), (True, [204, 500])])
async def test_overlapping_puts_collide(collide: bool, statuses: list[int]) -> None:
    daemon = daemon_with(replace(T, puts_collide=collide, write_seconds=0.05))
    async with client_of(daemon) as client:
        answers = await asyncio.gather(*(client.put(f"{DOCUMENTS}?path=x.md", content=b"x") for _ in range(2)))
    assert sorted(answer.status_code for answer in answers) == statuses
    details = [answer.json()["detail"] for answer in answers if answer.status_code == 500]
    assert details == ["rename x.md.tmp: no such file or directory"] * collide


async def test_so_many_puts_to_an_existing_path_fail() -> None:
    daemon = daemon_with(replace(T, put_collisions=2))
    async with client_of(daemon) as client:
        seen = [
            (await client.put(f"{DOCUMENTS}?path={path}", content=b"x")).status_code for path in ("n.md", *[TEA] * 3)
        ]
    assert seen == [204, 500, 500, 204]


async def test_an_ingest_that_blocks_keeps_everyone_waiting() -> None:
    daemon, order = daemon_with(replace(T, block_seconds=0.2)), []
    async with client_of(daemon) as client:

        async def call(name: str, sent: Sent) -> None:
            await client.request(sent.method, sent.path, json=sent.json)
            order.append(name)

        busy = asyncio.create_task(call("ingest", HTML))
        assert await asyncio.to_thread(daemon.blocking.wait, 30)
        await asyncio.gather(call("health", get("/healthz")), busy)
    assert order == ["ingest", "health"]


async def test_routes_go_and_come_back_at_run_time() -> None:
    daemon, route = daemon_with(T), f"POST {BRAIN}/search"
    sent = search()
    async with client_of(daemon.without(route)) as client:
        assert (await client.post(sent.path, json=sent.json)).json()["detail"] == f"no route for POST {B}/search"
        daemon.with_route(route)
        assert (await client.post(sent.path, json=sent.json)).status_code == 200
    assert daemon.requests == [f"POST {B}/search"] * 2


@pytest.mark.parametrize(("code", "wait"), [(401, None), (429, "1"), (503, "1")])
async def test_a_route_fails_as_told(code: int, wait: str | None) -> None:
    daemon = daemon_with(T)
    daemon.fail[f"GET {BRAIN}"] = code
    async with client_of(daemon) as client:
        answer = await client.get(B)
    assert (answer.status_code, answer.headers.get("retry-after")) == (code, wait)


async def test_an_ask_is_cut_by_the_model_or_by_the_daemon() -> None:
    spoken = await post("ask", ASKED, Script(tokens=["a", "b", "c"], cut_after=1)).to(T)
    assert kinds(spoken) == ["retrieve", "answer_delta", "citation", "done"]
    daemon = daemon_with(T, ANSWERED)
    daemon.cut_frames = 2
    async with client_of(daemon) as client:
        assert kinds(await client.post(f"{B}/ask", json=ASKED)) == ["retrieve", "answer_delta"]


@pytest.mark.parametrize("traits", [T, Y, G], ids=lambda traits: traits.name)
async def test_extract_previews_and_stores_nothing(traits: Traits) -> None:
    daemon = daemon_with(traits, Script(memories=[{"filename": "a.md", "content": "a"}]))
    async with client_of(daemon) as client:
        answer = await client.post(f"{B}/extract", json=TOLD)
    assert "a.md" in [memory["filename"] for memory in answer.json()["memories"]]
    assert set(daemon.brains["b"]) == set(FILES)


@pytest.mark.parametrize(("traits", "text"), [(T, "<p>A page.</p>"), (Y, "A page."), (G, "A page.")])
async def test_a_page_is_taken_from_the_injected_ones_alone(traits: Traits, text: str) -> None:
    daemon = daemon_with(traits)
    async with client_of(daemon) as client:
        answer = await client.post(f"{B}/ingest/url", json={"url": "https://pages.test/"})
        stored = answer.json().get("path") or answer.json()["Path"]
        unknown = await client.post(f"{B}/ingest/url", json={"url": "https://elsewhere.test/"})
    assert daemon.brains["b"][stored][0].decode() == text
    assert unknown.status_code == 500


@pytest.mark.parametrize("traits", [T, Y, G], ids=lambda traits: traits.name)
@pytest.mark.parametrize(("headers", "code"), [({}, 401), ({"authorization": "Bearer no"}, 403)])
async def test_a_token_is_asked_for_before_the_route(traits: Traits, headers: dict[str, str], code: int) -> None:
    assert status(await Sent("GET", "/nope", headers=headers, token="t").to(traits)) == code
    assert status(await Sent("GET", "/healthz", headers=headers, token="t").to(traits)) == 200
