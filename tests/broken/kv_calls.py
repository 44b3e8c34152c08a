"""Broken servers: the five tools of a store of keys."""

import time
from dataclasses import replace

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

PUT, GET, SEARCH = "jettson_memory_put", "jettson_memory_get", "jettson_memory_search"
LIST, DELETE = "jettson_memory_list", "jettson_memory_delete"
SAVED = {"memory_id": "mem_1", "key": "any", "namespace": "default"}


def only_inserts() -> Act:
    """What has a value keeps it."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        there = await forward(
            Asked("tools/call", {"name": GET, "arguments": asked.without("value", "tags", "importance").arguments})
        )
        is_there = isinstance(there.structured, dict) and there.structured.get("found")
        return succeeded({**SAVED, "key": asked.arguments.get("key")}) if is_there else await forward(asked)

    return on(PUT, act)


def counts_versions() -> Act:
    """Every put is a memory of its own."""
    number = 0

    def numbered(asked: Asked) -> Asked:
        nonlocal number
        number += 1
        return asked.with_arguments({**asked.arguments, "key": f"{asked.arguments['key']}.v{number}"})

    async def act(asked: Asked, forward: Forward) -> Reply:
        reply = await forward(numbered(asked))
        if reply.is_error or reply.result is None:
            return reply
        shown = {**reply.structured, "key": asked.arguments["key"]}
        return replace(reply, result={**reply.result, "structuredContent": shown})

    return on(PUT, act)


def searches_without(*names: str) -> Act:
    return asks(SEARCH, lambda asked: asked.without(*names))


def filters_the_first() -> Act:
    """Tags are looked for in the ten best results alone."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        reply = await forward(asked.without("tags", "limit"))
        wanted, results = set(asked.arguments.get("tags") or ()), (reply.structured or {}).get("results", [])
        kept = [result for result in results if wanted <= set(result["tags"])]
        return succeeded({"results": kept[: asked.arguments.get("limit", 10)]})

    return on(SEARCH, act)


def lists_without(*names: str) -> Act:
    return asks(LIST, lambda asked: asked.without(*names))


def one_namespace(asked: Asked) -> Asked:
    return asked.without("namespace")


async def pretends(asked: Asked, forward: Forward) -> Reply:
    return succeeded({"deleted": True})


def once() -> Act:
    """A second delete of the same is a failure."""
    seen: set[str] = set()

    async def act(asked: Asked, forward: Forward) -> Reply:
        if (key := str(asked.arguments.get("key"))) in seen:
            return failed("Jettson Memory failed: there is no such memory.")
        seen.add(key)
        return await forward(asked)

    return on(DELETE, act)


def buries() -> Act:
    """A key that was deleted is never seen again, whatever is put under it."""
    gone: set[str] = set()

    async def act(asked: Asked, forward: Forward) -> Reply:
        key = str(asked.arguments.get("key"))
        if asked.tool == DELETE:
            gone.add(key)
        return succeeded({"found": False}) if asked.tool == GET and key in gone else await forward(asked)

    return on("*", act)


def bytes_alone(arguments: JsonObject) -> bool:
    return len(str(arguments.get("value", "")).encode()) > 5000


def trimmed(value: JsonObject) -> JsonObject:
    return {**value, "value": " ".join(str(value.get("value", "")).split())}


def in_seconds(value: JsonObject) -> JsonObject:
    return {**value, **{name: value[name] / 1000 for name in ("created_at", "updated_at") if name in value}}


def in_percent(result: JsonObject) -> JsonObject:
    return {**result, "breakdown": {name: 100 * part for name, part in result["breakdown"].items()}}


def ordered_by_key(memories: list[JsonObject]) -> list[JsonObject]:
    return sorted(memories, key=lambda memory: str(memory["key"]))


