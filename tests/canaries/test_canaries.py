"""Secrets go in by every way there is, and none comes out in a log, in an error or in anybody else's answer."""

import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.cli import key
from gateway.config.reread_file import replace_file
from gateway.config.token_file import PREFIX, Record, digest
from gateway.http.auth.tokens import ISSUER
from gateway.operations import names, scopes
from gateway.operations.caller import Principal
from tests.canaries.crashing import CRASH, HEADER
from tests.canaries.hosted import EVERYTHING
from tests.canaries.processes import Process, running
from tests.canaries.world import (
    AUDIENCE,
    FILE_NAME,
    PLATFORM_AUDIENCE,
    PUBLIC_URL,
    Agent,
    Issuer,
    Recording,
    ToolCall,
    every_tool,
    issuing,
    recorded_platform,
)
from tests.served import LEGACY_HEADERS, MODERN_HEADERS, Era, raw_call

ERAS: list[Era] = ["modern", "legacy"]
CANARIES = {
    "API token": f"{PREFIX}zqApiToken0000000000000000000000000000000000",
    "one token": "zqOneTokenThatIsLongEnough",
    "opaque token": "zqOpaqueToken",
    "wrong token": "zqWrongToken",
    "upstream token": "zqUpstreamToken",
    "internal key": "zqInternalKey",
    "email": "zqada@mail.example",
    "name": "zqAdaLovelace",
    "subject": "zqSubjectOfAda",
    "content": "zqcontent",
    "query": "zqquery",
    "file content": "zqfilecontent",
    "file path": "zqfilepath",
    "password in a URL": "zqpassword",
    "model key": "sk-zqModelKey",
    "cookie": "zqCookie",
    "words of the platform": "zqPlatformSays",
}
# What a caller may find in an answer to their own call that succeeded.
THEIR_OWN = {"content", "query", "file content"}


@dataclass
class Run:
    """One gateway, those who call it, and what was said."""

    process: Process
    platform: Recording
    http: httpx.Client
    secrets: dict[str, str]
    tokens: dict[str, str | None]
    own: list[str] = field(default_factory=list)
    """Answers to calls of the first caller's that succeeded."""
    others: list[str] = field(default_factory=list)
    """Errors, and everything that the second caller got."""

    def agent(self, name: str, era: Era) -> Agent:
        return Agent(self.http, self.process.url, self.tokens[name], era)

    def call(self, call: ToolCall, era: Era, name: str = "ada", **headers: str) -> httpx.Response:
        answer = self.agent(name, era).post(call, **headers)
        is_good = answer.status_code == 200 and '"isError":true' not in answer.text
        (self.own if is_good and name == "ada" else self.others).append(f"{answer.headers}\n{answer.text}")
        return answer

    def leaks(self) -> list[str]:
        """Which of the secrets was found, and in what."""
        credentials = {name: value for name, value in self.secrets.items() if name not in THEIR_OWN}
        searched = [(text, self.secrets) for text in (*self.process.said().splitlines(), *self.others)]
        searched += [(text, credentials) for text in self.own]
        return [f"{name}: {text}" for text, secrets in searched for name, value in secrets.items() if value in text]


MODES = {
    "nobody is asked, static": ("none", "static", "json", "platform"),
    "one token, static": ("one", "static", "text", "daemon"),
    "tokens, internal": ("tokens", "internal", "json", "daemon"),
    "tokens, static for one tenant": ("tokens", "static", "text", "platform"),
    "jwt, internal": ("jwt", "internal", "text", "platform"),
    "jwt, passthrough": ("jwt", "passthrough", "json", "platform"),
    "anybody, passthrough": ("none", "passthrough", "text", "daemon"),
}


