"""What a language model adds to the surfaces, on an embedded brain that has one: and nothing fails where it does."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import House, eventually, structured, text_of
from tests.gateway.http.test_readiness import ready
from tests.gateway.surfaces.being.beings import IDS
from tests.models import OWN_KEY, ScriptedModel, Turn, say, say_json, scripted
from tests.served import serving

pytestmark = pytest.mark.not_quick

MARKS = {
    "answer": "You answer a question",
    "classify_episode": "You sort memos",
    "entities": "You find the names",
    "digest": "You write down what a group of notes",
    "facts": "worth remembering in a conversation",
    "scenes": "You are the memory of a persona",
    "reflect": "You look back on a session",
    "consolidate": "You tidy up short notes",
}
SCENE = {"action": "Rin moved to Oslo.", "actors": ["Rin"], "when": ["2026-01-31"], "themes": ["home"]}


@dataclass
class Living:
    """A house whose embedded brain has a model, and what that model says to each task."""

    house: House
    script: ScriptedModel
    says: dict[str, Turn]

    def asked(self, task: str) -> list[dict[str, Any]]:
        return [one for one in self.script.asked if MARKS[task] in one["messages"][0]["content"]]


@pytest.fixture
def says() -> dict[str, Turn]:
    return {"facts": say_json({"facts": []}), "consolidate": say_json({"actions": []})}


@pytest.fixture
def script(says: dict[str, Turn], tmp_path: Path) -> Iterator[tuple[ScriptedModel, Any]]:
    with scripted() as (model, endpoint):

        def chosen(asked: dict[str, Any]) -> Turn:
            system = asked["messages"][0]["content"]
            return next(
                (says[task] for task, mark in MARKS.items() if mark in system and task in says), Turn(status=500)
            )

        model.by_task = chosen
        settings = {"llm_url": endpoint.url, "llm_model": endpoint.model, "llm_key": endpoint.key}
        with serving(tmp_path, None, project="apollo", **settings) as served:
            yield model, served


@pytest.fixture
async def living(script: tuple[ScriptedModel, Any], says: dict[str, Turn]) -> AsyncIterator[Living]:
    model, served = script
    async with AsyncExitStack() as clients:
        yield Living(House(served, "main", "embedded", "http", "modern", clients), model, says)


async def memo(living: Living, content: str) -> dict[str, Any]:
    found = json.loads(text_of(await living.house.good("memo", "memoai_memo_search", query=content)))
    return dict(next(one for one in found if one["content"].strip() == content))


async def test_an_answer_of_the_model_comes_with_its_citations(living: Living) -> None:
    await living.house.good("memory", "memory_remember", content="The ferry leaves at nine.", title="Ferry")
    living.says["answer"] = say("It leaves ", "at nine [1].")
    told = structured(await living.house.good("memory", "memory_ask", query="When does the ferry leave?"))
    assert told["answer"] == "It leaves at nine."
    (cited,) = told["citations"]
    assert told["answer"][cited["answer_start"] : cited["answer_end"]] == "It leaves at nine"
    assert cited["quote"] == "The ferry leaves at nine."


async def test_an_ask_whose_model_breaks_off_is_an_error(living: Living) -> None:
    await living.house.good("memory", "memory_remember", content="The ferry leaves at nine.", title="Ferry")
    living.says["answer"] = say("It leaves ", ends=False)
    result = await living.house("memory", "memory_ask", query="When does the ferry leave?")
    assert result.is_error
    assert text_of(result).startswith("stream_truncated: the language model's answer was cut off")


async def test_an_ask_whose_model_is_down_is_answered_by_rule(living: Living) -> None:
    await living.house.good("memory", "memory_remember", content="The ferry leaves at nine.", title="Ferry")
    told = structured(await living.house.good("memory", "memory_ask", query="When does the ferry leave?"))
    assert "The ferry leaves at nine." in told["answer"]


async def test_a_model_that_fails_at_derived_work_keeps_no_question_from_its_answer(living: Living) -> None:
    await living.house.good("memory", "memory_remember", content="The ferry leaves at nine.", title="Ferry")
    # So often that the gateway leaves that kind of request alone.
    for number in range(24):
        await living.house.good("memo", "memoai_memo_record", content=f"Lesson {number}: release connections.")

    async def is_left_alone() -> bool:
        return bool(ready(living.house.served.url)[1]["requests"]["derive"] == "failing")

    await eventually(is_left_alone)
    told = structured(await living.house.good("memory", "memory_ask", query="When does the ferry leave?"))
    assert "The ferry leaves at nine." in told["answer"]
    # The platform itself is well.
    assert ready(living.house.served.url)[1]["platform"] == "ok"


async def test_a_memo_is_sorted_after_the_answer(living: Living) -> None:
    living.says["classify_episode"] = say_json({"episode_type": "bug_fix"})
    living.says["entities"] = say_json({"entities": [{"name": "DuckDB", "type": "technology"}, {"name": "Ann, Lee"}]})
    content = "Fixed the time-out of DuckDB by a pool of 20."
    await living.house.good("memo", "memoai_memo_record", content=content)

    async def is_sorted() -> bool:
        return bool((await memo(living, content))["episode_type"] == "bug_fix")

    await eventually(is_sorted)
    found = structured(await living.house.good("memory", "memory_search", query="DuckDB time-out"))["hits"]
    assert len(found) == 1
    # Recorded again it is the same memo, and is not sorted again.
    await living.house.good("memo", "memoai_memo_record", content=content)
    assert (await memo(living, content))["episode_type"] == "bug_fix"
    assert len(living.asked("classify_episode")) == 1


async def test_a_memo_that_the_model_could_not_sort_is_sorted_when_it_is_recorded_again(living: Living) -> None:
    content = "Always release connections."
    await living.house.good("memo", "memoai_memo_record", content=content)

    async def is_tried() -> bool:
        return bool(living.asked("classify_episode"))

    await eventually(is_tried)
    assert (await memo(living, content))["episode_type"] == "other"
    living.says["classify_episode"] = say_json({"episode_type": "guideline"})
    living.says["entities"] = say_json({"entities": []})

    async def is_sorted() -> bool:
        await living.house.good("memo", "memoai_memo_record", content=content)
        return bool((await memo(living, content))["episode_type"] == "guideline")

    await eventually(is_sorted)


async def patrol(living: Living, *messages: str) -> dict[str, Any]:
    said = [{"role": "user", "content": message} for message in messages]
    told = await living.house.good("being", "trigger_patrol", messages=said)
    return dict(json.loads(text_of(told)))


async def test_scenes_are_those_that_the_model_tells_and_are_counted(living: Living) -> None:
    living.says["scenes"] = say_json({"scenes": [SCENE, {**SCENE, "action": "Rin found a flat near the harbour."}]})
    done = await patrol(living, "I moved to Oslo and found a flat near the harbour.", "Small talk.", "More of it.")
    assert (done["scenes_created"], done["nodes_created"]) == (2, 2)
    found = text_of(await living.house.good("being", "search_memory", query="flat near the harbour"))
    assert "Rin found a flat near the harbour." in found


async def test_where_nothing_is_worth_telling_there_are_no_scenes(living: Living) -> None:
    living.says["scenes"] = say_json({"scenes": []})
    assert (await patrol(living, "Hello.", "Good day."))["scenes_created"] == 0


@pytest.mark.parametrize("turn", [Turn(status=500), say("no JSON"), say_json({"scenes": [{"action": ""}]})])
async def test_scenes_are_made_by_rule_where_the_model_fails(living: Living, turn: Turn) -> None:
    living.says["scenes"] = turn
    done = await patrol(living, "I moved to Oslo.")
    assert (done["status"], done["scenes_created"], done["nodes_created"]) == ("ok", 1, 1)


async def test_a_digest_is_told_by_the_model_after_the_answer(living: Living) -> None:
    living.says["scenes"] = say_json({"scenes": [SCENE, {**SCENE, "action": "Rin found a flat."}]})
    living.says["digest"] = say_json({"digest": "How Rin came to live in Oslo."})
    await patrol(living, "I moved to Oslo and found a flat.")

    async def is_told() -> bool:
        listed = text_of(await living.house.good("being", "recall_memory"))
        shown = await living.house.good("being", "recall_memory", cluster_id=IDS.findall(listed)[0], no_nodes=True)
        return "How Rin came to live in Oslo." in text_of(shown)

    await eventually(is_told)


async def test_a_lent_key_reaches_the_model_for_its_call_and_its_work_alone(living: Living) -> None:
    living.says["scenes"] = say_json({"scenes": [SCENE, {**SCENE, "action": "Rin found a flat."}]})
    living.says["digest"] = say_json({"digest": "Oslo."})
    living.house.headers = {"x-llm-api-key": "lent-key"}
    await patrol(living, "I moved to Oslo and found a flat.")

    async def is_told() -> bool:
        return bool(living.asked("digest")) and bool(living.asked("facts"))

    await eventually(is_told)
    assert set(living.script.keys) == {"Bearer lent-key"}
    await living.house.good("memory", "memory_ask", query="Where does Rin live?")
    assert living.script.keys[-1] == f"Bearer {OWN_KEY}"
    stored = b"".join(path.read_bytes() for path in living.house.served.data_dir.iterdir())
    assert b"lent-key" not in stored
