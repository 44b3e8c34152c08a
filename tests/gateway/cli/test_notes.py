"""Commands on what a brain holds, each on the embedded brain and in front of each make of the daemon."""

import json
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.brain.shelf import Shelf
from gateway.cli.output import print_json, printable
from gateway.operations.caller import Call
from tests.daemons.fake import FakeDaemon, Script
from tests.gateway.cli.running import run
from tests.gateway.conftest import DAEMONS, FEW_PLATFORMS
from tests.served import listening

pytestmark = pytest.mark.not_quick

Command = Callable[..., "subprocess.CompletedProcess[str]"]
ANSWER = ["Gyokuro ", "wants ", "sixty degrees."]


@pytest.fixture(params=FEW_PLATFORMS)
def command(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Command]:
    """Runs a command on a platform with one brain."""
    settings = {"BRAINS_DEFAULT_BRAIN": "main"}
    with ExitStack() as stack:
        if request.param != "embedded":
            daemon = FakeDaemon(DAEMONS[request.param], llm=Script(tokens=ANSWER))
            settings["BRAINS_UPSTREAM_URL"] = stack.enter_context(listening(daemon.app()))
            assert run(tmp_path, "brains", "create", "Main", **settings).returncode == 0
        yield lambda *arguments, **more: run(tmp_path, *arguments, **settings, **more)


def add(command: Command, text: str, *options: str) -> str:
    """The path of a note that was added."""
    done = command("add", text, *options)
    assert (done.returncode, done.stderr) == (0, "Stored.\n")
    return done.stdout.strip()


