"""The child process that reads documents: what it may use, and that it goes when it is no longer wanted."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from gateway.ingest import child_reader, extract_text_child
from gateway.ingest.child_reader import Kind, Limits, Reading, Unreadable, read_in_child
from tests.gateway.test_processes import wait_until
from tests.pdf import pdf

# Each of them starts a process.
pytestmark = pytest.mark.not_quick

SLOW_HTML = b"<a " * 60_000
LIMITS = Limits(cpu_seconds=10, text=100_000)


async def reason(kind: Kind, body: bytes, limits: Limits | None = None) -> str:
    with pytest.raises(Unreadable) as caught:
        await read_in_child(kind, body, limits=limits)
    return caught.value.reason


async def test_each_kind_is_read_with_what_is_known_of_it() -> None:
    html = b"<title>Tea \n list</title><p>w\xf6rds"
    assert await read_in_child("html", html, charset="cp1252") == Reading("# Tea list\n\nwörds", "Tea list")
    assert await read_in_child("pdf", pdf("one", "two")) == Reading("one\n\ntwo")
    assert await read_in_child("json", b'{"a":[1]}') == Reading('```json\n{\n  "a": [\n    1\n  ]\n}\n```')


async def test_a_pdf_is_read_as_far_as_its_pages_go() -> None:
    read = await read_in_child("pdf", pdf("one", "two", "three"), limits=Limits(10, 1000, pages=2))
    assert read == Reading("one\n\ntwo", truncated=True)


@pytest.mark.parametrize(
    ("kind", "body", "limits", "expected"),
    [
        ("html", SLOW_HTML, Limits(cpu_seconds=1, text=1000), "limits"),
        ("json", b"[{}" + b",{}" * 1_000_000 + b"]", Limits(10, 10_000_000, memory=60_000_000), "limits"),
        ("html", b"<p>" + b"x" * 2000, Limits(10, text=1000), "limits"),
        ("pdf", pdf("x" * 2000), Limits(10, text=1000), "limits"),
        ("json", b'"' + b"x" * 2000 + b'"', Limits(10, text=1000), "limits"),
        ("json", b"{", LIMITS, "broken"),
        ("json", b'"\xff"', LIMITS, "broken"),
        ("json", b"NaN", LIMITS, "broken"),
        ("json", b"[" * 100_000, LIMITS, "broken"),
        ("pdf", b"%PDF-1.4", LIMITS, "broken"),
    ],
    ids=["time", "memory", "text of html", "text of pdf", "text of json", "half", "latin", "nan", "deep", "no pdf"],
)
async def test_what_cannot_be_read_says_why(kind: Kind, body: bytes, limits: Limits, expected: str) -> None:
    assert await reason(kind, body, limits) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 900 + b",".join([b"1"] * 3_000) + b"]" * 900,
        b'{"a":1,"a":2}',
        b"9" * 10_000,
        b"[1e999]",
        b'"\\ud800"',
        b'"' + b"x" * (2 * 1024 * 1024) + b'"',
    ],
    ids=["deep and wide", "a name twice", "a long number", "a large number", "half a character", "long"],
)
def test_json_that_would_grow_or_change_stays_as_it_is(body: bytes) -> None:
    _, text = extract_text_child.read_json(body, {})
    assert text == f"```json\n{body.decode()}\n```"


def test_the_limits_grow_with_the_file_and_end_somewhere() -> None:
    small, large = Limits.of("pdf", 10_000), Limits.of("pdf", 25 * 1024 * 1024)
    assert (small.cpu_seconds, small.text) == (10, 1024 * 1024 + 80_000)
    assert (large.cpu_seconds, large.text) == (30, 8 * 1024 * 1024)
    assert Limits.of("json", 25 * 1024 * 1024).text == 25 * 1024 * 1024 + 1000


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="looks at the child in /proc")
async def test_a_child_knows_no_secret_writes_no_file_and_goes_with_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def start_and_note(*arguments: str, **options: object) -> asyncio.subprocess.Process:
        started.append(await start(*arguments, **options))  # type: ignore[arg-type]  # passed on as they came
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_note)
    monkeypatch.setenv("BRAINS_UPSTREAM_TOKEN", "a-secret")
    reading = asyncio.ensure_future(read_in_child("html", SLOW_HTML))
    await asyncio.to_thread(wait_until, lambda: started and is_limited(started[0].pid), "no child has limits", 30)
    assert b"a-secret" not in environment_of(started[0].pid)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert started[0].returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(started[0].pid, 0)


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def is_limited(pid: int) -> bool:
    """Whether the child got as far as its limits on memory and on files."""
    lines = Path(f"/proc/{pid}/limits").read_text(encoding="ascii").splitlines()
    limits = {line[:26].strip(): line[26:].split()[0] for line in lines[1:]}
    return (limits["Max address space"], limits["Max file size"]) == ("1073741824", "0")


async def test_a_child_that_says_nothing_is_one_that_was_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(wanted: str, _body: bytes) -> bytes:
        assert json.loads(wanted)["kind"] == "pdf"
        return b""

    monkeypatch.setattr(child_reader, "_run_child", run)
    assert await reason("pdf", b"") == "limits"
