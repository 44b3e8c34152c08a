"""`export`, `import` and `migrate`: out of one brain, into another of any platform, and from other programs."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from contract.platform.documents import Draft
from contract.platform.store import Store
from gateway.cli.exported import target_at
from tests.daemons.fake import FakeDaemon
from tests.gateway.cli.running import run
from tests.gateway.conftest import DAEMONS, FEW_PLATFORMS
from tests.served import listening

pytestmark = pytest.mark.not_quick

OTHERS = Path(__file__).with_name("others")
NOTES = {
    "memory/global/tea.md": "# Tea\n\nGyokuro wants sixty degrees.\r\nNo more.",
    "memory/global/kv/default/boat.md": "---\nvia: brains-gateway\nname: default/boat\nkey: boat\n---\n\nlarch",
    "memory/project/summer/plan.md": "---\ntitle: mine\n---\nGo north.",
    "raw/documents/page.md": "A page.",
    "sessions/talk.jsonl": '{"role": "user", "content": "hello"}\n',
    "wiki/ünï cödé.md": "Umlauts \N{ROCKET}",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a brain that holds notes of every kind: with a record, with front matter of ours and of others, and logs."""
    store = Store.open(tmp_path / "data")
    brain = store.brain("main")
    for path, content in NOTES.items():
        store.documents.put(brain, path, content.encode())
    draft = Draft("memory/global/larch.md", b"Larch lasts.", title="Wood", metadata={"tags": "boat,wood", "n": 1})
    store.documents.create(brain, draft)
    store.documents.put(brain, "memory/agent/crew/bytes.txt", b"\xff\xfe\x00")
    store.close()
    return tmp_path


