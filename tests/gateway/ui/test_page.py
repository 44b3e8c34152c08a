"""The page for people, with a real HTTP client: every view, and that nothing is lost or overwritten by it."""

import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.gateway.ui.browsing import Browser, call
from tests.served import Served, serving

NOTES = "/ui/brains/main/notes"
PATH = "memory/global/train.md"
NOTE = f"/ui/brains/main/note?path={PATH}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("data")
    with serving(data, data) as found:
        call(found, "memory_remember", content="The night train leaves at 22:10.", title="Night train", path=PATH)
        call(found, "memory_remember", content="Green tea, no coffee.", title="Tea", tags=["drinks"])
        call(found, "jettson_memory_put", at="/kv/mcp", key="colour", value="blue")
        yield found


@pytest.fixture
def browser(served: Served) -> Browser:
    return Browser(served)


def test_the_first_page_lists_brains_with_their_notes(browser: Browser) -> None:
    browser.open("/")
    assert browser.status == 200
    assert "notes · changed" in browser.text
    assert NOTES in browser.links("/ui/brains/")


def test_notes_are_listed_with_their_tags_and_times(browser: Browser) -> None:
    browser.open(NOTES)
    assert "notes, newest first" in browser.text
    assert "tag=drinks" in browser.page
    assert 'title="20' in browser.page


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("q=night+train", {"Night train"}),
        ("q=night+train&tag=drinks", set()),
        ("tag=drinks", {"Tea"}),
        ("surface=kv", {"colour"}),
        ("surface=memory", {"Night train", "Tea"}),
        ("scope=agent", set()),
        ("scope=global&days=7", {"Night train", "Tea", "colour"}),
        ("surface=nonsense&days=x&offset=-1", {"Night train", "Tea", "colour"}),
    ],
)
def test_notes_are_narrowed_down(browser: Browser, asked: str, found: set[str]) -> None:
    browser.open(f"{NOTES}?{asked}")
    assert {title for title in ("Night train", "Tea", "colour") if f"{title}</a></h2>" in browser.page} == found
    assert ("Nothing fits." in browser.text) == (not found)


def test_a_brain_without_notes_says_what_to_do(browser: Browser, served: Served) -> None:
    call(served, "memory_create_brain", name="Empty")
    page = Browser(served).open("/ui/brains/empty/notes")
    assert "This brain has no notes yet." in page
    # In this brain, and not in the one that commands use by themselves.
    assert "brains-gateway add --brain empty " in page


def test_how_a_note_is_erased_for_good_can_be_pasted_into_a_shell(browser: Browser, served: Served) -> None:
    call(served, "memory_create_brain", name="Attic")
    path = "memory/global/it's a trap.md"
    call(served, "memory_remember", at="/mcp/attic", content="Boxes.", title="Boxes", path=path)
    browser.open(f"/ui/brains/attic/note?path={quote(path)}")
    browser.send("/remove")
    command = re.search(r"brains-gateway rm --purge[^<]*", browser.page)
    assert command is not None
    assert shlex.split(unescape(command[0]))[2:] == ["--purge", "--brain", "attic", path]


def test_a_note_is_found_by_its_tag_after_it_was_edited(browser: Browser, served: Served) -> None:
    path = "memory/global/lamp.md"
    call(served, "memory_remember", content="# Lamp\n\nThe lamp is green.", title="Lamp", tags=["light"], path=path)
    browser.open(f"/ui/brains/main/edit?path={path}")
    _, held = browser.form("/edit")
    browser.send("/edit", text=held["text"].replace("green", "brass"))
    browser.open(f"{NOTES}?q=lamp&tag=light")
    assert ">Lamp</a>" in browser.page
    assert ">light</a>" in browser.page
    call(served, "memory_forget", path=path)


def test_older_notes_are_on_the_next_page(tmp_path: Path) -> None:
    with serving(tmp_path, tmp_path) as served:
        for number in range(31):
            call(served, "memory_remember", content=f"Number {number}.", title=f"No {number}")
        browser = Browser(served)
        browser.open(NOTES)
        assert browser.page.index("No 30<") < browser.page.index("No 1<")
        assert "No 0<" not in browser.page
        browser.follow("offset=30")
        assert ">No 0</a>" in browser.page
        assert browser.links("offset=") == []
        assert "Newer" in browser.text


def test_a_note_is_edited_and_what_it_was_is_kept(browser: Browser, served: Served) -> None:
    browser.open(NOTE)
    assert "The night train leaves at 22:10." in browser.text
    browser.follow("/edit?")
    _, held = browser.form("/edit")
    assert held["text"].startswith("---\nname: Night train\n")
    browser.send("/edit", text=held["text"].replace("22:10", "22:40"))
    assert "Saved." in browser.text
    assert "The night train leaves at 22:40." in browser.text
    browser.follow("/difference?")
    assert "removed: The night train leaves at 22:10." in browser.text
    assert "added: The night train leaves at 22:40." in browser.text
    browser.open(NOTE)
    browser.send("/undo")
    assert "The night train leaves at 22:10." in browser.text


def test_line_ends_stay_as_they_were(browser: Browser, served: Served) -> None:
    for name, text in (("unix", "one\n\ntwo\nthree"), ("dos", "one\r\n\r\ntwo\r\nthree")):
        call(served, "memory_remember", content=text, title=name, path=f"memory/global/{name}.md")
        browser.open(f"/ui/brains/main/edit?path=memory/global/{name}.md")
        _, held = browser.form("/edit")
        browser.send("/edit", text=held["text"].replace("two", "2"))
        found = call(served, "memory_read", path=f"memory/global/{name}.md").text
        assert json.dumps(text.replace("two", "2"))[1:-1] in found.replace("\\\\", "\\")


