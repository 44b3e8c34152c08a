"""One line of the log is one record, whatever callers and platforms put into their words, and no word is a secret."""

import asyncio
import gc
import json
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from structlog.testing import capture_logs

from gateway.app import log
from gateway.operations.table import Op
from gateway.upstream.dialects.platform import PLATFORM
from tests.canaries.processes import Process, running
from tests.canaries.world import recorded_platform
from tests.gateway.upstream.platforms import reaching, refused
from tests.served import LEGACY_HEADERS, MODERN_HEADERS, Era, raw_call

ERAS: list[Era] = ["modern", "legacy"]
FORGED = '{"event":"forged"}'
MARK = "zqforged"
INJECTIONS = {
    "line feed": f"\n{MARK}",
    "carriage return": f"\r{MARK}",
    "both": f"\r\n{MARK}",
    "a whole record": f'"}}\n{FORGED}\n{{"a":"',
    "vertical tab": f"\v{MARK}",
    "form feed": f"\f{MARK}",
    "file separator": f"\x1c{MARK}",
    "next line": f"\x85{MARK}",
    "line separator": f"\u2028{MARK}",
    "paragraph separator": f"\u2029{MARK}",
    "colour": f"\x1b[31m{MARK}",
    "clear the screen": f"\x1b[2J{MARK}",
    "title of the window": f"\x1b]0;{MARK}\x07",
    "a link": f"\x1b]8;;http://evil.example\x1b\\{MARK}",
    "one-byte escape": f"\x9b31m{MARK}",
    "backspace": f"\b\b\b\b{MARK}",
    "bell": f"\x07{MARK}",
    "delete": f"\x7f{MARK}",
    "right to left": f"\u202e{MARK}",
    "isolate": f"\u2067{MARK}\u2069",
    "zero width": f"\u200b{MARK}",
    "byte order": f"\ufeff{MARK}",
    "tag": f"\U000e0041{MARK}",
    "markup": f"[link=http://evil.example]{MARK}[/link]",
    "a format": f"%s %(levelname)s {{0}} {{event}} {MARK}",
    "a private character": f"\ue000{MARK}",
    "a noncharacter": f"\uffff{MARK}",
    "quotes": f"\"'`{MARK}",
    "backslashes": f"\\n\\x1b[31m{MARK}",
    "a key and a value": f"x level=critical {MARK}=1",
}
# As they are in a terminal: the rest only looks odd there.
ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
COLOURS = re.compile(r"\x1b\[\d{1,2}m")
TEXT_RECORD = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z \[(debug|info|warning|error|critical) *\] \S")


def attempts(http: httpx.Client, url: str, era: Era, words: str) -> int:
    """Put the words wherever a caller has a say; how many requests that were."""
    headers = {**(MODERN_HEADERS if era == "modern" else LEGACY_HEADERS), "content-type": "application/json"}
    arguments: list[tuple[str, dict[str, Any]]] = [
        ("memory_search", {"query": words, "brain": words}),
        ("memory_search", {"query": words, words: 1}),
        ("memory_search", {"query": words}),
        ("memory_remember", {"content": words, "title": words, "tags": [words]}),
        ("memory_remember", {"content": words, "path": f"memory/{words}.md"}),
        ("memory_reflect", {"session_id": words}),
        ("memory_extract", {"messages": [{"role": "user", "content": words}], "actor_id": words}),
        ("memory_ingest_url", {"url": f"http://127.0.0.1/{words}"}),
        ("memory_ingest_file", {"path": words}),
        ("memory_create_brain", {"name": words}),
        ("memory_create_brain", {"name": "x", "slug": words}),
        (words, {}),
    ]
    bodies = [raw_call(era, tool, given)["json"] for tool, given in arguments]
    bodies += [{**bodies[0], "id": words}, {**bodies[0], "method": words}, {"jsonrpc": words, words: words}]
    meta = raw_call(era, "memory_search", {"query": "x"}, token=words)["json"]
    meta["params"]["_meta"] |= {words: words, "traceparent": words, "baggage": words}
    for body in (*bodies, meta):
        named = {"mcp-method": "tools/call", "mcp-name": "memory_search"} if era == "modern" else {}
        http.post(url + "/mcp", json=body, headers=headers | named)
    for path in (f"/mcp/{quote(words, safe='')}", f"/{quote(words, safe='')}"):
        http.post(url + path, json=bodies[2], headers=headers)
    http.get(url + f"/nowhere?x={quote(words)}")
    for name in ("x-brain", "x-project", "x-request-id", "user-agent", "origin", "authorization", "mcp-session-id"):
        value = words.encode().replace(b"\r", b"").replace(b"\n", b"")
        with_header = [(key.encode(), text.encode()) for key, text in headers.items()] + [(name.encode(), value)]
        try:
            http.post(url + "/mcp", json=bodies[2], headers=with_header)
        except httpx.LocalProtocolError:
            continue  # no client can send that
    return len(bodies) + 4


