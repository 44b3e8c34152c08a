"""What is answered before the server is there is what the server would say, to the byte; all else is the server's."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway import __version__
from gateway.app.gateway import Gateway
from gateway.cli.early_answers import LIBRARIES, RECORDED, EarlyAnswers, early_answers, versions
from gateway.config.settings import load
from gateway.surfaces.catalog import SURFACES
from tests.recorded import CLIENT, HANDSHAKES, INITIALIZED, LISTS, META, initialize, request

ROOT = Path(__file__).parents[3]
ENVELOPE = "io.modelcontextprotocol/"
STALE = "run python -m tests.recorded"
Real = Callable[..., list[bytes]]


def recorded(surface: str = "memory") -> dict[str, Any]:
    """As if it were of the versions that are installed."""
    text = (RECORDED / f"{surface}.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def lines(*messages: Any) -> list[bytes]:
    return [m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages]


def early(*messages: Any, surface: str = "memory") -> list[bytes]:
    """The answers to those that are taken, up to the first that is not."""
    answers, said = EarlyAnswers(recorded(surface)), []
    for line in lines(*messages):
        if (taken := answers.take(line)) is None:
            break
        said.append(taken.answer)
    return said


def modern(number: int | str, method: str, **meta: Any) -> dict[str, Any]:
    return request(number, method, {"_meta": META | meta})


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Real:
    """What the server itself says, one answer to each message that is not a notification."""
    gateway = Gateway(load(data_dir=tmp_path), roots=(tmp_path,))

    async def talk(said: list[bytes], surface: str, to_server: BinaryIO, from_server: BinaryIO) -> list[bytes]:
        server = gateway.server(gateway.surface(surface))
        serving = asyncio.create_task(server.run_stdio_async(show_banner=False))
        answers = []
        for line in said:
            await asyncio.to_thread(to_server.write, line)
            await asyncio.to_thread(to_server.flush)
            is_notification = line == lines(INITIALIZED)[0]
            answers.append(b"" if is_notification else await asyncio.to_thread(from_server.readline))
        to_server.close()
        await serving
        return answers

    def told(*messages: Any, surface: str = "memory") -> list[bytes]:
        (stdin, to_server), (from_server, stdout) = os.pipe(), os.pipe()
        with (
            monkeypatch.context() as patch,
            open(stdin, encoding="utf-8") as its_input,
            open(stdout, "w", encoding="utf-8") as its_output,
            open(to_server, "wb") as asking,
            open(from_server, "rb") as answered,
        ):
            patch.setattr(sys, "stdin", its_input)
            patch.setattr(sys, "stdout", its_output)
            return asyncio.run(talk(lines(*messages), surface, asking, answered))

    return told


HANDSHAKE = (initialize(0, "2025-11-25"), INITIALIZED)
# A conversation -> how many of its messages are answered before the server is there.
CONVERSATIONS: dict[str, tuple[list[Any], int]] = {
    **{
        f"handshake of {version}": ([initialize(7, version), INITIALIZED, request(8, "tools/list")], 3)
        for version in (*HANDSHAKES, "2026-07-28", "1999-01-01", "")
    },
    "all that is recorded": ([*HANDSHAKE, *(request(n, method) for n, method in enumerate((*LISTS, "ping")))], 7),
    "all that is recorded of the newer": (
        [modern(n, method) for n, method in enumerate(("server/discover", *LISTS))],
        5,
    ),
    "ids and tokens": (
        [
            initialize("1", "2025-06-18"),
            request("8f-0_ x", "tools/list", {}),
            request(-3, "tools/list", {"_meta": {"progressToken": "t"}}),
            request(2**53 - 1, "ping", {"_meta": {"progressToken": 5}}),
        ],
        4,
    ),
    "a probe, then a handshake": ([modern(1, "server/discover"), *HANDSHAKE, request(2, "tools/list")], 4),
    "a client that chose": ([modern(1, "server/discover"), modern(2, "tools/list"), HANDSHAKE[0]], 2),
    "an envelope without a name": (
        [request(1, "tools/list", {"_meta": {k: v for k, v in META.items() if k != f"{ENVELOPE}clientInfo"}})],
        1,
    ),
    "a token in an envelope": ([modern(1, "tools/list", progressToken=4)], 1),
    # As FastMCP's own client sends it.
    "a wish for logs": ([modern(1, "server/discover"), modern(2, "tools/list", **{f"{ENVELOPE}logLevel": "debug"})], 2),
    "lines as Windows ends them": ([lines(HANDSHAKE[0])[0].replace(b"\n", b"\r\n")], 1),
    "an editor's capabilities": (
        [
            initialize(
                0,
                "2025-06-18",
                capabilities={
                    "tools": True,
                    "prompts": True,
                    "logging": False,
                    "roots": {"listChanged": False},
                    "elicitation": {"form": {}},
                    "sampling": {},
                    "extensions": {f"{ENVELOPE}ui": {"mimeTypes": ["text/html;profile=mcp-app"]}},
                },
                clientInfo={"name": "éditeur", "version": "1.0.0", "title": "É", "websiteUrl": "https://x.example"},
            )
        ],
        1,
    ),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.not_quick
def test_an_early_answer_is_the_servers(real: Real, name: str) -> None:
    messages, count = CONVERSATIONS[name]
    said = early(*messages)
    assert len(said) == count
    assert said == real(*messages[:count])


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.not_quick
def test_all_that_is_recorded_of_a_surface_is_what_it_says(real: Real, surface: str) -> None:
    messages = [*HANDSHAKE, *(request(n, method) for n, method in enumerate((*LISTS, "ping")))]
    assert early(*messages, surface=surface) == real(*messages, surface=surface), STALE
    messages = [modern(n, method) for n, method in enumerate(("server/discover", *LISTS))]
    assert early(*messages, surface=surface) == real(*messages, surface=surface), STALE


def test_what_is_recorded_is_of_this_version_and_of_the_libraries_that_are_pinned() -> None:
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
    expected = {"brains-gateway": __version__} | {name: pins[name] for name in LIBRARIES}
    assert {path.stem for path in RECORDED.iterdir()} == set(SURFACES)
    for surface in SURFACES:
        assert recorded(surface)["versions"] == expected, STALE


VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [{}, [], "", "x", 0, 1.5, True, None, {"x": 1}, {"x": {}}, {"x": {"y": [1]}}, ["x"]]
)
MEMBERS = ["listChanged", "context", "tools", "form", "url", "list", "cancel", "requests", "else"]
CAPABILITIES = st.dictionaries(
    st.sampled_from(["roots", "sampling", "elicitation", "experimental", "extensions", "tasks", "else"]),
    VALUES | st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=2),
    max_size=2,
)
CLIENTS = st.dictionaries(st.sampled_from(["title", "description", "websiteUrl", "icons", "else"]), VALUES, max_size=1)
NEARLY_USUAL = st.one_of(
    st.builds(lambda c, i: initialize(1, "2025-11-25", capabilities=c, clientInfo=CLIENT | i), CAPABILITIES, CLIENTS),
    st.builds(lambda c: modern(1, "tools/list", **{f"{ENVELOPE}clientCapabilities": c}), CAPABILITIES),
    st.builds(
        lambda more: initialize(1, "2025-11-25", **more),
        st.dictionaries(st.sampled_from(["protocolVersion", "capabilities", "clientInfo", "_meta"]), VALUES),
    ),
    st.builds(
        lambda more: modern(1, "server/discover", **more),
        st.dictionaries(st.sampled_from(["progressToken", *META, f"{ENVELOPE}logLevel", "else"]), VALUES, max_size=2),
    ),
)


@given(NEARLY_USUAL)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.not_quick
def test_a_request_that_is_nearly_usual_is_answered_as_by_the_server_or_left_to_it(real: Real, message: Any) -> None:
    if said := early(message):
        assert said == real(message)


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"%s}\n'
# Each after a handshake, in which all but the line itself would be answered.
LEFT_TO_THE_SERVER = {
    "no JSON": b"{\n",
    "nothing": b"\n",
    "a list": b"[" + PING.strip() % b"" + b"]\n",
    "no end of line": (PING % b"").strip(),
    "two lines to the server": b'{"jsonrpc":"2.0",\r"id":1,"method":"ping"}\n',
    "a member twice": PING % b',"id":1',
    "another member": PING % b',"else":1',
    "no number": PING % b',"params":{"_meta":{"progressToken":NaN}}',
    "half a character": PING % b',"params":{"_meta":{"progressToken":"\\ud800"}}',
    "a byte that is no text": PING % b',"params":{"_meta":{"progressToken":"\xff"}}',
    "params that are none": PING % b',"params":null',
    "params that are a list": PING % b',"params":[]',
    "other params": PING % b',"params":{"else":1}',
    "another version of JSON-RPC": b'{"jsonrpc":"1.0","id":1,"method":"ping"}\n',
    "no version": b'{"id":1,"method":"ping"}\n',
    "no method": b'{"jsonrpc":"2.0","id":1}\n',
    "an answer": b'{"jsonrpc":"2.0","id":1,"result":{}}\n',
    "a notification": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n',
    "a page": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}\n',
    "an unknown method": b'{"jsonrpc":"2.0","id":1,"method":"else"}\n',
    "another handshake": lines(HANDSHAKE[0])[0],
    "an envelope": lines(modern(1, "tools/list"))[0],
    **{f"the id {id_}": PING.replace(b":1,", b":%s," % id_.encode()) % b"" for id_ in ("1.0", "null", "true", "[]")},
    **{f"the id {id_}": PING.replace(b":1,", b":%s," % id_.encode()) % b"" for id_ in ("9" * 17, '""', '"\\u00e9"')},
    "too deep": PING % (b',"params":' + b'{"_meta":' * 150 + b"{}" + b"}" * 150),
    "far too deep": PING % (b',"params":' + b"[" * 100_000 + b"]" * 100_000),
}


@pytest.mark.parametrize("name", LEFT_TO_THE_SERVER)
def test_what_is_unusual_is_left_to_the_server_and_so_is_what_follows(name: str) -> None:
    answers = EarlyAnswers(recorded())
    for line in lines(*HANDSHAKE, request(0, "ping")):
        assert answers.take(line) is not None
    assert answers.take(LEFT_TO_THE_SERVER[name]) is None
    assert answers.is_over
    assert answers.take(lines(request(0, "ping"))[0]) is None


# Capabilities that the server refuses, or that would not reach it as they are.
UNUSUAL_CAPABILITIES = [
    '{"roots": {"listChanged": []}}',
    '{"sampling": {"tools": 1}}',
    '{"elicitation": {"form": 1}}',
    '{"experimental": {"x": 1}}',
    '{"extensions": []}',
    '{"tasks": {"requests": {"sampling": {"createMessage": 1}}}}',
    '{"else": NaN}',
    '{"else": 1e999}',
    '{"else": "\\ud800"}',
    "null",
]


@pytest.mark.parametrize("capabilities", UNUSUAL_CAPABILITIES)
def test_unusual_capabilities_are_left_to_the_server(capabilities: str) -> None:
    envelope = {f"{ENVELOPE}clientCapabilities": 0}
    for message in (initialize(1, "2025-11-25", capabilities=0), modern(1, "tools/list", **envelope)):
        line = json.dumps(message).replace('apabilities": 0', f'apabilities": {capabilities}')
        assert early(line.encode() + b"\n") == []
        assert early(line.replace(capabilities, '{"else": 1}').encode() + b"\n") != []


@pytest.mark.parametrize(
    "client", [{"name": "x"}, {"version": "1"}, CLIENT | {"icons": []}, CLIENT | {"title": 1}, "x"]
)
def test_a_client_that_says_unusual_things_of_itself_is_left_to_the_server(client: Any) -> None:
    assert early(initialize(1, "2025-11-25", clientInfo=client)) == []
    assert early(modern(1, "tools/list", **{f"{ENVELOPE}clientInfo": client})) == []


@pytest.mark.parametrize("message", [request(1, "tools/list"), request(1, "ping"), INITIALIZED, modern(1, "ping")])
def test_nothing_is_said_before_the_client_has_begun_as_usual(message: Any) -> None:
    assert early(message) == []


def test_the_server_is_told_everything_but_by_ids_of_ours() -> None:
    answers = EarlyAnswers(recorded())
    told = [taken.replay for line in lines(*HANDSHAKE, request(5, "tools/list")) if (taken := answers.take(line))]
    ids = [json.loads(line).get("id") for line in told]
    assert [{**json.loads(line), "id": 0} for line in told] == [
        {**message, "id": 0} for message in (*HANDSHAKE, request(5, "tools/list"))
    ]
    assert [answers.is_replayed(id_) for id_ in (*ids, 0, 5, "x")] == [True, False, True, False, False, False]
    assert not EarlyAnswers(recorded()).is_replayed(ids[0])


@pytest.fixture
def as_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The versions of the recording, and no settings of FastMCP."""
    monkeypatch.setattr("gateway.cli.early_answers.versions", lambda: recorded()["versions"])
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("FASTMCP_")]:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("as_recorded")
def test_there_are_early_answers_where_nothing_is_set_that_changes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("DATABASE_URL=x\n", encoding="utf-8")
    monkeypatch.setenv("FASTMCP_LOG_ENABLED", "false")
    ours = {"FASTMCP_LOG_ENABLED": "false"}
    assert early_answers(load(), ours) is not None
    assert early_answers(load(upstream_url="https://x.example", ingest_roots=(Path("."),)), ours) is not None
    for surface in SURFACES:
        assert early_answers(load(surface=surface, surfaces=(surface,)), ours) is not None


@pytest.mark.usefixtures("as_recorded")
@pytest.mark.parametrize("given", [{"tool_prefix": "x_"}, {"ingest_roots": ()}], ids=["prefix", "no files"])
def test_settings_that_change_the_tools_leave_all_to_the_server(given: dict[str, Any]) -> None:
    assert early_answers(load(**given), {}) is None


@pytest.mark.usefixtures("as_recorded")
def test_settings_of_fastmcp_leave_all_to_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert early_answers(load(), {}) is not None
    for written in (b"export fastmcp_Debug=true\n", b"\xff"):
        Path(".env").write_bytes(written)
        assert early_answers(load(), {}) is None
    Path(".env").unlink()
    monkeypatch.setenv("fastmcp_debug", "true")
    assert early_answers(load(), {"fastmcp_debug": "false"}) is None


@pytest.mark.usefixtures("as_recorded")
def test_another_version_of_a_library_leaves_all_to_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.cli.early_answers.versions", lambda: recorded()["versions"] | {"mcp": "2.3.99"})
    assert early_answers(load(), {}) is None


def test_the_versions_are_those_that_are_installed() -> None:
    assert set(versions()) == {"brains-gateway", *LIBRARIES}
