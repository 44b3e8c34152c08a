"""Five of the six laws that hold across surfaces, whatever is written in whatever order, on both dialects."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.operations import notes
from tests.laws.calls import Write, questions, writes
from tests.laws.world import DIALECTS, PEOPLE, World, world
from tests.tiers import by_tier

LAW = settings(
    deadline=None,
    max_examples=by_tier(4, 12, 60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
some_writes = st.lists(writes, min_size=1, max_size=8)
FIELD = b"mood: {calm: 1, since: [2020-01-01, 07]}\n"


@pytest.fixture(scope="module", params=DIALECTS)
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(request.param, tmp_path_factory.mktemp("law")) as made:
        yield made


async def written(world: World, brain: str, calls: Sequence[Write], *, twice: bool = False) -> None:
    for write in calls:
        for _ in range(2 if twice else 1):
            said = await world.call(brain, write.who, write.surface, write.tool, write.given)
            assert not said.is_error or write.tool == "memory_forget", (write, said.text)


def standing(calls: Sequence[Write]) -> dict[tuple[Any, ...], str]:
    """The words that are there in the end: by what they are the value of."""
    words: dict[tuple[Any, ...], str] = {}
    for write in calls:
        given = write.given
        if write.surface == "kv":
            place: tuple[Any, ...] = ("kv", given["namespace"], given["key"])
        elif write.surface == "team":
            owner = write.who if given["scope"] == "private" else ""
            # Without a key it is named by what it says.
            place = ("team", given["scope"], owner, given.get("key") or (write.word, given.get("type")))
        else:
            continue
        if write.word:
            words[place] = write.word
        else:
            words.pop(place, None)
    return words


@LAW
@given(some_writes)
def test_law_1_what_the_team_remembers_is_found_and_cited(here: World, calls: list[Write]) -> None:
    async def hold() -> None:
        brain = await here.new_brain()
        await written(here, brain, calls)
        for place, word in standing(calls).items():
            if place[:2] != ("team", "global"):
                continue
            found = (await here.call(brain, "ann", "memory", "memory_search", {"query": word})).structured["hits"]
            assert any(hit["path"].startswith("memory/global/team/") and word in hit["content"] for hit in found)
            answer = (await here.call(brain, "ben", "memory", "memory_ask", {"query": word})).structured
            cited = {citation["document_id"] for citation in answer["citations"]}
            ids = {hit["document_id"] for hit in found if word in hit["content"]}
            assert cited & ids

    here.run(hold())


@LAW
@given(some_writes)
def test_law_2_what_is_put_is_found_and_what_is_deleted_or_replaced_is_not(here: World, calls: list[Write]) -> None:
    async def hold() -> None:
        brain = await here.new_brain()
        await written(here, brain, calls)
        alive = {word for place, word in standing(calls).items() if place[0] == "kv"}
        put = {write.word for write in calls if write.surface == "kv" and write.word}
        for word in alive:
            found = (await here.call(brain, "ann", "memory", "memory_search", {"query": word})).structured["hits"]
            assert any(hit["path"].startswith("memory/global/kv/") and word in hit["content"] for hit in found)
        for word in put - alive:
            for surface, tool, asked in questions(word):
                said = await here.call(brain, "ann", surface, tool, asked)
                assert f"{word} is put" not in said.everything, (surface, tool)

    here.run(hold())


@LAW
@given(some_writes)
def test_law_3_a_call_sent_twice_leaves_what_it_leaves_when_sent_once(here: World, calls: list[Write]) -> None:
    async def hold() -> None:
        once, twice = await here.new_brain(), await here.new_brain()
        await written(here, once, calls)
        await written(here, twice, calls, twice=True)
        assert await settled(here, twice) == await settled(here, once)

    here.run(hold())


@LAW
@given(some_writes)
def test_law_4_nobody_reads_what_is_private_to_somebody_else(here: World, calls: list[Write]) -> None:
    async def hold() -> None:
        brain = await here.new_brain()
        await written(here, brain, calls)
        private = {(write.who, write.word) for write in calls if write.given.get("scope") == "private" and write.word}
        for owner, word in private:
            (other,) = set(PEOPLE) - {owner}
            for surface, tool, asked in questions(word):
                said = await here.call(brain, other, surface, tool, asked)
                assert f"{word} holds" not in said.everything, (surface, tool)
        for place, word in standing(calls).items():
            if place[:2] == ("team", "private"):
                said = await here.call(brain, place[2], "team", "memory_recall", {"scope": "private"})
                assert word in said.everything

    here.run(hold())


@LAW
@given(some_writes, some_writes)
def test_law_5_fields_of_others_survive(here: World, before: list[Write], after: list[Write]) -> None:
    async def hold() -> None:
        brain = await here.new_brain()
        await written(here, brain, before)
        await settled(here, brain)
        edited = []
        for path in await here.paths(brain):
            body = await here.read(brain, path)
            if notes.open_note(body).front and "/_" not in path:
                await here.write(brain, path, body.replace(b"---\n", b"---\n" + FIELD, 1))
                edited.append(path)
        # What is removed, and perhaps begun anew, is another note.
        await written(here, brain, [write for write in after if not is_removal(write)])
        there = await settled(here, brain)
        assert [path for path in edited if FIELD.decode() not in there[path]] == []

    here.run(hold())


def is_removal(write: Write) -> bool:
    return (
        write.tool in {"jettson_memory_delete", "memory_forget", "trigger_patrol"}
        or write.given.get("action") == "delete"
    )


async def settled(world: World, brain: str) -> dict[str, str]:
    """What is kept once nothing changes any more: some work goes on after an answer."""
    before = await world.notes(brain)
    for _ in range(100):
        await asyncio.sleep(0.02)
        now = await world.notes(brain)
        if now == before:
            return now
        before = now
    raise AssertionError("it never came to rest")
