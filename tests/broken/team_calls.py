"""Broken servers: the five tools of a team's memory, and its resource."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from contract.rpc import JsonObject, Reply
from tests.broken.calls import (
    Act,
    Asked,
    Forward,
    answers,
    asks,
    cut,
    describes,
    each,
    edits,
    failed,
    having,
    lacks_parameter,
    lenient,
    needs_all,
    on,
    refuses,
    says,
    says_no_limits,
    server,
    succeeded,
    takes_parameter,
    without,
)

REMEMBER, RECALL, FORGET = "memory_remember", "memory_recall", "memory_forget"
SCOPES, LOAD = "memory_scopes", "memory_load_context"
AN_AUTHOR = takes_parameter("author", "string")
ENTRY = {"id": "global/any", "scope": "global", "type": "decision", "content": "any", "author": "anybody"}


def told(change: Callable[[JsonObject], JsonObject]) -> Callable[[Asked], Asked]:
    """The call with its arguments changed."""
    return lambda asked: asked.with_arguments(change(asked.arguments))


def shown(reply: Reply, structured: Any) -> Reply:
    return reply if reply.result is None else replace(reply, result={**reply.result, "structuredContent": structured})


def duplicates() -> Act:
    """Every call makes an entry of its own, key or not."""
    numbers = itertools.count(1)

    async def act(asked: Asked, forward: Forward) -> Reply:
        said = asked.arguments
        key = f"{said.get('key', 'x')}.v{next(numbers)}"
        reply = await forward(asked.with_arguments({**said, "key": key}))
        return reply if reply.is_error else shown(reply, {**reply.structured, "key": said.get("key")})

    return on(REMEMBER, act)


def one_of_a_type() -> Act:
    """What has no key goes by its type."""
    return asks(REMEMBER, told(lambda said: {"key": f"the-{str(said['type']).replace('_', '-')}", **said}))


def first_wins() -> Act:
    """An update is taken, and changes nothing."""
    seen: dict[str, Reply] = {}

    async def act(asked: Asked, forward: Forward) -> Reply:
        key = str(asked.arguments.get("key"))
        if key in seen:
            return seen[key]
        seen[key] = await forward(asked)
        return seen[key]

    return on(REMEMBER, act)


def born_again() -> Act:
    """Every update is a new beginning."""
    numbers = itertools.count(1)
    return edits(REMEMBER, lambda entry: {**entry, "created_at": f"2026-01-01T00:00:{next(numbers) % 60:02}Z"})


def first_type_stays() -> Act:
    types: dict[str, str] = {}

    def change(said: JsonObject) -> JsonObject:
        return {**said, "type": types.setdefault(str(said.get("key")), said["type"])}

    return asks(REMEMBER, told(change))


def author_of_content(entry: JsonObject) -> JsonObject:
    return {**entry, "author": "mallory"} if "mallory" in str(entry["content"]) else entry


async def pretends(asked: Asked, forward: Forward) -> Reply:
    return succeeded({"forgotten": True, "id": "global/any", "scope": "global"})


def buries() -> Act:
    """A key that was forgotten is taken no more."""
    gone: set[str] = set()

    async def act(asked: Asked, forward: Forward) -> Reply:
        key = str(asked.arguments.get("key"))
        if asked.tool == FORGET:
            gone.add(key)
        return succeeded({**ENTRY, "key": key}) if asked.tool == REMEMBER and key in gone else await forward(asked)

    return on("*", act)


def reads(change: Callable[[str], str]) -> Act:
    """The text of resources is changed."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        reply = await forward(asked)
        if asked.method != "resources/read" or reply.result is None:
            return reply
        contents = [{**one, "text": change(one["text"])} for one in reply.result["contents"]]
        return replace(reply, result={**reply.result, "contents": contents})

    return act


def one_resource() -> Act:
    """Whatever scope is asked for, it is the one that all share."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        is_read = asked.method == "resources/read"
        return await forward(replace(asked, params={**asked.params, "uri": "memory://global"}) if is_read else asked)

    return act


def without_any(method: str, field: str) -> Act:
    """A list of the protocol is empty."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        return Reply({field: []}) if asked.method == method else await forward(asked)

    return act


async def completes_nothing(asked: Asked, forward: Forward) -> Reply:
    return Reply({"completion": {"values": []}}) if asked.method == "completion/complete" else await forward(asked)


def groups(change: Callable[[list[Any]], list[Any]]) -> Act:
    return edits(LOAD, cut("groups", change))


def whole_words(arguments: JsonObject) -> bool:
    return str(arguments.get("query", "")).startswith("n")


