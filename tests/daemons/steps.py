"""Requests to a daemon, in order: every route, with good and bad input, and the scripts of the models behind it."""

import base64
from dataclasses import dataclass, field
from typing import Any

from tests.daemons.script import Script

MIB = 1024 * 1024
B = "/v1/brains/b1"
PAGE = "A page about badgers."
TOKEN = "secret-token"
MEMORY = {
    "filename": "otters.md",
    "name": "Otters",
    "description": "Otters hold hands",
    "type": "reference",
    "content": "Otters hold hands in Monterey.",
    "indexEntry": "otters",
}
REFLECTION = {
    "outcome": "success",
    "summary": "It went well.",
    "retryFeedback": "Nothing.",
    "shouldRecordEpisode": True,
    "openQuestions": ["Why?"],
    "heuristics": [],
}
HEURISTIC = {
    "rule": "Ask first",
    "context": "plans",
    "confidence": "high",
    "category": "style",
    "scope": "global",
    "antiPattern": False,
}
SCRIPTS = {
    "none": None,
    "token": None,
    "speaks": Script(memories=[MEMORY], reflection=REFLECTION),
    "cut": Script(cut_after=2),
    "fails": Script(fails=True),
    "prose": Script(prose=True),
    "heuristics": Script(reflection={**REFLECTION, "heuristics": [HEURISTIC]}),
}
TEA = b"---\nname: Tea time\ndescription: About tea\ntags: [drink, hot]\ntype: user\n---\n\nI drink green tea.\n"
OLD = b"---\nname: Old\nmodified: 2020-01-02T03:04:05Z\n---\n\nAn old note on ferrets.\n"
SAID = [{"role": "user", "content": "The sky is blue."}]
LIKES = [{"role": "user", "content": "I prefer green tea over coffee. It rains."}]


@dataclass(frozen=True)
class Step:
    """One request; `daemon` says to which pair of daemons it goes."""

    name: str
    method: str
    path: str
    json: Any = None
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    daemon: str = "none"
    endless: bool = False


def put(name: str, path: str, content: bytes) -> Step:
    return Step(name, "PUT", f"{B}/documents?path={path}", content=content)


def batch(name: str, *ops: dict[str, Any]) -> Step:
    return Step(name, "POST", f"{B}/documents/batch-ops", json={"ops": ops, "reason": "test"})


def search(name: str, query: Any, **more: Any) -> Step:
    return Step(name, "POST", f"{B}/search", json={"query": query, **more})


def ingest(name: str, path: str, content: bytes, **more: Any) -> Step:
    body = {"path": path, "contentBase64": base64.b64encode(content).decode(), **more}
    return Step(name, "POST", f"{B}/ingest/file", json=body)


