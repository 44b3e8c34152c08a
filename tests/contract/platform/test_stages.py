"""Consolidation: it tidies what the platform made, touches nothing else, and then has nothing left to do."""

from collections.abc import Callable

import httpx

from contract.platform import documents
from contract.platform.documents import Draft
from contract.platform.store import Store
from tests.contract.platform.conftest import Json

Write = Callable[[str, str | bytes], None]
Paths = Callable[..., list[str]]


def run(client: httpx.Client, brain: str, stage: str = "consolidate") -> Json:
    answer = client.post(f"{brain}/{stage}", json={})
    assert answer.status_code == 200
    result: Json = answer.json()
    return result


def say(client: httpx.Client, brain: str, content: str) -> None:
    client.post(f"{brain}/sessions/s/messages", json={"role": "user", "content": content})


def snapshot(client: httpx.Client, brain: str, paths: Paths) -> list[Json]:
    return [client.get(f"{brain}/documents/stat", params={"path": path}).json() for path in paths()]


def test_extracted_notes_that_say_the_same_become_one(client: httpx.Client, brain: str, paths: Paths) -> None:
    for sentence in ("I like the fig.", "I like figs.", "I do not like figs.", "I like a fig!"):
        say(client, brain, sentence)
    result = run(client, brain)
    assert result == {"method": "rule-based", "notes_reviewed": 4, "duplicates_removed": 2, "summaries_written": 1}
    kept = [path for path in paths() if "extracted" in path]
    texts = {client.get(f"{brain}/documents/read", params={"path": path}).text for path in kept}
    assert texts == {"I like the fig.\n", "I do not like figs.\n"}


def test_a_second_run_changes_nothing(client: httpx.Client, brain: str, write: Write, paths: Paths) -> None:
    write("notes/a.md", "# Alpha\n")
    say(client, brain, "I like figs.")
    run(client, brain)
    before = snapshot(client, brain, paths)
    again = run(client, brain)
    assert (again["duplicates_removed"], again["summaries_written"]) == (0, 0)
    assert run(client, brain, "compile") == {"method": "rule-based", "summaries_written": 0}
    assert snapshot(client, brain, paths) == before


def test_what_a_caller_wrote_is_never_touched(client: httpx.Client, brain: str, write: Write, paths: Paths) -> None:
    say(client, brain, "I like figs.")
    client.post(
        f"{brain}/documents",
        json={"content": "I like figs.", "path": "memory/global/extracted-000000000000.md", "source": "ingest"},
    )
    client.post(f"{brain}/documents", json={"content": "I like the figs.", "path": "b.md", "source": "compile"})
    client.post(f"{brain}/documents", json={"content": "I like figs.", "path": "c.md", "source": "extract"})
    write("memory/global/extracted-111111111111.md", "I like figs.")
    write("wiki/_overview.md", "my own overview")
    before = snapshot(client, brain, paths)
    result = run(client, brain)
    assert (result["duplicates_removed"], result["summaries_written"]) == (0, 0)
    assert snapshot(client, brain, paths) == before


def test_an_extracted_note_that_was_edited_is_the_callers(client: httpx.Client, brain: str, paths: Paths) -> None:
    say(client, brain, "I like figs.")
    say(client, brain, "I like the fig.")
    for path in paths():
        client.put(f"{brain}/documents", params={"path": path}, content="I like figs.")
    assert run(client, brain)["duplicates_removed"] == 0


def test_the_overview_lists_documents_and_stays_out_of_search(
    client: httpx.Client, brain: str, write: Write, paths: Paths
) -> None:
    write("notes/a.md", "# Alpha romeo\n")
    write("notes/b.txt", "unlisted")
    write("root.md", "# Root note\n")
    assert run(client, brain, "compile") == {"method": "rule-based", "summaries_written": 1}
    text = client.get(f"{brain}/documents/read", params={"path": "wiki/_overview.md"}).text
    assert (
        text == "# Overview\n\n## notes (1)\n\n- Alpha romeo (notes/a.md)\n\n## (root) (1)\n\n- Root note (root.md)\n"
    )
    assert (
        client.get(f"{brain}/documents/stat", params={"path": "wiki/_overview.md"}).json()["document"]["source"]
        == "compile"
    )
    hits = client.get(f"{brain}/search", params={"q": "alpha romeo"}).json()["hits"]
    assert [hit["path"] for hit in hits] == ["notes/a.md"]


def test_the_overview_follows_the_documents(client: httpx.Client, brain: str, write: Write) -> None:
    write("a.md", "# One\n")
    run(client, brain)
    write("b.md", "# Two\n")
    assert run(client, brain)["summaries_written"] == 1
    assert "Two" in client.get(f"{brain}/documents/read", params={"path": "wiki/_overview.md"}).text


def test_an_empty_brain_needs_no_overview(client: httpx.Client, brain: str, paths: Paths) -> None:
    assert run(client, brain)["summaries_written"] == 0
    assert client.post(f"{brain}/consolidate").status_code == 200
    assert paths() == []


def test_a_large_folder_is_not_listed_whole(store: Store) -> None:
    brain = store.create_brain("Many")
    with store._database.writing() as connection:
        for number in range(205):
            documents.write(connection, brain, Draft(f"n/{number:03}.md", b"x", title=f"Note {number}"))
    store.stages.compile(brain)
    text = store.documents.read(brain, "wiki/_overview.md").decode()
    assert "## n (205)" in text
    assert text.endswith("- Note 199 (n/199.md)\n- … and 5 more\n")
    store.delete_brain(brain)