SERVERS = [
    server("get forgets the tags", edits(GET, having({"tags": []})), "kv/put/then-get", "kv/put/twenty-tags"),
    server("put needs everything", describes(PUT, needs_all), "kv/put/definition"),
    server("put says no limits", describes(PUT, says_no_limits), "kv/put/declares-its-limits"),
    server("put gives no id", edits(PUT, without("memory_id")), "kv/put/returns-id-and-place"),
    server("memories are of no importance", edits(GET, having({"importance": 0})), "kv/put/defaults"),
    server("put only inserts", only_inserts(), "kv/put/replaces-the-value", "kv/put/keeps-created-at"),
    server(
        "memories are as old as the last look at them",
        edits(GET, lambda value: {**value, "created_at": time.time_ns()}),
        "kv/put/keeps-created-at",
        "kv/get/times",
    ),
    server(
        "every put is another memory", counts_versions(), "kv/put/twice-is-one-memory", "kv/put/at-once-is-one-memory"
    ),
    server(
        "values take 4,999 characters",
        asks(PUT, lambda asked: asked.with_arguments({**asked.arguments, "value": asked.arguments["value"][:4999]})),
        "kv/put/value-of-5000",
    ),
    server("values take 5,000 bytes", refuses(PUT, bytes_alone), "kv/put/value-of-5000-wide"),
    server(
        "put takes everything",
        lenient(PUT, SAVED),
        "kv/put/value-of-5001",
        "kv/put/more-than-twenty-tags",
        "kv/put/importance-out-of-range",
        "kv/put/bad-key",
        "kv/put/without-a-value",
    ),
    server(
        "failures are told in other words",
        says("*", lambda text: text.removeprefix("Jettson Memory failed: ")),
        "kv/put/value-of-5001",
        "kv/put/more-than-twenty-tags",
        "kv/put/importance-out-of-range",
        "kv/put/bad-key",
        "kv/delete/bad-key",
    ),
    server(
        "importance ends at 9",
        refuses(PUT, lambda arguments: arguments.get("importance", 5) > 9),
        "kv/put/importance-at-the-edges",
    ),
    server(
        "there is one namespace",
        asks("*", one_namespace),
        "kv/put/returns-id-and-place",
        "kv/put/namespaces-keep-keys-apart",
        "kv/get/of-another-namespace",
        "kv/delete/in-its-namespace",
    ),
    server("nothing expires", asks(PUT, lambda asked: asked.without("expires_in_days")), "kv/put/expires"),
    server(
        "everything expires at once",
        asks(
            PUT,
            lambda asked: (
                asked.with_arguments({**asked.arguments, "expires_in_days": 1e-8})
                if "expires_in_days" in asked.arguments
                else asked
            ),
        ),
        "kv/put/has-not-expired",
    ),
    server("get needs a namespace", describes(GET, needs_all), "kv/get/definition"),
    server(
        "what is missing is an error",
        answers(
            GET,
            lambda reply: (
                failed("Jettson Memory failed: no such memory.") if reply.structured == {"found": False} else reply
            ),
        ),
        "kv/get/missing",
        "kv/delete/then-get",
    ),
    server("get trims what it returns", edits(GET, trimmed), "kv/get/to-the-letter"),
    server("times are seconds", edits(GET, in_seconds), "kv/get/times"),
    server("get takes everything", lenient(GET, {"found": False}), "kv/get/without-a-key"),
    server("search needs everything", describes(SEARCH, needs_all), "kv/search/definition"),
    server("search says no limits", describes(SEARCH, says_no_limits), "kv/search/declares-its-limits"),
    server("results have no value", edits(SEARCH, each("results", without("value"))), "kv/search/returns-the-memory"),
    server("parts of a score are percents", edits(SEARCH, each("results", in_percent)), "kv/search/breakdown"),
    server(
        "there is no search by meaning",
        refuses(SEARCH, lambda arguments: arguments.get("mode") == "semantic"),
        "kv/search/modes",
    ),
    server(
        "search takes everything",
        lenient(SEARCH, {"results": []}),
        "kv/search/unknown-mode",
        "kv/search/limit-above-fifty",
    ),
    server("search ignores tags", searches_without("tags"), "kv/search/tags-are-all-wanted"),
    server("search filters the best results alone", filters_the_first(), "kv/search/tags-beyond-the-first"),
    server(
        "search knows no importance",
        asks(PUT, lambda asked: asked.without("importance")),
        "kv/search/importance-beyond-the-first",
    ),
    server("search ignores the namespace", searches_without("namespace"), "kv/search/in-a-namespace"),
    server(
        "the least important comes first",
        edits(SEARCH, cut("results", lambda results: sorted(results, key=lambda one: one["importance"]))),
        "kv/search/importance-ranks",
    ),
    server(
        "nothing found is an error",
        answers(
            SEARCH,
            lambda reply: (
                failed("Jettson Memory failed: nothing was found.") if reply.structured == {"results": []} else reply
            ),
        ),
        "kv/search/finds-nothing",
    ),
    server("search ignores the limit", searches_without("limit"), "kv/search/limit"),
    server(
        "search returns five",
        edits(SEARCH, cut("results", lambda results: results[:5])),
        "kv/search/ten-without-a-limit",
    ),
    server(
        "search takes a limit of 49",
        refuses(SEARCH, lambda arguments: arguments.get("limit", 10) > 49),
        "kv/search/limit-of-fifty",
    ),
    server("list needs everything", describes(LIST, needs_all), "kv/list/definition"),
    server("list says no limits", describes(LIST, says_no_limits), "kv/list/declares-its-limits"),
    server(
        "a list has keys alone",
        edits(LIST, each("memories", lambda memory: {"key": memory["key"]})),
        "kv/list/returns-the-memories",
    ),
    server(
        "a list goes by the alphabet backwards",
        edits(LIST, cut("memories", lambda memories: ordered_by_key(memories)[::-1])),
        "kv/list/newest-first",
    ),
    server("list ignores tags", lists_without("tags"), "kv/list/tags-are-all-wanted"),
    server(
        "list looks in one namespace",
        asks(LIST, lambda asked: asked.with_arguments({"namespace": "default", **asked.arguments})),
        "kv/list/in-every-namespace",
    ),
    server("list ignores the limit", lists_without("limit"), "kv/list/limit", "kv/list/limit-above-200"),
    server(
        "list takes a limit of 100",
        refuses(LIST, lambda arguments: arguments.get("limit", 50) > 100),
        "kv/list/limit-of-200",
    ),
    server("delete can destroy", describes(DELETE, takes_parameter("hard", "boolean")), "kv/delete/definition"),
    server(
        "delete does nothing",
        on(DELETE, pretends),
        "kv/delete/then-get",
        "kv/delete/then-search",
        "kv/delete/then-list",
        "kv/delete/in-its-namespace",
        "kv/delete/missing",
        "kv/delete/bad-key",
    ),
    server("what is deleted cannot be deleted", once(), "kv/delete/twice"),
    server("what is deleted stays so", buries(), "kv/delete/then-put"),
]