def post(name: str, suffix: str, body: Any, daemon: str = "none") -> Step:
    return Step(name, "POST", f"{B}/{suffix}", json=body, daemon=daemon)


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SERVICE = [
    Step("health", "GET", "/healthz"),
    Step("health by HEAD", "HEAD", "/healthz"),
    Step("version", "GET", "/version"),
    Step("root", "GET", "/"),
    Step("no brains yet", "GET", "/v1/brains"),
    Step("create", "POST", "/v1/brains", json={"brainId": "b1", "description": "Mine"}),
    Step("create again", "POST", "/v1/brains", json={"brainId": "b1"}),
    Step("create with more keys", "POST", "/v1/brains", json={"brainId": "b2", "name": "B", "visibility": "private"}),
    Step("create as on the platform", "POST", "/v1/brains", json={"name": "B", "slug": "b", "visibility": "private"}),
    Step("create a brain that climbs out", "POST", "/v1/brains", json={"brainId": "../evil"}),
    Step("get a brain that climbs out", "GET", "/v1/brains/..%2Fevil"),
    Step("create with no body", "POST", "/v1/brains"),
    Step("create with no JSON", "POST", "/v1/brains", content=b"{nope"),
    Step("create with a list", "POST", "/v1/brains", json=[]),
    Step("create oversize", "POST", "/v1/brains", json={"brainId": "x" * 65536}),
    Step("list", "GET", "/v1/brains"),
    Step("list with a slash", "GET", "/v1/brains/"),
    Step("list by HEAD", "HEAD", "/v1/brains"),
    Step("brains by PUT", "PUT", "/v1/brains", json={}),
    Step("get", "GET", B),
    Step("get a missing brain", "GET", "/v1/brains/ghost"),
    Step("delete unconfirmed", "DELETE", "/v1/brains/b2"),
    Step("delete", "DELETE", "/v1/brains/b2", headers={"x-confirm-delete": "yes"}),
    Step("delete again", "DELETE", "/v1/brains/b2", headers={"x-confirm-delete": "yes"}),
]
MISSING = [
    Step("unknown route", "POST", f"{B}/compile", json={}),
    Step("unknown route of a missing brain", "POST", "/v1/brains/ghost/compile", json={}),
    Step("platform search", "GET", f"{B}/search?q=tea"),
    Step("platform documents", "POST", f"{B}/documents", json={"content": "x"}),
    Step("platform ingest", "POST", f"{B}/documents/ingest/file", json={}),
    Step("platform session", "POST", f"{B}/sessions/s1/close", json={}),
    Step("search with a slash", "POST", f"{B}/search/", json={"query": "tea"}),
    Step("options", "OPTIONS", f"{B}/search"),
    Step("patch", "PATCH", f"{B}/documents", json={}),
    *(
        Step(f"{route} of a missing brain", "POST", f"/v1/brains/ghost/{route}", json={})
        for route in ("search", "ask", "recall", "remember", "extract", "reflect", "consolidate", "ingest/file")
    ),
    Step("read of a missing brain", "GET", "/v1/brains/ghost/documents/read?path=x.md"),
    Step("HEAD of a missing brain", "HEAD", "/v1/brains/ghost/documents?path=x.md"),
    Step("events of a missing brain", "GET", "/v1/brains/ghost/events"),
]
DOCUMENTS = [
    put("put", "memory/global/tea.md", TEA),
    put("put old", "memory/global/old.md", OLD),
    put("put plain", "memory/global/coffee.md", b"Coffee is bitter.\n"),
    put("put project", "memory/project/alpha/plan.md", b"# Plan\n\nAlpha ships walnuts in May.\n"),
    put("put agent", "memory/agent/bot/self.md", b"The agent likes walnuts.\n"),
    put("put wiki", "wiki/walnuts.md", b"Walnuts grow on trees.\n"),
    put("put generated", "memory/global/_gen.md", b"Generated quokka text.\n"),
    put("put text", "notes/x.txt", b"A text on lemurs.\n"),
    put("put over", "notes/x.txt", b"A text on lemurs, again.\n"),
    put("put empty", "notes/empty.md", b""),
    put("put oversize", "big.md", b"x" * (2 * MIB + 1)),
    put("put no path", "", b"x"),
    *(put(f"put {path}", path, b"x") for path in ("/abs.md", "a/../b.md", "../up.md", "a//b.md", "a%5Cb.md", "dir/")),
    Step("put JSON", "PUT", f"{B}/documents?path=notes/y.md", json={"a": 1}),
    Step("read", "GET", f"{B}/documents/read?path=memory/global/tea.md"),
    Step("read missing", "GET", f"{B}/documents/read?path=nope.md"),
    Step("read no path", "GET", f"{B}/documents/read"),
    Step("read a directory", "GET", f"{B}/documents/read?path=memory"),
    *(
        Step(f"{method} {path[:40]}", method, f"{B}/documents{route}?path={path}", content=b"x" if body else None)
        for path in ("notes/x.txt/below.md", "memory", "notes/" + "long-" * 60 + ".md", "n" * 252 + ".md")
        for method, route, body in (("PUT", "", True), ("HEAD", "", False), ("DELETE", "", False))
    ),
    Step("append to a directory", "POST", f"{B}/documents/append?path=memory", content=b"x"),
    Step("read below a file", "GET", f"{B}/documents/read?path=notes/x.txt/below.md"),
    Step("stat below a file", "GET", f"{B}/documents/stat?path=notes/x.txt/below.md"),
    Step("list below a file", "GET", f"{B}/documents?dir=notes/x.txt/below"),
    Step("rename a directory", "POST", f"{B}/documents/rename", json={"from": "wiki", "to": "wood"}),
    Step("rename it back", "POST", f"{B}/documents/rename", json={"from": "wood", "to": "wiki"}),
    Step("stat", "GET", f"{B}/documents/stat?path=notes/x.txt"),
    Step("stat a directory", "GET", f"{B}/documents/stat?path=memory"),
    Step("stat missing", "GET", f"{B}/documents/stat?path=nope.md"),
    Step("head", "HEAD", f"{B}/documents?path=notes/x.txt"),
    Step("head missing", "HEAD", f"{B}/documents?path=nope.md"),
    Step("head a bad path", "HEAD", f"{B}/documents?path=/abs.md"),
    Step("head a directory", "HEAD", f"{B}/documents?path=memory"),
    Step("read by HEAD", "HEAD", f"{B}/documents/read?path=notes/x.txt"),
    Step("append", "POST", f"{B}/documents/append?path=sessions/s1.jsonl", content=b"one\n"),
    Step("append more", "POST", f"{B}/documents/append?path=sessions/s1.jsonl", content=b"two\n"),
    Step("read appended", "GET", f"{B}/documents/read?path=sessions/s1.jsonl"),
    Step("append oversize", "POST", f"{B}/documents/append?path=a.md", content=b"x" * (2 * MIB + 1)),
    Step("list top", "GET", f"{B}/documents"),
    Step("list a directory", "GET", f"{B}/documents?dir=memory/global"),
    Step("list generated", "GET", f"{B}/documents?dir=memory/global&include_generated=true"),
    Step("list all", "GET", f"{B}/documents?recursive=true&include_generated=1"),
    Step("list by glob", "GET", f"{B}/documents?recursive=true&glob=*.txt"),
    Step("list a missing directory", "GET", f"{B}/documents?dir=nowhere"),
    Step("list a file", "GET", f"{B}/documents?dir=notes/x.txt"),
    Step("list a bad directory", "GET", f"{B}/documents?dir=../up"),
    Step("rename", "POST", f"{B}/documents/rename", json={"from": "notes/y.md", "to": "notes/z.md"}),
    Step("rename missing", "POST", f"{B}/documents/rename", json={"from": "nope.md", "to": "z.md"}),
    Step("rename nothing", "POST", f"{B}/documents/rename", json={}),
    Step("delete document", "DELETE", f"{B}/documents?path=notes/z.md"),
    Step("delete document again", "DELETE", f"{B}/documents?path=notes/z.md"),
]
BATCHES = [
    batch(
        "batch",
        {"type": "write", "path": "batch/a.md", "content_base64": b64("Aardvark\n")},
        {"type": "append", "path": "batch/a.md", "content_base64": b64("more\n")},
        {"type": "write", "path": "batch/b.md", "content_base64": b64("Beaver\n")},
        {"type": "rename", "path": "batch/b.md", "to": "batch/c.md"},
    ),
    Step("read a batch", "GET", f"{B}/documents/read?path=batch/a.md"),
    Step("list a batch", "GET", f"{B}/documents?dir=batch"),
    Step("batch without ops", "POST", f"{B}/documents/batch-ops", json={}),
    Step("batch without JSON", "POST", f"{B}/documents/batch-ops", content=b"nope"),
    batch("batch of nothing"),
    batch("batch with an unknown op", {"type": "explode", "path": "batch/a.md"}),
    batch("batch with no path", {"type": "write"}),
    batch("batch with bad base64", {"type": "write", "path": "batch/bad.md", "content_base64": "!!!"}),
    Step("read bad base64", "GET", f"{B}/documents/read?path=batch/bad.md"),
    batch("batch deletes missing", {"type": "delete", "path": "batch/nope.md"}),
    batch(
        "batch fails late",
        {"type": "write", "path": "batch/late.md", "content_base64": b64("x")},
        {"type": "delete", "path": "batch/nope.md"},
    ),
    Step("nothing of the failed batch", "GET", f"{B}/documents/read?path=batch/late.md"),
    batch("batch deletes", {"type": "delete", "path": "batch/bad.md"}),
    batch("batch of too many", *({"type": "write", "path": f"many/{n}.md"} for n in range(1025))),
    batch("batch too large", {"type": "write", "path": "l.md", "content_base64": b64("x" * (8 * MIB + 1))}),
    batch("batch of 5 MiB", {"type": "write", "path": "large.bin", "content_base64": b64("x" * (5 * MIB))}),
]
FINDING = [
    search("search", "tea"),
    search("search several words", "green walnuts"),
    search("search a title", "Tea time"),
    search("search finds generated files", "quokka"),
    search("search finds no text files", "lemurs"),
    search("search finds nothing", "zebra"),
    search("search a part of a word", "alnu"),
    search("search a singular", "walnut"),
    search("search a typo", "wallnuts"),
    search("search top", "walnuts", topK=1),
    search("search ignores top_k", "walnuts", top_k=1),
    search("search with a text for topK", "walnuts", topK="1"),
    search("search with a fraction for topK", "walnuts", topK=1.7),
    *(
        search(f"search scope {scope}", "walnuts", filters={"scope": scope})
        for scope in ("global", "project", "agent", "wiki", "all", "")
    ),
    search("search a project", "walnuts", filters={"project": "alpha"}),
    search("search another project", "walnuts", filters={"project": "beta"}),
    search("search a prefix", "walnuts", filters={"pathPrefix": "wiki/"}),
    search("search a path", "walnuts", filters={"paths": ["wiki/walnuts.md"]}),
    search("search a tag", "tea", filters={"tags": ["drink"]}),
    search("search a missing tag", "tea", filters={"tags": ["nope"]}),
    search("search two tags", "tea", filters={"tags": ["HOT", "drink"]}),
    search("search a part of a word in a scope", "alnu", filters={"scope": "wiki"}),
    search("search no query", ""),
    search("search a number", 3),
    search("search oversize", "x" * (256 * 1024)),
    post("recall", "recall", {"query": "coffee"}),
    post("recall a titled note", "recall", {"query": "green tea"}),
    post("recall a project", "recall", {"query": "walnuts", "scope": "project", "actorId": "alpha"}),
    post("recall nothing", "recall", {"query": "zebra"}),
    post("recall an odd actor", "recall", {"query": "x", "scope": "project", "actorId": "a/b"}),
    post("recall no query", "recall", {}),
    post("recall oversize", "recall", {"query": "x" * 65536}),
    post("ask", "ask", {"question": "walnuts"}),
    post("ask as on both", "ask", {"query": "tea", "question": "tea", "top_k": 1, "topK": 1}),
    post("ask in a mode", "ask", {"question": "zebra", "mode": "bm25"}),
    post("ask as on the platform", "ask", {"query": "tea"}),
    post("ask with a bad reader", "ask", {"question": "tea", "readerMode": "x"}),
    post("ask oversize", "ask", {"question": "x" * (256 * 1024)}),
    Step("events", "GET", f"{B}/events", endless=True),
]
INGEST = [
    ingest("ingest", "Otter Notes.md", b"# Otters\n\nOtters eat urchins.\n", title="Sea otters"),
    Step("read ingested", "GET", f"{B}/documents/read?path=raw/documents/otter-notes-md.md"),
    search("search ingested", "urchins"),
    ingest("ingest over", "otter notes.md", b"Overwritten gannets.\n"),
    Step("read overwritten", "GET", f"{B}/documents/read?path=raw/documents/otter-notes-md.md"),
    ingest("ingest a PDF", "a.pdf", b"%PDF-1.4\n\xff\xfe", contentType="application/pdf"),
    Step("read the PDF", "GET", f"{B}/documents/read?path=raw/documents/a-pdf.md"),
    ingest("ingest a binary", "a.bin", b"\x00\x01\x02", contentType="application/octet-stream"),
    ingest("ingest without a path", "", b"No name at all.\n"),
    ingest("ingest a name of other letters", "日本.md", b"Words.\n"),
    ingest("ingest a name without letters", "日本", b"Words.\n"),
    ingest("ingest a long name", "long-" * 60 + ".md", b"Words.\n"),
    ingest("ingest 7 MiB", "large.txt", b"x" * (7 * MIB)),
    ingest("ingest too large", "l.txt", b"x" * (8 * MIB + 1)),
    post("ingest nothing", "ingest/file", {}),
    post("ingest a missing file", "ingest/file", {"path": "/nowhere/at/all.md"}),
    Step("ingest multipart", "POST", f"{B}/ingest/file", content=b"--x\r\n", headers={"content-type": "multipart/x"}),
    post("ingest no url", "ingest/url", {}),
    post("ingest a bad url", "ingest/url", {"url": "nonsense"}),
    post("ingest a dead url", "ingest/url", {"url": "http://127.0.0.1:9/"}),
    post("ingest a url", "ingest/url", {"url": "{page}"}),
    search("search a page", "badgers"),
]
STAGES = [
    post("remember", "remember", {"note": " Hello ", "tags": ["a", "b"], "source": "x", "slug": "hi"}),
    Step("read remembered", "GET", f"{B}/documents/read?path=memory/global/hi.md"),
    post("remember without a slug", "remember", {"note": "Hello"}),
    post("remember in a project", "remember", {"note": "Hello", "scope": "project:alpha", "slug": "a b"}),
    post("remember for an agent", "remember", {"note": "Hello", "scope": "agent"}),
    post("remember in no project", "remember", {"note": "Hello", "scope": "project:"}),
    post("remember elsewhere", "remember", {"note": "Hello", "slug": "../../evil"}),
    post("remember in a directory", "remember", {"note": "Hello", "slug": "a/b"}),
    post("remember far away", "remember", {"note": "Hello", "slug": "../../../evil"}),
    post("remember in an odd project", "remember", {"note": "Hello", "scope": "project:a/b", "slug": "x"}),
    post("remember nothing", "remember", {"note": "  "}),
    post("extract", "extract", {"messages": SAID, "sessionId": "s1"}),
    post("extract a preference", "extract", {"messages": LIKES, "sessionId": "s1"}),
    post("extract without a session", "extract", {"messages": LIKES}),
    post("extract no messages", "extract", {"messages": []}),
    post("extract a bad role", "extract", {"messages": [{"role": "robot", "content": "x"}]}),
    post("extract no object", "extract", {"messages": ["x"]}),
    post("extract oversize", "extract", {"messages": [{"role": "user", "content": "x" * MIB}]}),
    post("reflect", "reflect", {"messages": SAID, "sessionId": "s1"}),
    Step("read a reflection", "GET", f"{B}/documents/read?path=reflections/s1.md"),
    search("search takes reflections for global", "outcome", filters={"scope": "global"}),
    post("reflect without a session", "reflect", {"messages": SAID}),
    post("reflect on an odd session", "reflect", {"messages": SAID, "sessionId": "../../x y"}),
    post("reflect on a hidden session", "reflect", {"messages": SAID, "sessionId": ".hidden"}),
    post("reflect no messages", "reflect", {}),
    post("consolidate", "consolidate", {}),
    Step("read the index", "GET", f"{B}/documents/read?path=memory/global/MEMORY.md"),
    Step("read a stale note", "GET", f"{B}/documents/read?path=memory/global/old.md"),
    post("consolidate again", "consolidate", {}),
    Step("consolidate with no body", "POST", f"{B}/consolidate"),
    Step("consolidate with no JSON", "POST", f"{B}/consolidate", content=b"nope"),
    Step("consolidate oversize", "POST", f"{B}/consolidate", content=b"x" * 65537),
]
MODELS = [
    step
    for daemon in ("speaks", "cut", "fails", "prose")
    for step in (
        Step(f"create ({daemon})", "POST", "/v1/brains", json={"brainId": "b1"}, daemon=daemon),
        post(f"remember ({daemon})", "remember", {"note": "Otters sleep.", "slug": "o"}, daemon),
        post(f"ask ({daemon})", "ask", {"question": "otters"}, daemon),
        post(f"ask about nothing ({daemon})", "ask", {"question": "zebra"}, daemon),
        post(f"extract ({daemon})", "extract", {"messages": SAID, "sessionId": "s1"}, daemon),
        post(f"extract a preference ({daemon})", "extract", {"messages": LIKES}, daemon),
        post(f"reflect ({daemon})", "reflect", {"messages": SAID, "sessionId": "s1"}, daemon),
        Step(f"read a reflection ({daemon})", "GET", f"{B}/documents/read?path=reflections/s1.md", daemon=daemon),
        post(f"consolidate ({daemon})", "consolidate", {}, daemon),
    )
]
HEURISTICS = [
    Step("create (heuristics)", "POST", "/v1/brains", json={"brainId": "b1"}, daemon="heuristics"),
    post("reflect on heuristics", "reflect", {"messages": SAID, "sessionId": "s1"}, "heuristics"),
    Step("reflect on heuristics, then list", "GET", f"{B}/documents?recursive=1", daemon="heuristics"),
]
AUTH = [
    Step(f"{name} with {said}", method, path, headers=headers, daemon="token")
    for name, method, path in (
        ("health", "GET", "/healthz"),
        ("list", "GET", "/v1/brains"),
        ("unknown route", "GET", "/nope"),
    )
    for said, headers in (
        ("no token", {}),
        ("the token", {"authorization": f"Bearer {TOKEN}"}),
        ("a wrong token", {"authorization": "Bearer wrong"}),
        ("a small bearer", {"authorization": f"bearer {TOKEN}"}),
        ("an API key", {"x-api-key": TOKEN}),
    )
]
STEPS = [*SERVICE, *MISSING, *DOCUMENTS, *BATCHES, *FINDING, *INGEST, *STAGES, *MODELS, *HEURISTICS, *AUTH]
