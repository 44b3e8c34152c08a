"""Scenes from what was said: one for each exchange, by rule, bounded, and the same for the same words."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.surfaces.being.exchanges import MOST_SCENES, exchanges_of, scene_of
from gateway.surfaces.being.history import Said
from gateway.surfaces.being.schema import Message, Scene
from tests.gateway.conftest import House, Platforms, structured, text_of
from tests.gateway.surfaces.being.beings import answered, found, said, told

TALK = [
    said("I baked my first loaf of rye today."),
    said("Congratulations! How did it taste?", "assistant"),
    said("Sour, and a little burnt."),
    said("That will get better.", "assistant"),
]


def line(content: str, role: str = "user", n: int = 0) -> Said:
    return Said(f"i{n}", "2026-04-14T08:00:00.000Z", role, content)


def parted(*roles: str) -> list[list[str]]:
    return [[one.role for one in exchange] for exchange in exchanges_of([line("x", role) for role in roles])]


def test_an_exchange_begins_where_the_user_speaks_again() -> None:
    assert parted("user", "assistant", "user", "assistant") == [["user", "assistant"]] * 2
    assert parted("user", "user", "assistant", "assistant", "user") == [
        ["user", "user", "assistant", "assistant"],
        ["user"],
    ]
    assert parted("assistant", "user", "assistant") == [["assistant"], ["user", "assistant"]]
    # Where nobody is called a user, whoever spoke first begins.
    assert parted("Rin", "Ken", "Rin") == [["Rin", "Ken"], ["Rin"]]
    assert parted() == []


def test_what_no_person_says_is_in_no_scene() -> None:
    assert parted("system", "user", "tool", "assistant", "Developer") == [["user", "assistant"]]
    assert exchanges_of([line(" \n")]) == []


def test_a_scene_tells_who_said_what_and_when() -> None:
    exchange = [line("Hello,\n\n  Miku\0"), line("Hello!", "assistant", 1)]
    _id, scene = scene_of(exchange)
    assert scene == Scene(
        action="user: Hello, Miku\nassistant: Hello!",
        actors=["user", "assistant"],
        when=["2026-04-14"],
        themes=["conversation"],
        importance=0.2,
    )
    assert [scene_of([line("x" * length)])[1].importance for length in (39, 40, 399, 400)] == [0.2, 0.3, 0.3, 0.4]


def test_an_exchange_has_the_same_id_on_any_day_and_another_if_anything_else_was_said() -> None:
    one, other = line("Hello"), Said("i0", "2026-04-15T08:00:00.000Z", "user", "Hello")
    assert scene_of([one])[0] == scene_of([other])[0]
    assert scene_of([one])[0] != scene_of([line("Hello", n=1)])[0]


@pytest.mark.parametrize(
    ("said_at", "day"),
    [
        ({}, None),
        ({"timestamp": "2026-03-01T23:30:00-02:00"}, "2026-03-02"),
        ({"created_at": "2026-03-01"}, "2026-03-01"),
        ({"timestamp": "0001-01-01T00:00:00+14:00"}, None),
        ({"timestamp": "yesterday"}, None),
        ({"timestamp": 1772400600}, None),
        ({"timestamp": ["2026-03-01"]}, None),
        ({"timestamp": None}, None),
    ],
)
def test_a_message_may_say_when_it_was_said(said_at: dict[str, Any], day: str | None) -> None:
    assert Message.model_validate({"role": "user", "content": "Hello", **said_at}).day == day
    told = Said("i", "2026-04-14T08:00:00.000Z", "user", "Hello", day)
    assert scene_of([told])[1].when == [day or "2026-04-14"]


def test_a_scene_is_no_longer_than_it_may_be() -> None:
    exchange = [line("word " * 1000, f"role {n}", n) for n in range(500)]
    _id, scene = scene_of(exchange)
    assert len(scene.action) < 10_000
    assert scene.action.count("\n") == 19
    assert scene.action.splitlines()[0].endswith("word …")


@given(st.lists(st.tuples(st.text(min_size=1, max_size=64), st.text(min_size=1)), max_size=20))
def test_whatever_is_said_makes_scenes_that_can_be_kept(talk: list[tuple[str, str]]) -> None:
    lines = [line(content, role, n) for n, (role, content) in enumerate(talk)]
    exchanges = exchanges_of(lines)
    assert all(one in lines for exchange in exchanges for one in exchange)
    for exchange in exchanges:
        _id, scene = scene_of(exchange)
        assert Scene.model_validate(scene.model_dump()) == scene
        assert all(c.isprintable() or c == "\n" for c in scene.action)


async def patrol(house: House, *messages: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return await answered(house, "trigger_patrol", messages=list(messages), **arguments)


@pytest.mark.not_quick
async def test_a_patrol_makes_scenes_of_messages_and_nodes_of_those(web_house: House) -> None:
    done = await patrol(web_house, *TALK, {**said("Old news of a heron."), "timestamp": "2020-02-02T12:00:00Z"})
    assert (done["scenes_created"], done["nodes_created"]) == (3, 3)
    (rye,) = await found(web_house, "rye")
    shown = await told(web_house, "recall_memory", node_id=rye)
    for part in (
        f"when: {datetime.now(UTC):%Y-%m-%d}",
        "actors: user, assistant",
        "themes: conversation",
        "importance: 0.3",
        "action:\nuser: I baked my first loaf of rye today.\nassistant: Congratulations! How did it taste?",
    ):
        assert part in shown
    assert "burnt" in await told(web_house, "recall", user_message="What was burnt?")
    assert "[2020-02-02] user: user: Old news" in await told(web_house, "search_memory", query="heron")
    assert (await told(web_house, "search_history")).startswith("5 messages")


@pytest.mark.not_quick
async def test_the_same_messages_make_the_same_scenes_once(web_house: House) -> None:
    first = await patrol(web_house, *TALK)
    again = await patrol(web_house, *TALK)
    assert again == {**first, "scenes_created": 0, "nodes_created": 0}
    on = await patrol(web_house, *TALK, said("The rye is gone."), marker_id=first["marker_id"])
    assert (on["scenes_created"], on["nodes_created"]) == (1, 1)
    assert len(await found(web_house, "rye", limit=30)) == 2


@pytest.mark.slow
async def test_of_many_exchanges_the_newest_become_scenes_and_all_are_kept(platforms: Platforms) -> None:
    served = platforms("embedded")
    async with served.over_http("modern") as client:
        brain = structured(await client.call_tool("memory_create_brain", {"name": "Many exchanges"}))["id"]
    talk = [one for n in range(MOST_SCENES + 3) for one in (said(f"Loaf number {n}"), said("Yes.", "assistant"))]
    async with served.over_http("modern", f"/being/mcp/{brain}") as client:
        done = json.loads(text_of(await client.call_tool("trigger_patrol", {"messages": talk})))
        history = text_of(await client.call_tool("search_history", {"query": "Loaf number 0"}))
    assert (done["scenes_created"], done["nodes_created"], done["exchanges_left_out"]) == (MOST_SCENES, MOST_SCENES, 3)
    assert "user: Loaf number 0" in history
