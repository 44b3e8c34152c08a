"""A word is stored through every surface and then erased: no tool, page, command or file shows it any more."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.surfaces.catalog import SURFACES
from tests.gateway.cli.running import run
from tests.gateway.cli.test_purge import edit
from tests.gateway.surfaces.being.beings import IDS
from tests.gateway.ui.browsing import UNKEPT, Browser
from tests.served import Served, raw_call, serving

pytestmark = [pytest.mark.not_quick, pytest.mark.slow]

WORD = "xylographica"
# Searches use these words, because an answer that repeats its question would otherwise contain the word.
ASKED = "the password of the vault"
TOLD = f"I know the password of the vault: {WORD}."
SAID = [{"role": "user", "content": TOLD}, {"role": "tool", "content": f"vault opened with {WORD}"}]
WRITES: list[tuple[str, str, dict[str, Any]]] = [
    ("memory", "memory_remember", {"content": TOLD, "tags": [WORD]}),
    ("memory", "memory_remember", {"content": "The keys hang in the hall.", "path": "memory/global/keys.md"}),
    ("memory", "memory_ingest_file", {"path": "vault.md"}),
    ("memory", "memory_extract", {"messages": SAID, "session_id": "talk"}),
    ("memory", "memory_extract", {"messages": SAID}),
    ("memory", "memory_reflect", {"session_id": "talk"}),
    ("memory", "memory_consolidate", {}),
    ("kv", "jettson_memory_put", {"key": "vault", "value": f"Before: {TOLD}"}),
    ("kv", "jettson_memory_put", {"key": "vault", "value": TOLD}),
    ("team", "memory_remember", {"content": TOLD, "type": "decision", "scope": "global"}),
    ("team", "memory_remember", {"content": f"Mine: {TOLD}", "type": "decision", "scope": "private"}),
    ("being", "update_notes", {"scenes": [{"action": TOLD, "actors": ["Rin"], "when": ["2026-04-14"]}]}),
    ("being", "update_notes", {"notes": [TOLD]}),
    ("being", "trigger_patrol", {"messages": SAID[:1]}),
    ("being", "update_memory", {"target": "diary", "action": "append", "content": TOLD}),
    ("memo", "memoai_memo_record", {"content": TOLD, "metadata": {"vault": WORD}}),
]
READS: list[tuple[str, str, dict[str, Any]]] = [
    ("memory", "memory_search", {"query": ASKED, "top_k": 50}),
    ("memory", "memory_search", {"query": ASKED, "sort": "recency"}),
    ("memory", "memory_recall", {"query": ASKED, "session_id": "talk"}),
    ("memory", "memory_ask", {"query": f"What is {ASKED}?"}),
    ("memory", "memory_list", {}),
    ("memory", "memory_read", {"path": "{path}"}),
    ("kv", "jettson_memory_get", {"key": "vault"}),
    ("kv", "jettson_memory_search", {"query": ASKED}),
    ("kv", "jettson_memory_list", {}),
    ("team", "memory_recall", {"query": ASKED}),
    ("team", "memory_load_context", {}),
    ("being", "recall", {"user_message": ASKED}),
    ("being", "get_context", {}),
    ("being", "recall_memory", {"cluster_id": "{cluster}"}),
    ("being", "search_memory", {"query": ASKED}),
    ("being", "search_history", {"query": ASKED}),
    ("memo", "memoai_memo_search", {"query": ASKED}),
    ("chat", "search", {"query": ASKED}),
    ("chat", "fetch", {"id": "{id}"}),
]
TELL_NO_CONTENT = {"memory_list_brains", "memory_scopes", "get_current_time"}
COMMANDS = (
    ("list", "--json"),
    ("who", "--paths", "--json"),
    ("search", ASKED, "--json"),
    ("ask", f"What is {ASKED}?"),
    ("show", "{path}"),
)
VIEWS = (
    "/ui/brains/main/notes",
    f"/ui/brains/main/notes?q={ASKED.replace(' ', '+')}",
    "/ui/brains/main/note?path={path}",
    "/ui/brains/main/note?path=sessions/talk/000001.md",
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "vault.md").write_text(f"# The vault\n\n{TOLD}\n")
    with serving(tmp_path / "data", tmp_path) as found:
        for surface, tool, arguments in WRITES:
            called(found, surface, tool, **arguments)
        yield found


def called(served: Served, surface: str, tool: str, **arguments: Any) -> str:
    """The whole text of an answer."""
    request = raw_call("modern", tool, arguments)
    request["headers"] |= {"x-memoai-project": "home"}
    with httpx.Client(trust_env=False, timeout=60, limits=UNKEPT) as http:
        answer = http.post(f"{served.url}/{surface}/mcp", **request)
    assert answer.status_code == 200, answer.text
    return answer.text


def filled(value: str, places: dict[str, str]) -> str:
    return re.sub(r"\{(path|id|cluster)\}", lambda name: places[name[1]], value)


def everything(served: Served, home: Path, places: dict[str, str]) -> dict[str, str]:
    """What each tool, command and view says. The keys are its name and what it was asked."""
    said = {}
    for surface, tool, arguments in READS:
        asked = {name: filled(value, places) if isinstance(value, str) else value for name, value in arguments.items()}
        said[f"{surface}: {tool} {arguments}"] = called(served, surface, tool, **asked)
    for command in COMMANDS:
        done = run(home, *[filled(part, places) for part in command])
        said[" ".join(command)] = done.stdout + done.stderr
    assert run(home, "export", "lines.jsonl").returncode == 0
    said["what is exported"] = (home / "lines.jsonl").read_text()
    (home / "lines.jsonl").unlink()
    browser = Browser(served)
    for view in VIEWS:
        said[view] = browser.open(filled(view, places))
    browser.open("/ui/brains/main/ask")
    said["the page's answer"] = browser.send("/ask", question=f"What is {ASKED}?")
    browser.http.close()
    return said


def paths_with_the_word(home: Path) -> list[str]:
    kept = json.loads(run(home, "who", "--paths", "--json").stdout)["kept"]
    paths = [str(one["path"]) for one in kept]
    return [path for path in paths if WORD in path + run(home, "show", path, "--json").stdout]


def test_what_is_asked_here_is_every_tool_that_only_reads() -> None:
    listed = set()
    for surface in [*SURFACES, "memory_extras"]:
        tools = json.loads(Path(f"contract/tools/{surface}.json").read_text())
        name = surface.removesuffix("_extras")
        listed |= {(name, tool["name"]) for tool in tools if tool["annotations"]["readOnlyHint"]}
    assert {(surface, tool) for surface, tool, _ in READS} == {one for one in listed if one[1] not in TELL_NO_CONTENT}


def test_a_forgotten_word_is_in_no_answer_of_any_surface_page_or_command_and_in_no_file(
    served: Served, tmp_path: Path
) -> None:
    edit(tmp_path, "memory/global/keys.md")
    backup = tmp_path / "backups" / "brains-2026-01-31.sqlite3"
    assert run(tmp_path, "backup", str(backup)).returncode == 0
    meant = paths_with_the_word(tmp_path)
    # Paths are made from titles, so some of them have the word too. An error repeats the path that was asked for.
    assert [path for path in meant if WORD in path] != []
    found = json.loads(called(served, "chat", "search", query=ASKED))["result"]["structuredContent"]["results"]
    places = {
        "path": next(path for path in meant if path.startswith("raw/") and WORD not in path),
        "id": found[0]["id"],
        "cluster": IDS.findall(called(served, "being", "recall_memory"))[0],
    }

    # Every answer has the word before it is erased. Otherwise its absence afterwards would prove nothing.
    before = everything(served, tmp_path, places)
    assert [asked for asked, said in before.items() if WORD not in said] == []

    # The gateway goes on serving. The message of a tool has no note, so the path of a message names it.
    settings = {"BRAINS_BACKUP_DIR": str(backup.parent)}
    done = run(tmp_path, "rm", "--purge", "--yes", *meant, "sessions/talk/000002.md", **settings)
    assert done.returncode == 0, done.stderr
    assert f"This backup still has it: {backup}" in done.stderr
    assert "sessions/talk/000002.md is erased: 1 in all." in done.stderr

    after = everything(served, tmp_path, places)
    assert [asked for asked, said in after.items() if WORD in said] == []
    assert paths_with_the_word(tmp_path) == []
    files = [file for file in (tmp_path / "data").rglob("*") if file.is_file()]
    assert {"brains.sqlite3", "brains.sqlite3-wal", "brains.sqlite3-shm"} <= {file.name for file in files}
    assert [file.name for file in files if WORD.encode() in file.read_bytes().lower()] == []
    # Everything else is still there, and is found.
    assert "in the hall" in called(served, "memory", "memory_search", query="where are the keys?")