def shown(command: Command, path: str) -> dict[str, object]:
    done = command("show", path, "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def editor(tmp_path: Path, script: str) -> str:
    """A program that edits the file it is given."""
    file = tmp_path / "editor.sh"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_what_is_added_is_listed_shown_and_found(command: Command) -> None:
    path = add(command, "# Tea\n\nGyokuro wants sixty degrees.", "--tag", "drinks")
    assert path in command("list").stdout
    assert path in command("list", "memory/global").stdout
    assert path not in command("list", "memory/project").stdout
    assert path in [entry["path"] for entry in json.loads(command("list", "--json").stdout)]
    note = shown(command, path)
    assert (note["title"], note["tags"]) == ("Tea", ["drinks"])
    assert str(note["content"]).strip() == "# Tea\n\nGyokuro wants sixty degrees."
    text = command("show", path).stdout
    assert "Gyokuro wants sixty degrees." in text
    assert "tags: drinks" in text
    assert path in command("search", "gyokuro").stdout
    assert path in json.dumps(json.loads(command("search", "gyokuro", "--json").stdout)["hits"])
    assert command("add", "# Tea\n\nGyokuro wants sixty degrees.", "--tag", "drinks").stderr == "Already stored.\n"


def test_a_question_is_answered_with_its_sources(command: Command) -> None:
    path = add(command, "# Tea\n\nGyokuro wants sixty degrees.")
    done = command("ask", "What does gyokuro want?")
    assert done.returncode == 0, done.stderr
    assert "sixty degrees" in done.stdout
    assert path in done.stdout
    assert "sixty degrees" in json.loads(command("ask", "What does gyokuro want?", "--json").stdout)["answer"]


def test_standard_input_and_files_are_added_too(command: Command, tmp_path: Path) -> None:
    said = command("add", stdin="Sencha wants eighty degrees.")
    assert "Sencha wants" in command("show", said.stdout.strip()).stdout
    (tmp_path / "bancha.md").write_text("# Bancha\n\nBoiling water is fine.")
    from_file = command("add", "--file", "bancha.md")
    assert from_file.returncode == 0, from_file.stderr
    assert "Boiling water" in command("show", from_file.stdout.strip()).stdout
    assert command("add", "  ").returncode == 2
    assert command("add", stdin=b"\xff\xfe").returncode == 1


def test_an_edited_note_says_the_new_and_can_be_what_it_was(command: Command, tmp_path: Path) -> None:
    path = add(command, "# Tea\n\nGyokuro wants sixty degrees.", "--tag", "drinks")
    done = command("edit", path, EDITOR=editor(tmp_path, 'sed -i s/sixty/fifty/ "$1"'))
    assert done.returncode == 0, done.stderr
    note = shown(command, path)
    assert "fifty degrees" in str(note["content"])
    # What only the record of the platform said is in the note now.
    assert (note["title"], note["tags"]) == ("Tea", ["drinks"])
    assert path in command("search", "fifty").stdout
    (version,) = json.loads(command("history", path, "--json").stdout)
    assert version["removed"] is False
    assert command("undo", path, version["version"]).returncode == 0
    assert "sixty degrees" in command("show", path).stdout
    assert command("undo", path, "20200101T000000Z-0123456789ab").returncode == 3


FRONT = "---\nauthor of the book: Okakura\n---\n\nThe book of tea."


@pytest.mark.parametrize("text", ["Gyokuro wants sixty degrees.", FRONT])
def test_a_title_and_tags_that_only_the_platform_knew_outlive_an_edit_and_its_undo(
    command: Command, tmp_path: Path, text: str
) -> None:
    options = ("--title", "On tea", "--tag", "drinks", "--tag", "green")
    path = add(command, text, *options)
    before = shown(command, path)
    assert (before["title"], before["tags"]) == ("On tea", ["drinks", "green"])
    assert command("edit", path, EDITOR=editor(tmp_path, 'echo More. >> "$1"')).returncode == 0
    edited = shown(command, path)
    assert (edited["title"], edited["tags"]) == ("On tea", ["drinks", "green"])
    assert command("undo", path).returncode == 0
    after = shown(command, path)
    assert (after["title"], after["tags"]) == ("On tea", ["drinks", "green"])
    assert words_of(after) == words_of(before)
    assert command("add", text, *options).stderr == "Already stored.\n"
    # And back to what was edited, with an undo of the undo.
    assert command("undo", path).returncode == 0
    assert (shown(command, path)["tags"], "More." in str(shown(command, path)["content"])) == (edited["tags"], True)


def words_of(note: dict[str, object]) -> str:
    """The content without the front matter of its own, which is shown as such once a note has fields of ours."""
    return str(note["content"]).rpartition("---\n")[2].strip()


def test_an_undo_over_another_note_brings_the_title_and_tags_back_too(command: Command) -> None:
    path = add(command, "Gyokuro wants sixty degrees.", "--title", "On tea", "--tag", "drinks")
    other = add(command, "Sencha wants eighty degrees.")
    assert command("rm", "--yes", path).returncode == 0
    assert command("mv", other, path).returncode == 0
    assert command("undo", path).returncode == 0
    note = shown(command, path)
    assert (note["title"], note["tags"], "Gyokuro" in str(note["content"])) == ("On tea", ["drinks"], True)
    assert command("undo", path).returncode == 0
    assert "Sencha" in str(shown(command, path)["content"])


def test_an_edit_does_not_overwrite_what_changed_meanwhile(command: Command, tmp_path: Path) -> None:
    path = add(command, "Gyokuro wants sixty degrees.")
    replace = Shelf.replace

    async def replace_after_another(self: Shelf, call: Call, path: str, text: str, expected: str) -> bool:
        # While one editor is open, another saves.
        await replace(self, call, path, text.replace("forty", "seventy"), expected)
        return await replace(self, call, path, text, expected)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shelf, "replace", replace_after_another)
        done = command("edit", path, EDITOR=editor(tmp_path, 'sed -i s/sixty/forty/ "$1"'))
    assert done.returncode == 4
    assert "It was changed meanwhile." in done.stderr
    kept = Path(done.stderr.rpartition("kept in ")[2].strip().rstrip("."))
    assert "forty degrees" in kept.read_text()
    kept.unlink()
    assert "seventy degrees" in command("show", path).stdout


def test_an_edit_that_changes_nothing_or_fails_stores_nothing(command: Command, tmp_path: Path) -> None:
    path = add(command, "Gyokuro wants sixty degrees.")
    assert command("edit", path, EDITOR="true").stderr == "Nothing was changed.\n"
    assert command("edit", path, EDITOR="false").returncode == 1
    assert command("edit", path, EDITOR="no-such-editor").returncode == 1
    assert "Set EDITOR" in command("edit", path, EDITOR="", VISUAL="").stderr
    assert command("history", path, "--json").stdout == "[]\n"


def test_what_is_put_away_is_found_by_nothing_until_it_is_brought_back(command: Command) -> None:
    path = add(command, "Gyokuro wants sixty degrees.")
    asked = command("rm", path)
    assert (asked.returncode, "add --yes" in asked.stderr) == (1, True)
    assert command("rm", path, "--yes").returncode == 0
    assert path not in command("list").stdout
    assert path not in command("search", "gyokuro").stdout
    assert command("show", path).returncode == 3
    assert command("rm", path, "--yes").returncode == 3
    (version,) = json.loads(command("history", path, "--json").stdout)
    assert version["removed"] is True
    assert command("undo", path).returncode == 0
    assert path in command("search", "gyokuro").stdout


