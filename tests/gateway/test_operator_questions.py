"""What an operator asks, answered by the commands and lines that `docs/operating.md` names for it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from gateway.app.audit_log import AuditFile
from gateway.operations import audit
from tests.gateway.cli.running import run
from tests.gateway.http.auth.tokens import kept
from tests.served import Served, raw_call, serving

PATH = "memory/global/plan.md"
REQUEST = "ticket-4711"


@pytest.fixture(autouse=True)
def nothing_is_kept_afterwards() -> Iterator[None]:
    yield
    audit.set_up(None)


def said(home: Path, *command: str, **settings: str) -> str:
    done = run(home, *command, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def called(served: Served, token: str, tool: str, **given: Any) -> httpx.Response:
    made = raw_call("modern", tool, given)
    made["headers"] |= {"authorization": f"Bearer {token}", "x-request-id": REQUEST}
    return httpx.post(f"{served.url}/mcp", **made, trust_env=False, timeout=60)


def test_who_deleted_a_note_and_why_a_caller_was_refused_is_told(tmp_path: Path) -> None:
    tokens, file = tmp_path / "tokens.json", tmp_path / "audit.jsonl"
    token = kept(tokens, name="ann's laptop", brain="main", scope="brains:write")
    audit.set_up(AuditFile(file).write)
    settings: dict[str, Any] = {"auth": "tokens", "tokens_file": tokens, "extra_tools": "on"}
    with capture_logs() as log, serving(tmp_path / "data", None, **settings) as served:
        called(served, token, "memory_remember", content="The plan.", path=PATH).raise_for_status()
        called(served, token, "memory_forget", path=PATH).raise_for_status()
        refused = called(served, "no-such-token", "memory_search", query="x")
    assert (refused.status_code, refused.headers["x-request-id"]) == (401, REQUEST)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    deleted = [line for line in lines if line["audit"] == "delete" and line["path"] == PATH]
    assert {(line["caller"], line["tool"], line["request_id"]) for line in deleted} == {
        ("ann's laptop", "memory_forget", REQUEST)
    }
    (told,) = [line for line in log if line["event"] == "http.refused"]
    assert (told["status"], told["request_id"], told["address"]) == (401, REQUEST, "127.0.0.1")
    assert told["reason"]
    assert [line["outcome"] for line in lines if line["audit"] == "refused"] == [told["reason"]]
    assert "ann's laptop" in said(tmp_path, "token", "list", BRAINS_TOKENS_FILE=str(tokens))


def test_which_settings_hold_and_where_they_come_from_is_told(tmp_path: Path) -> None:
    shown = said(tmp_path, "settings", BRAINS_READ_ONLY="1")
    (line,) = [line for line in shown.splitlines() if "READ_ONLY" in line.upper()]
    assert "BRAINS_READ_ONLY" in line


def test_what_works_and_what_is_kept_is_told(tmp_path: Path) -> None:
    said(tmp_path, "add", "The boiler is in the cellar.")
    assert "All" in said(tmp_path, "doctor").splitlines()[-1]
    assert "memory" in said(tmp_path, "who")