def settings_of(inbound: str, outbound: str, directory: Path, issuer: Issuer) -> dict[str, str]:
    ways_in = {
        "none": {},
        "one": {"BRAINS_TOKEN": CANARIES["one token"]},
        "tokens": {"BRAINS_AUTH": "tokens", "BRAINS_TOKENS_FILE": str(directory / "tokens.json")},
        "jwt": {"BRAINS_AUTH": "jwt", "BRAINS_AUTH_ISSUER": issuer.url},
    }
    ways_out = {
        "static": {"BRAINS_UPSTREAM_TOKEN": CANARIES["upstream token"], "BRAINS_SINGLE_TENANT": "true"},
        "passthrough": {"BRAINS_UPSTREAM_AUTH": "passthrough", "BRAINS_UPSTREAM_AUDIENCE": AUDIENCE},
        "internal": {
            "BRAINS_UPSTREAM_AUTH": "internal",
            "BRAINS_UPSTREAM_AUDIENCE": PLATFORM_AUDIENCE,
            "BRAINS_SIGNING_KEYS_FILE": str(directory / "keys.json"),
            "BRAINS_INTERNAL_KEY_FILE": str(directory / "internal-key"),
        },
    }
    # Where nobody is asked for a token there is no public address either: it would not start.
    public = {} if inbound == "none" else {"BRAINS_PUBLIC_URL": PUBLIC_URL}
    return {**public, **ways_in[inbound], **ways_out[outbound]}


def tokens_for(inbound: str, outbound: str, directory: Path, issuer: Issuer) -> dict[str, str | None]:
    """A token for each of the two; ada's has a secret in all that she has a say in."""
    if inbound == "jwt":
        who: dict[str, Any] = {"email": CANARIES["email"], "name": CANARIES["name"], "projects": ["p-1"]}
        return {"ada": issuer.token(CANARIES["subject"], EVERYTHING, **who), "bob": issuer.token("bob", scopes.READ)}
    if inbound == "tokens":
        made = {"ada": CANARIES["API token"], "bob": f"{PREFIX}bob"}
        records = [
            Record.model_validate(
                {"id": name, "sha256": digest(token), "name": name, "subject": subject, "scope": scope}
                | {"created": "2026-01-01T00:00:00Z"}
            )
            for (name, token), subject, scope in zip(
                made.items(), (CANARIES["subject"], "bob"), (scopes.ADMIN, scopes.READ), strict=True
            )
        ]
        body = {"tokens": [record.model_dump(mode="json") for record in records]}
        replace_file(directory / "tokens.json", json.dumps(body).encode())
        return dict(made)
    if inbound == "one":
        return {"ada": CANARIES["one token"], "bob": CANARIES["one token"]}
    return {"ada": CANARIES["opaque token"], "bob": "token-of-bob" if outbound == "passthrough" else None}


def give_files(directory: Path, issuer: Issuer) -> None:
    """The same file for all the ways in which ada may be told from others."""
    root = directory / "files"
    subject = CANARIES["subject"]
    opaque = Principal("brains-gateway:any", digest(CANARIES["opaque token"]))
    callers = [Principal(issuer.url, subject), Principal(ISSUER, subject, "ada"), opaque]
    for place in (root, *(root / names.caller_name(caller.partition) for caller in callers)):
        place.mkdir()
        (place / FILE_NAME).write_text(f"It says {CANARIES['file content']}.\n", encoding="utf-8")


@contextmanager
def gateway(directory: Path, mode: str) -> Iterator[Run]:
    inbound, outbound, format_, dialect = MODES[mode]
    with ExitStack() as stack:
        issuer = stack.enter_context(issuing())
        platform = stack.enter_context(recorded_platform(dialect, directory, "others"))
        key.create_keys(directory / "keys.json", "ES256")
        replace_file(directory / "internal-key", CANARIES["internal key"].encode())
        tokens = tokens_for(inbound, outbound, directory, issuer)
        give_files(directory, issuer)
        settings = {
            "BRAINS_UPSTREAM_URL": platform.url,
            "BRAINS_DATA_DIR": str(directory / "data"),
            "BRAINS_INGEST_ROOTS": str(directory / "files"),
            "BRAINS_LOG_LEVEL": "debug",
            "BRAINS_LOG_FORMAT": format_,
            "BRAINS_LOG_CALLERS": "hash",
            "BRAINS_FIRST_EVENT_SECONDS": "2",
            "BRAINS_READ_SECONDS": "2",
            "BRAINS_CALLS_PER_SECOND": "1000",
            **settings_of(inbound, outbound, directory, issuer),
        }
        if platform.pages:
            settings["TEST_PAGES"] = platform.pages
        process = Process(settings, directory / "stderr.txt", "tests.canaries.crashing")
        stack.enter_context(running(process))
        http = stack.enter_context(httpx.Client(trust_env=False, timeout=30))
        yield Run(process, platform, http, secrets_of(directory, tokens["ada"]), tokens)