@contextmanager
def logged(directory: Path, format_: str) -> Iterator[tuple[Process, httpx.Client]]:
    with recorded_platform("platform", directory) as platform, httpx.Client(trust_env=False, timeout=30) as http:
        settings = {
            "BRAINS_UPSTREAM_URL": platform.url,
            "BRAINS_DATA_DIR": str(directory / "data"),
            "BRAINS_INGEST_ROOTS": str(directory),
            "BRAINS_LOG_LEVEL": "debug",
            "BRAINS_LOG_FORMAT": format_,
            "BRAINS_DEFAULT_BRAIN": "notes",
        }
        process = Process(settings, directory / "stderr.txt")
        with running(process):
            yield process, http


def records(said: str) -> list[str]:
    """Line by line as the simplest reader has it, without the words of welcome that a person is given."""
    welcome, _, rest = said.partition("Stop with Ctrl-C.\n")
    return (rest or welcome).removeprefix("\n").removesuffix("\n").split("\n")


@pytest.mark.slow
def test_json_is_one_record_a_line_and_nobody_can_forge_one(tmp_path: Path) -> None:
    with logged(tmp_path, "json") as (process, http):
        count = sum(attempts(http, process.url, ERAS[n % 2], words) for n, words in enumerate(INJECTIONS.values()))
    lines = records(process.said())
    assert len(lines) >= count // 2
    found = [json.loads(line) for line in lines]
    assert {type(entry) for entry in found} == {dict}
    assert not any(entry["event"] == "forged" for entry in found)
    assert all(line.isascii() and line.isprintable() for line in lines)


def text_records(directory: Path, *names: str) -> list[str]:
    """The log as text, after such attempts, without the colours that are ours."""
    with logged(directory, "text") as (process, http):
        for n, name in enumerate(names):
            attempts(http, process.url, ERAS[n % 2], INJECTIONS[name])
    lines = [COLOURS.sub("", line) for line in records(process.said())]
    assert len(lines) >= 10 * len(names)
    return lines


@pytest.mark.slow
def test_text_with_line_breaks_in_it_stays_one_record_a_line(tmp_path: Path) -> None:
    lines = text_records(tmp_path, "line feed", "carriage return", "both", "a whole record", "a key and a value")
    assert [line for line in lines if not TEXT_RECORD.match(line)] == []


@pytest.mark.slow
def test_nothing_in_a_log_as_text_acts_on_a_terminal(tmp_path: Path) -> None:
    names = ("clear the screen", "title of the window", "line separator", "right to left", "one-byte escape")
    assert [line for line in text_records(tmp_path, *names) if ACTIVE.search(line)] == []


class Garbage(socketserver.StreamRequestHandler):
    """Answers with what it was sent, in a way that is no HTTP."""

    answer = b""

    def handle(self) -> None:
        head = bytearray()
        while not head.endswith(b"\r\n\r\n"):
            if not (byte := self.rfile.read(1)):
                return
            head += byte
        secret = re.search(rb"authorization: (\S+ \S+)", bytes(head), re.IGNORECASE)
        assert secret is not None
        self.wfile.write(self.answer.replace(b"SECRET", secret.group(1)))


GARBAGE = {
    "no status line": b"SECRET\r\n\r\n",
    "a status line with more": b"HTTP/1.1 SECRET OK\r\n\r\n",
    "a header that is none": b"HTTP/1.1 200 OK\r\nSECRET\r\n\r\n",
    "a header with a strange name": b"HTTP/1.1 200 OK\r\nx SECRET: 1\r\n\r\n",
    "a length that is none": b"HTTP/1.1 200 OK\r\ncontent-length: SECRET\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2 SECRET\r\n\r\n",
    "a coding that is none": b"HTTP/1.1 200 OK\r\ntransfer-encoding: SECRET\r\n\r\n",
    "a chunk that is none": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nSECRET\r\n",
    "a packing that is none": b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 6\r\n\r\nSECRET",
    "a redirect to nonsense": b"HTTP/1.1 302 Found\r\nlocation: http://[SECRET\r\ncontent-length: 0\r\n\r\n",
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_what_a_platform_says_that_is_no_http_is_not_in_the_log(name: str) -> None:
    handler = type("Handler", (Garbage,), {"answer": GARBAGE[name]})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as platform, capture_logs() as logs:
        threading.Thread(target=platform.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{platform.server_address[1]}"
        async with reaching(url, PLATFORM, token="zqUpstreamToken") as upstream:
            error = await refused(upstream, Op.LIST_BRAINS)
        platform.shutdown()
    assert "zqUpstreamToken" not in f"{error} {error.as_json('')}"
    assert "zqUpstreamToken" not in str(logs)


def test_a_task_that_nobody_waited_for_is_logged_without_the_words_of_its_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def broken() -> None:
        raise RuntimeError("zqcontent")

    async def main() -> None:
        asyncio.create_task(broken())  # noqa: RUF006  # that nobody keeps it is the point
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gc.collect()

    log.configure("info", "json")
    asyncio.run(main())
    said = capsys.readouterr().err
    assert "never retrieved" in said
    assert "zqcontent" not in said
