"""Both tools of the `memo` surface: the contract's own examples on every platform, then every field and limit."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.gateway.conftest import PLATFORMS, House, Platforms, house_of, text_of
from tests.gateway.surfaces.memo.memos import EXAMPLE, METADATA, PROJECT, RELEASE, SAID, TIMEOUT, id_of, memos_of
from tests.test_pins import PINNED

FIELDS = ["id", "content", "episode_type", "created_at", "source", "similarity", "tags", "extra_metadata"]
UUID_5 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")


@pytest.fixture(params=PLATFORMS)
async def any_house(request: pytest.FixtureRequest, platforms: Platforms) -> AsyncIterator[House]:
    """Every platform, by one way in."""
    async for found in house_of(platforms, request.param, "http", "modern"):
        yield found


def in_project(house: House, project: str | None = PROJECT) -> House:
    """The house with a project named, as each transport has it."""
    house.headers.clear()
    house.settings.clear()
    if project is not None:
        house.headers["X-MemoAI-Project"] = house.settings["MEMOAI_PROJECT"] = project
    house.open.clear()
    return house


async def record(house: House, content: str, **arguments: Any) -> str:
    return id_of(await house("memo", "memoai_memo_record", content=content, **arguments))


async def search(house: House, query: str, **arguments: Any) -> list[dict[str, Any]]:
    return memos_of(await house("memo", "memoai_memo_search", query=query, **arguments))


def contents(memos: Sequence[dict[str, Any]]) -> set[str]:
    return {memo["content"] for memo in memos}


async def test_the_contracts_examples_work(house: House) -> None:
    in_project(house)
    recorded = await house.good("memo", "memoai_memo_record", **EXAMPLE)
    assert re.fullmatch(SAID + UUID_5.pattern, text_of(recorded))
    assert recorded.structured_content is None
    other = await record(house, RELEASE, source="manual", metadata={"tags": ["best-practice"]})
    found = await house.good("memo", "memoai_memo_search", query="DuckDB timeout error", limit=5)
    first, second = memos_of(found)
    assert list(first) == list(second) == FIELDS
    assert (first["id"], second["id"]) == (id_of(recorded), other)
    assert (first["content"], second["content"]) == (TIMEOUT, RELEASE)
    assert first["episode_type"] == second["episode_type"] == "other"
    assert first["source"] == second["source"] == "manual"
    assert 1 >= first["similarity"] > second["similarity"] > 0
    assert (first["tags"], first["extra_metadata"]) == ([], METADATA)
    assert second["tags"] == ["best-practice"]
    # The text is the JSON of the contract's example, to the spaces.
    assert text_of(found) == json.dumps([first, second], indent=2)


async def test_the_same_memo_is_recorded_once_and_found_by_other_surfaces(web_house: House) -> None:
    house = in_project(web_house)
    first = await record(house, "The cache is warmed at night.")
    assert await record(house, "The cache is warmed at night.") == first
    assert [memo["id"] for memo in await search(house, "cache warmed")] == [first]
    hits = (await house.good("memory", "memory_search", query="cache warmed")).structured_content
    assert hits is not None
    assert [hit["path"] for hit in hits["hits"]] == [f"memory/project/{PROJECT}/memo/{first}.md"]


async def test_what_was_not_said_is_left_out_or_empty(web_house: House) -> None:
    in_project(web_house)
    before = datetime.now(UTC)
    await record(web_house, "Plain words alone.", source=None, metadata=None)
    (memo,) = await search(web_house, "plain words")
    assert list(memo) == [name for name in FIELDS if name != "source"]
    assert (memo["tags"], memo["extra_metadata"], memo["similarity"]) == ([], {}, 1.0)
    assert TIME.fullmatch(memo["created_at"])
    assert before.timestamp() - 1 < datetime.fromisoformat(memo["created_at"]).timestamp() < before.timestamp() + 60


async def test_nothing_found_is_an_empty_list(web_house: House) -> None:
    in_project(web_house)
    assert text_of(await web_house.good("memo", "memoai_memo_search", query="xylophone")) == "[]"


async def test_content_comes_back_to_the_letter(web_house: House) -> None:
    in_project(web_house)
    for content in (
        "  indented, and a trailing line\n\n",
        "\r\nwindows lines\r\nand more\r\n",
        "---\ntitle: mine\n---\n\nwith front matter of its own",
        "# Heading\n\n```sh\nmake 'all' \"quoted\"\n```\n\n日本語のメモ、ça va 🎉",
    ):
        memo_id = await record(web_house, content)
        assert [m["content"] for m in await search(web_house, content, limit=100) if m["id"] == memo_id] == [content]


METADATAS: list[dict[str, Any]] = [
    {"file": 'it\'s "quoted", with: colons', "files": "a.py, b.py", "ticket": "OPS-1234"},
    {"list": [1, 2.5, "three", None, True, {"deep": []}], "nothing": None, "no": False, "": "no name"},
    {"lines": "one\ntwo\r\nthree\u2028four\u0085five\ttab\u0000end", "日本": "語", "😀": "\ufeffbom"},
    {"date": "2026-01-02", "number": "007", "yes": "yes", "braces": "{a: [b]}", "tags": "not a list"},
    {"big": "word " * 3000},
]


async def test_metadata_come_back_as_they_were_sent(web_house: House) -> None:
    in_project(web_house)
    for n, metadata in enumerate(METADATAS):
        await record(web_house, f"Memo number{n} with metadata.", metadata=metadata)
        memo, *_others = await search(web_house, f"number{n}")
        assert memo["extra_metadata"] == metadata
        assert memo["tags"] == []


QUERIES = ("OPS-1234", "store.py", "critical", "Hopper", "quick checkout", "urgent", "8421", "nested", "breaking")


async def test_a_memo_is_found_by_its_tags_and_metadata(any_house: House) -> None:
    house = in_project(any_house)
    metadata = {
        "ticket": "OPS-1234",
        "file": "src/core/store.py",
        "severity": "critical",
        "author": "Grace Hopper",
        "note": "seen at the quick checkout, twice",
        "tags": ["urgent", "two words"],
        "build": 8421,
        "more": {"inner": ["nested"]},
        "breaking": True,
        "reviewed": False,
    }
    await record(house, "Always release connections.", metadata=metadata)
    await record(house, "Something else altogether.")
    for query in QUERIES:
        (memo,) = await search(house, query)
        assert memo["content"] == "Always release connections."
        assert memo["extra_metadata"] == metadata
        assert memo["tags"] == ["urgent", "two words"]


async def test_a_source_may_be_anything(web_house: House) -> None:
    in_project(web_house)
    for source in ("architecture-review", "my own: source, \"quoted\" and 'more'", "2026-01-01", "s" * 256):
        await record(web_house, "The same content.", source=source)
        assert source in {memo.get("source") for memo in await search(web_house, "same content", limit=100)}


async def test_every_part_of_a_memo_makes_it_another(web_house: House) -> None:
    in_project(web_house)
    ids = [
        await record(web_house, "One content."),
        await record(web_house, "One content.", source="manual"),
        await record(web_house, "One content.", metadata={"a": 1}),
        await record(web_house, "One content.", metadata={"a": "1"}),
        await record(web_house, "Another content."),
        await record(in_project(web_house, "other"), "One content."),
    ]
    assert len(set(ids)) == len(ids)
    again = await record(in_project(web_house), "One content.", metadata={})
    assert again == ids[0]
    assert await record(web_house, "One content.", metadata={"b": 2, "a": 1}) == await record(
        web_house, "One content.", metadata={"a": 1, "b": 2}
    )


async def test_the_limit_is_ten_unless_it_is_said(web_house: House) -> None:
    in_project(web_house)
    for n in range(12):
        await record(web_house, f"Lesson {n} of the pump.")
    assert len(await search(web_house, "pump")) == 10
    for limit, expected in ((1, 1), (11, 11), (100, 12), (3.0, 3), (None, 10)):
        assert len(await search(web_house, "pump", limit=limit)) == expected


async def test_projects_do_not_see_each_other(web_house: House) -> None:
    house = web_house
    await record(in_project(house, "alpha"), "The alpha secret.")
    await record(in_project(house, "Alpha"), "The capital secret.")
    await record(in_project(house, "alpha.2"), "The second secret.")
    for project, secret in (("alpha", "alpha"), ("Alpha", "capital"), ("alpha.2", "second")):
        assert contents(await search(in_project(house, project), "secret")) == {f"The {secret} secret."}
    assert await search(in_project(house, "beta"), "secret") == []


async def test_either_header_names_the_project_and_the_contracts_own_comes_first(web_house: House) -> None:
    in_project(web_house, None).headers["MEMOAI_PROJECT"] = "alpha"
    await record(web_house, "The alpha secret.")
    in_project(web_house, "alpha")
    assert contents(await search(web_house, "secret")) == {"The alpha secret."}
    in_project(web_house, "beta").headers["MEMOAI_PROJECT"] = "alpha"
    assert contents(await search(web_house, "secret")) == {"The alpha secret."}


def test_the_words_of_the_tools_are_the_contracts() -> None:
    searching, recording = PINNED["memo"]
    assert searching["description"] == "Search through your memos using semantic search."
    assert recording["description"] == "Record a new memo in your knowledge base."
    assert "outputSchema" not in searching
    assert "outputSchema" not in recording
    limit = searching["inputSchema"]["properties"]["limit"]
    assert (limit["default"], limit["minimum"], limit["maximum"]) == (10, 1, 100)
    assert searching["inputSchema"]["required"] == ["query"]
    assert recording["inputSchema"]["required"] == ["content"]
    assert set(recording["inputSchema"]["properties"]) == {"content", "source", "metadata"}
