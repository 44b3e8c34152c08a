"""`brains-gateway user`: who may log in, kept in a file that holds no password; and what `serve` refuses."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.config.passwords import is_password
from gateway.config.user_file import parse
from tests.commands import run_here
from tests.gateway.http.auth.login.house import PASSWORD, add_user

ROOT = Path(__file__).parents[3]


def command(data: Path, *arguments: str, typed: str = PASSWORD) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("BRAINS_", "JB"))}
    return subprocess.run(
        [sys.executable, "-m", "gateway", "user", *arguments],
        env={**clean, "PYTHONPATH": str(ROOT), "BRAINS_DATA_DIR": str(data)},
        input=f"{typed}\n",
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_user_is_added_changed_and_removed(tmp_path: Path) -> None:
    assert command(tmp_path, "add", "Ada", "--org", "acme").returncode == 0
    file = tmp_path / "users.json"
    (ada,) = parse(file.read_bytes())
    assert (ada.name, ada.subject, ada.org, ada.scope, ada.brain) == ("ada", "ada@acme", "acme", "brains:write", None)
    assert is_password(PASSWORD, ada.password)
    assert PASSWORD not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "already" in command(tmp_path, "add", "ada").stderr
    assert command(tmp_path, "password", "ada", typed="another password").returncode == 0
    (changed,) = parse(file.read_bytes())
    assert is_password("another password", changed.password)
    assert changed.version() != ada.version()
    assert command(tmp_path, "remove", "ada").returncode == 0
    assert parse(file.read_bytes()) == []


@pytest.mark.parametrize(
    ("arguments", "typed"),
    [
        (["add", "ada"], "too short"),
        (["add", "ada"], "x" * 257),
        (["add", "a da"], PASSWORD),
        (["add", "ada", "--brain", "nowhere"], PASSWORD),
        (["remove", "nobody"], ""),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(tmp_path: Path, arguments: list[str], typed: str) -> None:
    done = command(tmp_path, *arguments, typed=typed)
    assert done.returncode == 2
    assert done.stderr.startswith("brains-gateway: ")
    assert typed not in done.stderr or not typed


PUBLIC = {"BRAINS_PUBLIC_URL": "https://brains.example"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "set BRAINS_PUBLIC_URL"),
        ({"BRAINS_PUBLIC_URL": "http://brains.example"}, "must begin with https://"),
        ({"BRAINS_PUBLIC_URL": "https://brains.example/path"}, "must have no path"),
        ({**PUBLIC, "BRAINS_AUTH_AUDIENCE": "https://other.example"}, "unset BRAINS_AUTH_AUDIENCE"),
        ({**PUBLIC, "BRAINS_USERS_FILE": "/nowhere/users.json"}, "brains-gateway user add"),
        ({**PUBLIC, "BRAINS_LOGIN_KEYS_FILE": "/nowhere/keys"}, "BRAINS_LOGIN_KEYS_FILE"),
        (PUBLIC, None),
    ],
)
def test_settings_say_what_serve_would_refuse(tmp_path: Path, settings: dict[str, str], said: str | None) -> None:
    add_user(tmp_path)
    told = run_here("settings", BRAINS_AUTH="password", BRAINS_DATA_DIR=str(tmp_path), **settings).stdout
    assert ("serve does not start" in told) is (said is not None)
    assert said is None or said in told
