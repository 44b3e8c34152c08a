"""Broken servers: the eleven tools of a persona."""

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from contract.rpc import JsonObject, Reply
from tests.broken.calls import (
    Act,
    Asked,
    Forward,
    asks,
    describes,
    lacks_parameter,
    lenient,
    needs_all,
    on,
    refuses,
    says,
    server,
    succeeded,
)

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OK = json.dumps({"status": "ok", "scenes_created": 0, "nodes_created": 0, "marker_id": "m"})


def tells(tool: str, change: Callable[[JsonObject], JsonObject]) -> Act:
    """The JSON in a text is changed."""

    def changed(text: str) -> str:
        try:
            return json.dumps(change(json.loads(text)), ensure_ascii=False)
        except ValueError:
            return text

    return says(tool, changed)


def told(change: Callable[[JsonObject], JsonObject]) -> Callable[[Asked], Asked]:
    return lambda asked: asked.with_arguments(change(asked.arguments))


def on_action(tool: str, action: str, act: Act) -> Act:
    async def chosen(asked: Asked, forward: Forward) -> Reply:
        return await (act(asked, forward) if asked.arguments.get("action") == action else forward(asked))

    return on(tool, chosen)


async def does_nothing(asked: Asked, forward: Forward) -> Reply:
    return succeeded(text=OK)


def never_the_same(tool: str, change: Callable[[JsonObject, int], JsonObject]) -> Act:
    """What is sent again is something else."""
    numbers = itertools.count(1)
    return asks(tool, told(lambda said: change(said, next(numbers))))


def scenes_apart(said: JsonObject, number: int) -> JsonObject:
    return {**said, "scenes": [{**one, "actors": [*one["actors"], f"n{number}"]} for one in said.get("scenes", [])]}


def relations_apart(said: JsonObject, number: int) -> JsonObject:
    return {**said, "entity_name": f"{said['entity_name']}-{number}"}


def renumbered(text: str) -> str:
    """A merge that has another id each time."""
    return f"{text} {next(COUNT)}"


COUNT = itertools.count(1)


def one_target(said: JsonObject) -> JsonObject:
    return {**said, "target": "knowledge"}


def as_append(said: JsonObject) -> JsonObject:
    return {**said, "action": "append"} if said["action"] == "update" else said


def twice(text: str) -> str:
    """A list that has everything twice."""
    return f"{text}\n{text}"


def requires(tool: JsonObject) -> JsonObject:
    """A definition whose scenes need everything."""
    schema = tool["inputSchema"]
    scenes = schema["properties"]["scenes"]
    items = {**scenes["items"], "required": list(scenes["items"]["properties"])}
    return {
        **tool,
        "inputSchema": {**schema, "properties": {**schema["properties"], "scenes": {**scenes, "items": items}}},
    }


def wants_a_filter(tool: JsonObject) -> JsonObject:
    return {**tool, "inputSchema": {"type": "object", "properties": {"only": {"type": "string"}}, "required": ["only"]}}


def without_ids(text: str) -> str:
    return UUID.sub("", text)


def utc(answer: JsonObject) -> JsonObject:
    """Everybody has the time of UTC."""
    return {**answer, "datetime": answer["datetime"][:13] + " " + answer["iso"][11:19]}


def swapped(answer: JsonObject) -> JsonObject:
    return {**answer, "system_prompt": answer["snapshot"], "snapshot": answer["system_prompt"]}


def takes_all(tool: str, *cases: str, text: str = "done") -> Any:
    return server(f"{tool} takes everything", lenient(tool, text=text), *(f"being/{tool}/{case}" for case in cases))


def defines(tool: str, change: Callable[[JsonObject], JsonObject] = needs_all) -> Any:
    return server(f"{tool} is defined otherwise", describes(tool, change), f"being/{tool}/definition")