@pytest.fixture(params=FEW_PLATFORMS)
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The settings of an empty brain elsewhere."""
    settings = {"BRAINS_DEFAULT_BRAIN": "main", "BRAINS_DATA_DIR": str(tmp_path / "elsewhere")}
    with ExitStack() as stack:
        if request.param != "embedded":
            daemon = FakeDaemon(DAEMONS[request.param])
            settings["BRAINS_UPSTREAM_URL"] = stack.enter_context(listening(daemon.app()))
            assert run(tmp_path, "brains", "create", "Main", **settings).returncode == 0
        yield settings


def files_in(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def done(home: Path, *arguments: str, **settings: Any) -> str:
    ran = run(home, *arguments, **settings)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


@pytest.mark.parametrize("form", ["folder", "lines.jsonl"])
def test_what_is_exported_imported_elsewhere_and_exported_again_is_the_same(
    home: Path, other: dict[str, str], form: str
) -> None:
    assert "8 notes are exported" in done(home, "export", form)
    assert "8 notes are new, 0 were there already" in done(home, "import", form, **other)
    assert "0 notes are new, 8 were there already" in done(home, "import", form, **other)
    done(home, "export", f"again-{form}", **other)
    if form == "folder":
        assert files_in(home / form) == files_in(home / f"again-{form}")
    else:
        assert (home / form).read_bytes() == (home / f"again-{form}").read_bytes()


def test_an_export_is_markdown_that_says_all_that_is_known(home: Path) -> None:
    done(home, "export", "folder")
    files = files_in(home / "folder")
    for path, content in NOTES.items():
        assert content.encode() in files[path]
    told = files["memory/global/larch.md"].decode()
    assert told.startswith("---\nname: Wood\n")
    for line in ("tags:\n- boat\n- wood\n", "created: '20", "modified: '20", "\nn: 1\n", "\n---\n\nLarch lasts."):
        assert line in told
    assert files["memory/agent/crew/bytes.txt"] == b"\xff\xfe\x00"
    # Into the brain it came from, it brings nothing new.
    assert "0 notes are new, 8 were there already" in done(home, "import", "folder")


def test_an_imported_note_is_found_and_remembering_it_again_is_no_conflict(home: Path) -> None:
    path = run(home, "add", "Oak is heavy.", "--tag", "wood").stdout.strip()
    done(home, "export", "folder")
    elsewhere = {"BRAINS_DATA_DIR": str(home / "elsewhere")}
    done(home, "import", "folder", **elsewhere)
    assert path in run(home, "search", "oak", **elsewhere).stdout
    again = run(home, "add", "Oak is heavy.", "--tag", "wood", **elsewhere)
    assert (again.returncode, again.stderr) == (0, "Already stored.\n")


def test_a_second_export_to_a_folder_takes_out_what_is_gone_and_nothing_else(home: Path) -> None:
    done(home, "export", "folder")
    (home / "folder" / "mine.md").write_text("not exported")
    done(home, "rm", "--yes", "memory/global/tea.md")
    done(home, "export", "folder")
    assert "memory/global/tea.md" not in files_in(home / "folder")
    assert (home / "folder" / "mine.md").exists()
    (home / "full").mkdir()
    (home / "full" / "a.txt").touch()
    assert "holds something else" in run(home, "export", "full").stderr
    done(home, "export", "lines.jsonl")
    assert "is there already" in run(home, "export", "lines.jsonl").stderr


@pytest.mark.parametrize("order", [("x.md", "x.md/y.md"), ("x.md/y.md", "x.md")])
def test_a_note_called_as_the_folder_of_another_is_not_exported_and_the_others_are(
    tmp_path: Path, order: tuple[str, str]
) -> None:
    with target_at(str(tmp_path / "folder")) as target:
        assert [target.write(path, path.encode()) for path in (*order, "z.md")] == [True, False, True]
    assert {path: body for path, body in files_in(tmp_path / "folder").items() if path.endswith(".md")} == {
        order[0]: order[0].encode(),
        "z.md": b"z.md",
    }


def test_an_export_is_for_its_owner_alone_and_goes_through_no_link(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    with target_at(str(folder)) as target:
        target.write("a.md", b"a")
    assert {file.stat().st_mode & 0o077 for file in folder.iterdir()} == {0}
    outside.mkdir()
    (outside / "kept.md").write_bytes(b"kept")
    (folder / "led").symlink_to(outside)
    (folder / "b.md").symlink_to(outside / "kept.md")
    (folder / "c.md").symlink_to(folder / "a.md")
    with target_at(str(folder)) as target:
        assert [target.write(path, b"new") for path in ("led/deep/d.md", "b.md", "c.md")] == [False] * 3
    part = tmp_path / "lines.jsonl.part"
    part.symlink_to(outside / "kept.md")
    with target_at(str(tmp_path / "lines.jsonl")) as target:
        target.write("a.md", b"a")
    assert files_in(outside) == {"kept.md": b"kept"}
    assert not (outside / "deep").exists()


def test_another_note_at_the_path_is_left_alone_unless_it_is_to_be_replaced(home: Path) -> None:
    line = {"path": "memory/global/tea.md", "content": "Other words."}
    told = run(home, "import", "-", stdin=json.dumps(line))
    assert (told.returncode, "another note is there" in told.stderr) == (1, True)
    assert "1 replaced another" in done(home, "import", "-", "--replace", stdin=json.dumps(line))
    assert "Other words." in run(home, "show", "memory/global/tea.md").stdout
    done(home, "undo", "memory/global/tea.md")
    assert "Gyokuro" in run(home, "show", "memory/global/tea.md").stdout


def test_what_was_not_taken_is_named_in_the_order_of_its_numbers(home: Path) -> None:
    told = run(home, "import", "-", stdin="no json\n" * 11)
    assert [line.split(":")[1] for line in told.stderr.splitlines()[1:-1]] == [f" line {n}" for n in range(1, 12)]


@pytest.mark.parametrize("path", ["../out.md", "/etc/x.md", "a/../../b.md", "memory/_hidden.md", "C:x.md"])
def test_no_line_of_an_import_leaves_the_brain(home: Path, path: str) -> None:
    told = run(home, "import", "-", stdin=json.dumps({"path": path, "content": "x"}) + "\nno json\n")
    assert told.returncode == 1
    assert "Not taken: line 2: it is no line of an export" in told.stderr
    assert "a note cannot have that path" in told.stderr


def test_a_folder_of_markdown_is_taken_with_its_titles_and_tags(home: Path) -> None:
    told = run(home, "migrate", "--from", "markdown", str(OTHERS / "vault"))
    assert "3 notes are new, 0 were there already." in told.stderr
    assert "Not taken: empty.md: it is empty" in told.stderr
    assert "Not taken: table.csv: it is no markdown" in told.stderr
    boat = json.loads(run(home, "show", "memory/global/Projects/boat.md", "--json").stdout)
    assert (boat["title"], boat["tags"]) == ("The boat", ["sailing", "wood"])
    assert boat["content"] == (OTHERS / "vault" / "Projects" / "boat.md").read_text()
    assert "Met [[Ada]]" in run(home, "show", "memory/global/Daily note.md").stdout
    again = run(home, "migrate", "--from", "markdown", str(OTHERS / "vault"))
    assert "0 notes are new, 3 were there already." in again.stderr


def test_memories_of_mem0_are_taken_with_whose_and_when(home: Path) -> None:
    told = run(home, "migrate", "--from", "mem0", str(OTHERS / "mem0.json"))
    assert "2 notes are new" in told.stderr
    assert "Not taken: memory 3: it has no text" in told.stderr
    (path,) = (line.split("\t")[0] for line in run(home, "list").stdout.splitlines() if "/mem0/vegetarian" in line)
    note = json.loads(run(home, "show", path, "--json").stdout)
    assert note["tags"] == ["food", "health"]
    assert note["record"]["metadata"]["user_id"] == "alex"
    assert note["record"]["metadata"]["created"] == "2024-07-20T01:30:36.275141-07:00"
    assert note["record"]["metadata"]["mem0_type"] == "preference"
    again = run(home, "migrate", "--from", "mem0", str(OTHERS / "mem0.json"))
    assert "0 notes are new, 2 were there already." in again.stderr


def test_the_graph_of_the_reference_server_becomes_a_note_for_each_entity(home: Path) -> None:
    dry = run(home, "migrate", "--from", "memory-json", str(OTHERS / "memory.json"), "--dry-run")
    assert "2 notes would be stored" in dry.stderr
    assert len(dry.stdout.splitlines()) == 2
    assert "/graph/" not in run(home, "list").stdout
    told = run(home, "migrate", "--from", "memory-json", str(OTHERS / "memory.json"))
    assert "Not taken: Nobody knows Anthropic: there is no entity Nobody" in told.stderr
    assert "Not taken: line 6: it is neither" in told.stderr
    (path,) = (line.split("\t")[0] for line in run(home, "list").stdout.splitlines() if "/graph/john" in line)
    note = json.loads(run(home, "show", path, "--json").stdout)
    assert note["content"] == (
        "# John_Smith\n\n- Speaks fluent Spanish\n- Graduated in 2019\n- Likes tea\n\n"
        "## Relations\n\n- works_at Anthropic\n"
    )
    assert note["tags"] == ["person"]


@pytest.mark.parametrize("kind", ["mem0", "memory-json"])
def test_a_file_of_something_else_is_one_sentence(home: Path, kind: str) -> None:
    (home / "bad.json").write_text("{ no json")
    told = run(home, "migrate", "--from", kind, "bad.json")
    assert (told.returncode, told.stderr.count("\n")) == (1, 1)
    assert run(home, "migrate", "--from", kind, "missing.json").returncode == 1
