"""The audit log: a line for whatever was written, deleted, exported, let in or refused, and never what a note says."""

import errno
import json
import multiprocessing
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from gateway.app.audit_log import AuditFile
from gateway.operations import audit
from tests.commands import run_here
from tests.gateway.cli.running import run
from tests.gateway.http.auth.tokens import kept
from tests.served import Era, Served, messages_of, raw_call, serving

SECRET = "zqcanary"


@pytest.fixture(autouse=True)
def nothing_is_kept_afterwards() -> Iterator[None]:
    yield
    audit.set_up(None)


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def called(served: Served, token: str | None, tool: str, era: Era = "modern", **given: Any) -> Any:
    made = raw_call(era, tool, given)
    made["headers"] |= {"x-request-id": f"for-{tool}"} | ({} if token is None else {"authorization": f"Bearer {token}"})
    with httpx.Client(trust_env=False, timeout=60) as http:
        return http.post(f"{served.url}/mcp", **made)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_who_wrote_deleted_came_in_and_was_refused(tmp_path: Path, era: Era) -> None:
    tokens, file = tmp_path / "tokens.json", tmp_path / "audit.jsonl"
    ann = kept(tokens, name="ann's laptop", subject="ann", brain="main", scope="brains:write")
    ben = kept(tokens, name="ben", subject="ben", brain="main")
    audit.set_up(AuditFile(file).write)
    with serving(tmp_path / "data", None, auth="tokens", tokens_file=tokens) as served:
        called(served, ann, "memory_search", era, query=SECRET)
        stored = called(
            served, ann, "memory_remember", era, content=SECRET, title="A plan", path="memory/global/plan.md"
        )
        assert not messages_of(stored)[-1]["result"].get("isError")
        called(served, ann, "memory_forget", era, path="memory/global/plan.md")
        called(served, ben, "memory_remember", era, content=SECRET)
        called(served, ben, "memory_search", era, query=SECRET, brain="another")
        called(served, ann, "memory_ingest_url", era, url="http://169.254.169.254/latest/meta-data")
        called(served, f"bgt_{SECRET}", "memory_search", era, query=SECRET)

    found = lines_of(file)
    told = [(line["audit"], line["caller"], line.get("tool"), line.get("outcome")) for line in found]
    assert told == [
        ("login", "ann's laptop", None, "ok"),
        ("write", "ann's laptop", "memory_remember", "ok"),
        ("delete", "ann's laptop", "memory_forget", "ok"),
        ("login", "ben", None, "ok"),
        ("refused", "ben", "memory_remember", "insufficient_scope"),
        ("refused", "ben", "memory_search", "forbidden"),
        ("refused", "ann's laptop", "memory_ingest_url", "fetch_blocked"),
        ("refused", "nobody", None, "unknown token"),
    ]
    written, deleted = found[1:3]
    assert written["path"] == deleted["path"] == "memory/global/plan.md"
    assert written["request_id"] == "for-memory_remember"
    assert written["brain"].startswith("brn_")
    assert written["client"] in tokens.read_text()
    assert written["surface"] == "memory"
    assert {line["address"] for line in found} == {"127.0.0.1"}
    assert SECRET not in file.read_text()


