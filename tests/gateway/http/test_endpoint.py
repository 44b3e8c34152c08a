"""The endpoint as HTTP: paths, headers, caps, who may call, and what the wire carries."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastmcp.client.client import CallToolResult
from fastmcp.server.middleware import Middleware, MiddlewareContext

from gateway.app.gateway import Gateway
from gateway.config.settings import load
from gateway.http.endpoint import Door, HttpOptions, Mount, endpoint
from gateway.surfaces.memory.surface import Memory
from tests.gateway.conftest import code_of, structured
from tests.served import Era, Served, listening, messages_of, raw_call, serving

ERAS: tuple[Era, ...] = ("modern", "legacy")


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60) as client:
        yield client


def outcome(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    return dict(messages_of(response)[-1]["result"])


def new_brain(http: httpx.Client, served: Served) -> str:
    call = raw_call("modern", "memory_create_brain", {"name": f"Test {uuid4()}"})
    return str(outcome(http.post(served.url + "/mcp", **call))["structuredContent"]["id"])


@pytest.mark.parametrize("era", ERAS)
async def test_a_brain_in_the_path_is_a_ceiling(served: Served, era: Era) -> None:
    async with served.over_http(era) as client:
        own = structured(await client.call_tool("memory_create_brain", {"name": f"Own {uuid4()}"}))
    async with served.over_http(era, f"/mcp/{own['slug']}") as client:

        async def call(tool: str, **arguments: Any) -> CallToolResult:
            result: CallToolResult = await client.call_tool(tool, arguments, raise_on_error=False)
            return result

        stored = structured(await call("memory_remember", content="below the ceiling"))
        assert stored["brain_id"] == own["id"]
        assert len(structured(await call("memory_search", query="ceiling", brain=own["id"]))["hits"]) == 1
        assert code_of(await call("memory_search", query="x", brain="main")) == "forbidden"
        assert code_of(await call("memory_create_brain", name="x")) == "forbidden"
        assert [b["id"] for b in structured(await call("memory_list_brains"))["items"]] == [own["id"]]


@pytest.mark.parametrize("bad", ["..", "%2e%2e", "a%2Fb", "a%00b", "a b", "%C3%A4", "-rf", "x" * 129])
def test_a_bad_brain_in_the_path_is_refused(served: Served, http: httpx.Client, bad: str) -> None:
    url = httpx.URL(served.url).copy_with(raw_path=f"/mcp/{bad}".encode())
    response = http.post(url, **raw_call("modern", "memory_search", {"query": "x"}))
    assert response.status_code == 404 or outcome(response)["structuredContent"]["code"] == "validation_error"


@pytest.mark.parametrize("era", ERAS)
def test_the_brain_header_yields_to_the_argument(served: Served, http: httpx.Client, era: Era) -> None:
    brain, other = new_brain(http, served), new_brain(http, served)

    def searched(header: str, **arguments: Any) -> dict[str, Any]:
        call = raw_call(era, "memory_search", {"query": "x", **arguments})
        call["headers"]["x-brain"] = header
        return dict(outcome(http.post(served.url + "/mcp", **call))["structuredContent"])

    assert searched(brain)["brain_id"] == brain
    assert searched(brain, brain=other)["brain_id"] == other
    assert searched("../x")["code"] == "validation_error"


def test_the_configured_brain_is_used_when_none_is_named(tmp_path: Any, http: httpx.Client) -> None:
    with serving(tmp_path, None, default_brain="second") as served:
        call = raw_call("modern", "memory_create_brain", {"name": "Second"})
        second = outcome(http.post(served.url + "/mcp", **call))["structuredContent"]["id"]
        call = raw_call("modern", "memory_search", {"query": "x"})
        assert outcome(http.post(served.url + "/mcp", **call))["structuredContent"]["brain_id"] == second


def test_without_a_choice_the_first_brain_is_used_and_named(tmp_path: Any, http: httpx.Client) -> None:
    with serving(tmp_path, None) as served:
        search = raw_call("modern", "memory_search", {"query": "x"})
        assert outcome(http.post(served.url + "/mcp", **search))["content"][0]["text"] == "Nothing found."
        outcome(http.post(served.url + "/mcp", **raw_call("modern", "memory_create_brain", {"name": "Second"})))
        text = outcome(http.post(served.url + "/mcp", **search))["content"][0]["text"]
        assert text == "Nothing found.\nbrain: main (the first of 2; pass `brain` to choose another)"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("letter", ["x", "é", "😀"])
@pytest.mark.slow
@pytest.mark.few(2)
def test_a_memory_of_five_million_characters_passes(served: Served, http: httpx.Client, era: Era, letter: str) -> None:
    content = "# Large\n\n" + letter * 4_999_991
    brain = new_brain(http, served)
    request = raw_call(era, "memory_remember", {"content": content, "brain": brain})
    # As a client that escapes everything would send it; but for emoji, which take twelve bytes so, it is too much.
    body = json.dumps(request.pop("json"), ensure_ascii=letter != "😀").encode()
    request["headers"]["content-type"] = "application/json"
    stored = outcome(http.post(served.url + "/mcp", content=body, **request))
    assert stored["structuredContent"]["byte_size"] == len(content.encode())


@pytest.mark.parametrize("era", ERAS)
def test_a_body_over_the_cap_is_refused_and_the_server_stays_up(tmp_path: Any, http: httpx.Client, era: Era) -> None:
    with serving(tmp_path, None, max_body=100_000) as served:
        response = http.post(served.url + "/mcp", **raw_call(era, "memory_remember", {"content": "x" * 100_000}))
        assert response.status_code == 413
        assert not outcome(http.post(served.url + "/mcp", **raw_call(era, "memory_list_brains", {})))["isError"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("host", "evil.example", 421),
        ("host", "evil.example:8787", 421),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        # Another server on this machine is a stranger too.
        ("origin", "http://localhost:3000", 403),
        ("origin", "http://127.0.0.1:1", 403),
        ("origin", "http://[::1]:6274", 403),
        ("origin", "https://127.0.0.1", 403),
    ],
)
def test_foreign_hosts_and_origins_are_refused(
    served: Served, http: httpx.Client, era: Era, header: str, value: str, status: int
) -> None:
    call = raw_call(era, "memory_list_brains", {})
    call["headers"][header] = value
    assert http.post(served.url + "/mcp", **call).status_code == status


def test_the_gateways_own_origin_passes(served: Served, http: httpx.Client) -> None:
    call = raw_call("modern", "memory_list_brains", {})
    call["headers"]["origin"] = served.url
    assert not outcome(http.post(served.url + "/mcp", **call))["isError"]


@pytest.mark.parametrize("origin", ["http://localhost:6274", "https://app.example"])
def test_an_origin_that_is_listed_passes(tmp_path: Any, http: httpx.Client, origin: str) -> None:
    with serving(tmp_path, None, allowed_origins=(origin,)) as served:
        call = raw_call("modern", "memory_list_brains", {})
        call["headers"]["origin"] = origin
        assert not outcome(http.post(served.url + "/mcp", **call))["isError"]


def test_allowed_hosts_and_origins_pass(tmp_path: Any, http: httpx.Client) -> None:
    names = {"allowed_hosts": ("brains.example",), "allowed_origins": ("https://app.example",)}
    with serving(tmp_path, None, **names) as served:
        call = raw_call("modern", "memory_list_brains", {})
        call["headers"] |= {"host": "brains.example", "origin": "https://app.example"}
        assert not outcome(http.post(served.url + "/mcp", **call))["isError"]


@pytest.mark.parametrize("era", ERAS)
def test_a_configured_token_is_required_of_callers(tmp_path: Any, http: httpx.Client, era: Era) -> None:
    with serving(tmp_path, None, token="correct-horse") as served:

        def status(**headers: str) -> int:
            call = raw_call(era, "memory_list_brains", {})
            call["headers"] |= headers
            return http.post(served.url + "/mcp", **call).status_code

        assert status() == 401
        assert status(authorization="Bearer wrong") == 401
        assert status(authorization="correct-horse") == 401
        assert status(authorization="Bearer correct-horse") == 200
        assert http.post(served.url + "/mcp/main", **raw_call(era, "memory_list_brains", {})).status_code == 401
        assert http.get(served.url + "/healthz").json() == {"ok": True}


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code", "fix"),
    [
        ("POST", "/mcp", {}, 401, "unauthorized", "BRAINS_TOKEN"),
        ("POST", "/mcp", {"authorization": "Bearer wrong"}, 401, "unauthorized", "BRAINS_TOKEN"),
        ("POST", "/mcp", {"host": "evil.example"}, 421, "forbidden", "BRAINS_ALLOWED_HOSTS"),
        ("POST", "/mcp", {"origin": "https://evil.example"}, 403, "forbidden", "BRAINS_ALLOWED_ORIGINS"),
        ("POST", "/", {}, 404, "not_found", "/mcp"),
        ("GET", "/nosuch", {}, 404, "not_found", "/mcp"),
        ("GET", "/mcp", {"authorization": "Bearer right"}, 405, "validation_error", "POST"),
        ("POST", "/mcp", {"authorization": "Bearer right"}, 413, "payload_too_large", "BRAINS_MAX_BODY"),
    ],
)
def test_refusals_of_http_say_what_to_do(
    tmp_path: Any, http: httpx.Client, method: str, path: str, headers: dict[str, str], status: int, code: str, fix: str
) -> None:
    with serving(tmp_path, None, token="right", max_body=2000) as served:
        call = raw_call("modern", "memory_search", {"query": "x" * 2000})
        call["headers"] |= headers
        response = http.request(method, served.url + path, **call)
        assert response.status_code == status
        assert set(response.json()) == {"code", "message", "retryable"}
        assert response.json()["code"] == code
        assert fix in response.json()["message"]


def test_a_brain_in_the_path_that_does_not_exist_is_said_to_be_in_the_url(served: Served, http: httpx.Client) -> None:
    listed = outcome(http.post(served.url + "/mcp/no-such-brain", **raw_call("modern", "memory_list_brains", {})))
    assert listed["structuredContent"]["code"] == "no_brain"
    assert listed["content"][0]["text"].startswith("no_brain: The URL names a brain that does not exist")


def test_a_refused_token_is_not_told_to_register_anew(tmp_path: Any, http: httpx.Client) -> None:
    with serving(tmp_path, None, token="right") as served:
        call = raw_call("modern", "memory_list_brains", {})
        call["headers"]["authorization"] = "Bearer wrong"
        challenge = http.post(served.url + "/mcp", **call).headers["www-authenticate"]
    assert challenge == 'Bearer error="invalid_token", scope="brains:read"'


def test_mcps_own_refusals_pass_as_they_are(served: Served, http: httpx.Client) -> None:
    call = raw_call("modern", "x", {})
    call["json"]["method"] = call["headers"]["mcp-method"] = "no/such/method"
    response = http.post(served.url + "/mcp", **call)
    assert (response.status_code, response.json()["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize("padded", ["mcp-name", "mcp-method", "mcp-protocol-version"])
def test_space_around_a_header_is_no_part_of_it(served: Served, padded: str) -> None:
    call = raw_call("modern", "memory_list_brains", {})
    headers = {**call["headers"], "content-type": "application/json"}
    headers[padded] = f"  {headers[padded]} \t"
    # httpx would not send it.
    connection = HTTPConnection(httpx.URL(served.url).netloc.decode(), timeout=60)
    try:
        connection.request("POST", "/mcp", json.dumps(call["json"]), headers)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["result"]["isError"]) == (200, False)
    finally:
        connection.close()


def test_there_is_no_session_and_no_stream_to_get(served: Served, http: httpx.Client) -> None:
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    response = http.post(served.url + "/mcp", json=initialize, headers=raw_call("legacy", "x", {})["headers"])
    assert response.status_code == 200
    assert "mcp-session-id" not in response.headers
    for method in ("GET", "DELETE", "PUT"):
        for path in ("/mcp", "/kv/mcp/main"):
            refused = http.request(method, served.url + path, headers={"accept": "text/event-stream"})
            assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_where_nothing_is_it_is_said_where_mcp_is(tmp_path: Any, http: httpx.Client) -> None:
    with serving(tmp_path, None, surfaces=("memory", "team")) as served:
        for path in ("/", "/kv/mcp", "/nosuch/mcp/main"):
            refused = http.post(served.url + path, **raw_call("modern", "memory_list_brains", {}))
            assert refused.status_code == 404
            assert refused.json()["message"] == (
                "There is nothing here. MCP is served at /mcp and /<surface>/mcp, each also with /<brain> behind it; "
                "surfaces: memory, team."
            )


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("token", ["b7f2a5d2-9b1c", 7, ""], ids=repr)
def test_progress_is_integers_from_zero_with_the_callers_token(
    served: Served, http: httpx.Client, era: Era, token: str | int
) -> None:
    brain = new_brain(http, served)
    remember = {"content": "Otters sleep holding hands so that they do not drift apart.", "brain": brain}
    outcome(http.post(served.url + "/mcp", **raw_call(era, "memory_remember", remember)))
    call = raw_call(era, "memory_ask", {"query": "How do otters sleep?", "brain": brain}, token)
    *notes, final = messages_of(http.post(served.url + "/mcp", **call))

    assert len(notes) > 1
    assert {note["method"] for note in notes} == {"notifications/progress"}
    assert [note["params"]["progress"] for note in notes] == list(range(len(notes)))
    assert all(type(note["params"]["progress"]) is int for note in notes)
    assert all(note["params"]["progressToken"] == token for note in notes)
    assert all(type(note["params"]["progressToken"]) is type(token) for note in notes)
    assert not any("total" in note["params"] for note in notes)
    answer = final["result"]["structuredContent"]["answer"]
    assert "".join(note["params"]["message"] for note in notes) == answer


TOKEN_ERROR = {"code": -32602, "message": "progressToken must have at most 256 characters."}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("token", ["x" * 257, int("1" + "0" * 256)], ids=["text", "number"])
def test_a_progress_token_that_is_too_long_is_refused(
    served: Served, http: httpx.Client, era: Era, token: str | int
) -> None:
    call = raw_call(era, "memory_ask", {"query": "How do otters sleep?"}, token)
    (only,) = messages_of(http.post(served.url + "/mcp", **call))
    assert only["error"] == TOKEN_ERROR
    fitting = raw_call(era, "memory_list_brains", {}, str(token)[1:])
    assert not outcome(http.post(served.url + "/mcp", **fitting))["isError"]


def test_a_slash_at_the_end_means_nothing(served: Served, http: httpx.Client) -> None:
    brain = new_brain(http, served)
    call = raw_call("modern", "memory_search", {"query": "x"})
    for path in (f"/mcp/{brain}", f"/mcp/{brain}/", f"/memory/mcp/{brain}/"):
        assert outcome(http.post(served.url + path, **call))["structuredContent"]["brain_id"] == brain
    assert not outcome(http.post(served.url + "/mcp/", **call))["isError"]


@pytest.mark.parametrize("era", ERAS)
def test_nothing_but_an_asked_for_answer_sends_progress(served: Served, http: httpx.Client, era: Era) -> None:
    brain = new_brain(http, served)
    content = "Otters sleep holding hands."
    calls = [
        ("memory_remember", {"content": content}, "t"),
        ("memory_search", {"query": "otters"}, "t"),
        ("memory_consolidate", {}, "t"),
        ("memory_reflect", {"session_id": "s"}, "t"),
        ("memory_ask", {"query": "How do otters sleep?"}, None),
    ]
    for tool, arguments, token in calls:
        request = raw_call(era, tool, {**arguments, "brain": brain}, token)
        (only,) = messages_of(http.post(served.url + "/mcp", **request))
        assert only["result"]["isError"] is False, tool


class Spy(Middleware):
    """Notes which methods reach the server."""

    def __init__(self) -> None:
        self.methods: list[str | None] = []

    async def on_request(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        self.methods.append(context.method)
        return await call_next(context)


def test_a_call_is_not_preceded_by_a_hidden_listing(tmp_path: Any, http: httpx.Client) -> None:
    spy = Spy()
    gateway = Gateway(load(data_dir=tmp_path), roots=None)
    mcp = gateway.server(Memory(gateway.brain))
    mcp.add_middleware(spy)
    with listening(endpoint({"memory": Mount(mcp)}, gateway.running, HttpOptions(max_body=1_000_000), Door())) as url:
        outcome(http.post(url + "/mcp", **raw_call("modern", "memory_search", {"query": "x", "brain": "main"})))
    # The call itself goes straight to its tool; a listing would pass here.
    assert spy.methods == []
