"""`who` lists what is kept for one caller, and nothing of anybody else's; `brains delete` leaves nothing of a brain."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.daemons.fake import BRAIN, FakeDaemon, T
from tests.gateway.cli.running import run
from tests.gateway.cli.test_purge import files_with
from tests.served import Served, listening, serving

pytestmark = pytest.mark.not_quick

WORD = "xylographica"


def who(home: Path, *arguments: str, **settings: str) -> dict[str, Any]:
    done = run(home, "who", *arguments, "--json", **settings)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_local_user_is_told_of_everything_that_is_kept(tmp_path: Path) -> None:
    path = run(tmp_path, "add", "Gyokuro wants sixty degrees.").stdout.strip()
    gone = run(tmp_path, "add", "Larch lasts.").stdout.strip()
    assert run(tmp_path, "rm", "--yes", gone).returncode == 0
    assert run(tmp_path, "brains", "create", "Other").returncode == 0
    other = run(tmp_path, "add", "Oak is heavy.", "--brain", "other").stdout.strip()
    told = who(tmp_path)
    kept = {(one["brain"], one["path"]) for one in told["kept"]}
    assert {("main", path), ("other", other)} <= kept
    # What was put away is kept too, until it is purged.
    assert [one for one in kept if one[1].startswith("memory/global/_deleted/")] != []
    assert told["tokens"] == []
    assert {one["brain"] for one in who(tmp_path, "--brain", "other")["kept"]} == {"other"}
    shown = run(tmp_path, "who")
    assert "main\tmemory\tmemory/global\t1\t" in shown.stdout
    assert path not in shown.stdout
    assert path in run(tmp_path, "who", "--paths").stdout


def test_a_caller_is_told_of_what_is_theirs_and_of_nobody_else(tmp_path: Path) -> None:
    tokens = {
        name: run(tmp_path, "token", "create", name, "--scope", "write", "--project", "orion").stdout.strip()
        for name in ("ann", "ben")
    }
    second = run(tmp_path, "token", "create", "ann at work", "--scope", "read", "--subject", "ann").stdout.strip()
    assert second
    with serving(tmp_path / "data", None, auth="tokens") as served:
        for name, token in tokens.items():
            asyncio.run(write_everywhere(served, name, token))
    settings = {"BRAINS_AUTH": "tokens"}
    ann, ben = who(tmp_path, "ann", **settings), who(tmp_path, "ben", **settings)
    paths = [{one["path"] for one in told["kept"]} for told in (ann, ben)]
    assert paths[0] & paths[1] == set()
    assert sorted(one["surface"] for one in ann["kept"]) == ["private", "session", "team", "team"]
    assert [(one["name"], one["state"]) for one in ann["tokens"]] == [("ann", "active"), ("ann at work", "active")]
    assert [one["name"] for one in ben["tokens"]] == ["ben"]
    assert ann["memberships"] == {"organizations": [], "projects": ["orion"]}
    assert "Token " in run(tmp_path, "who", "ann", **settings).stderr
    for arguments in ((), ("nobody",)):
        assert run(tmp_path, "who", *arguments, **settings).returncode == 2


async def write_everywhere(served: Served, name: str, token: str) -> None:
    headers = {"authorization": f"Bearer {token}"}
    async with served.over_http("modern", "/team/mcp/main", headers) as team:
        for scope in ("private", "global", "orion"):
            entry = {"content": f"What {name} said in {scope}.", "type": "decision", "scope": scope}
            await team.call_tool("memory_remember", entry)
    async with served.over_http("modern", "/memory/mcp/main", headers) as memory:
        said = [{"role": "user", "content": f"{name} wonders."}]
        await memory.call_tool("memory_extract", {"session_id": "talk", "messages": said})
        await memory.call_tool("memory_remember", {"content": f"Of {name}, but it does not say so."})


def test_a_brain_goes_with_all_it_holds_and_its_bytes(tmp_path: Path) -> None:
    assert run(tmp_path, "brains", "create", "Secret plans").returncode == 0
    assert run(tmp_path, "add", f"The password is {WORD}.", "--brain", "secret-plans").returncode == 0
    kept = run(tmp_path, "add", "Another note.").stdout.strip()
    assert files_with(WORD, tmp_path / "data") != []
    # Nobody is there to type its name.
    asked = run(tmp_path, "brains", "delete", "secret-plans")
    assert (asked.returncode, "add --yes" in asked.stderr) == (1, True)
    done = run(tmp_path, "brains", "delete", "secret-plans", "--yes")
    assert done.returncode == 0, done.stderr
    assert "The brain secret-plans is deleted" in done.stderr
    assert files_with(WORD, tmp_path / "data") == []
    assert [one["slug"] for one in json.loads(run(tmp_path, "brains", "--json").stdout)] == ["main"]
    assert kept in run(tmp_path, "list").stdout
    again = run(tmp_path, "brains", "delete", "secret-plans", "--yes")
    assert (again.returncode, "There are: main." in again.stderr) == (3, True)
    assert run(tmp_path, "brains", "delete").returncode == 2
    assert run(tmp_path, "brains", "create").returncode == 2


@pytest.mark.parametrize("has_route", [True, False])
def test_on_a_daemon_a_brain_goes_or_it_says_that_it_cannot(tmp_path: Path, has_route: bool) -> None:
    fake = FakeDaemon(T) if has_route else FakeDaemon(T).without(f"DELETE {BRAIN}")
    fake.brains.update({"main": {}, "other": {}})
    with listening(fake.app()) as url:
        done = run(tmp_path, "brains", "delete", "other", "--yes", BRAINS_UPSTREAM_URL=url)
    if has_route:
        assert done.returncode == 0, done.stderr
        assert "cannot be known from here" in done.stderr
        assert set(fake.brains) == {"main"}
    else:
        assert done.returncode == 1
        assert done.stderr == "brains-gateway: This platform deletes no brains: whoever runs it has to.\n"
        assert set(fake.brains) == {"main", "other"}
