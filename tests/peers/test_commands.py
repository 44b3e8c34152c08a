"""Every command on the embedded brain, the published daemon, and the reference platform behind signed tokens.

What a platform cannot do is one sentence, and the right exit code.
"""

import json
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.config import signing_keys
from tests.contract.targets import PAGE, page_app, reference_app
from tests.daemons.llm import ScriptedLLM
from tests.daemons.real import running_daemon
from tests.gateway.cli.running import run
from tests.peers.test_daemon import TOKENS, talkative
from tests.served import listening
from tests.web import web_on

AUDIENCE = "reference-platform"
OTHERS = Path(__file__).parents[1] / "gateway" / "cli" / "others"


@dataclass
class Believer:
    """A platform that lets in whoever brings a token which the gateway signed for it, and nobody else."""

    app: ASGIApp
    keys: KeySet
    let_in: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                brought = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
                claims = jwt.decode(brought, self.keys, algorithms=["ES256"]).claims
            except (JoseError, ValueError):
                claims = {}
            if claims.get("aud") not in (AUDIENCE, [AUDIENCE]):
                await JSONResponse({"code": "unauthorized"}, 401)(scope, receive, send)
                return
            self.let_in += 1
        await self.app(scope, receive, send)


@dataclass
class Desk:
    """Commands as a person gives them, on one platform."""

    home: Path
    kind: str
    settings: dict[str, str]

    def run(self, *arguments: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return run(self.home, *arguments, stdin=stdin, **{"BRAINS_DEFAULT_BRAIN": "main", **self.settings, **more})

    def good(self, *arguments: str, stdin: str = "", **more: str) -> str:
        done = self.run(*arguments, stdin=stdin, **more)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout.strip()

    def refused(self, code: int, *arguments: str) -> str:
        done = self.run(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1), (arguments, done.stderr)
        assert done.stderr.startswith("brains-gateway: ")
        return done.stderr


@pytest.fixture(params=["embedded", "daemon", "daemon with a model", "platform with JWT"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    settings: dict[str, str] = {}
    with ExitStack() as stack:
        if request.param.startswith("daemon"):
            has_model = request.param != "daemon"
            llm = stack.enter_context(listening(ScriptedLLM(talkative()).app())) if has_model else None
            url = stack.enter_context(running_daemon(tmp_path / "daemon", llm_url=llm, token="a-daemon-token"))
            settings = {"BRAINS_UPSTREAM_URL": url, "BRAINS_UPSTREAM_TOKEN": "a-daemon-token"}
        elif request.param == "platform with JWT":
            keys = signing_keys.begin("ES256")
            (tmp_path / "keys.json").write_bytes(signing_keys.serialize(keys))
            (tmp_path / "keys.json").chmod(0o600)
            app = stack.enter_context(reference_app(token=None))
            believer = Believer(app, KeySet.import_key_set({"keys": [dict(key.public()) for key in keys]}))
            settings = {
                "BRAINS_UPSTREAM_URL": stack.enter_context(listening(believer)),
                "BRAINS_UPSTREAM_AUTH": "internal",
                "BRAINS_UPSTREAM_AUDIENCE": AUDIENCE,
                "BRAINS_SIGNING_KEYS_FILE": str(tmp_path / "keys.json"),
                "BRAINS_PUBLIC_URL": "https://brains.example",
            }
            stack.callback(lambda: pytest.fail("no token was believed") if not believer.let_in else None)
        yield Desk(tmp_path, request.param, settings)


def editor(home: Path, script: str) -> str:
    file = home / "editor.sh"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_every_command_does_what_it_says(desk: Desk) -> None:
    if desk.kind != "embedded":
        desk.good("brains", "create", "Main")
    desk.good("brains", "create", "Kitchen")
    assert {"main", "kitchen"} <= {one["slug"] for one in json.loads(desk.good("brains", "list", "--json"))}

    # add: a text, standard input, a file.
    tea = desk.good("add", "# Tea\n\nGyokuro wants sixty degrees.", "--tag", "drinks")
    sencha = desk.good("add", stdin="Sencha wants eighty degrees.")
    (desk.home / "bancha.md").write_text("# Bancha\n\nBoiling water is fine.")
    bancha = desk.good("add", "--file", "bancha.md")
    assert desk.run("add", "# Tea\n\nGyokuro wants sixty degrees.", "--tag", "drinks").stderr == "Already stored.\n"

    # list, show, search.
    listed = {one["path"] for one in json.loads(desk.good("list", "--json"))}
    assert {tea, sencha, bancha} <= listed
    note = json.loads(desk.good("show", tea, "--json"))
    assert (note["title"], note["tags"]) == ("Tea", ["drinks"])
    assert "Boiling water" in desk.good("show", bancha)
    assert tea in desk.good("search", "gyokuro")
    assert "There is no note" in desk.refused(3, "show", "memory/global/never.md")
    assert "`brains-gateway brains`" in desk.refused(3, "list", "--brain", "nowhere")

    # edit, history, undo.
    desk.good("edit", tea, EDITOR=editor(desk.home, 'sed -i s/sixty/fifty/ "$1"'))
    assert "fifty degrees" in desk.good("show", tea)
    (version,) = json.loads(desk.good("history", tea, "--json"))
    desk.good("undo", tea, version["version"])
    undone = json.loads(desk.good("show", tea, "--json"))
    assert ("sixty degrees" in undone["content"], undone["title"], undone["tags"]) == (True, "Tea", ["drinks"])

    # rm, undo, mv.
    desk.good("rm", "--yes", sencha)
    assert desk.run("show", sencha).returncode == 3
    assert sencha not in desk.good("search", "sencha eighty")
    desk.good("undo", sencha)
    desk.refused(4, "mv", sencha, tea)
    desk.good("mv", sencha, "memory/global/moved.md")
    assert "eighty degrees" in desk.good("show", "memory/global/moved.md")


def test_a_question_is_answered_or_it_says_that_there_is_no_model(desk: Desk) -> None:
    if desk.kind != "embedded":
        desk.good("brains", "create", "Main")
    desk.good("add", "# Tea\n\nGyokuro wants sixty degrees.")
    if desk.kind == "daemon":
        assert "model" in desk.refused(1, "ask", "What does gyokuro want?").lower()
        return
    said = desk.good("ask", "What does gyokuro want?")
    assert ("".join(TOKENS) if desk.kind.startswith("daemon") else "sixty degrees") in said


def test_what_is_exported_is_imported_into_another_brain_and_the_same(desk: Desk) -> None:
    if desk.kind != "embedded":
        desk.good("brains", "create", "Main")
    desk.good("brains", "create", "Copy")
    for n in range(5):
        desk.good("add", f"# Note {n}\n\nThe text of {n}.\n", "--tag", "t")
    desk.good("export", "one.jsonl")
    for new, there in ((5, 0), (0, 5)):
        done = desk.run("import", "one.jsonl", "--brain", "copy")
        assert (done.returncode, f"{new} notes are new, {there} were there already" in done.stderr) == (0, True)
    desk.good("export", "two.jsonl", "--brain", "copy")
    assert (desk.home / "one.jsonl").read_bytes() == (desk.home / "two.jsonl").read_bytes()


def test_a_page_and_what_another_program_kept_are_stored(desk: Desk) -> None:
    if desk.kind != "embedded":
        desk.good("brains", "create", "Main")
    with listening(page_app()) as pages, web_on(pages):
        path = desk.good("add", "--url", PAGE)
    assert "Leaves, and water." in desk.good("show", path)
    vault = str(OTHERS / "vault")
    before = desk.good("list", "--json")
    desk.run("migrate", "--from", "markdown", vault, "--dry-run")
    assert desk.good("list", "--json") == before
    # Two files in there cannot be taken, so the command says so and fails.
    for new, there in ((3, 0), (0, 3)):
        done = desk.run("migrate", "--from", "markdown", vault)
        assert (done.returncode, f"{new} notes are new, {there} were there already" in done.stderr) == (1, True)
    assert "Met [[Ada]]" in desk.good("show", "memory/global/Daily note.md")


def test_the_file_of_the_embedded_brain_is_backed_up_and_that_of_a_platform_is_not_ours(desk: Desk) -> None:
    if desk.kind != "embedded":
        desk.good("brains", "create", "Main")
        for command in ("backup", "restore"):
            assert "this command is for the embedded brain alone" in desk.refused(2, command, "copy.sqlite3")
        return
    kept = desk.good("add", "Gyokuro wants sixty degrees.")
    desk.good("backup", "copy.sqlite3")
    lost = desk.good("add", "Sencha wants eighty degrees.")
    desk.good("restore", "copy.sqlite3")
    listed = {one["path"] for one in json.loads(desk.good("list", "--json"))}
    assert (kept in listed, lost in listed) == (True, False)


def test_a_brain_and_a_note_go_for_good(desk: Desk) -> None:
    if desk.kind != "embedded":
        desk.good("brains", "create", "Main")
    desk.good("brains", "create", "Kitchen")
    path = desk.good("add", "Salt before pepper.", "--brain", "kitchen")
    desk.good("rm", "--purge", "--yes", path, "--brain", "kitchen")
    assert json.loads(desk.good("history", path, "--brain", "kitchen", "--json")) == []
    assert path not in desk.good("who", "--paths", "--brain", "kitchen")
    desk.refused(1, "brains", "delete", "kitchen")
    desk.good("brains", "delete", "kitchen", "--yes")
    assert "kitchen" not in {one["slug"] for one in json.loads(desk.good("brains", "--json"))}
    assert "There are: main." in desk.refused(3, "brains", "delete", "kitchen", "--yes")
