"""The files of clients are changed in one place alone, and become again what they were."""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.app.connecting.clients import CLIENTS, Client
from gateway.cli.connecting.config_file import ConfigFile
from gateway.cli.connecting.entry import Refused
from gateway.cli.connecting.journal import Journal
from tests.gateway.cli.connecting.files import files
from tests.tiers import by_tier

ENTRY = {"command": "/a path/brains-gateway", "args": ["stdio"], "env": {"BRAINS_DATA_DIR": "/ä: #"}}
OTHER = {"url": "http://127.0.0.1:8787/mcp"}
# One client for each way to write.
SYNTAXES = {"json": CLIENTS["zed"], "toml": CLIENTS["codex"], "yaml": CLIENTS["goose"]}


def put(client: Client, text: str, entry: dict[str, Any] = ENTRY) -> str:
    return ConfigFile(client, Path("f"), text.encode()).with_entry("brains", entry).decode()


def take(client: Client, text: str) -> str:
    return ConfigFile(client, Path("f"), text.encode()).without_entry("brains").decode()


@pytest.mark.parametrize("syntax", list(SYNTAXES))
@settings(max_examples=by_tier(15, 40, 500))
@given(data=st.data())
def test_connected_and_disconnected_a_file_is_what_it_was_to_the_byte(syntax: str, data: st.DataObject) -> None:
    client = SYNTAXES[syntax]
    text = data.draw(files(syntax, client.section))
    with TemporaryDirectory() as folder:
        path, journal = Path(folder).resolve() / "file", Journal(Path(folder) / "journal")
        path.write_bytes(text.encode())
        for entry in (ENTRY, OTHER) if data.draw(st.booleans()) else (ENTRY,):
            file = ConfigFile.look(client, path)
            try:
                after = file.with_entry("brains", entry)
            except Refused:
                # What cannot be changed safely is left alone.
                assert path.read_bytes() == text.encode()
                return
            journal.write("client", file, "brains", after)
            assert ConfigFile.look(client, path).with_entry("brains", entry) == after
        file = ConfigFile.look(client, path)
        file.write(journal.without(file, ["brains"]))
        assert path.read_bytes() == text.encode()


@pytest.mark.parametrize("syntax", list(SYNTAXES))
@given(data=st.data())
def test_an_entry_comes_and_goes_and_all_else_stays_where_it_is(syntax: str, data: st.DataObject) -> None:
    """Also where nothing is known of how it came."""
    client = SYNTAXES[syntax]
    text = data.draw(files(syntax, client.section))
    file = ConfigFile(client, Path("f"), text.encode())
    before = file.entries()
    try:
        made = put(client, text)
    except Refused:
        return
    assert ConfigFile(client, Path("f"), made.encode()).entries() == {**before, "brains": ENTRY}
    assert made.count("said") == text.count("said")
    again = take(client, made)
    assert ConfigFile(client, Path("f"), again.encode()).entries() == before
    assert again.count("said") == text.count("said")


@pytest.mark.parametrize("syntax", list(SYNTAXES))
def test_most_files_can_be_changed(syntax: str) -> None:
    """Else the two above would say nothing."""
    client, seen = SYNTAXES[syntax], []

    @given(text=files(syntax, client.section))
    def tried(text: str) -> None:
        try:
            put(client, text)
            seen.append(True)
        except Refused:
            seen.append(False)

    tried()
    assert sum(seen) > len(seen) * 0.6


def test_a_json_file_keeps_its_comments_its_indentation_and_its_trailing_commas() -> None:
    text = """// mine
{
    "theme": "dark", // at night
    "context_servers": {
        /* the first */
        "other": {"command": "x"}, // stays
    },
}
"""
    made = put(SYNTAXES["json"], text, OTHER)
    assert made == text.replace(
        "// stays\n",
        '// stays\n        "brains": {\n            "url": "http://127.0.0.1:8787/mcp"\n        },\n',
    )
    assert take(SYNTAXES["json"], made) == text


def test_a_json_file_in_one_line_stays_in_one_line() -> None:
    text = '{"context_servers": {"a": {"url": "u"}}, "b": 1}'
    made = put(SYNTAXES["json"], text, OTHER)
    assert made == text.replace('{"url": "u"}', '{"url": "u"}, "brains": {"url": "http://127.0.0.1:8787/mcp"}')
    assert take(SYNTAXES["json"], made) == text


def test_the_last_of_a_json_file_gets_a_comma_before_its_comment() -> None:
    text = '{\r\n\t"context_servers": {\r\n\t\t"a": {"url": "u"} // stays\r\n\t}\r\n}'
    made = put(SYNTAXES["json"], text, OTHER)
    assert '{"url": "u"}, // stays\r\n\t\t"brains": {\r\n\t\t\t"url"' in made
    assert take(SYNTAXES["json"], made) == text


def test_a_toml_file_gets_a_table_at_its_end() -> None:
    text = '# mine\nmodel = "o"\n\n[mcp_servers.other] # stays\ncommand = "x"\n'
    made = put(SYNTAXES["toml"], text, OTHER)
    assert made == text + '\n[mcp_servers.brains]\nurl = "http://127.0.0.1:8787/mcp"\n'
    assert take(SYNTAXES["toml"], made) == text


