"""The arguments of tools: what strict hosts must send is taken, and nothing else is bent."""

from typing import Any

import pytest
from pydantic import ValidationError

from gateway.mcp.input_errors import sentence
from gateway.mcp.tool import Input
from gateway.surfaces.being import schema as being
from gateway.surfaces.chat import schema as chat
from gateway.surfaces.kv import schema as kv
from gateway.surfaces.memo import schema as memo
from gateway.surfaces.memory import extra_schema as extras
from gateway.surfaces.memory import schema as memory
from gateway.surfaces.team import schema as team

SCENE = {"action": "a", "actors": ["Rin"], "when": ["2026-04-14"]}
# Every input with the least it takes.
LEAST: dict[type[Input], dict[str, Any]] = {
    memory.SearchInput: {"query": "q"},
    memory.RecallInput: {"query": "q"},
    memory.RememberInput: {"content": "c"},
    memory.IngestFileInput: {"path": "p.md"},
    memory.IngestUrlInput: {"url": "https://example.com"},
    memory.ExtractInput: {"messages": [{"role": "user", "content": "c"}]},
    memory.ReflectInput: {"session_id": "s"},
    memory.ConsolidateInput: {},
    memory.CreateBrainInput: {"name": "n"},
    memory.ListBrainsInput: {},
    memory.AskInput: {"query": "q"},
    extras.ListInput: {},
    extras.ReadInput: {"path": "a.md"},
    extras.UpdateInput: {"path": "a.md", "content": "c", "checksum_sha256": "0" * 64},
    extras.ForgetInput: {"path": "a.md"},
    kv.PutInput: {"key": "k", "value": "v"},
    kv.GetInput: {"key": "k"},
    kv.SearchInput: {"query": "q"},
    kv.ListInput: {},
    kv.DeleteInput: {"key": "k"},
    team.RememberInput: {"content": "c", "type": "status"},
    team.RecallInput: {},
    team.ForgetInput: {"id": "global/x"},
    team.ScopesInput: {},
    team.LoadContextInput: {},
    being.RecallInput: {"user_message": "m"},
    being.ContextInput: {},
    being.RecallMemoryInput: {},
    being.SearchMemoryInput: {"query": "q"},
    being.MergeNodesInput: {"node_ids": "a,b", "summary": "s"},
    being.UpdateMemoryInput: {"target": "diary", "action": "get"},
    being.UpdateNotesInput: {"notes": ["n"]},
    being.SearchHistoryInput: {},
    being.UpdateRelationInput: {"entity_name": "Ken", "relation_type": "person", "action": "delete"},
    being.TriggerPatrolInput: {"messages": []},
    being.CurrentTimeInput: {},
    memo.SearchInput: {"query": "q"},
    memo.RecordInput: {"content": "c"},
    chat.SearchInput: {"query": "q"},
    chat.FetchInput: {"id": "a.md"},
}
# Those that name what is deleted or changed: an empty one is a mistake, and may not become another target.
EXACT: list[tuple[type[Input], dict[str, Any], str]] = [
    (kv.PutInput, {"key": "k", "value": "v", "namespace": ""}, "namespace must not be empty."),
    (kv.DeleteInput, {"key": "k", "namespace": ""}, "namespace must not be empty."),
    (kv.DeleteInput, {"key": "k", "namespace": None}, "namespace must be a string."),
    (team.ForgetInput, {"id": "global/x", "key": ""}, "key must not be empty."),
    (team.ForgetInput, {"key": "k", "scope": ""}, "scope must not be empty."),
    (team.ForgetInput, {"key": "k", "scope": "global", "id": ""}, "id must not be empty."),
    (being.UpdateMemoryInput, {"target": "diary", "action": "delete", "key": ""}, "key must not be empty."),
    (being.UpdateNotesInput, {"action": "update", "notes": ["n"], "scene_ids": ""}, "scene_ids must not be empty."),
]
REQUIRED = [(model, name) for model, least in LEAST.items() for name in least if name not in model.as_sent]