def secrets_of(directory: Path, token: str | None) -> dict[str, str]:
    private = {
        f"private part {n}": entry["d"]
        for n, entry in enumerate(json.loads((directory / "keys.json").read_bytes())["keys"])
    }
    # Of an access token each part: the last one is what makes it good, the one before says who it is.
    parts = {f"access token, part {n}": part for n, part in enumerate(str(token).split(".")) if n and len(part) > 20}
    hidden = {f"{name}, in base64": base64.b64encode(value.encode()).decode() for name, value in CANARIES.items()}
    return CANARIES | private | parts | hidden


def succeed(run: Run, era: Era) -> None:
    headers = {"x-llm-api-key": CANARIES["model key"], "cookie": f"sid={CANARIES['cookie']}"}
    for call in [*every_tool(f"{CANARIES['content']} {era}"), *every_tool(f"{CANARIES['query']} {era}")]:
        answer = run.call(call, era, **headers)
        # Where others have written to the brain before, consolidating it is refused.
        assert '"isError":true' not in answer.text or "would mix them with yours" in answer.text, (call, answer.text)


def be_refused(run: Run, era: Era) -> None:
    content, query, path = CANARIES["content"], CANARIES["query"], CANARIES["file path"]
    refused = [
        ToolCall("memory_search", "", {"query": query, "top_k": content}),
        ToolCall("memory_search", "", {"query": [query]}),
        ToolCall("memory_search", "", {"query": query * 1000}),
        ToolCall("memory_search", "", {"query": query, "brain": "not-here"}),
        ToolCall("memory_search", "", {"query": query, "scope": content}),
        ToolCall("memory_remember", "", {"content": content, "path": "../up.md"}),
        ToolCall("memory_remember", "", {"content": content, "title": 1}),
        ToolCall("memory_remember", "", {"content": content, "tags": [content * 50]}),
        ToolCall("memory_extract", "", {"messages": [{"role": content, "content": content}]}),
        ToolCall("memory_reflect", "", {"session_id": f"../{path}"}),
        ToolCall("memory_ingest_file", "", {"path": f"/etc/{path}"}),
        ToolCall("memory_ingest_file", "", {"path": f"../{path}"}),
        ToolCall("memory_ingest_file", "", {"path": path}),
        ToolCall("memory_ingest_url", "", {"url": f"http://me:{CANARIES['password in a URL']}@93.184.216.34/"}),
        ToolCall("memory_ingest_url", "", {"url": f"http://127.0.0.1/{CANARIES['password in a URL']}"}),
        ToolCall("memory_ingest_url", "", {"url": f"gopher://me:{CANARIES['password in a URL']}@a.example"}),
    ]
    for call in refused:
        answer = run.call(call, era)
        assert answer.status_code >= 400 or '"isError":true' in answer.text or '"error"' in answer.text, call
    run.call(refused[0], era, **{"x-project": content, "x-brain": f"{query}/.."})
    stranger = Agent(run.http, run.process.url, CANARIES["wrong token"], era)
    for call in every_tool(content):
        answer = stranger.post(call)
        if answer.status_code == 401:
            run.others.append(f"{answer.headers}\n{answer.text}")
    for said in (f"Basic {CANARIES['wrong token']}", f"Bearer {CANARIES['wrong token']} {CANARIES['wrong token']}"):
        answer = run.http.post(run.process.url + "/mcp", json={}, headers={"authorization": said})
        run.others.append(f"{answer.headers}\n{answer.text}")
    for body in (content.encode(), f'{{"jsonrpc": "{content}"}}'.encode(), f'["{content}"'.encode()):
        headers = (MODERN_HEADERS if era == "modern" else LEGACY_HEADERS) | {"content-type": "application/json"}
        token = {"authorization": f"Bearer {run.tokens['ada']}"}
        answer = run.http.post(run.process.url + "/mcp", content=body, headers=headers | token)
        assert answer.status_code >= 400