def test_what_failed_is_told_as_that(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    audit.set_up(AuditFile(file).write)
    with serving(tmp_path / "data", None) as served:
        for content in ("one", "another"):
            called(served, None, "memory_remember", content=content, path="memory/global/a.md")
    assert [line["outcome"] for line in lines_of(file)] == ["ok", "conflict"]


@pytest.mark.not_quick
def test_commands_say_who_gave_them(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    settings = {"BRAINS_AUDIT_LOG": str(file), "LOGNAME": "ada"}

    def done(*arguments: str, **more: str) -> None:
        # Each is a process of its own, but here.
        audit.set_up(None)
        ran = run(tmp_path, *arguments, **settings, **more)
        assert ran.returncode == 0, ran.stderr

    (tmp_path / "plan.md").write_text(SECRET)
    done("add", "plan.md")
    path = next(line["path"] for line in lines_of(file))
    done("rm", path, "--yes")
    done("export", str(tmp_path / "out"))
    done("backup", str(tmp_path / "copy.sqlite3"), "--with-secrets")
    done("brains", "create", "attic")
    done("brains", "delete", "attic", "--yes")
    done("token", "create", "laptop", "--brain", "main", "--scope", "write")
    record = json.loads((tmp_path / "data" / "tokens.json").read_text())["tokens"][0]["id"]
    done("token", "revoke", record)

    found = lines_of(file)
    assert {line["user"] for line in found} == {"ada"}
    told = [(line["audit"], line["tool"]) for line in found]
    assert told == [
        ("write", "add"),
        ("delete", "rm"),
        ("export", "export"),
        ("export", "backup"),
        ("write", "brains"),
        ("delete", "brains"),
        ("command", "token create"),
        ("command", "token revoke"),
    ]
    assert found[1]["path"] == path
    assert (found[3]["to"], found[3]["secrets"]) == (str(tmp_path / "copy.sqlite3"), True)
    assert (found[5]["op"], found[5]["path"]) == ("delete_brain", "attic")
    assert found[-1]["client"] == record
    assert SECRET not in file.read_text()


def test_the_file_is_ours_alone_and_a_moved_one_is_left(tmp_path: Path) -> None:
    file, moved = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    kept_in = AuditFile(file)
    kept_in.write({"n": 1})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.rename(moved)
    kept_in.write({"n": 2})
    file.unlink()
    file.touch(0o640)
    kept_in.write({"n": 3})
    assert (lines_of(moved), lines_of(file)) == ([{"n": 1}], [{"n": 3}])


def _write_many(path: Path, who: int) -> None:
    kept_in = AuditFile(path)
    for n in range(500):
        kept_in.write({"who": who, "n": n, "filling": "x" * 500})


@pytest.mark.not_quick
def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(file, who)) for who in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert sorted((line["who"], line["n"]) for line in lines_of(file)) == [(w, n) for w in range(3) for n in range(500)]


def test_a_full_disk_is_told_once_and_harms_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, write = tmp_path / "audit.jsonl", os.write
    audit.set_up(AuditFile(file).write)
    is_full = True

    def full(handle: int, body: bytes) -> int:
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, body)

    monkeypatch.setattr("gateway.app.audit_log.os.write", full)
    with serving(tmp_path / "data", None) as served, capture_logs() as lines:
        for n in range(3):
            is_full = n < 2
            stored = called(served, None, "memory_remember", content=f"note {n}")
            assert not messages_of(stored)[-1]["result"].get("isError")
    told = [(line["event"], line.get("reason")) for line in lines if line["event"].startswith("audit.")]
    assert told == [("audit.failed", "No space left on device"), ("audit.kept", None)]
    assert len(lines_of(file)) == 1


def test_what_was_cut_off_does_not_take_the_next_line_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, write = tmp_path / "audit.jsonl", os.write
    kept_in = AuditFile(file)
    monkeypatch.setattr("gateway.app.audit_log.os.write", lambda handle, body: write(handle, body[:3]))
    kept_in.write({"n": 1})
    monkeypatch.undo()
    kept_in.write({"n": 2})
    assert file.read_text().splitlines() == ['{"n', '{"n":2}']


@pytest.mark.parametrize("command", [["serve"], ["token", "list"], ["list"]], ids=" ".join)
@pytest.mark.parametrize("kind", ["no directory", "a directory", "a pipe"])
def test_a_file_that_cannot_be_written_stops_the_start_with_a_sentence(
    tmp_path: Path, command: list[str], kind: str
) -> None:
    file = tmp_path / "audit"
    match kind:
        case "no directory":
            file = file / "none" / "audit.jsonl"
        case "a directory":
            file.mkdir()
        case _:
            os.mkfifo(file)
    done = run_here(*command, BRAINS_DATA_DIR=str(tmp_path / "data"), BRAINS_AUDIT_LOG=str(file))
    assert done.returncode == 2
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"brains-gateway: BRAINS_AUDIT_LOG: {file} cannot be written to (")
    assert said.endswith("): name another file, or unset it.")
