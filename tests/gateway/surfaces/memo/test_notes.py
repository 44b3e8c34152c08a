"""How memos lie in the brain: what a note holds, what survives a repeat, and what people make of notes by hand."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from gateway.operations.notes import open_note
from tests.daemons.fake import FakeDaemon
from tests.gateway.surfaces.memo.memos import (
    EXAMPLE,
    METADATA,
    PROJECT,
    TIMEOUT,
    Desk,
    desk,
    error_of,
    path_of,
    with_brain,
)

pytestmark = pytest.mark.not_quick

FOLDER = f"memory/project/{PROJECT}/memo"


@pytest.fixture(scope="module", params=["platform", "daemon"])
def desks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(request.param, tmp_path_factory.mktemp("desk"), actor="ada") as made:
        yield made


@pytest.fixture
async def one(desks: Desk) -> AsyncIterator[Desk]:
    async for made in with_brain(desks):
        yield made


async def test_a_memo_is_one_note_that_a_person_can_read(one: Desk) -> None:
    memo_id = await one.record(**EXAMPLE)
    note = open_note((await one.get(path_of(memo_id))).encode())
    assert note.content == TIMEOUT
    assert note.title == TIMEOUT
    assert {field: note.text(field) for field in ("via", "source", "episode_type", "author")} == {
        "via": "brains-gateway",
        "source": "manual",
        "episode_type": "other",
        "author": "ada",
    }
    assert note.text("metadata") == '{"file": "src/core/store.py", "severity": "high"}'
    assert note.tag_list == ["src/core/store.py", "high"]
    assert "scope" not in note.front
    assert await one.paths() == [path_of(memo_id)]


async def test_the_same_memo_again_changes_nothing(one: Desk) -> None:
    first = await one.record(**EXAMPLE)
    before = await one.notes()
    assert await one.record(**EXAMPLE) == first
    assert await one.notes() == before


async def test_what_people_add_to_a_memo_is_shown_and_survives_a_repeat(one: Desk) -> None:
    memo_id = await one.record(**EXAMPLE)
    text = await one.get(path_of(memo_id))
    edited = text.replace("episode_type: other", "episode_type: bug_fix\nreviewed-by: 'Grace'  # in May")
    edited = edited.replace("source: manual", "source: incident").replace("- high\n", "- high\n- duckdb\n")
    await one.put(path_of(memo_id), edited)
    assert await one.record(**EXAMPLE) == memo_id
    assert await one.get(path_of(memo_id)) == edited
    (memo,) = await one.search("pool_size")
    assert (memo["episode_type"], memo["source"], memo["tags"]) == ("bug_fix", "incident", ["duckdb"])
    assert memo["extra_metadata"] == METADATA


async def test_a_memo_whose_words_were_changed_is_recorded_again_and_the_change_is_kept(one: Desk) -> None:
    memo_id = await one.record(**EXAMPLE)
    text = await one.get(path_of(memo_id))
    edited = text.replace("to 20", "to 30").replace("episode_type: other", "episode_type: bug_fix\nreviewed: yes")
    await one.put(path_of(memo_id), edited)
    (memo,) = await one.search("pool_size")
    assert "to 30" in memo["content"]
    for _ in range(2):
        assert await one.record(**EXAMPLE) == memo_id
        (memo,) = await one.search("pool_size")
        assert (memo["content"], memo["episode_type"], memo["tags"]) == (TIMEOUT, "bug_fix", [])
        notes = await one.notes()
        (aside,) = [path for path in notes if path != path_of(memo_id)]
        assert aside.startswith(f"{FOLDER}/_versions/{memo_id}-")
        assert aside.endswith(".txt")
        # All but the end that sets a note apart where others may say the same.
        assert notes[aside] == edited.partition("\n\n<!-- ")[0]
        assert "reviewed: yes\n" in notes[path_of(memo_id)]


HAND_WRITTEN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "no front matter": ("Pumps need grease.", "Pumps need grease.", {}),
    "somebody else's": ("---\ntitle: P\n---\nPumps need grease.", "---\ntitle: P\n---\nPumps need grease.", {}),
    "somebody else's with what memos have": (
        "---\nepisode_type: guideline\ntitle: P\ntags:\n  - oil\n---\nPumps need grease.",
        "Pumps need grease.",
        {"episode_type": "guideline", "tags": ["oil"]},
    ),
    "somebody else's with tags alone": (
        "---\ntags: [oil]\nsource: wiki\n---\n\nPumps need grease.",
        "Pumps need grease.",
        {"tags": ["oil"], "source": "wiki"},
    ),
    "broken": ("---\nvia: [\n---\nPumps need grease.", "---\nvia: [\n---\nPumps need grease.", {}),
    "never closed": (
        "---\nvia: brains-gateway\nPumps need grease.",
        "---\nvia: brains-gateway\nPumps need grease.",
        {},
    ),
    "windows lines": (
        "---\r\nvia: brains-gateway\r\nepisode_type: guideline\r\nsource: wiki\r\ntags: [oil, pumps]\r\n---\r\n\r\n"
        "Pumps\r\nneed grease.\r\n",
        "Pumps\r\nneed grease.\r\n",
        {"episode_type": "guideline", "source": "wiki", "tags": ["oil", "pumps"]},
    ),
    "metadata as a person writes them": (
        "---\nvia: brains-gateway\nmetadata:\n  file: a.py\n  severity: low\n---\n\nPumps need grease.",
        "Pumps need grease.",
        {"extra_metadata": {"file": "a.py", "severity": "low"}},
    ),
    "metadata without quotes": (
        '---\nvia: brains-gateway\nmetadata: {"file": "it\\u0027s", "n": [1]}\n---\n\nPumps need grease.',
        "Pumps need grease.",
        {"extra_metadata": {"file": "it's", "n": [1]}},
    ),
    "metadata that are no JSON": (
        "---\nvia: brains-gateway\nmetadata: see the wiki\n---\n\nPumps need grease.",
        "Pumps need grease.",
        {"extra_metadata": {"metadata": "see the wiki"}},
    ),
    "fields of other kinds": (
        "---\nvia: brains-gateway\nsource: [a]\nepisode_type: {b: c}\ntags: d\ncreated: someday\nmetadata: []\n---\n\n"
        "Pumps need grease.",
        "Pumps need grease.",
        {"source": "[a]", "episode_type": "{b: c}", "extra_metadata": {"metadata": "[]"}},
    ),
}


async def test_what_a_persons_own_front_matter_says_of_a_memo_survives_a_record(one: Desk) -> None:
    memo_id = await one.record(**EXAMPLE)
    written = "---\nepisode_type: bug_fix\nauthor: eve\ntags: [oil]\nowner: 'Ben'  # in May\n---\n\nOther words."
    await one.put(path_of(memo_id), written)
    assert await one.record(**EXAMPLE) == memo_id
    (memo,) = await one.search("pool_size")
    assert (memo["content"], memo["episode_type"], memo["tags"]) == (TIMEOUT, "bug_fix", ["oil"])
    notes = await one.notes()
    note = open_note(notes[path_of(memo_id)].encode())
    assert note.text("author") == "ada"
    assert "owner: 'Ben'  # in May\n" in note.head
    assert [text for path, text in notes.items() if path != path_of(memo_id)] == [written]


@pytest.mark.parametrize("kind", HAND_WRITTEN)
@pytest.mark.sampled(3)
async def test_a_note_that_a_person_wrote_is_a_memo_too(one: Desk, kind: str) -> None:
    text, content, fields = HAND_WRITTEN[kind]
    await one.put(f"{FOLDER}/grease.md", text)
    (memo,) = await one.search("grease")
    (again,) = await one.search("pumps grease")
    assert memo["id"] == again["id"]
    assert memo["id"][14] == "5"
    assert memo["created_at"].startswith("20")
    shown = {"content": content, "episode_type": "other", "similarity": 1.0, "tags": [], "extra_metadata": {}, **fields}
    assert {key: value for key, value in memo.items() if key not in {"id", "created_at"}} == shown


async def test_metadata_survive_a_daemon_that_takes_the_quotes_away(one: Desk) -> None:
    metadata = {"said": "it's \"odd\": 'yes'", "lines": "a\nb\u2028c\u0085d", "where": "日本, 'here'"}
    memo_id = await one.record("Pumps need grease.", metadata=metadata)
    lines = (await one.get(path_of(memo_id))).split("\n")
    tidied = [f"metadata: {line[11:-1]}" if line.startswith("metadata: ") else line for line in lines]
    assert tidied != lines
    await one.put(path_of(memo_id), "\n".join(tidied))
    (memo,) = await one.search("grease")
    assert (memo["extra_metadata"], memo["tags"]) == (metadata, [])


async def test_what_is_kept_beside_memos_or_elsewhere_is_no_memo(one: Desk) -> None:
    await one.put(f"{FOLDER}/_versions/old.md", "Pumps need grease.")
    await one.put(f"{FOLDER}/_deleted/gone.txt", "Pumps need grease.")
    await one.put(f"memory/project/{PROJECT}/team/other.md", "Pumps need grease.")
    await one.put("memory/project/my-project-2/memo/other.md", "Pumps need grease.")
    await one.put("memory/global/grease.md", "Pumps need grease.")
    assert await one.search("grease") == []


async def test_a_note_that_cannot_be_decoded_is_shown_as_far_as_it_can(one: Desk) -> None:
    await one.put(f"{FOLDER}/latin.md", b"Pumps need grease, \xe7a va.")
    (memo,) = await one.search("grease")
    assert memo["content"] == "Pumps need grease, \ufffda va."


async def test_equals_are_ordered_by_age_also_at_the_edge(one: Desk) -> None:
    for day in (3, 9, 1, 7, 5):
        note = f"---\nvia: brains-gateway\ncreated: 2026-01-0{day}T10:30:00+00:00\n---\n\nGrease day{day}."
        await one.put(f"{FOLDER}/m{day * 7 % 10}.md", note)
    found = await one.search("grease")
    likeness = [memo["similarity"] for memo in found]
    assert likeness == sorted(likeness, reverse=True)
    assert found[0]["similarity"] == 1.0
    if one.name == "platform":
        # It gives equal notes equal scores; the daemons rank them.
        assert [memo["created_at"][8:10] for memo in found] == ["09", "07", "05", "03", "01"]
        assert [m["created_at"] for m in await one.search("grease", limit=1)] == ["2026-01-09T10:30:00Z"]
        assert [m["created_at"][8:10] for m in await one.search("grease", limit=3)] == ["09", "07", "05"]


@pytest.mark.slow
async def test_the_limit_counts_memos_and_not_their_parts(one: Desk) -> None:
    """A long memo is many parts to a platform: it must not take the places of others."""
    paragraph = "Grease the pump. " + "Then wait for the pressure to settle and look at the gauge again. " * 14
    for n in range(24):
        await one.put(f"{FOLDER}/long{n:02}.md", "\n\n".join(f"{paragraph} Part {n} {m}." for m in range(10)))
    for limit in (1, 10, 20, 24):
        found = await one.search("grease", limit=limit)
        assert len({memo["id"] for memo in found}) == len(found) == limit
        assert all(0 <= memo["similarity"] <= 1 for memo in found)
        assert all(memo["content"].count("Grease") == 10 for memo in found)
    assert len(await one.search("grease", limit=100)) == 24


async def test_more_than_the_platform_takes_is_an_invalid_request(one: Desk) -> None:
    error = error_of(await one("record", content="ü" * 1_900_000))
    assert error["type"] == "invalid_request"


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_failure_of_the_platform_is_an_internal_error_with_the_requests_id(
    status: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    daemon = FakeDaemon()
    with desk("daemon", tmp_path_factory.mktemp("failing"), daemon, read_seconds=1) as made:
        async for one in with_brain(made):
            daemon.fail["POST /v1/brains/{brain}/search"] = status
            error = error_of(await one("search", query="grease"))
            assert (error["type"], error["message"]) == (
                "internal_error",
                "An internal error occurred. Please try again.",
            )
            assert error["details"]["request_id"]
            assert "told to fail" not in str(error)