def test_what_changed_meanwhile_is_not_overwritten_and_both_texts_are_shown(browser: Browser, served: Served) -> None:
    path = "memory/global/plan.md"
    call(served, "memory_remember", content="Plan A.", title="Plan", path=path)
    browser.open(f"/ui/brains/main/edit?path={path}")
    other = Browser(served)
    other.open(f"/ui/brains/main/edit?path={path}")
    _, held = other.form("/edit")
    other.send("/edit", text=held["text"].replace("Plan A.", "Plan of an agent."))
    browser.send("/edit", text=held["text"].replace("Plan A.", "Plan of mine."))
    assert browser.status == 409
    assert "This note was changed while you edited it." in browser.text
    assert "Plan of mine." in browser.page
    assert "Plan of an agent." in browser.page
    assert "Plan of an agent." in Browser(served).open(f"/ui/brains/main/note?path={path}")
    # Whoever has seen both may save.
    browser.send("/edit", text=held["text"].replace("Plan A.", "Plan of both."))
    assert browser.status == 200
    assert "Plan of both." in browser.text


def test_what_is_written_in_a_note_that_was_deleted_is_not_lost(browser: Browser, served: Served) -> None:
    path = "memory/global/gone.md"
    call(served, "memory_remember", content="Here.", title="Gone", path=path)
    browser.open(f"/ui/brains/main/edit?path={path}")
    call(served, "memory_forget", path=path)
    browser.send("/edit", text="My long work.")
    assert browser.status == 409
    assert "My long work." in browser.page


def test_who_wrote_a_note_cannot_be_edited(browser: Browser, served: Served) -> None:
    browser.open(f"{NOTES}?surface=kv")
    browser.follow("/note?path=")
    browser.follow("/edit?")
    _, held = browser.form("/edit")
    browser.send("/edit", text=held["text"].replace("via: brains-gateway", "via: me"))
    assert browser.status == 400
    assert "cannot be edited" in browser.text


def test_a_note_is_deleted_and_brought_back(browser: Browser, served: Served) -> None:
    path = "memory/global/tidy.md"
    call(served, "memory_remember", content="Tidy up.", title="Tidy", path=path)
    browser.open(f"/ui/brains/main/note?path={path}")
    browser.send("/remove")
    assert "This note is deleted" in browser.text
    assert ">Tidy</a>" not in Browser(served).open(NOTES)
    browser.send("/undo")
    assert "Brought back." in browser.text
    assert ">Tidy</a>" in Browser(served).open(NOTES)


def test_a_question_is_answered_with_links_to_its_sources(browser: Browser) -> None:
    browser.open("/ui/brains/main/ask")
    browser.send("/ask", question="When does the night train leave?")
    assert "22:10" in browser.text
    # The title is said once, although the text begins with it.
    assert "Night train The night train" in browser.text
    assert "Night train Night train" not in browser.text
    browser.follow("/note?path=")
    assert PATH in browser.text


def test_an_answer_streams_to_the_script_of_the_page(browser: Browser) -> None:
    browser.open("/ui/brains/main/ask")
    browser.send("/ask", {"accept": "application/x-ndjson"}, question="When does the night train leave?")
    lines = [json.loads(line) for line in browser.page.splitlines()]
    assert len([line for line in lines if "delta" in line]) > 1
    assert "22:10" in "".join(line.get("delta", "") for line in lines)
    assert lines[-1]["sources"][0]["href"] == "/ui/brains/main/note?path=memory%2Fglobal%2Ftrain.md"


def test_calls_of_agents_show_up_without_what_they_were_about(browser: Browser, served: Served) -> None:
    call(served, "memory_search", query="something very private")
    browser.open("/ui/calls")
    assert "memory_search" in browser.text
    assert "ok" in browser.text
    assert "GET /v1/brains/{brain}/search" in browser.text
    assert "private" not in browser.page
    assert "page: list" not in browser.page
    browser.open(NOTES)
    assert "page: list" in browser.open("/ui/calls?all=1")


def test_the_status_says_what_doctor_says(browser: Browser, served: Served) -> None:
    browser.open("/ui/status")
    assert "every tool can be served" in browser.text
    assert f"the embedded brain in {served.data_dir}" in browser.text
    assert "set BRAINS_BACKUP_DIR" in browser.text
    assert "memory_remember" in browser.text
    # By the name that people know it by.
    assert re.search(r"Brain main, brn_\w+ \(", browser.text)


def test_clients_are_connected_by_what_the_page_says(browser: Browser) -> None:
    browser.open("/ui/connect")
    assert "claude mcp add --transport http brains http://127.0.0.1:8787/mcp" in browser.text
    assert "~/.cursor/mcp.json, over stdio" in browser.text
    assert "brains-gateway connect" in browser.text


@pytest.mark.parametrize("path", ["/ui/nothing", "/ui/brains/nope/notes", f"{NOTE}x", "/ui/static/../page.py", "/ui/"])
def test_what_is_not_there_is_said_so_on_a_page(browser: Browser, path: str) -> None:
    browser.open(path)
    assert browser.status == 404


def test_tools_are_served_as_without_the_page(served: Served) -> None:
    assert httpx.get(f"{served.url}/elsewhere").json()["code"] == "not_found"
    assert httpx.get(f"{served.url}/healthz").json() == {"ok": True}