def merges_nothing() -> Act:
    """A summary is added, and the nodes stay."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        summary = asked.arguments["summary"]
        scene = {"action": summary, "actors": ["Ann"], "when": ["2026-04-14"]}
        await forward(replace(asked, params={"name": "update_notes", "arguments": {"scenes": [scene]}}))
        done = await forward(replace(asked, params={"name": "trigger_patrol", "arguments": {"messages": []}}))
        return done if done.is_error else succeeded(text=f"Merged into {json.loads(done.text)['marker_id']}.")

    return on("merge_nodes", act)


SERVERS = [
    defines("recall", lacks_parameter("user_message")),
    defines("get_context", wants_a_filter),
    defines("recall_memory"),
    defines("search_memory"),
    defines("merge_nodes"),
    defines("update_memory"),
    defines("update_notes", requires),
    defines("search_history"),
    defines("update_relation"),
    defines("trigger_patrol"),
    defines("get_current_time"),
    takes_all("recall", "without-a-message"),
    takes_all("recall_memory", "unknown-ids"),
    takes_all("search_memory", "limit-above-thirty", "unknown-mode"),
    takes_all("merge_nodes", "unknown-nodes"),
    takes_all("update_memory", "unknown-target-or-action"),
    takes_all("update_notes", "nothing-to-record", "incomplete-scene", "importance", "bad-day", "unknown-action"),
    takes_all("search_history", "limit-above-fifty", "bad-day"),
    takes_all("update_relation", "without-content", "unknown-action"),
    takes_all("trigger_patrol", "without-messages", text=OK),
    takes_all("get_current_time", "unknown-zone"),
    server(
        "a patrol makes no nodes",
        on("trigger_patrol", does_nothing),
        "being/recall/finds-a-memory",
        "being/search_memory/finds-a-node",
        "being/recall_memory/clusters",
        "being/recall_memory/one-cluster",
        "being/update_notes/update-records-others",
        "being/search_history/part-of-a-word",
    ),
    server(
        "memories are told without a block",
        says("recall", lambda text: re.sub("</?recalled_memories>", "", text)),
        "being/recall/in-a-block",
    ),
    server("recall tells everything twice", says("recall", twice), "being/recall/at-most-three"),
    server(
        "recall always has a block",
        says("recall", lambda text: f"<recalled_memories>{text}</recalled_memories>"),
        "being/recall/nothing",
    ),
    server(
        "the context has no metadata",
        tells("get_context", lambda answer: {**answer, "metadata": {}}),
        "being/get_context/fields",
    ),
    server(
        "a being has a name for an id",
        tells("get_context", lambda answer: {**answer, "metadata": {**answer["metadata"], "being_id": "main"}}),
        "being/get_context/fields",
    ),
    server(
        "prompt and snapshot are swapped",
        tells("get_context", swapped),
        "being/get_context/prompt-holds-the-persona",
        "being/get_context/snapshot-holds-what-is-known",
        "being/update_notes/notes-persist",
        "being/update_relation/upsert",
        "being/update_relation/delete",
    ),
    server(
        "clusters have no ids",
        says("recall_memory", without_ids),
        "being/recall_memory/clusters",
        "being/recall_memory/one-cluster",
    ),
    server(
        "clusters are told whole",
        asks("recall_memory", lambda asked: asked.without("query", "no_nodes", "limit")),
        "being/recall_memory/query-and-no-nodes",
    ),
    server(
        "nodes have no details",
        says("recall_memory", lambda text: re.sub("(?m)^(setting|feeling): .*", "", text)),
        "being/recall_memory/one-node",
        "being/merge_nodes/into-one",
    ),
    server(
        "the header is a number",
        says("search_memory", lambda text: re.sub("^[^\n]*", "0", text)),
        "being/search_memory/header",
    ),
    server(
        "nodes are found one by one",
        says("search_memory", twice),
        "being/search_memory/limit",
        "being/update_notes/twice",
        "being/merge_nodes/twice",
    ),
    server(
        "search_memory ends at 29",
        refuses("search_memory", lambda said: said.get("limit", 0) > 29),
        "being/search_memory/limit-of-thirty",
    ),
    server(
        "search_memory ignores the mode",
        asks("search_memory", lambda asked: asked.without("mode")),
        "being/search_memory/mode",
        "being/search_memory/unknown-mode",
    ),
    server("a merge leaves the nodes", merges_nothing(), "being/merge_nodes/into-one"),
    server("a merge has a new number", says("merge_nodes", renumbered), "being/merge_nodes/twice"),
    server(
        "an append is lost",
        on_action("update_memory", "append", does_nothing),
        "being/update_memory/append-then-get",
        "being/update_memory/recipient",
        "being/get_context/prompt-holds-the-persona",
    ),
    server("all targets are one", asks("update_memory", told(one_target)), "being/update_memory/other-targets"),
    server("an update only adds", asks("update_memory", told(as_append)), "being/update_memory/update-replaces"),
    server("a delete does nothing", on_action("update_memory", "delete", does_nothing), "being/update_memory/delete"),
    server(
        "the map has no places",
        asks("update_memory", lambda asked: asked.without("location")),
        "being/update_memory/location",
    ),
    server(
        "messages are for all",
        asks("update_memory", lambda asked: asked.without("to")),
        "being/update_memory/recipient",
    ),
    server(
        "an append adds each time",
        never_the_same(
            "update_memory",
            lambda said, n: {**said, "content": f"{said['content']} {n}"} if "content" in said else said,
        ),
        "being/update_memory/twice",
    ),
    server(
        "notes are used up",
        asks(
            "update_notes",
            lambda asked: asked.without("notes").with_arguments({"scenes": [], **asked.without("notes").arguments}),
        ),
        "being/update_notes/notes-persist",
    ),
    server("a scene is another each time", never_the_same("update_notes", scenes_apart), "being/update_notes/twice"),
    server(
        "update_notes keeps no scenes",
        tells("update_notes", lambda answer: {**answer, "scene_ids": []}),
        "being/update_notes/update-records-others",
    ),
    server(
        "history goes by words",
        refuses("search_history", lambda said: str(said.get("query")).startswith("n")),
        "being/search_history/part-of-a-word",
    ),
    server(
        "history ignores days",
        asks("search_history", lambda asked: asked.without("date_from", "date_to")),
        "being/search_history/days",
        "being/search_history/bad-day",
    ),
    server(
        "history has no limit",
        asks("search_history", lambda asked: asked.without("limit")),
        "being/search_history/limit",
        "being/search_history/limit-above-fifty",
    ),
    server(
        "history ends at 49",
        refuses("search_history", lambda said: said.get("limit", 0) > 49),
        "being/search_history/limit-of-fifty",
    ),
    server(
        "relations are lost",
        on("update_relation", does_nothing),
        "being/update_relation/upsert",
        "being/update_relation/delete",
        "being/update_relation/twice",
        "being/update_relation/without-content",
    ),
    server("relations stay", on_action("update_relation", "delete", does_nothing), "being/update_relation/delete"),
    server(
        "every relation is another",
        never_the_same("update_relation", relations_apart),
        "being/update_relation/upsert",
        "being/update_relation/twice",
    ),
    server(
        "a patrol makes no scenes",
        tells("trigger_patrol", lambda answer: {**answer, "scenes_created": 0}),
        "being/trigger_patrol/makes-scenes-of-messages",
    ),
    server(
        "a patrol has no marker",
        tells("trigger_patrol", lambda answer: {**answer, "marker_id": None}),
        "being/trigger_patrol/returns-json",
    ),
    server(
        "history is told twice",
        says("search_history", twice),
        "being/trigger_patrol/goes-on-from-the-marker",
        "being/trigger_patrol/twice",
    ),
    server("it is the time of UTC everywhere", tells("get_current_time", utc), "being/get_current_time/in-a-zone"),
    server(
        "time is told in English",
        says("get_current_time", lambda text: re.sub(r"\(.\)", " Mon", text)),
        "being/get_current_time/in-utc",
        "being/get_current_time/in-a-zone",
    ),
]
