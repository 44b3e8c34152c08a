"""Tokens that callers already have: imported by the command, kept as hashes, and good for what they were good for."""

import io
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.config.token_file import digest, parse
from tests.gateway.http.auth.test_tokens import command, command_here
from tests.gateway.http.auth.tokens import called, gateway
from tests.served import messages_of

BTO = "bto_Zk3vTq9LmX2pRs7wYb4n"
BRT = "brt_8f2c41d09ab37e65c1f04b9d"
NOTE: dict[str, Any] = {"notes": ["Buy flour"]}


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    def type_(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    return type_


def bring(data: Path, *arguments: str) -> tuple[int, str]:
    """The command's code, and what it says: to people alone."""
    done = command_here(data, "import", *arguments, "--anyway")
    assert done.stdout == ""
    return done.returncode, done.stderr


def text(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return str(messages_of(answer)[-1]["result"]["content"][0]["text"])


def test_imported_tokens_let_their_callers_in_as_before(tmp_path: Path, typed: Any) -> None:
    with gateway(tmp_path) as served:
        typed(f"{BTO}\n")
        assert bring(tmp_path, "Miku", "--brain", "main", "--scope", "write")[0] == 0
        assert bring(tmp_path, "Ken", "--sha256", digest(BRT).upper(), "--scope", "read-only")[0] == 0
        # One carries its brain, the other takes it from the path or the query.
        context = json.loads(text(called(served, BTO, "get_context", "/being/mcp")))
        being = context["metadata"]["being_id"]
        for at in (f"{start}{named}" for start in ("/being/mcp/", "/being/mcp?being_id=") for named in ("main", being)):
            for token in (BTO, BRT):
                told = json.loads(text(called(served, token, "get_context", at)))
                assert told["metadata"] == context["metadata"]
        assert text(called(served, BRT, "get_context", "/being/mcp")).startswith("forbidden: Your token is bound to no")
        assert text(called(served, BTO, "get_context", "/being/mcp?being_id=other")).startswith("forbidden: ")
        assert json.loads(text(called(served, BTO, "update_notes", "/being/mcp", **NOTE)))["status"] == "ok"
        refused = called(served, BRT, "update_notes", "/being/mcp/main", **NOTE)
        assert refused.status_code == 403
        assert called(served, BTO[:-1], "get_context", "/being/mcp").status_code == 401


def test_only_the_hash_of_an_imported_token_is_kept(tmp_path: Path, typed: Any) -> None:
    typed(BTO)
    code, said = bring(tmp_path, "Miku", "--brain", "main", "--expires", "2999-01-31", "--org", "acme")
    (record,) = parse((tmp_path / "tokens.json").read_bytes())
    assert (code, record.sha256, record.brain, record.scope) == (0, digest(BTO), "main", "brains:read")
    assert (record.subject, record.org) == ("Miku@acme", "acme")
    assert record.expires == datetime(2999, 1, 31, tzinfo=UTC)
    assert said == f"Token {record.id} for Miku is imported, to be used at /mcp or /<surface>/mcp.\n"
    assert BTO[4:] not in (tmp_path / "tokens.json").read_text()


def test_an_imported_token_expires_and_is_revoked_as_others_are(tmp_path: Path, typed: Any) -> None:
    with gateway(tmp_path) as served:
        typed(BRT)
        soon = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        assert bring(tmp_path, "Ken", "--expires", soon)[0] == 0
        assert called(served, BRT, "get_context", "/being/mcp/main").status_code == 200
        (record,) = parse((tmp_path / "tokens.json").read_bytes())
        assert command_here(tmp_path, "revoke", record.id).returncode == 0
        assert called(served, BRT, "get_context", "/being/mcp/main").status_code == 401


@pytest.mark.parametrize(
    "brought",
    [
        "",
        "\n",
        "bgt_" + "aB3dE6gH" * 5,
        "brt_",
        "brt_short",
        "brt_8f2c41d09ab37e6",  # fifteen characters
        "brt_8f2c41d09ab37e65",  # sixteen hexadecimal digits are 64 bits
        "brt_xxxxxxxxxxxxxxxx",
        "brt_" + "abc" * 20,
        "brt_" + "31415926535897932384",  # twenty digits are 66 bits
        "BRT_8f2c41d09ab37e65c1f04b9d",
        f"{BRT} and more",
        f"{BRT}\n{BRT}",
        f"Bearer {BRT}",
        f"{BRT}é",
        f"{BRT}\0",
        "brt_" + "aB3dE6gH" * 65,
    ],
)
def test_a_token_that_is_weak_or_malformed_is_refused(tmp_path: Path, typed: Any, brought: str) -> None:
    typed(brought)
    code, said = bring(tmp_path, "Ken")
    assert code == 2
    assert said.count("\n") == 1
    assert len(brought) < 10 or brought.strip() not in said
    assert not (tmp_path / "tokens.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["Ken", "--sha256", "f" * 63],
        ["Ken", "--sha256", "g" * 64],
        ["Ken", "--sha256", digest("")],
        ["Ken", "--sha256", digest("").upper(), "--brain", "main"],
        ["Ken", "--sha256", "f" * 64, "--expires", "2020-01-01"],
        ["Ken", "--sha256", "f" * 64, "--expires", "soon"],
        ["Ken", "--sha256", "f" * 64, "--expires", "2999-01-01", "--days", "3"],
        ["Ken", "--sha256", "f" * 64, "--scope", "write-only"],
        ["Ken", "--sha256", "f" * 64, "--brain", "../x"],
        ["", "--sha256", "f" * 64],
    ],
)
def test_an_import_that_makes_no_sense_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    assert bring(tmp_path, *arguments)[0] == 2
    assert not (tmp_path / "tokens.json").exists()


def test_a_token_is_imported_once_and_one_that_carries_its_brain_must_say_which(tmp_path: Path, typed: Any) -> None:
    typed(BTO)
    code, said = bring(tmp_path, "Miku")
    assert (code, "A bto_ token carries its brain" in said) == (2, True)
    assert bring(tmp_path, "Miku", "--brain", "main", "--sha256", digest(BTO))[0] == 0
    (record,) = parse((tmp_path / "tokens.json").read_bytes())
    code, said = bring(tmp_path, "Ken", "--sha256", digest(BTO))
    assert (code, f"it is {record.id}, for Miku" in said) == (2, True)
    # Private notes go by the subject, so that is somebody's, too.
    code, said = bring(tmp_path, "Miku", "--sha256", "f" * 64)
    assert (code, "--subject Miku" in said) == (2, True)


@pytest.mark.slow
def test_the_brain_must_be_there_and_may_be_named_by_its_uuid(tmp_path: Path) -> None:
    with gateway(tmp_path) as served:
        assert bring(tmp_path, "Ken", "--sha256", digest(BRT))[0] == 0
        context = json.loads(text(called(served, BRT, "get_context", "/being/mcp/main")))
        being = str(context["metadata"]["being_id"])
        assert command(tmp_path, "import", "Miku", "--brain", being, "--sha256", digest(BTO)).returncode == 0
        assert json.loads(text(called(served, BTO, "get_context", "/being/mcp"))) == context
    done = command(tmp_path, "import", "Miku", "--brain", "nowhere", "--sha256", "f" * 64)
    assert (done.returncode, "There is no brain nowhere." in done.stderr) == (2, True)


def test_what_a_hash_does_not_tell_is_said(tmp_path: Path) -> None:
    code, said = bring(tmp_path, "Ken", "--sha256", "e" * 64)
    assert code == 0
    assert "A hash does not show whether its token is easy to guess" in said
    assert "good for every brain that the URL names" in said
    code, said = bring(tmp_path, "Miku", "--sha256", "f" * 64, "--brain", "main")
    assert code == 0
    assert "A hash does not show whether its token is easy to guess" in said
    assert "every brain" not in said


def test_bytes_that_are_no_text_are_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"brt_\xff\xfe"), encoding="utf-8"))
    code, said = bring(tmp_path, "Ken")
    assert (code, "Standard input must hold one token" in said) == (2, True)


def test_a_token_that_is_typed_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("gateway.cli.token.getpass", lambda _prompt: BRT)
    assert bring(tmp_path, "Ken")[0] == 0