async def _echo(request: Request) -> Response:
    """A failure that says all it was sent, as debug pages do."""
    sent = {"headers": dict(request.headers), "body": (await request.body()).decode("utf-8", "replace")}
    detail = f"{CANARIES['words of the platform']} {json.dumps(sent)}"
    status = int(request.scope["status"])
    problem = {"status": status, "title": detail, "detail": detail, "code": "internal_error", "message": detail}
    return JSONResponse(problem, status, media_type="application/problem+json")


def echoing(status: int) -> Any:
    app = Starlette(routes=[Route("/{path:path}", _echo, methods=["GET", "POST", "PUT", "DELETE", "HEAD"])])

    async def served(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "status": status}, receive, send)

    return served


async def broken_stream(scope: Scope, receive: Receive, send: Send) -> None:
    """A stream whose error says with which credential it was asked for: in words, and as a debugger shows it."""
    headers = Request(scope).headers
    words = " and ".join(f"{name} {headers[name]}" for name in ("authorization", "x-internal-key") if name in headers)
    said = f"The model refused {words}. {json.dumps(dict(headers))}"
    error = json.dumps({"type": "error", "code": "llm_failed", "message": said})
    body = f'event: answer_delta\ndata: {{"type":"answer_delta","delta":"A word"}}\n\nevent: error\ndata: {error}\n\n'
    await Response(body, media_type="text/event-stream")(scope, receive, send)


def fail_upstream(run: Run, era: Era) -> None:
    said = CANARIES["words of the platform"]
    failures: list[Any] = [
        *(echoing(status) for status in (400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503)),
        RedirectResponse(f"http://127.0.0.1:9/{said}"),
        Response(said, media_type="text/html"),
        Response(json.dumps(said), media_type="application/json"),
        Response(f'{{"items": "{said}", "hits": ["{said}"]', media_type="application/json"),
        broken_stream,
    ]
    calls = every_tool(f"{CANARIES['content']} again")
    # Half of them on either wire: what a platform says does not know of wires.
    for n, failure in list(enumerate(failures))[ERAS.index(era) :: 2]:
        run.platform.answer_with = failure
        # An answer, and another tool for each failure.
        run.call(calls[3], era)
        run.call(calls[n % len(calls)], era)
    run.platform.answer_with = None


def crash(run: Run, era: Era) -> None:
    words = f"{CRASH} {CANARIES['query']} {CANARIES['content']}"
    for call in every_tool(words):
        if call.tool in {"memory_search", "memory_recall", "memory_remember", "memory_extract"}:
            answer = run.call(call, era)
            assert "The gateway failed; its log says why." in answer.text
    answer = run.call(every_tool()[1], era, **{HEADER: "1", "x-llm-api-key": CANARIES["model key"]})
    assert answer.status_code == 500


def look_around(run: Run, era: Era) -> None:
    """What somebody else sees, also while things go wrong."""
    agent, mark = run.agent("bob", era), "kingfisher"
    token = {} if agent.token is None else {"authorization": f"Bearer {agent.token}"}
    for call in every_tool(mark):
        request = raw_call(era, call.tool, call.arguments)
        request["headers"] |= token
        answer = run.http.post(run.process.url + ("/mcp/others" if call.is_on_a_brain else "/mcp"), **request)
        run.others.append(f"{answer.headers}\n{answer.text}")
    for path in ("/healthz", "/readyz", "/.well-known/jwks.json", "/.well-known/oauth-protected-resource", "/nowhere"):
        answer = run.http.get(run.process.url + path)
        run.others.append(f"{answer.headers}\n{answer.text}")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.slow
def test_no_secret_is_in_a_log_an_error_or_anybody_elses_answer(tmp_path: Path, mode: str) -> None:
    with gateway(tmp_path, mode) as run:
        for era in ERAS:
            succeed(run, era)
            look_around(run, era)
            be_refused(run, era)
            fail_upstream(run, era)
            crash(run, era)
            look_around(run, era)
    said = run.process.said()
    # That there was something to search: calls of each kind, and bugs with their places.
    for status in ("ok", "validation_error", "crashed", "upstream_error"):
        assert status in said
    assert "crashing.py" in said
    assert len(run.own) >= 46
    assert len(run.others) >= 130
    assert run.leaks() == []
