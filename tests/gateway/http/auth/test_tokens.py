"""Tokens of ours: made, shown and revoked by the command, read again by gateways that run, and written down nowhere."""

import json
import os
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.config.token_file import PREFIX, change, digest, make_token, parse
from gateway.http.auth.inbound import Refused
from gateway.http.auth.tokens import Tokens
from gateway.operations.caller import Principal
from gateway.operations.names import private_tree
from tests.commands import run_here
from tests.gateway.http.auth.gateways import HTTP
from tests.gateway.http.auth.tokens import called, gateway, kept, structured
from tests.served import OPERATOR, Served, listening
from tests.upstreams import Scripted

REPOSITORY = Path(__file__).parents[4]
TOKEN = re.compile(r"bgt_[A-Za-z0-9_-]{43}")


def command(data: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("BRAINS_", "JB"))}
    return subprocess.run(
        [sys.executable, "-m", "gateway", "token", *arguments],
        env={**clean, "PYTHONPATH": str(REPOSITORY), "BRAINS_DATA_DIR": str(data), **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def command_here(data: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return run_here("token", *arguments, BRAINS_DATA_DIR=str(data), **settings)


def created(data: Path, *arguments: str, here: bool = False) -> tuple[str, str]:
    """The id and the token that the command made."""
    done = (command_here if here else command)(data, "create", *arguments)
    assert done.returncode == 0, done.stderr
    assert TOKEN.fullmatch(done.stdout.strip()), "stdout is the token and nothing else"
    said = re.match(r"Token ([0-9a-f]{8}) for ", done.stderr)
    assert said is not None
    return said.group(1), done.stdout.strip()


def status(served: Served, token: str) -> int:
    return called(served, token, "memory_list_brains", "/mcp/main").status_code


@pytest.mark.slow
def test_the_command_makes_lists_and_revokes_while_a_gateway_runs(tmp_path: Path) -> None:
    with gateway(tmp_path) as served:
        build, build_token = created(tmp_path, "build bot", "--brain", "main", "--scope", "write", "--days", "90")
        ada, ada_token = created(tmp_path, "Ada", "--org", "acme", "--project", "north", "--project", "south")
        listed = command(tmp_path, "list")
        expires = (datetime.now(UTC) + timedelta(days=90)).date().isoformat()
        assert [line.split("  ") for line in re.sub(" {2,}", "  ", listed.stdout).splitlines()] == [
            ["ID", "NAME", "SUBJECT", "SCOPE", "BRAIN", "ORG", "EXPIRES", "STATE"],
            [build, "build bot", "build bot", "write", "main", expires, "active"],
            [ada, "Ada", "Ada@acme", "read", "(in the URL)", "acme", "never", "active"],
        ]
        assert (status(served, build_token), status(served, ada_token)) == (200, 200)
        assert command(tmp_path, "revoke", build).returncode == 0
        assert (status(served, build_token), status(served, ada_token)) == (401, 200)
        assert re.search(rf"{build}.*revoked\n", command(tmp_path, "list").stdout)
        before = (tmp_path / "tokens.json").read_bytes()
        assert command(tmp_path, "revoke", build).returncode == 0
        assert (tmp_path / "tokens.json").read_bytes() == before, "it was revoked when it was revoked first"


def test_it_is_said_where_a_token_is_used(tmp_path: Path) -> None:
    said = command(tmp_path, "create", "build bot", "--brain", "main").stderr
    assert "to be used at /mcp or /<surface>/mcp. " in said
    said = command_here(tmp_path, "create", "Ada").stderr
    assert "to be used at /mcp/<brain> or /<surface>/mcp/<brain>. " in said


def test_what_a_record_says_is_who_somebody_is(tmp_path: Path) -> None:
    _id, _token = created(tmp_path, "Ada", "--subject", "ada@acme", "--org", "acme", "--scope", "admin", here=True)
    (entry,) = parse((tmp_path / "tokens.json").read_bytes())
    assert (entry.name, entry.subject, entry.org, entry.scope) == ("Ada", "ada@acme", "acme", "brains:admin")
    assert (entry.brain, entry.projects, entry.expires, entry.revoked) == (None, (), None, None)


@pytest.mark.parametrize(
    "arguments",
    [
        ["create"],
        ["create", "x", "--scope", "root"],
        ["create", "x", "--brain", "../x"],
        ["create", "x", "--brain", "nowhere"],
        ["create", ""],
        ["create", " "],
        ["create", "a\nb"],
        ["create", "x", "--subject", ""],
        ["create", "x", "--org", ""],
        ["create", "x", "--org", "a\x07b"],
        ["create", "x", "--org", "o" * 257],
        ["create", "x", "--days", "0"],
        ["create", "x", "--days", "-1"],
        ["create", "x", "--days", "nan"],
        ["create", "x", "--days", "1e9"],
        ["revoke"],
        ["revoke", "00000000"],
        ["revoke", ""],
        [],
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_said_and_changes_nothing(tmp_path: Path, arguments: list[str]) -> None:
    file = tmp_path / "tokens.json"
    kept(file)
    before = file.read_bytes()
    done = (command if "nowhere" in arguments else command_here)(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert file.read_bytes() == before


@pytest.mark.slow
def test_a_brain_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    done = command(tmp_path, "create", "x", "--brain", "mian")
    told = "There is no brain mian. There are: main. Create it with memory_create_brain first, or add --anyway."
    assert done.stderr == f"brains-gateway: {told}\n"
    assert not (tmp_path / "tokens.json").exists()
    created(tmp_path, "x", "--brain", "mian", "--anyway")


@pytest.mark.slow
def test_a_platform_is_asked_for_its_brains_as_the_token_would(tmp_path: Path) -> None:
    platform = Scripted({"GET /v1/brains": lambda _request: {"items": [{"id": "brn_1", "slug": "ours"}]}})
    with listening(platform.app()) as url:
        settings = {"BRAINS_UPSTREAM_URL": url, "BRAINS_UPSTREAM_TOKEN": "t", "BRAINS_DIALECT": "platform"}
        assert [
            command(tmp_path, "create", f"for {b}", "--brain", b, **settings).returncode for b in ("ours", "brn_1")
        ] == [0, 0]
        done = command(tmp_path, "create", "x", "--brain", "theirs", **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no brain theirs. There are: ours. " in done.stderr
    assert platform.headers[0]["authorization"] == "Bearer t"


@pytest.mark.slow
def test_a_platform_that_is_down_keeps_nobody_from_making_a_token(tmp_path: Path) -> None:
    done = command(tmp_path, "create", "x", "--brain", "theirs", BRAINS_UPSTREAM_URL="http://127.0.0.1:9")
    assert done.returncode == 0
    assert TOKEN.fullmatch(done.stdout.strip())
    assert "Whether there is a brain theirs could not be checked: The platform cannot be reached" in done.stderr


def test_an_organization_that_the_platform_is_not_told_of_is_no_secret(tmp_path: Path) -> None:
    platform = {"BRAINS_UPSTREAM_URL": "http://127.0.0.1:9"}
    told = "The platform is not told of the organization acme: it sees one token for all callers."
    assert told in command_here(tmp_path, "create", "a", "--org", "acme", **platform).stderr
    assert told not in command_here(tmp_path, "create", "b", "--org", "acme").stderr
    assert told not in command_here(tmp_path, "create", "c", **platform).stderr
    internal = {**platform, "BRAINS_UPSTREAM_AUTH": "internal"}
    assert told not in command_here(tmp_path, "create", "d", "--org", "acme", **internal).stderr


def subjects(data: Path) -> list[tuple[str | None, str]]:
    return [(entry.org, entry.subject) for entry in parse((data / "tokens.json").read_bytes())]


def test_two_tokens_are_of_one_person_only_if_that_is_said(tmp_path: Path) -> None:
    id_, _token = created(tmp_path, "bot", here=True)
    again = command_here(tmp_path, "create", "bot")
    assert again.returncode == 2
    assert f"bot is the subject of token {id_} already: choose another name, or, if it is the same" in again.stderr
    # Whoever had it before is no more the same person for that.
    assert command_here(tmp_path, "revoke", id_).returncode == 0
    assert command_here(tmp_path, "create", "bot").returncode == 2
    created(tmp_path, "bot", "--subject", "bot", here=True)
    assert subjects(tmp_path) == [(None, "bot"), (None, "bot")]


def test_two_active_tokens_of_one_name_are_of_one_person(tmp_path: Path) -> None:
    id_, _token = created(tmp_path, "bot", "--subject", "s1", here=True)
    for other in (["--subject", "s2"], []):
        done = command_here(tmp_path, "create", "bot", *other)
        assert done.returncode == 2
        assert f"There is a token for bot already, {id_}: " in done.stderr
    created(tmp_path, "bot", "--subject", "s1", here=True)
    created(tmp_path, "another bot", "--subject", "s1", here=True)


def test_two_organizations_never_share_a_subject(tmp_path: Path) -> None:
    for org in ([], ["--org", "acme"], ["--org", "globex"]):
        created(tmp_path, "bot", *org, here=True)
    assert subjects(tmp_path) == [(None, "bot"), ("acme", "bot@acme"), ("globex", "bot@globex")]
    for alike in (["bot@acme"], ["x", "--subject", "bot@acme"], ["x", "--subject", "bot", "--org", "acme"]):
        done = command_here(tmp_path, "create", *alike)
        assert done.returncode == 2
        assert "of another organization" in done.stderr


async def test_the_private_notes_of_a_token_of_before_are_where_they_were(tmp_path: Path) -> None:
    """A file as earlier versions wrote it, with what is shared in it: nobody loses what is theirs."""
    file, tokens = tmp_path / "tokens.json", [make_token() for _ in range(3)]
    said = {"created": "2026-01-01T00:00:00Z", "scope": "brains:write", "brain": None, "expires": None, "revoked": None}
    people = [("ci", "ci", "acme"), ("ci", "ci", "globex"), ("Ada", "ada@acme", None)]
    old: list[dict[str, Any]] = [
        {
            "id": f"0000000{n}",
            "sha256": digest(token),
            "name": name,
            "subject": subject,
            "org": org,
            "projects": [],
            **said,
        }
        for n, (token, (name, subject, org)) in enumerate(zip(tokens, people, strict=True))
    ]
    file.write_text(json.dumps({"tokens": old}))
    created(tmp_path, "new", here=True)
    trees = []
    for token in tokens:
        principal = await Tokens(file).principal(token)
        trees.append(private_tree(principal.issuer, principal.subject))
    ci, ada = "u-taqbzx6vxz3cfev3icoepv6zo4", "u-2b4xpfejsx4wkmp6qd7jlzgj5g"
    assert trees == [ci, ci, ada]


def test_a_file_that_holds_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text('{"tokens": "mine"}')
    for verb in (["create", "x"], ["list"], ["revoke", "x"]):
        done = command_here(tmp_path, *verb)
        assert (done.returncode, done.stdout) == (1, "")
        assert "Traceback" not in done.stderr
    assert file.read_text() == '{"tokens": "mine"}'


def test_the_file_and_its_directory_are_for_the_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask is, and whatever the mode was."""
    data = tmp_path / "new" / "data"
    old = os.umask(0)
    try:
        created(data, "x")
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [data, *data.iterdir()]}
    assert modes == {"data": 0o700, "tokens.json": 0o600, "tokens.json.lock": 0o600}
    (data / "tokens.json").chmod(0o644)
    kept(data / "tokens.json")
    assert stat.S_IMODE((data / "tokens.json").stat().st_mode) == 0o600


@pytest.mark.slow
def test_two_commands_at_once_lose_no_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        tokens = dict(pool.map(lambda n: created(tmp_path, f"token {n}"), range(8)))
    entries = parse((tmp_path / "tokens.json").read_bytes())
    assert {entry.id: entry.sha256 for entry in entries} == {id_: digest(token) for id_, token in tokens.items()}


def test_a_hundred_threads_at_once_lose_no_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    with ThreadPoolExecutor(16) as pool:
        tokens = list(pool.map(lambda _n: kept(file), range(100)))
    assert {entry.sha256 for entry in parse(file.read_bytes())} == {digest(token) for token in tokens}
    assert {path.name for path in tmp_path.iterdir()} == {"tokens.json", "tokens.json.lock"}


def test_a_change_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    kept(file)
    before = file.read_bytes()

    def fail() -> None:
        with change(file) as records:
            records.clear()
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    assert file.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"tokens.json", "tokens.json.lock"}


@pytest.mark.slow
def test_the_token_itself_is_in_no_file_and_no_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with gateway(tmp_path) as served:
        id_, token = created(tmp_path, "Ada", "--brain", "main", "--scope", "write")
        wrong = make_token()
        stored = structured(called(served, token, "memory_remember", content="Otters hold hands."))
        assert stored["outcome"] == "stored"
        assert status(served, wrong) == 401
        assert called(served, token, "memory_consolidate").status_code == 403
        command(tmp_path, "revoke", id_)
        refused = called(served, token, "memory_list_brains")
        assert refused.status_code == 401
        assert token not in refused.text + str(refused.headers)
        shown = command(tmp_path, "list")
    out, err = capfd.readouterr()
    logged = out + err + shown.stdout + shown.stderr
    assert f"revoked token {id_}" in logged
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in (token, wrong, token.removeprefix(PREFIX), token[-20:]):
        assert secret not in logged
        assert secret.encode() not in files


def test_a_file_that_is_being_written_keeps_those_it_had_and_one_that_is_gone_has_none(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    with gateway(tmp_path) as served:
        first = kept(file)
        assert status(served, first) == 200
        good = file.read_bytes()

        def ready() -> tuple[int, list[str]]:
            answer = HTTP.get(served.url + "/readyz", headers=OPERATOR)
            return answer.status_code, answer.json()["problems"]

        assert ready() == (200, [])
        for broken in (
            b"",
            b"{",
            b"[]",
            b"{}",
            b'{"tokens": {}}',
            good[:-5],
            good.replace(b"sha256", b"sha512"),
            b"\xff",
        ):
            file.write_bytes(broken)
            assert status(served, first) == 200, broken
            assert status(served, make_token()) == 401
            assert ready() == (503, ["the file of tokens cannot be read"])
            file.write_bytes(good)
            assert ready() == (200, [])
        file.unlink()
        assert (status(served, first), ready()[0]) == (401, 503)
        file.write_bytes(good)
        assert (status(served, first), ready()) == (200, (200, []))
        file.unlink()
        second = kept(file)
        assert (status(served, first), status(served, second), ready()) == (401, 200, (200, []))
        file.write_text('{"tokens": []}')
        assert (status(served, second), ready()) == (401, (200, []))


async def test_a_revocation_counts_whatever_else_is_written_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    leaked, other = kept(file, id="leaked"), kept(file, id="other")
    tokens = Tokens(file)
    said = json.loads(file.read_text())
    said["version"] = 2
    said["tokens"][0] |= {"revoked": "2026-01-01T00:00:00Z", "why": "it was in a chat"}
    file.write_text(json.dumps(said))
    with pytest.raises(Refused, match="revoked token leaked"):
        await tokens.principal(leaked)
    assert (await tokens.principal(other)).client == "other"


async def test_a_token_with_a_field_that_nobody_knows_is_good_for_nothing(tmp_path: Path) -> None:
    """It may be a revocation with a slip in it, or a limit that a newer version has."""
    file = tmp_path / "tokens.json"
    good, odd = kept(file, id="good", reason=None), kept(file, id="odd", revokd="2026-01-01T00:00:00Z")
    tokens = Tokens(file)
    assert (await tokens.principal(good)).client == "good"
    with pytest.raises(Refused, match="not understood token odd"):
        await tokens.principal(odd)


def test_what_a_newer_version_wrote_outlives_a_change(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    kept(file, id="newer", days=["Monday"])
    said = json.loads(file.read_text())
    file.write_text(json.dumps({**said, "version": 2}))
    assert command(tmp_path, "revoke", "newer").returncode == 0
    after = json.loads(file.read_text())
    assert (after["version"], after["tokens"][0]["days"]) == (2, ["Monday"])
    assert after["tokens"][0]["revoked"]


async def test_who_it_is_and_until_when(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    now = datetime.now(UTC)
    fields = {"org": "acme", "projects": ("north",), "scope": "brains:write", "brain": "main"}
    good = kept(file, id="good", expires=now + timedelta(hours=1), **fields)
    plain = kept(file, id="plain")
    refused = {
        "expired": kept(file, expires=now - timedelta(seconds=1)),
        "revoked": kept(file, revoked=now),
        "revoked and not expired": kept(file, revoked=now - timedelta(days=1), expires=now + timedelta(days=1)),
    }
    tokens = Tokens(file)
    assert await tokens.principal(good) == Principal(
        issuer="brains-gateway:tokens",
        subject="ada",
        client="good",
        org="acme",
        projects=("north",),
        scopes=frozenset({"brains:read", "brains:write"}),
        brain="main",
    )
    assert await tokens.principal(plain) == Principal(
        issuer="brains-gateway:tokens",
        subject="ada",
        client="plain",
        scopes=frozenset({"brains:read"}),
        brain_in_path=True,
    )
    for why, token in refused.items():
        with pytest.raises(Refused, match=why.split()[0]):
            await tokens.principal(token)
    for odd in ("", PREFIX, good[:-1], good + "x", good.lower(), " " + good, digest(good), "é", "\ud800"):
        with pytest.raises(Refused, match="unknown token"):
            await tokens.principal(odd)


@pytest.mark.parametrize("scope", ["brains:none", "", "*", "brains:admin ", "BRAINS:ADMIN"])
async def test_a_scope_that_is_none_of_ours_allows_nothing(tmp_path: Path, scope: str) -> None:
    file = tmp_path / "tokens.json"
    token = kept(file, scope=scope)
    assert (await Tokens(file).principal(token)).scopes == frozenset()


def test_a_time_without_its_zone_is_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """As a person writes it who edits the file by hand."""
    file = tmp_path / "tokens.json"
    kept(file)
    said = json.loads(file.read_text())
    said["tokens"][0]["expires"] = "2020-01-01T00:00:00"
    file.write_text(json.dumps(said))
    with pytest.raises(ValueError, match="timezone"):
        Tokens(file)
