"""How many requests each tool of the `being` surface makes upstream, on both dialects."""

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.mcp.result import Result
from gateway.operations.caller import Call
from gateway.surfaces.being import schema as schema
from gateway.surfaces.being.surface import Being
from tests.gateway.requests import brain_on, platform
from tests.gateway.surfaces.being.beings import BREAD, IDS
from tests.served import listening

pytestmark = pytest.mark.not_quick

SCENE = schema.Scene(**BREAD)  # type: ignore[arg-type]
SAID = [schema.Message(role="user", content="Hello"), schema.Message(role="assistant", content="Hi")]
Do = Callable[[Being, Call, dict[str, str]], Awaitable[Any]]


def memory(**arguments: Any) -> Do:
    args = schema.UpdateMemoryInput(**{"target": "knowledge", **arguments})
    return lambda being, call, _ids: being.update_memory(args, call)


def relation(**arguments: Any) -> Do:
    args = schema.UpdateRelationInput(**{"entity_name": "Ken", "relation_type": "person", **arguments})
    return lambda being, call, _ids: being.update_relation(args, call)


def notes(**arguments: Any) -> Do:
    return lambda being, call, _ids: being.update_notes(schema.UpdateNotesInput(**arguments), call)


def patrol(*messages: schema.Message) -> Do:
    return lambda being, call, _ids: being.trigger_patrol(schema.TriggerPatrolInput(messages=list(messages)), call)


async def clusters(being: Being, call: Call, ids: dict[str, str]) -> None:
    # The one of the messages is newer.
    ids["cluster"] = IDS.findall(shown(await being.recall_memory(schema.RecallMemoryInput(), call)))[-1]


async def search(being: Being, call: Call, ids: dict[str, str]) -> None:
    found = shown(await being.search_memory(schema.SearchMemoryInput(query="loaf"), call))
    ids["nodes"] = ",".join(IDS.findall(found))


def shown(result: Result) -> str:
    return result.text


# Case -> requests on the platform and on a daemon, also those after the answer: with extraction, which of them come
# before it is chance. In this order: some find what others have stored.
CASES: dict[str, tuple[Do, int, int]] = {
    "update_notes, a scene": (notes(scenes=[SCENE]), 4, 4),
    "update_notes, the scene again": (notes(scenes=[SCENE]), 3, 3),
    "update_notes, a note": (notes(notes=["Buy flour"]), 3, 3),
    # On a daemon with a look at what its index of notes tells of, as each consolidation has.
    "trigger_patrol of one scene": (patrol(), 11, 14),
    "trigger_patrol of nothing": (patrol(), 3, 5),
    "trigger_patrol of two messages": (patrol(*SAID), 19, 26),
    "trigger_patrol of them again": (patrol(*SAID), 5, 7),
    "recall": (lambda b, c, _: b.recall(schema.RecallInput(user_message="loaf"), c), 3, 3),
    "recall of nothing": (lambda b, c, _: b.recall(schema.RecallInput(user_message="zebra"), c), 1, 1),
    "recall_memory, clusters": (clusters, 3, 3),
    "recall_memory, one cluster": (
        lambda b, c, ids: b.recall_memory(schema.RecallMemoryInput(cluster_id=ids["cluster"]), c),
        3,
        3,
    ),
    "search_memory that finds one": (search, 2, 2),
    "recall_memory, one node": (
        lambda b, c, ids: b.recall_memory(schema.RecallMemoryInput(node_id=ids["nodes"]), c),
        3,
        3,
    ),
    "update_memory append": (memory(action="append", content="a"), 2, 2),
    "update_memory append, again": (memory(action="append", content="a"), 1, 1),
    "update_memory update by key": (memory(action="update", key="k", content="a"), 3, 3),
    "update_memory update of another value": (memory(action="update", key="k", content="b"), 4, 4),
    "update_memory get of two": (memory(action="get"), 3, 3),
    # On a daemon also a look at its index of notes.
    "update_memory delete": (memory(action="delete", key="k"), 3, 4),
    "update_relation upsert": (relation(action="upsert", content="a"), 2, 2),
    "update_relation delete": (relation(action="delete"), 2, 3),
    "search_history": (lambda b, c, _: b.search_history(schema.SearchHistoryInput(), c), 2, 2),
    # The first one may look up the brain's id; after that it is known.
    "get_context": (lambda b, c, _: b.get_context(schema.ContextInput(), c), 7, 8),
    "get_context, again": (lambda b, c, _: b.get_context(schema.ContextInput(), c), 7, 7),
    "get_current_time": (lambda b, c, _: b.get_current_time(schema.CurrentTimeInput(), c), 0, 0),
}


@pytest.mark.parametrize("dialect", ["platform", "daemon"])
async def test_no_tool_makes_more_requests_than_it_needs(dialect: str) -> None:
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with platform(dialect, folder) as app, listening(app) as url:
            async with brain_on(url, folder) as brain:
                await brain.create_brain(Call(), "b", "b", "private")
                await brain.serve(Call(), "b", "search", {"query": "x"})
                being, ids = Being(brain), dict[str, str]()
                for name, (do, *_expected) in CASES.items():
                    before = app.requests
                    await do(being, Call(), ids)
                    await brain.close(10)
                    counts[name] = app.requests - before
    place = 1 if dialect == "platform" else 2
    assert counts == {name: case[place] for name, case in CASES.items()}
