"""The `kv` surface, through real clients: every tool as the contract has it, on both dialects."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.client import CallToolResult

from contract.platform.meaning import offline
from gateway.brain.notebook import Entry
from gateway.operations import notes
from gateway.surfaces.kv import surface
from gateway.surfaces.kv.schema import PutInput
from tests.daemons.fake import FakeDaemon, T
from tests.gateway.conftest import House, eventually, structured, text_of
from tests.gateway.surfaces.shelf import shelf_on
from tests.served import listening, serving

COLOR = {
    "key": "brand_color",
    "value": "Brand primary color is #FF5733",
    "namespace": "user_profile",
    "tags": ["brand", "design"],
    "importance": 8,
}
PATH = "memory/global/kv/user_profile/brand_color.md"


async def put(house: House, **arguments: Any) -> dict[str, Any]:
    return structured(await house.good("kv", "jettson_memory_put", **arguments))


async def get(house: House, key: str, **arguments: Any) -> dict[str, Any]:
    return structured(await house.good("kv", "jettson_memory_get", key=key, **arguments))


async def search(house: House, query: str, **arguments: Any) -> list[dict[str, Any]]:
    found = await house.good("kv", "jettson_memory_search", query=query, **arguments)
    return list(structured(found)["results"])


async def listed(house: House, **arguments: Any) -> list[dict[str, Any]]:
    answer = structured(await house.good("kv", "jettson_memory_list", **arguments))
    assert answer["count"] == len(answer["memories"])
    return list(answer["memories"])


async def delete(house: House, key: str, **arguments: Any) -> bool:
    return bool(structured(await house.good("kv", "jettson_memory_delete", key=key, **arguments))["deleted"])


def keys(memories: list[dict[str, Any]]) -> list[str]:
    return [memory["key"] for memory in memories]


async def test_the_examples_of_the_contract(house: House) -> None:
    saved = await put(house, **COLOR)
    assert set(saved) == {"memory_id", "key", "namespace"}
    assert saved["memory_id"].startswith("mem_")
    assert (saved["key"], saved["namespace"]) == ("brand_color", "user_profile")

    found = await get(house, "brand_color", namespace="user_profile")
    times = {name: found.pop(name) for name in ("created_at", "updated_at")}
    assert found == {"found": True, **COLOR, "access_count": 0}
    assert times["created_at"] == times["updated_at"]
    assert abs(times["created_at"] / 1000 - datetime.now(UTC).timestamp()) < 60
    assert await get(house, "brand_color") == {"found": False}

    (result,) = await search(house, "What is the brand primary color?", limit=5)
    score, breakdown = result.pop("score"), result.pop("breakdown")
    assert result == {**COLOR, "created_at": times["created_at"]}
    semantic = breakdown.pop("semantic")
    assert breakdown == {"keyword": 1.0, "importance": 0.8, "timeDecay": 1.0}
    # The embedded brain knows what notes mean, where its small model is installed; a daemon does not.
    assert (semantic > 0) == (house.platform == "embedded" and offline.is_installed())
    relevance = (2 * semantic + 1.0) / 3 if semantic else 1.0
    assert score == pytest.approx(relevance * (0.75 + 0.15 * 0.8 + 0.1 * 1.0), abs=1e-4)

    (only,) = await listed(house)
    assert only.pop("access_count") in {0, 1}
    assert only == {**COLOR, **times}
    assert await delete(house, "brand_color", namespace="user_profile") is True
    assert await get(house, "brand_color", namespace="user_profile") == {"found": False}
    assert (await listed(house), await search(house, "brand")) == ([], [])


async def test_defaults(web_house: House) -> None:
    await put(web_house, key="k", value="v")
    found = await get(web_house, "k")
    assert (found["namespace"], found["tags"], found["importance"]) == ("default", [], 5)


async def test_a_put_again_is_the_same_memory_and_changes_nothing(web_house: House) -> None:
    first = await put(web_house, **COLOR)
    before = await get(web_house, "brand_color", namespace="user_profile")
    assert await put(web_house, **{**COLOR, "tags": ["design", "brand"]}) == first
    after = await get(web_house, "brand_color", namespace="user_profile")
    assert after["updated_at"] == before["updated_at"]
    assert after["tags"] == ["brand", "design"]


@pytest.mark.parametrize("other", [{"value": "blue"}, {"tags": ["x"]}, {"importance": 9}, {"expires_in_days": 3}])
async def test_another_put_replaces_and_keeps_when_it_began(web_house: House, other: dict[str, Any]) -> None:
    first = await put(web_house, **COLOR)
    before = await get(web_house, "brand_color", namespace="user_profile")
    await asyncio.sleep(0.002)
    assert await put(web_house, **{**COLOR, **other}) == first
    after = await get(web_house, "brand_color", namespace="user_profile")
    assert after["created_at"] == before["created_at"] < after["updated_at"]
    assert after.items() >= {key: value for key, value in other.items() if key != "expires_in_days"}.items()
    assert len(await listed(web_house)) == 1


async def test_keys_and_namespaces_that_differ_in_capitals_alone_are_two(web_house: House) -> None:
    for n, key in enumerate(("example.com", "Example.com", "EXAMPLE.COM", "x" * 128, "X" * 128)):
        await put(web_house, key=key, value=f"v{n}", namespace="Research")
    assert [(await get(web_house, key, namespace="Research"))["value"] for key in ("Example.com", "X" * 128)] == [
        "v1",
        "v4",
    ]
    assert await get(web_house, "example.com", namespace="research") == {"found": False}
    assert set(keys(await listed(web_house, namespace="Research"))) == {
        "example.com",
        "Example.com",
        "EXAMPLE.COM",
        "x" * 128,
        "X" * 128,
    }


async def test_search_filters_by_namespace_and_by_all_tags(web_house: House) -> None:
    await put(web_house, key="a", value="otters sleep", namespace="one", tags=["x", "y"])
    await put(web_house, key="b", value="otters swim", namespace="one", tags=["x"])
    await put(web_house, key="c", value="otters eat", namespace="two", tags=["x", "y"])
    assert set(keys(await search(web_house, "otters"))) == {"a", "b", "c"}
    assert set(keys(await search(web_house, "otters", namespace="one"))) == {"a", "b"}
    assert set(keys(await search(web_house, "otters", tags=["x", "y"]))) == {"a", "c"}
    assert keys(await search(web_house, "otters", namespace="one", tags=["y", "x"])) == ["a"]
    assert len(await search(web_house, "otters", limit=2)) == 2
    assert await search(web_house, "xyzzyplugh") == []


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "keyword"])
async def test_importance_decides_between_equals_in_every_mode(web_house: House, mode: str) -> None:
    for importance in (2, 9, 5):
        await put(web_house, key=f"k{importance}", value="otters sleep", importance=importance)
    assert keys(await search(web_house, "otters", mode=mode)) == ["k9", "k5", "k2"]


async def test_search_finds_nothing_that_is_no_memory_of_this_surface(web_house: House) -> None:
    await web_house.good("memory", "memory_remember", content="Otters elsewhere.")
    await put(web_house, key="a", value="otters here")
    assert keys(await search(web_house, "otters")) == ["a"]


async def test_what_is_put_is_found_by_the_canonical_search_until_it_is_deleted(house: House) -> None:
    await put(house, **COLOR)
    found = structured(await house.good("memory", "memory_search", query="primary color"))
    assert [(hit["path"], hit["content"]) for hit in found["hits"]] == [(PATH, COLOR["value"])]
    await delete(house, "brand_color", namespace="user_profile")
    assert structured(await house.good("memory", "memory_search", query="primary color"))["hits"] == []


async def test_the_newest_are_listed_first_and_tags_are_looked_for_further_back(web_house: House) -> None:
    for n in range(12):
        await put(web_house, key=f"k{n:02}", value="v", tags=["old"] if n < 3 else ["new"])
        await asyncio.sleep(0.002)
    assert keys(await listed(web_house, limit=3)) == ["k11", "k10", "k09"]
    assert keys(await listed(web_house, tags=["old"], limit=2)) == ["k02", "k01"]
    assert len(await listed(web_house)) == 12


@pytest.mark.parametrize("kind", ["platform", "daemon"])
@pytest.mark.not_quick
async def test_no_more_notes_are_read_for_a_list_than_allowed_and_the_answer_says_so(tmp_path: Path, kind: str) -> None:
    with shelf_on(kind, tmp_path, recall_notes=4) as shelf:
        async with shelf.client("kv") as agent:
            for n in range(9):
                await agent.good("jettson_memory_put", key=f"k{n}", value="v", tags=["new"] if n > 5 else ["old"])
            before = shelf.counted.requests
            nobodys = await agent.client.call_tool("jettson_memory_list", {"tags": ["nobody's"], "limit": 2})
            assert shelf.counted.requests - before <= 6
            assert nobodys.structured_content == {"memories": [], "count": 0}
            assert text_of(nobodys) == "There are no memories.\n(5 older notes were not read)"
            new = text_of(await agent.client.call_tool("jettson_memory_list", {"tags": ["new"], "limit": 4}))
            assert new.endswith("\n(5 older notes were not read)")
            assert new.count("\n") == 3
            # As many as are wanted were found, or there are no more.
            assert "not read" not in text_of(await agent.client.call_tool("jettson_memory_list", {"limit": 2}))
            assert keys((await agent.good("jettson_memory_list"))["memories"])[0] == "k8"
            assert "not read" not in text_of(await agent.client.call_tool("jettson_memory_list", {"limit": 9}))


async def test_a_second_delete_is_the_same_and_one_of_nothing_says_so(web_house: House) -> None:
    await put(web_house, key="a", value="v")
    await put(web_house, key="a-b", value="v")
    assert [await delete(web_house, "a"), await delete(web_house, "a"), await delete(web_house, "b")] == [
        True,
        True,
        False,
    ]
    assert keys(await listed(web_house)) == ["a-b"]
    await put(web_house, key="a", value="again")
    assert (await get(web_house, "a"))["value"] == "again"


async def test_reads_are_counted(web_house: House) -> None:
    await put(web_house, key="a", value="v")
    for _ in range(4):
        await get(web_house, "a")

    async def counted() -> bool:
        (memory,) = await listed(web_house)
        return bool(memory["access_count"] == 4)

    await eventually(counted)


async def test_a_key_that_was_deleted_is_counted_anew(web_house: House) -> None:
    await put(web_house, key="a", value="v")
    await get(web_house, "a")

    async def counts(number: int) -> bool:
        (memory,) = await listed(web_house)
        return bool(memory["access_count"] == number)

    await eventually(lambda: counts(1))
    await delete(web_house, "a")
    await put(web_house, key="a", value="v")
    await eventually(lambda: counts(0))


async def test_a_text_tells_what_was_found_and_what_not(web_house: House) -> None:
    await put(web_house, **{**COLOR, "value": "Not found: no live memory has that key."})
    asked = {"key": "brand_color", "namespace": "user_profile"}
    found = text_of(await web_house.good("kv", "jettson_memory_get", **asked))
    missing = text_of(await web_house.good("kv", "jettson_memory_get", key="brand_color"))
    assert found.startswith("Found user_profile/brand_color (importance 8, tags brand, design):\nNot found")
    assert missing == "Not found: no live memory has that key."
    line = text_of(await web_house.good("kv", "jettson_memory_list"))
    assert line.startswith("user_profile/brand_color (importance 8, tags brand, design): Not found")


NOT_STORED = [
    ({"key": "", "value": "v"}, "key must not be empty."),
    ({"value": "v"}, "key is required."),
    ({"key": "k"}, "value is required."),
    ({"key": 7, "value": "v"}, "key must be a string."),
    ({"key": "k", "value": ""}, "value must not be empty."),
    ({"key": "k", "value": "x" * 5001}, "value must have at most 5,000 characters."),
    ({"key": "k", "value": "a\0b"}, "value must not contain a NUL character."),
    ({"key": "k", "value": "v", "namespace": "../x"}, "namespace must match"),
    ({"key": "k", "value": "v", "tags": "a"}, "tags must be a list."),
    ({"key": "k", "value": "v", "tags": ["a"] * 21}, "tags must have at most 20 entries."),
    ({"key": "k", "value": "v", "importance": 0}, "importance must be at least 1."),
    ({"key": "k", "value": "v", "importance": 11}, "importance must be at most 10."),
    ({"key": "k", "value": "v", "importance": "high"}, "importance must be a number."),
    ({"key": "k", "value": "v", "expires_in_days": 0}, "expires_in_days must be more than 0."),
    ({"key": "k", "value": "v", "expires_in_days": -1}, "expires_in_days must be more than 0."),
    ({"key": "k", "value": "v", "brain": "b"}, "brain is not an argument of this tool."),
    *[
        ({"key": key, "value": "v"}, "key must match")
        for key in (".a", "-a", "_a", "a/b", "a b", "a\\b", "é", "a" * 129, "a%2e", "a\n", "..", "~a")
    ],
]


@pytest.mark.parametrize(("arguments", "message"), NOT_STORED, ids=lambda value: ascii(value)[:50])
@pytest.mark.sampled(3)
async def test_a_bad_put_is_refused_in_the_words_of_the_contract(
    platforms: Any, arguments: dict[str, Any], message: str
) -> None:
    async with platforms("embedded").over_http("modern", "/kv/mcp/main") as client:
        refused = await client.call_tool("jettson_memory_put", arguments, raise_on_error=False)
    assert_failed(refused, message)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("get", {}, "key is required."),
        ("get", {"key": "a/b"}, "key must match"),
        ("search", {}, "query is required."),
        ("search", {"query": "q" * 4097}, "query must have at most 4,096 characters."),
        ("search", {"query": "q", "limit": 51}, "limit must be at most 50."),
        ("search", {"query": "q", "limit": 0}, "limit must be at least 1."),
        ("search", {"query": "q", "limit": 1.5}, "limit must be a whole number."),
        ("search", {"query": "q", "mode": "fast"}, "mode must be one of 'hybrid', 'semantic' or 'keyword'."),
        ("search", {"query": "q", "tags": [""]}, "tags[0] must have at least 1 character(s)."),
        ("search", {"query": "q", "namespace": "a/b"}, "namespace must match"),
        ("list", {"limit": 201}, "limit must be at most 200."),
        ("list", {"limit": "5"}, "limit must be a whole number."),
        ("delete", {}, "key is required."),
        ("put", {"key": "k", "value": "v", "namespace": ""}, "namespace must not be empty."),
        ("delete", {"key": "k", "namespace": ""}, "namespace must not be empty."),
        ("delete", {"key": "k", "namespace": None}, "namespace must be a string."),
        ("delete", {"key": "k", "hard": True}, "hard is not an argument of this tool."),
    ],
)
async def test_bad_arguments_of_the_others(platforms: Any, tool: str, arguments: Any, message: str) -> None:
    async with platforms("embedded").over_http("legacy", "/kv/mcp/main") as client:
        refused = await client.call_tool(f"jettson_memory_{tool}", arguments, raise_on_error=False)
    assert_failed(refused, message)


async def test_a_brain_that_is_not_there_is_a_channel_that_is_not_configured(platforms: Any) -> None:
    async with platforms("embedded").over_http("modern", "/kv/mcp/nowhere") as client:
        refused = await client.call_tool("jettson_memory_get", {"key": "k"}, raise_on_error=False)
    assert text_of(refused) == "Jettson Memory failed: memory channel is not configured."
    assert structured(refused)["code"] == "no_brain"


def assert_failed(result: CallToolResult, message: str) -> None:
    assert result.is_error
    assert text_of(result).startswith(f"Jettson Memory failed: {message}")
    assert structured(result)["code"] == "validation_error"


class TestNotes:
    """What a put makes of the note that is there. Pure functions."""

    def put(self, before: bytes | None, **arguments: Any) -> bytes | None:
        args = PutInput(**{"key": "k", "value": "v", **arguments})
        draft = surface.putting(args, "memory/global/kv/default/k.md")(
            None if before is None else notes.open_note(before)
        )
        return None if draft is None else draft.body

    def test_fields_of_others_survive_and_the_version_grows(self) -> None:
        first = self.put(None, tags=["a"])
        assert first is not None
        edited = first.replace(b"version:", b"color: [red, blue]\nversion:")
        second = self.put(edited, value="w")
        assert second is not None
        assert b"color: [red, blue]\n" in second
        assert notes.open_note(second).text("version") == "2"
        assert notes.open_note(second).content == "w"

    def test_front_matter_of_others_survives_the_value_it_stood_before(self) -> None:
        made = self.put(b"---\ncolor: [red, blue]\nname: mine\n---\n\nby hand")
        assert made is not None
        assert b"\ncolor: [red, blue]\n" in made
        assert notes.open_note(made).content == "v"

    def test_a_copy_goes_by_its_own_name(self) -> None:
        note = notes.open_note(self.put(None) or b"")
        assert surface.place_of("memory/global/kv/default/k.md", note) == ("default", "k")
        assert surface.place_of("memory/global/kv/default/copy.md", note) == ("default", "copy")
        assert surface.place_of("memory/global/kv/!other/k.md", note) == ("Other", "k")

    @pytest.mark.parametrize("path", ["loose.md", "default/sub/deep.md", "default/my own.md", "default/Big.md"])
    def test_what_no_get_would_find_is_no_memory(self, path: str) -> None:
        assert not surface.is_memory(f"memory/global/kv/{path}", notes.open_note(b"by hand"))

    def test_what_is_replaced_goes_aside(self) -> None:
        args = PutInput(key="k", value="w")
        draft = surface.putting(args, "memory/global/kv/default/k.md")(notes.open_note(self.put(None) or b""))
        assert draft is not None
        ((path, body),) = draft.aside.items()
        assert path.startswith("memory/global/kv/default/_versions/k-1-")
        assert path.endswith(".txt")
        kept = notes.open_note(body)
        assert (kept.content, kept.text("version"), kept.text("isLatestVersion")) == ("v", "1", "false")

    def test_a_platform_that_tidied_up_has_the_same_memory(self) -> None:
        body = self.put(None, tags=["a"]) or b""
        tidied = body.replace(b"- a\n", b"- a\n- stale\n") + b"\n"
        assert self.put(tidied, tags=["a"]) is None

    @pytest.mark.parametrize("edit", [lambda body: body.replace(b"\n\nv", b"\n\nother"), lambda _body: b"plain words"])
    def test_an_edit_by_hand_is_replaced_and_kept_aside(self, edit: Any) -> None:
        assert self.put(edit(self.put(None))) is not None

    def test_an_expired_memory_is_not_there_and_a_put_begins_it_anew(self) -> None:
        moment = (datetime.now(UTC) - timedelta(days=1)).isoformat()
        past = notes.write("v", {"expires": moment, "created": "2020-01-01T00:00:00+00:00", "digest": "d"})
        assert not notes.open_note(past).is_live
        anew = self.put(past)
        assert anew is not None
        assert notes.open_note(anew).created != "2020-01-01T00:00:00+00:00"
        assert notes.open_note(anew).is_live

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"plain words",
            b"---\r\nvia: brains-gateway\r\nimportance: lots\r\nkey: [k]\r\n---\r\n\r\nplain words",
            b"---\nbroken: [\n---\nplain words",
            b"---\nvia: brains-gateway\nimportance: nan\ntags: 7\ncreated: now\nexpires: soon\n---\n\nplain words",
            b"\xff\xfe\x00",
        ],
        ids=ascii,
    )
    def test_a_note_that_was_written_by_hand_is_shown_without_loss(self, body: bytes) -> None:
        note = notes.open_note(body)
        assert note.is_live
        assert surface.is_memory("memory/global/kv/!one/!k.md", note)
        assert not surface.is_dated(note)
        memory = surface.memory_of(Entry("memory/global/kv/!one/!k.md", 1, 1234), note)
        assert memory == json.loads(json.dumps(memory))
        assert (memory["namespace"], memory["importance"], memory["tags"]) == ("One", 5, [])
        assert memory["created_at"] == 1234
        assert memory["value"].endswith("plain words") or body in (b"", b"\xff\xfe\x00")


async def test_a_note_that_says_not_when_it_was_written_is_as_old_as_its_file(tmp_path: Path) -> None:
    fake = FakeDaemon(T)
    moment = datetime(2026, 4, 14, tzinfo=UTC).timestamp()
    fake.brains["main"] = {"memory/global/kv/default/hand.md": (b"written by hand", moment)}
    with listening(fake.app()) as url, serving(tmp_path, None, upstream_url=url) as served:
        async with served.over_http("modern", "/kv/mcp/main") as client:
            got = structured(await client.call_tool("jettson_memory_get", {"key": "hand"}))
            found = structured(await client.call_tool("jettson_memory_search", {"query": "hand"}))["results"]
            there = structured(await client.call_tool("jettson_memory_list", {}))["memories"]
    assert [memory["created_at"] for memory in (got, *found, *there)] == [round(moment * 1000)] * 3