SERVERS = [
    server("remember needs everything", describes(REMEMBER, needs_all), "team/remember/definition"),
    server(
        "remember asks for an author",
        describes(REMEMBER, AN_AUTHOR),
        "team/remember/author-is-no-parameter",
    ),
    server(
        "remember lets an author pass",
        asks(REMEMBER, lambda asked: asked.without("author")),
        "team/remember/author-is-refused",
    ),
    server("nobody is the author", edits(REMEMBER, having({"author": ""})), "team/remember/records-the-author"),
    server("remember says no types", describes(REMEMBER, says_no_limits), "team/remember/declares-the-types"),
    server(
        "entries have no times", edits(REMEMBER, without("created_at", "updated_at")), "team/remember/returns-the-entry"
    ),
    server(
        "there are five types",
        refuses(REMEMBER, lambda said: said.get("type") == "glossary"),
        "team/remember/six-types",
    ),
    server(
        "remember takes everything",
        lenient(REMEMBER, ENTRY),
        "team/remember/unknown-type",
        "team/remember/without-content-or-type",
        "team/remember/bad-key",
        "team/remember/author-is-refused",
    ),
    server(
        "every call is another entry",
        duplicates(),
        "team/remember/key-updates-in-place",
        "team/remember/twice-under-a-key",
        "team/remember/twice-without-a-key",
        "team/remember/at-once-under-a-key",
    ),
    server(
        "an update changes nothing",
        first_wins(),
        "team/remember/key-updates-in-place",
        "team/remember/key-changes-the-type",
    ),
    server("an update begins anew", born_again(), "team/remember/key-keeps-created-at"),
    server("an entry keeps its type", first_type_stays(), "team/remember/key-changes-the-type"),
    server("each type has one entry", one_of_a_type(), "team/remember/two-without-a-key"),
    server("keys have no dots", refuses(REMEMBER, lambda said: "." in said.get("key", "")), "team/remember/dotted-key"),
    server(
        "keys are for all scopes",
        asks(REMEMBER, told(lambda said: {**said, "scope": "global"} if "key" in said else said)),
        "team/remember/key-within-its-scope",
        "team/forget/in-its-scope",
    ),
    server(
        "front matter says who wrote", edits(RECALL, each("entries", author_of_content)), "team/remember/to-the-letter"
    ),
    server("recall needs everything", describes(RECALL, needs_all), "team/recall/definition"),
    server("recall needs a query", refuses(RECALL, lambda said: "query" not in said), "team/recall/with-nothing"),
    server(
        "recalled entries have no author",
        edits(RECALL, each("entries", without("author"))),
        "team/recall/returns-entries",
        "team/remember/records-the-author",
    ),
    server(
        "recall always includes what is global",
        asks(RECALL, lambda asked: asked.without("include_global")),
        "team/recall/by-scope",
    ),
    server(
        "recall ignores the scope",
        asks(RECALL, lambda asked: asked.without("scope")),
        "team/recall/by-scope",
        "team/recall/with-the-baseline",
        "team/scopes/what-is-private",
    ),
    server(
        "recall leaves out what is global",
        asks(RECALL, told(lambda said: {"include_global": False, **said})),
        "team/recall/baseline-by-default",
    ),
    server(
        "recall never includes what is global",
        asks(RECALL, told(lambda said: {**said, "include_global": False})),
        "team/recall/with-the-baseline",
        "team/recall/baseline-by-default",
    ),
    server(
        "recall ignores the type",
        asks(RECALL, lambda asked: asked.without("type")),
        "team/recall/by-type",
        "team/recall/unknown-type",
    ),
    server("recall goes by words", on(RECALL, refuses(RECALL, whole_words)), "team/recall/part-of-a-word"),
    server(
        "recall minds capitals",
        edits(RECALL, cut("entries", lambda found: [one for one in found if "OF" not in one["content"]])),
        "team/recall/in-any-case",
    ),
    server(
        "recall of nothing is an error",
        answers(
            RECALL, lambda reply: reply if (reply.structured or {}).get("entries") else failed("not_found: nothing")
        ),
        "team/recall/nothing",
    ),
    server("forget has no ids", describes(FORGET, lacks_parameter("id")), "team/forget/definition"),
    server(
        "forget forgets nothing",
        on(FORGET, pretends),
        "team/forget/by-key",
        "team/forget/by-id",
        "team/forget/in-its-scope",
        "team/forget/twice",
        "team/load_context/what-is-forgotten",
    ),
    server("forget does not say what", edits(FORGET, without("forgotten")), "team/forget/says-so"),
    server(
        "what is forgotten is an error",
        answers(
            FORGET, lambda reply: reply if (reply.structured or {}).get("forgotten") else failed("not_found: no entry")
        ),
        "team/forget/twice",
    ),
    server("what is forgotten stays so", buries(), "team/forget/then-remember"),
    server("forget takes everything", lenient(FORGET, {"forgotten": False}), "team/forget/without-key-and-id"),
    server("scopes wants a filter", describes(SCOPES, AN_AUTHOR), "team/scopes/definition"),
    server(
        "scopes are projects alone",
        edits(SCOPES, cut("scopes", lambda found: [one for one in found if one["kind"] == "project"])),
        "team/scopes/global",
        "team/scopes/private",
    ),
    server(
        "scopes are without projects",
        edits(SCOPES, cut("scopes", lambda found: [one for one in found if one["kind"] != "project"])),
        "team/scopes/of-a-project",
    ),
    server("the context needs a scope", describes(LOAD, needs_all), "team/load_context/definition"),
    server(
        "the context is one group",
        groups(lambda found: [{**found[0], "entries": [entry for one in found for entry in one["entries"]]}]),
        "team/load_context/grouped-by-type",
    ),
    server(
        "the context says how many there are",
        says(LOAD, lambda text: f"{len(text.splitlines())} rules."),
        "team/load_context/ready-to-inject",
        "team/load_context/of-a-scope",
        "team/load_context/with-the-baseline",
        "team/load_context/what-is-forgotten",
    ),
    server(
        "the context ignores the scope",
        asks(LOAD, lambda asked: asked.without("scope")),
        "team/load_context/of-a-scope",
    ),
    server(
        "the context does not say what it left out",
        groups(lambda found: [{**one, "omitted": 0} for one in found]),
        "team/load_context/capped",
    ),
    server(
        "there are no templates", without_any("resources/templates/list", "resourceTemplates"), "team/resource/template"
    ),
    server(
        "resources have names alone",
        reads(lambda text: text[:20]),
        "team/resource/lists-a-scope",
        "team/resource/of-one-scope",
    ),
    server("all scopes are one resource", one_resource(), "team/resource/lists-a-scope", "team/resource/of-one-scope"),
    server("nothing completes", completes_nothing, "team/resource/completes"),
]
