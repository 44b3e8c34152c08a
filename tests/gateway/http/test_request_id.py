"""Every answer over HTTP has an id, by which its lines in the log are found; and every refusal has a line."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from gateway.http import refusal_log
from gateway.http.refusal_log import RefusalLog
from tests.gateway.http.auth.tokens import kept
from tests.served import Era, Served, messages_of, raw_call, serving

OWN = "6f1d2c3b-Root=1.a:b/c+d@e"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("tokens") / "tokens.json"
    reader = kept(file, name="reader", subject="ann", brain="main")
    writer = kept(file, name="writer", subject="ben", brain="main", scope="brains:write")
    return {"file": str(file), "reader": reader, "writer": writer}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, tokens: dict[str, str]) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("data")
    with serving(data, None, auth="tokens", tokens_file=Path(tokens["file"]), max_body=2048) as served:
        yield served


def asked(served: Served, path: str = "/mcp", method: str = "POST", **options: Any) -> httpx.Response:
    with httpx.Client(trust_env=False) as http:
        return http.request(method, f"{served.url}{path}", **options)


def call(token: str, tool: str, era: Era = "modern", headers: dict[str, str] | None = None, **arguments: Any) -> Any:
    made = raw_call(era, tool, arguments)
    made["headers"] |= {"authorization": f"Bearer {token}", **(headers or {})}
    return made


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_id_of_the_caller_is_in_the_answer_the_log_and_errors(
    served: Served, tokens: dict[str, str], era: Era
) -> None:
    with capture_logs() as lines:
        sent = call(tokens["writer"], "memory_search", era, {"x-request-id": OWN}, query="x", brain="another")
        answer = asked(served, **sent)
    assert answer.headers.get_list("x-request-id") == [OWN]
    assert messages_of(answer)[-1]["result"]["structuredContent"]["request_id"] == OWN
    (line,) = [line for line in lines if line["event"] == "call.served"]
    assert (line["request_id"], line["surface"], line["caller"]) == (OWN, "memory", "writer")
    assert line["client"] in Path(tokens["file"]).read_text()


def test_a_brain_goes_by_its_id_however_it_was_named(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served, capture_logs() as lines:
        listed = messages_of(asked(served, **raw_call("modern", "memory_list_brains", {})))[-1]["result"]
        brain_id = listed["structuredContent"]["items"][0]["id"]
        for path, named in [
            ("/mcp", {}),
            ("/mcp", {"brain": "main"}),
            ("/mcp", {"brain": brain_id}),
            ("/mcp/main", {}),
        ]:
            asked(served, path, **raw_call("modern", "memory_search", {"query": "x", **named}))
    assert [line["brain"] for line in lines if line.get("tool") == "memory_search"] == [brain_id] * 4


@pytest.mark.parametrize("own", ["", "two words", "a" * 129, "a\u00e9", "a;b", "<script>", "a,b"])
def test_an_id_that_is_not_well_formed_is_replaced(served: Served, own: str) -> None:
    answer = asked(served, "/healthz", "GET", headers={"x-request-id": own.encode("latin-1")})
    (ours,) = answer.headers.get_list("x-request-id")
    assert ours != own
    assert len(ours) == 16


def test_of_two_ids_none_is_believed(served: Served) -> None:
    answer = asked(served, "/healthz", "GET", headers=[("x-request-id", "one"), ("x-request-id", "two")])
    assert len(answer.headers["x-request-id"]) == 16


REFUSED: dict[str, tuple[int, str, dict[str, Any]]] = {
    "no token": (401, "no token", {"json": {}}),
    "a wrong token": (401, "unknown token", {"json": {}, "headers": {"authorization": "Bearer bgt_wrong"}}),
    "a page of elsewhere": (
        403,
        "the origin is not allowed: https://evil.example",
        {"json": {}, "headers": {"origin": "https://evil.example"}},
    ),
    "another name": (
        421,
        "the host name is not known: evil.example",
        {"json": {}, "headers": {"host": "evil.example"}},
    ),
    "nothing there": (404, "nothing is served at this path", {"path": "/nothing"}),
    "no token of the operator": (401, "not the token of the operator", {"path": "/metrics", "method": "GET"}),
    "another method": (405, "not a POST", {"method": "GET", "headers": {"authorization": "reader"}}),
    "a large body": (
        413,
        "The request body is larger than BRAINS_MAX_BODY.",
        {"content": b"x" * 4096, "headers": {"authorization": "reader"}},
    ),
    "no JSON": (400, "not a message of MCP", {"content": b"{", "headers": {"authorization": "reader"}}),
    "a scope that is missing": (
        403,
        "This needs the scope brains:write, which your token does not have. Use one with brains:read brains:write.",
        {"call": ("memory_remember", {"content": "x"})},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_one_line_with_its_reason_address_and_id(
    served: Served, tokens: dict[str, str], name: str
) -> None:
    status, reason, given = REFUSED[name]
    options = dict(given)
    if "call" in options:
        tool, arguments = options.pop("call")
        options |= call(tokens["reader"], tool, **arguments)
    headers = {**options.pop("headers", {}), "x-request-id": OWN}
    if headers.get("authorization") == "reader":
        headers["authorization"] = f"Bearer {tokens['reader']}"
    with capture_logs() as lines:
        answer = asked(served, **options, headers=headers)
    assert (answer.status_code, answer.headers["x-request-id"]) == (status, OWN)
    (line,) = [line for line in lines if line["event"] == "http.refused"]
    assert (line["status"], line["address"], line["request_id"]) == (status, "127.0.0.1", OWN)
    assert line["reason"] == reason
    assert line.get("caller") == (None if name in OF_NOBODY else "reader")


OF_NOBODY = {
    "no token",
    "a wrong token",
    "a page of elsewhere",
    "another name",
    "nothing there",
    "no token of the operator",
}


def test_calls_beyond_the_limit_have_lines_with_their_caller(tmp_path: Path, tokens: dict[str, str]) -> None:
    settings = {"auth": "tokens", "tokens_file": Path(tokens["file"]), "calls_per_second": 0.01}
    with serving(tmp_path, None, **settings) as served, capture_logs() as lines:
        statuses = [asked(served, **call(tokens["reader"], "memory_list_brains")).status_code for _ in range(5)]
    assert statuses == [200, 429, 429, 429, 429]
    refused = [line for line in lines if line["event"] == "http.refused"]
    assert [(line["status"], line["caller"]) for line in refused] == [(429, "reader")] * 4
    assert {line["reason"] for line in refused} == {"More than 0.01 calls a second. Slow down."}


async def test_what_is_no_http_is_refused_with_an_id_and_a_line(served: Served) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    with capture_logs() as lines:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"NONSENSE\r\n\r\n")
        head, _, body = (await asyncio.wait_for(reader.read(), 30)).partition(b"\r\n\r\n")
        writer.close()
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["code"] == "validation_error"
    (line,) = lines
    assert (line["event"], line["status"], line["address"]) == ("http.refused", 400, "127.0.0.1")
    assert f"x-request-id: {line['request_id']}".encode() in head


def test_callers_are_called_by_a_hash_if_that_is_set(tmp_path: Path, tokens: dict[str, str]) -> None:
    settings = {"auth": "tokens", "tokens_file": Path(tokens["file"]), "log_callers": "hash"}
    with serving(tmp_path, None, **settings) as served, capture_logs() as lines:
        asked(served, **call(tokens["reader"], "memory_list_brains"))
    # printf %s reader | sha256sum | cut -c1-16
    assert [line["caller"] for line in lines if line["event"] == "call.served"] == ["3d0941964aa3ebdc"]
    assert "reader" not in json.dumps(lines)


async def test_a_flood_leaves_few_lines_and_how_many_were_left_out() -> None:
    now = 0.0
    noted = RefusalLog(lambda: now)

    def flood(address: str, times: int) -> None:
        for _ in range(times):
            noted.note(401, "no token", address=address, request_id="r")

    with capture_logs() as lines:
        flood("192.0.2.1", 1000)
        flood("192.0.2.2", 1)
        assert [line["address"] for line in lines].count("192.0.2.1") == refusal_log.LINES_OF_ONE
        # Others are heard all the same.
        assert lines[-1]["address"] == "192.0.2.2"
        for n in range(1000):
            flood(f"198.51.100.{n}", 1)
        assert len(lines) == refusal_log.LINES
        now = refusal_log.SECONDS
        flood("192.0.2.1", 1)
    left, after = lines[-2:]
    assert left["event"] == "http.refusals_left_out"
    assert left["count"] == 2001 - refusal_log.LINES
    assert left["statuses"] == {"401": left["count"]}
    assert after["address"] == "192.0.2.1"


async def test_the_number_is_told_though_nobody_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal_log, "SECONDS", 0.05)
    noted = RefusalLog()
    with capture_logs() as lines:
        for _ in range(refusal_log.LINES_OF_ONE + 7):
            noted.note(429, "too many", address="192.0.2.1", request_id="r")
        assert noted._timer is not None
        due = noted._timer.when()
        # Our own timer comes after theirs.
        told = asyncio.Event()
        asyncio.get_running_loop().call_at(due + 0.01, told.set)
        await asyncio.wait_for(told.wait(), 30)
    assert (lines[-1]["event"], lines[-1]["count"]) == ("http.refusals_left_out", 7)