def test_a_table_with_tables_below_it_goes_as_a_whole_and_the_comment_of_the_next_stays() -> None:
    after = '\n# of b\n[mcp_servers.b]\nurl = "u"\n'
    text = '[mcp_servers.brains]\ncommand = "x"\n\n[mcp_servers."brains".env]\nA = "1"\n' + after
    assert take(SYNTAXES["toml"], text) == "\n" + after


def test_a_yaml_file_gets_lines_in_the_indentation_it_has() -> None:
    text = "# mine\nextensions:\n    # stays\n    other:\n        enabled: true\nGOOSE_MODEL: o\n"
    made = put(SYNTAXES["yaml"], text, OTHER)
    added = "    brains:\n      url: http://127.0.0.1:8787/mcp\n"
    assert made == text.replace("    other:", added + "    other:")
    assert take(SYNTAXES["yaml"], made) == text


@pytest.mark.parametrize(
    ("syntax", "text"),
    [
        ("json", '{"context_servers": {'),
        ("json", '{"a": 1} {"b": 2}'),
        ("json", "[]"),
        ("json", '{"context_servers": []}'),
        ("json", "{" * 5000),
        ("json", '{"a": tru}'),
        ("toml", "model = "),
        ("toml", "mcp_servers = 1"),
        ("yaml", "extensions: [\n"),
        ("yaml", "- a\n"),
        ("yaml", "a: 1\n---\nb: 2\n"),
    ],
)
def test_a_malformed_file_is_left_alone_with_one_sentence(syntax: str, text: str) -> None:
    with pytest.raises(Refused, match=r"left alone"):
        put(SYNTAXES[syntax], text)


def test_where_somebody_else_has_written_since_only_our_entry_goes(tmp_path: Path) -> None:
    client, path, journal = CLIENTS["cursor"], tmp_path / "mcp.json", Journal(tmp_path / "journal")
    path.write_text('{"mcpServers": {"a": {"url": "u"}}}', encoding="utf-8")
    file = ConfigFile.look(client, path)
    journal.write("cursor", file, "brains", file.with_entry("brains", OTHER))
    said = json.loads(path.read_text(encoding="utf-8"))
    said["mcpServers"]["b"] = {"url": "v"}
    path.write_text(json.dumps(said, indent=4), encoding="utf-8")
    file = ConfigFile.look(client, path)
    file.write(journal.without(file, ["brains"]))
    del said["mcpServers"]["brains"]
    assert path.read_text(encoding="utf-8") == json.dumps(said, indent=4)


def test_a_file_that_was_not_there_is_gone_again(tmp_path: Path) -> None:
    client, path, journal = CLIENTS["cursor"], tmp_path / "new" / "mcp.json", Journal(tmp_path / "journal")
    file = ConfigFile.look(client, path)
    assert journal.write("cursor", file, "brains", file.with_entry("brains", OTHER)) is None
    file = ConfigFile.look(client, path)
    file.write(journal.without(file, ["brains"]))
    assert not path.exists()


def test_the_mode_stays_and_a_link_stays_a_link(tmp_path: Path) -> None:
    client, real, link = CLIENTS["cursor"], tmp_path / "dotfiles.json", tmp_path / "mcp.json"
    real.write_text("{}", encoding="utf-8")
    real.chmod(0o640)
    link.symlink_to(real)
    file = ConfigFile.look(client, link)
    file.write(file.with_entry("brains", OTHER))
    assert link.is_symlink()
    assert json.loads(real.read_text(encoding="utf-8"))["mcpServers"]["brains"] == OTHER
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_file_that_changed_after_it_was_looked_at_is_not_overwritten(tmp_path: Path) -> None:
    client, path, journal = CLIENTS["cursor"], tmp_path / "mcp.json", Journal(tmp_path / "journal")
    path.write_text("{}", encoding="utf-8")
    file = ConfigFile.look(client, path)
    path.write_text('{"mcpServers": {}}', encoding="utf-8")
    with pytest.raises(Refused, match="changed meanwhile"):
        journal.write("cursor", file, "brains", file.with_entry("brains", OTHER))
    assert path.read_text(encoding="utf-8") == '{"mcpServers": {}}'
    # No copy of it is kept for nothing.
    assert [kept.name for kept in (tmp_path / "journal").iterdir()] == []


def test_a_backup_can_be_read_by_its_owner_alone_and_goes_when_it_is_not_needed(tmp_path: Path) -> None:
    client, path, journal = CLIENTS["cursor"], tmp_path / "mcp.json", Journal(tmp_path / "journal")
    path.write_text("{}", encoding="utf-8")
    path.chmod(0o644)
    file = ConfigFile.look(client, path)
    backup = journal.write("cursor", file, "brains", file.with_entry("brains", OTHER))
    assert backup is not None
    assert backup.read_text(encoding="utf-8") == "{}"
    assert (backup.stat().st_mode & 0o777, backup.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    journal.forget(path, ["brains"])
    assert not backup.exists()
    assert re.sub(r"\s", "", (tmp_path / "journal" / "journal.json").read_text(encoding="utf-8")) == "{}"