def names_of(model: type[Input]) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def complaint(model: type[Input], arguments: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        model.of(arguments)
    return sentence(caught.value)


def test_every_input_is_here() -> None:
    assert set(LEAST) == {model for model in Input.__subclasses__() if model not in (memory.Message, being.Scene)} - {
        model for model in Input.__subclasses__() if not model.__module__.startswith("gateway.surfaces")
    }


@pytest.mark.parametrize("empty", [None, ""], ids=repr)
@pytest.mark.parametrize("model", LEAST, ids=lambda model: f"{model.__module__.split('.')[2]}-{model.__name__}")
def test_an_empty_optional_argument_is_the_same_as_none(model: type[Input], empty: Any) -> None:
    least = LEAST[model]
    optional = [name for name, field in names_of(model).items() if not field.is_required()]
    given = {name: empty for name in optional if name not in model.as_sent and name not in least}
    assert model.of({**least, **given}) == model.of(least)


@pytest.mark.parametrize(("model", "arguments", "said"), EXACT, ids=[f"{row[0].__name__}: {row[2]}" for row in EXACT])
def test_what_names_the_thing_to_delete_or_change_is_taken_as_it_is(
    model: type[Input], arguments: dict[str, Any], said: str
) -> None:
    assert complaint(model, arguments) == said


def test_a_put_with_null_for_a_namespace_is_in_the_default_one() -> None:
    """Hosts that must send every argument can say so that they name none."""
    assert kv.PutInput.of({"key": "k", "value": "v", "namespace": None}) == kv.PutInput.of({"key": "k", "value": "v"})


@pytest.mark.parametrize("empty", [None, ""], ids=repr)
def test_an_empty_required_argument_is_refused(empty: Any) -> None:
    for model, name in REQUIRED:
        if names_of(model)[name].is_required():
            assert complaint(model, {**LEAST[model], name: empty}).startswith(f"{name} must "), (model, name)


def test_an_empty_part_of_a_part_is_the_same_as_none() -> None:
    filled = {**SCENE, "setting": "", "feeling": None, "themes": "", "importance": None}
    assert being.UpdateNotesInput.of({"scenes": [filled]}) == being.UpdateNotesInput.of({"scenes": [SCENE]})


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (memory.SearchInput, "top_k"),
        (memory.RecallInput, "top_k"),
        (memory.AskInput, "top_k"),
        (kv.SearchInput, "limit"),
        (kv.ListInput, "limit"),
        (being.RecallMemoryInput, "limit"),
        (being.SearchMemoryInput, "limit"),
        (being.SearchHistoryInput, "limit"),
        (memo.SearchInput, "limit"),
    ],
)
def test_a_number_without_a_fraction_is_whole(model: type[Input], name: str) -> None:
    taken = getattr(model.of({**LEAST[model], name: 10.0}), name)
    assert (taken, type(taken)) == (10, int)
    assert complaint(model, {**LEAST[model], name: 10.5}) == f"{name} must be a whole number."
    assert complaint(model, {**LEAST[model], name: 1e300}).startswith(f"{name} must be at most ")
    for wrong in ("10", True, float("inf"), float("nan"), [10.0]):
        assert complaint(model, {**LEAST[model], name: wrong}) == f"{name} must be a whole number."


def test_a_number_that_may_have_a_fraction_keeps_it() -> None:
    assert kv.PutInput.of({**LEAST[kv.PutInput], "importance": 7.5}).importance == 7.5


@pytest.mark.parametrize("model", LEAST, ids=lambda model: f"{model.__module__.split('.')[2]}-{model.__name__}")
def test_what_a_host_adds_to_every_call_is_dropped_and_nothing_else(model: type[Input]) -> None:
    assert model.of({**LEAST[model], "wait_for_previous": True}) == model.of(LEAST[model])
    assert complaint(model, {**LEAST[model], "wait_for_next": True}) == "wait_for_next is not an argument of this tool."


def test_it_is_dropped_nowhere_else() -> None:
    said = complaint(memory.ExtractInput, {"messages": [{"role": "user", "content": "c", "wait_for_previous": True}]})
    assert said == "messages[0].wait_for_previous is not an argument of this tool."