def test_a_moved_note_replaces_none(command: Command) -> None:
    path = add(command, "Gyokuro wants sixty degrees.")
    other = add(command, "Sencha wants eighty degrees.")
    assert command("mv", path, other).returncode == 4
    for nowhere in ("/etc/x.md", "../x.md", "memory/_hidden.md", ""):
        assert command("mv", path, nowhere).returncode == 2
    assert command("mv", path, "memory/global/moved.md").returncode == 0
    assert "Gyokuro" in command("show", "memory/global/moved.md").stdout
    assert command("show", path).returncode == 3


def test_brains_are_listed_created_and_chosen(command: Command) -> None:
    made = command("brains", "create", "Kitchen")
    assert made.returncode == 0, made.stderr
    assert "kitchen" in command("brains").stdout
    assert "kitchen" in [brain["slug"] for brain in json.loads(command("brains", "--json").stdout)]
    path = add(command, "Salt before pepper.", "--brain", "kitchen")
    assert command("show", path, "--brain", "kitchen").returncode == 0
    assert command("show", path).returncode == 3
    nowhere = command("list", "--brain", "nowhere")
    assert (nowhere.returncode, "Type `brains-gateway brains`" in nowhere.stderr) == (3, True)


def test_what_is_stored_commands_no_terminal(command: Command) -> None:
    path = add(command, "red \x1b[31malert\x1b]0;title\x07 end")
    for told in (command("show", path), command("search", "alert"), command("ask", "What alert is there?")):
        assert "\x1b" not in told.stdout
        assert "\x07" not in told.stdout


def test_json_commands_no_terminal_and_is_plain_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "caf\u00e9 \x9b31m \x1b"
    print_json(said)
    assert capsys.readouterr().out == '"caf\u00e9 \x9b31m \\u001b"\n'
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_json(said)
    told = capsys.readouterr().out
    assert (printable(told), json.loads(told)) == (told, said)


def test_where_there_is_nothing_a_person_is_told_so(command: Command) -> None:
    assert command("list").stderr == "There are no notes yet.\n"
    assert command("list", "memory/project").stderr == "There are no notes in memory/project.\n"
    assert command("history", "memory/global/x.md").stderr == "There is no earlier version of memory/global/x.md.\n"
    for asked in ("search", "ask"):
        done = command(asked, " ")
        assert (done.returncode, "the text is empty" in done.stderr) == (2, True)
    assert command("list", "--json").stdout == "[]\n"


def test_who_names_a_note_that_is_not_there_is_told_where_to_look(command: Command) -> None:
    path = add(command, "# Tea\n\nGyokuro wants sixty degrees.")
    for asked in (("show",), ("edit",), ("rm", "--yes")):
        done = command(*asked, "memory/global/never.md")
        assert (done.returncode, done.stdout) == (3, "")
        assert "There is no note memory/global/never.md. `brains-gateway list` shows which there are." in done.stderr
    done = command("undo", path, "20260101T000000000Z")
    assert (done.returncode, "`brains-gateway history` shows which there are." in done.stderr) == (3, True), done.stderr


def test_completion_knows_every_command_and_its_options(tmp_path: Path) -> None:
    for shell in ("bash", "zsh", "fish"):
        done = run(tmp_path, "completion", shell)
        assert done.returncode == 0
        for word in ("history", "undo", "--with-secrets", "--brain"):
            assert word.removeprefix("--") in done.stdout
    script = run(tmp_path, "completion", "bash").stdout
    asked = 'COMP_WORDS=(brains-gateway hi); COMP_CWORD=1; _brains_gateway; echo "${COMPREPLY[@]}"'
    assert subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True).stdout == "history\n"
    asked = 'COMP_WORDS=(brains-gateway rm --y); COMP_CWORD=2; _brains_gateway; echo "${COMPREPLY[@]}"'
    assert subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True).stdout == "--yes\n"


def test_a_platform_that_is_down_is_one_sentence(tmp_path: Path) -> None:
    done = run(tmp_path, "list", BRAINS_UPSTREAM_URL="http://127.0.0.1:9", BRAINS_CONNECT_SECONDS="0.2")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("brains-gateway: ")
