"""Scenes, patrols and history: what becomes of them, also when a patrol is cut off and run again."""

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.operations.notes import open_note
from gateway.surfaces.being.names import cluster_of
from tests.gateway.conftest import House, Platforms, eventually, house_of
from tests.gateway.surfaces.being.beings import BREAD, IDS, TREE, Files, answered, found, patrolled, said, scene, told

pytestmark = pytest.mark.not_quick

NONE_BEFORE = "00000000-0000-5000-8000-000000000000"


async def patrol(house: House, *messages: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return await answered(house, "trigger_patrol", messages=list(messages), **arguments)


async def history(house: House, **arguments: Any) -> list[str]:
    """What was said, newest first."""
    return re.findall(r"^\[\S+Z\] (.*)$", await told(house, "search_history", **arguments), re.MULTILINE)


@pytest.fixture
async def daemon_house(platforms: Platforms) -> AsyncIterator[House]:
    """On a platform that can be looked into, past the gateway."""
    async for house in house_of(platforms, "T", "http", "modern"):
        yield house


async def test_notes_and_scenes_are_kept_once(web_house: House) -> None:
    noted = [await answered(web_house, "update_notes", scenes=[BREAD, BREAD], notes=["a", "b", "a"]) for _ in range(2)]
    assert noted[0] == noted[1]
    first = noted[0]
    assert len(set(first["scene_ids"])) == 1
    assert len(set(first["note_ids"])) == 2
    assert {key: first[key] for key in ("status", "action", "scenes_waiting", "patrol_started")} == {
        "status": "ok",
        "action": "append",
        "scenes_waiting": 1,
        "patrol_started": False,
    }


async def test_scenes_that_differ_in_anything_are_two(web_house: House) -> None:
    changed: list[dict[str, Any]] = [
        {"feeling": "joy"},
        {"when": ["2026-04-15"]},
        {"actors": ["Rin"]},
        {"importance": 0.1},
        {"setting": "x"},
        {"themes": ["x"]},
    ]
    scenes = [BREAD, *({**BREAD, **one} for one in changed)]
    assert len(set((await answered(web_house, "update_notes", scenes=scenes))["scene_ids"])) == 7


async def test_an_update_deletes_first_and_then_inserts(web_house: House) -> None:
    one, two = (await answered(web_house, "update_notes", scenes=[scene("one"), scene("two")]))["scene_ids"]
    arguments = {"action": "update", "scene_ids": [one, "never-was"], "scenes": [scene("three")]}
    answers = [await answered(web_house, "update_notes", **arguments) for _ in range(2)]
    assert answers[0] == answers[1]
    assert (answers[0]["deleted_scene_ids"], answers[0]["missing_scene_ids"]) == ([one], ["never-was"])
    assert answers[0]["scenes_waiting"] == 2
    # What is deleted and told anew is there.
    again = await answered(web_house, "update_notes", action="update", scene_ids=[two], scenes=[scene("two")])
    assert (again["scene_ids"], again["scenes_waiting"]) == ([two], 2)
    await patrol(web_house)
    # Other numbers mean something like it.
    assert await found(web_house, "one", mode="and") == []
    assert len(await found(web_house, "two three")) == 2


async def test_a_patrol_makes_a_node_of_each_scene_in_the_cluster_of_its_theme(web_house: House) -> None:
    ids = (
        await answered(
            web_house,
            "update_notes",
            scenes=[BREAD, scene("Rin bakes rolls", themes=[" BAKING"]), scene("It rained")],
        )
    )["scene_ids"]
    assert (await patrol(web_house))["nodes_created"] == 3
    assert (await patrol(web_house))["nodes_created"] == 0
    clusters = await told(web_house, "recall_memory")
    assert re.findall(r"- (\w+ \(\d nodes?\))", clusters) in (
        ["general (1 node)", "Baking (2 nodes)"],
        ["Baking (2 nodes)", "general (1 node)"],
        ["BAKING (2 nodes)", "general (1 node)"],
        ["general (1 node)", "BAKING (2 nodes)"],
    )
    shown = await told(web_house, "recall_memory", node_id=ids[0])
    for line in (
        "when: 2026-04-14",
        "actors: Rin, Ken",
        "setting: the old kitchen",
        "feeling: I was proud of her",
        "themes: Baking, family",
        "importance: 0.8",
    ):
        assert line in shown
    assert "importance: 0.5" in await told(web_house, "recall_memory", node_id=ids[2])


async def test_a_scene_that_became_a_node_is_not_told_anew_by_the_same_call(web_house: House) -> None:
    ids = await patrolled(web_house, BREAD)
    again = await answered(web_house, "update_notes", scenes=[BREAD])
    assert (again["scene_ids"], again["scenes_waiting"]) == (ids, 0)


async def test_ten_scenes_start_a_patrol_after_the_answer(web_house: House) -> None:
    nine = await answered(web_house, "update_notes", scenes=[scene(f"Loaf {n}") for n in range(9)])
    assert (nine["scenes_waiting"], nine["patrol_started"]) == (9, False)
    assert await found(web_house, "loaf") == []
    ten = await answered(web_house, "update_notes", scenes=[scene("Loaf 9")])
    assert (ten["scenes_waiting"], ten["patrol_started"]) == (10, True)

    async def is_patrolled() -> bool:
        return len(await found(web_house, "loaf", limit=30)) == 10

    await eventually(is_patrolled)


async def test_messages_are_kept_once_whatever_is_sent_again(web_house: House) -> None:
    talk = [said("hello"), said("hi", "assistant"), said("ok"), said("ok")]
    first = await patrol(web_house, *talk)
    assert await patrol(web_house, *talk) == {**first, "scenes_created": 0, "nodes_created": 0}
    assert await history(web_house) == ["user: ok", "user: ok", "assistant: hi", "user: hello"]

    # Some clients go on with what came since the marker, others with all of it.
    since = await patrol(web_house, said("ok"), said("bye"), marker_id=first["marker_id"])
    again = await patrol(web_house, said("ok"), said("bye"), marker_id=first["marker_id"])
    assert again == {**since, "scenes_created": 0, "nodes_created": 0}
    assert len(await history(web_house)) == 6
    whole = await patrol(web_house, *talk, said("and now all of it"), marker_id=first["marker_id"])
    assert (await history(web_house))[0] == "user: and now all of it"
    assert len(await history(web_house)) == 7
    assert len({first["marker_id"], since["marker_id"], whole["marker_id"]}) == 3
    await patrol(web_house, *talk, said("and now all of it"), said("and more"), marker_id=whole["marker_id"])
    assert len(await history(web_house)) == 8


async def test_a_patrol_without_messages_goes_on_from_the_same_marker(web_house: House) -> None:
    assert (await patrol(web_house, marker_id=NONE_BEFORE))["marker_id"] == NONE_BEFORE
    first, second = await patrol(web_house), await patrol(web_house)
    assert first["marker_id"] == second["marker_id"]
    # What no patrol has ever given out is no marker to go on from.
    assert (await patrol(web_house, marker_id="bogus"))["marker_id"] == first["marker_id"]
    assert await history(web_house) == []
    # One that was given out before anything was said is as good as none.
    begun = await patrol(web_house, said("hello"), marker_id=first["marker_id"])
    assert begun["marker_id"] == (await patrol(web_house, said("hello")))["marker_id"]
    await patrol(web_house, said("hello"), said("bye"), marker_id=begun["marker_id"])
    assert await history(web_house) == ["user: bye", "user: hello"]


async def test_messages_as_clients_send_them_are_taken(web_house: House) -> None:
    tool_call = {"role": "assistant", "content": "", "tool_calls": [{"id": 1}]}
    odd = said("line one\nline two \u2028 \x85 \0 end", "tool")
    await patrol(web_house, tool_call, odd, {"role": "user", "content": "x" * 600_000}, said("last"))
    kept = await told(web_house, "search_history", query="LINE TWO")
    assert kept.startswith("1 message, newest first:\n[")
    assert "tool: line one\nline two \u2028 \x85 \0 end" in kept
    assert (await history(web_house, query="x" * 100))[0].startswith("user: xxx")
    assert await history(web_house, query="last") == ["user: last"]


async def test_history_is_searched_by_words_and_days(daemon_house: House) -> None:
    files = Files(daemon_house)
    for day in range(1, 13):
        line = {"id": f"i{day}", "at": f"2026-03-{day:02}T23:59:59.000Z", "role": "user", "content": f"Day {day}"}
        twice = (json.dumps(line) + "\r\n") * 2
        await files.write(f"{TREE}/history/2026-03-{day:02}.jsonl", twice.encode())
    assert await history(daemon_house) == [f"user: Day {day}" for day in range(12, 2, -1)]
    assert len(await history(daemon_house, limit=50)) == 12
    assert await history(daemon_house, limit=1, query="dAY 1") == ["user: Day 12"]
    assert await history(daemon_house, query="y 1", date_to="2026-03-11") == [
        "user: Day 11",
        "user: Day 10",
        "user: Day 1",
    ]
    within = await history(daemon_house, date_from="2026-03-02", date_to="2026-03-03")
    assert within == ["user: Day 3", "user: Day 2"]
    assert await history(daemon_house, date_from="2026-03-13") == []
    assert await history(daemon_house, query="zebra") == []


async def test_lines_that_a_person_wrote_are_found_and_none_is_lost(daemon_house: House) -> None:
    files = Files(daemon_house)
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    await files.write(f"{TREE}/history/{today}.jsonl", b'a word of mine\n[1, 2]\n{"content": 7}\n\n{"content": "half"')
    await patrol(daemon_house, said("hello"))
    assert set(await history(daemon_house)) == {
        "user: hello",
        "note: a word of mine",
        "note: [1, 2]",
        'note: {"content": 7}',
        'note: {"content": "half"',
    }


async def test_a_call_that_is_sent_again_after_midnight_is_the_same(daemon_house: House) -> None:
    files = Files(daemon_house)
    await patrol(daemon_house, said("hello"))
    now = datetime.now(UTC)
    # As if that had been yesterday.
    kept = [path for path in await files.all() if "/history/" in path]
    bodies = [await files.read(path) for path in kept]
    await files.write(f"{TREE}/history/{now - timedelta(days=1):%Y-%m-%d}.jsonl", b"".join(bodies))
    for path in kept:
        await files.write(path, b"")
    await patrol(daemon_house, said("hello"))
    assert await history(daemon_house) == ["user: hello"]


async def test_what_a_patrol_leaves_is_in_the_notes_as_described(daemon_house: House) -> None:
    (node_id,) = await patrolled(daemon_house, BREAD)
    (cluster_id,) = IDS.findall(await told(daemon_house, "recall_memory"))
    await patrol(daemon_house, said("hello"))
    files = Files(daemon_house)
    (exchange,) = await found(daemon_house, "hello")
    assert await files.names() == {
        f"nodes/{cluster_id}/{node_id}.md",
        f"nodes/{cluster_id}/_digest.md",
        f"nodes/{cluster_of(['conversation'])}/{exchange}.md",
        f"nodes/{cluster_of(['conversation'])}/_digest.md",
        f"scenes/_done/{node_id}.txt",
        f"scenes/_done/{exchange}.txt",
        f"history/{datetime.now(UTC):%Y-%m-%d}.jsonl",
    }
    body = (await files.read(f"{TREE}/nodes/{cluster_id}/{node_id}.md")).decode()
    assert "\nvia: brains-gateway\nname: Rin baked her first loaf of bread\n" in body
    assert open_note(body.encode()).content == "Rin baked her first loaf of bread"
    for line in ('actors: \'["Rin", "Ken"]\'', "importance: '0.8'", "setting: the old kitchen"):
        assert f"\n{line}\n" in body
    assert "scope:" not in body


async def test_a_scene_that_a_person_wrote_becomes_a_node_with_all_they_wrote(daemon_house: House) -> None:
    files = Files(daemon_house)
    await files.write(f"{TREE}/scenes/By hand.md", b"Otters by hand")
    await files.write(
        f"{TREE}/scenes/edited.md",
        b"---\nvia: brains-gateway\nmood: [calm,\n  quiet]\nthemes: [water, fish]\nimportance: x\n---\n\nOtters edited",
    )
    await files.write(f"{TREE}/scenes/broken.md", b"---\nx: [\n---\r\nOtters broken")
    assert (await patrol(daemon_house))["nodes_created"] == 3
    assert len(await found(daemon_house, "otters")) == 3
    nodes = {path: body for path, body in (await files.all()).items() if "/nodes/" in path and "/_" not in path}
    (edited,) = [body for body in nodes.values() if b"edited" in body]
    assert b"mood: [calm,\n  quiet]\nthemes: [water, fish]\n" in edited
    assert "---\nx: [\n---\r\nOtters broken" in {open_note(body).content for body in nodes.values()}
    assert all(re.search(r"/[0-9a-f-]{36}/[0-9a-f-]{36}\.md$", path) for path in nodes)
    assert "- water (1 node)" in await told(daemon_house, "recall_memory")


async def test_a_digest_that_a_person_wrote_stays(daemon_house: House) -> None:
    await patrolled(daemon_house, BREAD)
    (cluster_id,) = IDS.findall(await told(daemon_house, "recall_memory"))
    files, path = Files(daemon_house), f"{TREE}/nodes/{cluster_id}/_digest.md"
    ours = await files.read(path)
    await files.write(path, ours.replace(b"Baking: 1 memory", b"All about bread"))
    await patrolled(daemon_house, scene("More bread", themes=["baking"]))
    assert "All about bread" in await told(daemon_house, "recall_memory", cluster_id=cluster_id, no_nodes=True)
    await files.write(path, ours)
    await patrolled(daemon_house, scene("Even more bread", themes=["baking"]))
    assert "Baking: 3 memories" in await told(daemon_house, "recall_memory", cluster_id=cluster_id, no_nodes=True)


async def test_a_digest_that_a_person_wrote_stays_also_when_nodes_die(daemon_house: House) -> None:
    ids = await patrolled(daemon_house, *(scene(f"Loaf {n}", themes=["bread"]) for n in range(3)))
    (cluster_id,) = IDS.findall(await told(daemon_house, "recall_memory"))
    files, path = Files(daemon_house), f"{TREE}/nodes/{cluster_id}/_digest.md"
    edited = (await files.read(path)).replace(b"bread: 3 memories", b"All about bread")
    await files.write(path, edited.replace(b"digest:", b"mood: calm\ndigest:"))
    await told(daemon_house, "merge_nodes", node_ids=",".join(ids[:2]), summary="Two loaves")
    assert "- bread (2 nodes)" in await told(daemon_house, "recall_memory")
    body = await files.read(path)
    assert b"mood: calm\n" in body
    assert body.partition(b"\n---\n")[2] == edited.partition(b"\n---\n")[2]
    # It still counts as edited: the next patrol leaves it alone, too.
    await patrolled(daemon_house, scene("Even more bread", themes=["bread"]))
    assert await files.read(path) == body
    assert "- bread (3 nodes)" in await told(daemon_house, "recall_memory")
