"""Broken servers: the two tools of a knowledge base."""

import itertools
import json
from collections.abc import Callable
from typing import Any

from contract.rpc import JsonObject, Reply
from tests.broken.calls import (
    Act,
    Asked,
    Forward,
    answers,
    asks,
    describes,
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
    without,
)

SEARCH, RECORD = "memoai_memo_search", "memoai_memo_record"
RECORDED = "Memo recorded successfully: 123e4567-e89b-12d3-a456-426614174000"


def finds(change: Callable[[list[Any]], Any]) -> Act:
    """What a search found is changed, and is JSON all the same."""

    def changed(text: str) -> str:
        found = json.loads(text)
        return json.dumps(change(found)) if isinstance(found, list) else text

    return says(SEARCH, changed)


def each(change: Callable[[JsonObject], JsonObject]) -> Act:
    return finds(lambda memos: [change(memo) for memo in memos])


def told(change: Callable[[JsonObject], JsonObject]) -> Callable[[Asked], Asked]:
    return lambda asked: asked.with_arguments(change(asked.arguments))


def never_the_same() -> Act:
    """Every record is another memo, for what makes it one is when it came."""
    numbers = itertools.count(1)
    return asks(RECORD, told(lambda said: {**said, "metadata": {"n": next(numbers)}}))


def finds_late() -> Act:
    """What was just recorded is found only by the search after the next."""
    waiting: list[Asked] = []

    async def act(asked: Asked, forward: Forward) -> Reply:
        if asked.tool == RECORD:
            waiting.append(asked)
            return succeeded(text=RECORDED)
        reply = await forward(asked)
        while waiting:
            await forward(waiting.pop())
        return reply

    return on("*", act)


def finds_newest() -> Act:
    """Whatever is found is told in the order of time; more is looked for than is wanted, to do so."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        reply = await forward(asked.without("limit"))
        newest = sorted(json.loads(reply.text), key=lambda memo: str(memo["created_at"]), reverse=True)
        return succeeded(text=json.dumps(newest[: asked.arguments.get("limit", 10)]))

    return on(SEARCH, act)


def plain(text: str) -> str:
    """An error as a sentence."""
    return text if text.startswith("Memo") or "error" not in text else str(json.loads(text)["error"]["message"])


def in_other_words(text: str) -> str:
    """An error in words of one's own."""
    wrong = {"error": {"type": "invalid_request", "message": "Bad request"}}
    return json.dumps(wrong) if '"error"' in text else text


def flat(memo: JsonObject) -> JsonObject:
    return {**memo, "extra_metadata": {name: str(value) for name, value in memo["extra_metadata"].items()}}


def header_read(memo: JsonObject) -> JsonObject:
    return {**memo, "episode_type": "bug_fix", "content": memo["content"].rpartition("---\n\n")[2]}


WORDS = ("memo/search/limit-out-of-range", "memo/search/limit-of-another-type", "memo/search/without-a-query")

SERVERS = [
    server("memo search needs a limit", describes(SEARCH, needs_all), "memo/search/definition"),
    server("memo search says no limits", describes(SEARCH, says_no_limits), "memo/search/declares-its-limits"),
    server("memos have no time", each(without("created_at")), "memo/search/returns-the-memo"),
    server(
        "memos are in an object",
        finds(lambda memos: {"memos": memos}),
        "memo/search/returns-the-memo",
        "memo/search/nothing",
    ),
    server(
        "likeness is in percent",
        each(lambda memo: {**memo, "similarity": 100 * memo["similarity"]}),
        "memo/search/similarity",
    ),
    server("the newest memo comes first", finds_newest(), "memo/search/best-first"),
    server(
        "memo search ignores the limit",
        asks(SEARCH, lambda asked: asked.without("limit")),
        "memo/search/limit",
        "memo/search/limit-out-of-range",
        "memo/search/limit-of-another-type",
    ),
    server("memo search returns five", finds(lambda memos: memos[:5]), "memo/search/ten-without-a-limit"),
    server(
        "memo search takes a limit of 50",
        refuses(SEARCH, lambda said: said.get("limit") == 100),
        "memo/search/limit-at-the-edges",
    ),
    server("memo search takes everything", lenient(SEARCH, text="[]"), *WORDS),
    server(
        "errors of memos are sentences",
        says("*", plain),
        *WORDS,
        "memo/record/without-content",
        "memo/record/metadata-of-another-type",
    ),
    server(
        "errors of memos are all the same",
        says("*", in_other_words),
        *WORDS,
        "memo/record/without-content",
        "memo/record/metadata-of-another-type",
    ),
    server(
        "no memo is an error",
        answers(SEARCH, lambda reply: failed(reply.text) if reply.text == "[]" else reply),
        "memo/search/nothing",
    ),
    server(
        "metadata are not kept",
        asks(RECORD, lambda asked: asked.without("metadata")),
        "memo/search/by-metadata",
        "memo/record/any-metadata",
        "memo/record/metadata-of-another-type",
    ),
    server("record needs everything", describes(RECORD, needs_all), "memo/record/definition"),
    server(
        "record says nothing of the id", says(RECORD, lambda text: text.partition(":")[0]), "memo/record/says-the-id"
    ),
    server("memos are found later", finds_late(), "memo/record/then-search", "memo/search/similarity"),
    server("memos are guidelines", each(having({"episode_type": "guideline"})), "memo/record/begins-as-other"),
    server(
        "there are five sources",
        refuses(RECORD, lambda said: "kitchen" in str(said.get("source"))),
        "memo/record/any-source",
    ),
    server("metadata are all text", each(flat), "memo/record/any-metadata"),
    server(
        "every record is another memo",
        never_the_same(),
        "memo/record/at-once-is-one-memo",
        "memo/record/twice-is-one-memo",
    ),
    server(
        "memos are their content alone",
        asks(RECORD, lambda asked: asked.without("source")),
        "memo/record/another-source-is-another",
        "memo/record/any-source",
    ),
    server(
        "memos have 5,000 characters",
        asks(RECORD, told(lambda said: {**said, "content": said["content"][:5000]})),
        "memo/record/long-content",
    ),
    server("front matter is read as such", each(header_read), "memo/record/to-the-letter"),
    server(
        "record takes everything",
        lenient(RECORD, text=RECORDED),
        "memo/record/without-content",
        "memo/record/metadata-of-another-type",
    ),
]
