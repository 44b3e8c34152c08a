"""Which steps fulfil which operation, and what moves a chain on."""

from collections.abc import Awaitable
from itertools import chain as joined
from itertools import combinations
from typing import Any

import pytest

from gateway.operations.chains import CHAINS, Chain, Step, foresee, serve
from gateway.operations.context import StepContext
from gateway.operations.errors import CATALOGUE, Absent, GatewayError
from gateway.operations.notes import Draft
from gateway.operations.steps import documents, memos, sessions
from gateway.operations.table import Args, JsonObject, Op, Upload
from tests.gateway.operations.steps.inmemory import BRAIN, Answer, Fault, InMemory, hurry, lost, refusal

HITS: JsonObject = {"hits": [{"path": "a.md", "score": 1.0}]}
PAGE = {"title": "Otters", "content": "Words.", "path": "raw/documents/otters.md", "metadata": {}, "source": "ingest"}
NOTE = "memory/global/kv/default/a.md"
DOCUMENT = {**PAGE, "path": "memory/global/otters.md", "tags": []}
ANSWERS: dict[Op, JsonObject] = {
    Op.LIST_BRAINS: {"items": []},
    Op.LIST_NAMED_BRAINS: {"items": []},
    Op.CREATE_BRAIN: {"id": BRAIN},
    Op.CREATE_BARE_BRAIN: {"id": BRAIN},
    Op.DELETE_BRAIN: {},
    Op.SEARCH: HITS,
    Op.SORTED_SEARCH: HITS,
    Op.AGENT_SEARCH: HITS,
    Op.SESSION_RECALL: {"chunks": []},
    Op.RECALL: {"chunks": []},
    Op.ASK: {},
    Op.CREATE_DOCUMENT: {"id": "doc", "path": "a.md", "byte_size": 6},
    Op.INGEST_FILE: {"path": "a.md"},
    Op.INGEST_TEXT: {"path": "a.md"},
    Op.INGEST_URL: {"path": "raw/documents/otters.md"},
    Op.APPEND_MESSAGE: {"id": "msg"},
    Op.LIST_MESSAGES: {"items": []},
    Op.CLOSE_SESSION: {"reflection_status": "completed"},
    Op.EXTRACT: {"memories": []},
    Op.REFLECT: {"result": {"outcome": "success", "summary": "Well."}},
    Op.CONSOLIDATE: {"merged": 3},
    Op.COMPILE: {"compiled": True},
    Op.DERIVE: {"results": []},
    Op.FIND_MEMOS: {"memos": []},
    Op.RECORD_MEMO: {"id": "memo"},
    Op.FETCH_PAGE: PAGE,
}
ARGS: dict[str, dict[str, Any]] = {
    "list_brains": {},
    "create_brain": {"name": "B", "slug": BRAIN, "visibility": "private", "derived": True},
    "delete_brain": {},
    "search": {"query": "q"},
    "recall": {"query": "q", "session_id": "s"},
    "ask": {"query": "q"},
    "remember": DOCUMENT,
    "ingest_file": {"upload": Upload("a.md", "text/markdown", b"x")},
    "ingest_url": {"url": "https://a.example/"},
    "append_messages": {"session_id": "s", "messages": [{"role": "user", "content": "x"}] * 2},
    "store_transcript": {**DOCUMENT, "messages": [{"role": "user", "content": "x"}]},
    "close_session": {"session_id": "s"},
    "consolidate": {},
    "derive": {"task": "title", "paths": [NOTE]},
    "read_note": {"path": NOTE},
    "stat_note": {"path": NOTE},
    "list_notes": {"dir": "memory"},
    "keep_note": {"path": NOTE, "change": lambda _before: Draft(b"x", "X")},
    "replace_note": {"path": NOTE, "body": b"x", "expected": None},
    "append_to_note": {"path": NOTE, "body": b"x"},
    "move_note": {"path": NOTE, "to": "memory/global/kv/default/_deleted/a.txt"},
    "remove_note": {"path": NOTE},
    "find_memos": {"query": "q", "limit": 1, "ceiling": None, "org": "acme"},
    "record_memo": {"content": "x", "ceiling": None, "org": "acme"},
}
LARGE = "x" * (documents.PUT_BYTES + 1)


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def always(answer: JsonObject) -> Answer:
    return lambda _args: dict(answer)


def platform(*lacking: Op) -> InMemory:
    """Has everything but this."""
    work = InMemory(answers={op: always(answer) for op, answer in ANSWERS.items()})
    work.lacks = set(lacking)
    return work


async def session_begun(work: InMemory) -> InMemory:
    kept, work.lacks = work.lacks, set()
    await sessions.append_to_log(work, {"brain": BRAIN, **ARGS["append_messages"]})
    work.lacks = kept
    work.wrote = False
    work.sent.clear()
    work.made.clear()
    return work


async def served(operation: str, work: StepContext, **other: Any) -> tuple[JsonObject, Step]:
    return await serve(CHAINS[operation], {**ARGS[operation], "brain": BRAIN, **other}, work)


async def outcome(serving: Awaitable[tuple[JsonObject, Step]]) -> tuple[Step | None, str | None]:
    """The step that served, or the code of the failure."""
    try:
        return (await serving)[1], None
    except GatewayError as error:
        return None, error.code


def routes(chain: Chain) -> list[Op]:
    return sorted({op for step in chain for op in (step.via, *step.also)})


# What moves a chain on.


async def test_the_first_step_whose_routes_are_there_answers() -> None:
    work = platform()
    answer, step = await serve(CHAINS["consolidate"], {"brain": BRAIN}, work)
    assert (answer, step.via) == ({"merged": 3}, Op.CONSOLIDATE)
    assert work.sent == [(Op.CONSOLIDATE, {"brain": BRAIN})]


@pytest.mark.parametrize("known", [True, False], ids=["known to be absent", "found absent"])
async def test_an_absent_route_moves_on_to_the_next_step_with_the_same_arguments(known: bool) -> None:
    work = platform(*([Op.CONSOLIDATE] if known else []))
    work.gone = set() if known else {Op.CONSOLIDATE}
    answer, step = await serve(CHAINS["consolidate"], {"brain": BRAIN}, work)
    assert (answer, step.via) == ({"compiled": True}, Op.COMPILE)
    tried = [] if known else [(Op.CONSOLIDATE, {"brain": BRAIN})]
    assert work.sent == [*tried, (Op.COMPILE, {"brain": BRAIN})]


@pytest.mark.parametrize("operation", CHAINS)
async def test_where_nothing_is_there_it_is_not_implemented_and_nothing_is_sent(operation: str) -> None:
    work = platform(*Op)
    assert (await refusal(served(operation, work))).code == "not_implemented"
    assert work.sent == []


# What a look makes of a failure: nothing is there, and so nothing was made; or there is no look.
LOOKED_INTO = {
    ("create_brain", "outcome_unknown"): "upstream_unavailable",
    ("append_messages", "outcome_unknown"): "upstream_unavailable",
    ("remember", "conflict"): "outcome_unknown",
    ("store_transcript", "conflict"): "outcome_unknown",
    ("keep_note", "outcome_unknown"): "upstream_unavailable",
    ("replace_note", "outcome_unknown"): "upstream_unavailable",
    ("append_to_note", "outcome_unknown"): "upstream_unavailable",
    ("move_note", "outcome_unknown"): "upstream_unavailable",
    ("remove_note", "outcome_unknown"): "upstream_unavailable",
    # That there is nothing is an answer.
    **{(operation, "not_found"): None for operation in ("read_note", "stat_note", "move_note", "remove_note")},
}
MOVES = {"move_note", "remove_note"}
_READS = {Op.READ_DOCUMENT}
LOOKS = {
    "create_brain": {Op.LIST_NAMED_BRAINS},
    "append_messages": {Op.LIST_MESSAGES},
    **dict.fromkeys(("keep_note", "replace_note", "append_to_note", "move_note", "remove_note"), _READS),
}


@pytest.mark.parametrize("code", sorted(CATALOGUE))
@pytest.mark.parametrize("operation", CHAINS)
@pytest.mark.sampled(3)
async def test_no_failure_moves_a_chain_on(operation: str, code: str) -> None:
    """A timeout or a refusal is an answer: doing something else instead could do the work twice."""
    first = CHAINS[operation][0].via
    when = {"sort": "recency"} if operation == "search" else {}
    work = platform().fails(first, *[code] * 5)
    work.lacks = {Op.STAT_DOCUMENT} - {first}
    if operation in MOVES:
        work.files[NOTE] = b"x"
    _, failed = await outcome(served(operation, work, **when))
    assert failed == LOOKED_INTO.get((operation, code), code)
    assert set(work.ops) - (LOOKS.get(operation, set()) - {first}) == {first}


async def test_a_step_that_does_not_apply_is_not_begun() -> None:
    async def never(_work: StepContext, _args: Args) -> JsonObject:
        raise AssertionError("it does not apply")

    chain = (Step(Op.ASK, when=lambda _args: False, run=never), Step(Op.SEARCH))
    answer, step = await serve(chain, {}, platform())
    assert (answer, step.via) == (HITS, Op.SEARCH)


async def test_a_step_that_lacks_one_of_its_routes_is_not_begun() -> None:
    async def never(_work: StepContext, _args: Args) -> JsonObject:
        raise AssertionError("it cannot be ended")

    chain = (Step(Op.ASK, also=(Op.EXTRACT,), run=never), Step(Op.SEARCH))
    _, step = await serve(chain, {}, platform(Op.EXTRACT))
    assert step.via is Op.SEARCH


# The table.

SERVED_BY: list[tuple[str, dict[str, Any], tuple[Op, ...], list[Op]]] = [
    ("list_brains", {}, (), [Op.LIST_NAMED_BRAINS]),
    ("list_brains", {}, (Op.LIST_NAMED_BRAINS,), [Op.LIST_BRAINS]),
    ("create_brain", {}, (), [Op.CREATE_BRAIN]),
    ("create_brain", {}, (Op.CREATE_BRAIN,), [Op.CREATE_BARE_BRAIN, Op.WRITE_DOCUMENT]),
    ("delete_brain", {}, (), [Op.DELETE_BRAIN]),
    ("search", {}, (), [Op.SEARCH]),
    ("search", {"sort": "relevance"}, (), [Op.SEARCH]),
    ("search", {"sort": "recency"}, (), [Op.SORTED_SEARCH]),
    ("search", {"sort": "relevance_then_recency"}, (), [Op.SORTED_SEARCH]),
    ("search", {"scope": "agent"}, (), [Op.AGENT_SEARCH]),
    ("search", {"scope": "global"}, (), [Op.SEARCH]),
    ("search", {"sort": "recency"}, (Op.SORTED_SEARCH,), [Op.SEARCH, Op.LIST_DOCUMENTS]),
    ("search", {"sort": "recency"}, (Op.SORTED_SEARCH, Op.LIST_DOCUMENTS), [Op.SEARCH]),
    ("search", {"scope": "agent"}, (Op.AGENT_SEARCH,), [Op.SEARCH]),
    ("recall", {}, (), [Op.SESSION_RECALL]),
    ("recall", {}, (Op.SESSION_RECALL,), [Op.RECALL]),
    ("recall", {}, (Op.SESSION_RECALL, Op.RECALL), [Op.READ_DOCUMENT, Op.SEARCH]),
    ("recall", {}, (Op.SESSION_RECALL, Op.RECALL, Op.READ_DOCUMENT), [Op.SEARCH]),
    ("recall", {"session_id": None}, (), [Op.SEARCH]),
    ("recall", {"session_id": None, "scope": "agent"}, (), [Op.AGENT_SEARCH]),
    ("recall", {"session_id": None, "sort": "recency"}, (), [Op.SORTED_SEARCH]),
    ("ask", {}, (), [Op.ASK]),
    ("remember", {}, (), [Op.CREATE_DOCUMENT]),
    ("remember", {}, (Op.CREATE_DOCUMENT,), [Op.READ_DOCUMENT, Op.WRITE_DOCUMENT]),
    ("remember", {"content": LARGE}, (Op.CREATE_DOCUMENT,), [Op.READ_DOCUMENT, Op.BATCH_WRITE]),
    ("remember", {}, (Op.CREATE_DOCUMENT, Op.WRITE_DOCUMENT), [Op.READ_DOCUMENT, Op.BATCH_WRITE]),
    ("ingest_file", {}, (), [Op.INGEST_FILE]),
    ("ingest_file", {}, (Op.INGEST_FILE,), [Op.STAT_DOCUMENT, Op.INGEST_TEXT]),
    ("ingest_url", {}, (), [Op.INGEST_URL, Op.READ_DOCUMENT]),
    ("ingest_url", {}, (Op.INGEST_URL,), [Op.FETCH_PAGE, Op.CREATE_DOCUMENT]),
    (
        "ingest_url",
        {},
        (Op.INGEST_URL, Op.CREATE_DOCUMENT),
        [Op.FETCH_PAGE, Op.READ_DOCUMENT, Op.WRITE_DOCUMENT],
    ),
    (
        "ingest_url",
        {},
        (Op.INGEST_URL, Op.CREATE_DOCUMENT, Op.WRITE_DOCUMENT),
        [Op.FETCH_PAGE, Op.READ_DOCUMENT, Op.BATCH_WRITE],
    ),
    ("append_messages", {}, (), [Op.LIST_MESSAGES, Op.APPEND_MESSAGE, Op.APPEND_MESSAGE]),
    ("append_messages", {}, (Op.LIST_MESSAGES,), [Op.APPEND_MESSAGE, Op.APPEND_MESSAGE]),
    ("append_messages", {}, (Op.APPEND_MESSAGE,), [Op.READ_DOCUMENT, Op.APPEND_DOCUMENT]),
    ("store_transcript", {}, (), [Op.CREATE_DOCUMENT]),
    ("store_transcript", {}, (Op.CREATE_DOCUMENT,), [Op.READ_DOCUMENT, Op.WRITE_DOCUMENT]),
    ("store_transcript", {"content": LARGE}, (Op.CREATE_DOCUMENT,), [Op.READ_DOCUMENT, Op.BATCH_WRITE]),
    ("store_transcript", {}, (Op.CREATE_DOCUMENT, Op.WRITE_DOCUMENT), [Op.READ_DOCUMENT, Op.BATCH_WRITE]),
    ("close_session", {}, (), [Op.CLOSE_SESSION]),
    ("close_session", {}, (Op.CLOSE_SESSION,), [Op.READ_DOCUMENT, Op.REFLECT, Op.WRITE_DOCUMENT, Op.APPEND_DOCUMENT]),
    ("consolidate", {}, (), [Op.CONSOLIDATE]),
    ("consolidate", {}, (Op.CONSOLIDATE,), [Op.COMPILE]),
    ("derive", {}, (), [Op.DERIVE]),
    ("read_note", {}, (), [Op.READ_DOCUMENT]),
    ("stat_note", {}, (), [Op.STAT_DOCUMENT]),
    ("list_notes", {}, (), [Op.LIST_DOCUMENTS]),
    ("keep_note", {}, (), [Op.READ_DOCUMENT, Op.CREATE_DOCUMENT]),
    ("keep_note", {}, (Op.CREATE_DOCUMENT,), [Op.READ_DOCUMENT, Op.WRITE_DOCUMENT]),
    ("replace_note", {}, (), [Op.READ_DOCUMENT, Op.WRITE_DOCUMENT]),
    ("append_to_note", {}, (), [Op.APPEND_DOCUMENT]),
    ("move_note", {}, (), [Op.RENAME_DOCUMENT]),
    ("move_note", {}, (Op.RENAME_DOCUMENT,), [Op.READ_DOCUMENT, Op.WRITE_DOCUMENT, Op.DELETE_DOCUMENT]),
    ("remove_note", {}, (), [Op.DELETE_DOCUMENT]),
    ("find_memos", {}, (), [Op.FIND_MEMOS]),
    ("record_memo", {}, (), [Op.RECORD_MEMO]),
]


def named(value: object) -> str | None:
    if isinstance(value, tuple):
        return "without " + "+".join(value) if value else "with everything"
    return ", ".join(f"{k}={str(v)[:9]}" for k, v in value.items()) or "as usual" if isinstance(value, dict) else None


@pytest.mark.parametrize(("operation", "other", "lacking", "sent"), SERVED_BY, ids=named)
async def test_every_chain_does_what_it_says_where_routes_are_absent(
    operation: str, other: dict[str, Any], lacking: tuple[Op, ...], sent: list[Op]
) -> None:
    work = platform(*lacking)
    if operation == "close_session":
        await session_begun(work)
    if operation in MOVES:
        work.files[NOTE] = b"x"
    _, step = await served(operation, work, **other)
    assert work.ops == sent
    assert step.via in sent
    assert writes(sent) <= {step.via, *step.also}


def test_every_chain_is_in_the_table_by_each_of_its_first_routes() -> None:
    seen = {(operation, op) for operation, _, _, sent in SERVED_BY for op in sent}
    sending = {
        (name, step.via) for name, chain in CHAINS.items() for step in chain if step.run is not memos.leave_to_notes
    }
    assert sending <= seen


@pytest.mark.parametrize(
    ("operation", "lacking", "via"),
    [
        ("find_memos", (Op.FIND_MEMOS,), Op.SEARCH),
        ("record_memo", (Op.RECORD_MEMO,), Op.CREATE_DOCUMENT),
        ("record_memo", (Op.RECORD_MEMO, Op.CREATE_DOCUMENT), Op.WRITE_DOCUMENT),
    ],
    ids=named,
)
async def test_where_no_memos_are_kept_they_are_left_to_notes(operation: str, lacking: tuple[Op, ...], via: Op) -> None:
    work = platform(*lacking)
    answer, step = await served(operation, work)
    assert (answer, step.via, work.ops) == ({}, via, [])


@pytest.mark.parametrize("operation", ["find_memos", "record_memo"])
@pytest.mark.parametrize(("other", "code"), [({"ceiling": BRAIN}, "validation_error"), ({"org": None}, "forbidden")])
async def test_memos_are_nobodys_without_an_organization_and_in_no_brain(
    operation: str, other: dict[str, Any], code: str
) -> None:
    work = platform()
    assert (await refusal(served(operation, work, **other))).code == code
    assert work.ops == []


@pytest.mark.parametrize(
    ("operation", "other", "lacking"),
    [
        ("create_brain", {}, (Op.CREATE_BRAIN, Op.WRITE_DOCUMENT)),
        ("remember", {}, (Op.CREATE_DOCUMENT, Op.READ_DOCUMENT)),
        ("remember", {"content": LARGE}, (Op.CREATE_DOCUMENT, Op.BATCH_WRITE)),
        ("ingest_file", {}, (Op.INGEST_FILE, Op.STAT_DOCUMENT)),
        ("ingest_url", {}, (Op.INGEST_URL, Op.FETCH_PAGE)),
        ("ingest_url", {}, (Op.INGEST_URL, Op.CREATE_DOCUMENT, Op.READ_DOCUMENT)),
        ("append_messages", {}, (Op.APPEND_MESSAGE, Op.READ_DOCUMENT)),
        ("store_transcript", {}, (Op.CREATE_DOCUMENT, Op.READ_DOCUMENT)),
        ("close_session", {}, (Op.CLOSE_SESSION, Op.READ_DOCUMENT)),
        ("close_session", {}, (Op.CLOSE_SESSION, Op.APPEND_DOCUMENT)),
        ("close_session", {}, (Op.CLOSE_SESSION, Op.WRITE_DOCUMENT)),
        ("consolidate", {}, (Op.CONSOLIDATE, Op.COMPILE)),
        ("keep_note", {}, (Op.READ_DOCUMENT,)),
        ("move_note", {}, (Op.RENAME_DOCUMENT, Op.DELETE_DOCUMENT)),
        ("remove_note", {}, (Op.DELETE_DOCUMENT,)),
    ],
    ids=named,
)
async def test_what_cannot_be_ended_is_not_begun(
    operation: str, other: dict[str, Any], lacking: tuple[Op, ...]
) -> None:
    work = platform(*lacking)
    assert (await refusal(served(operation, work, **other))).code == "not_implemented"
    assert work.made == []


def subsets(ops: list[Op]) -> list[tuple[Op, ...]]:
    return list(joined.from_iterable(combinations(ops, size) for size in range(len(ops) + 1)))


@pytest.mark.parametrize("operation", CHAINS)
async def test_whatever_is_absent_what_would_serve_is_known_before(operation: str) -> None:
    chain = CHAINS[operation]
    for lacking in subsets(routes(chain)):
        work = await session_begun(platform(*lacking))
        args = {**ARGS[operation], "brain": BRAIN}
        expected, missing = await foresee(chain, args, work)
        assert set(missing) <= set(lacking)
        assert work.sent == []
        step, code = await outcome(serve(chain, args, work))
        assert step is expected
        assert code == (None if expected else "not_implemented")
        assert not set(work.ops) & set(lacking)


# Nothing is written twice.


def writes(ops: list[Op]) -> set[Op]:
    return {op for op in ops if op.writes}


@pytest.mark.parametrize("answer_lost", [False, True], ids=["answered", "answers lost"])
@pytest.mark.parametrize("operation", CHAINS)
@pytest.mark.not_quick
async def test_after_a_write_no_absence_leads_to_a_write_by_another_step(operation: str, answer_lost: bool) -> None:
    """Each route in turn is lost at its first, second, third use, whatever else is absent."""
    chain = CHAINS[operation]
    # These looks find nothing of what was made, or something else.
    looked_into = {"upstream_unavailable", "conflict"} if answer_lost else set()
    for lacking in subsets(routes(chain)):
        for op in set(routes(chain)) - set(lacking):
            for use in range(3):
                work = await session_begun(platform(*lacking))
                if answer_lost:
                    for written in writes(list(Op)):
                        work.fails(written, lost(done=True))
                work.fails(op, *([lost(done=True)] * use if answer_lost and op.writes else []))
                work.faults.setdefault(op, []).append(Fault(Absent(), passed_over=0 if answer_lost else use))
                _, code = await outcome(served(operation, work))
                assert code in {None, "not_implemented", "outcome_unknown", "upstream_error"} | looked_into
                assert code != "not_implemented" or not writes(work.made), (lacking, op, use)
                steps = [step for step in chain if writes(work.made) <= {step.via, *step.also}]
                assert steps, (lacking, op, use, work.made)


async def test_an_absence_after_something_was_written_says_that_a_part_may_be_stored() -> None:
    async def halfway(work: StepContext, args: Args) -> JsonObject:
        await work.send(Op.WRITE_DOCUMENT, {"path": "a.md", "body": b"x"})
        return await work.send(Op.APPEND_DOCUMENT, args)

    work = platform()
    work.gone = {Op.APPEND_DOCUMENT}
    chain = (Step(Op.WRITE_DOCUMENT, run=halfway), Step(Op.COMPILE))
    error = await refusal(serve(chain, {"path": "a.md", "body": b"x"}, work))
    assert (error.code, error.retryable) == ("outcome_unknown", False)
    assert work.ops == [Op.WRITE_DOCUMENT, Op.APPEND_DOCUMENT]


@pytest.mark.parametrize("code", sorted(set(CATALOGUE) - {"outcome_unknown"}))
async def test_an_absence_after_a_write_that_was_refused_moves_on(code: str) -> None:
    async def tries(work: StepContext, args: Args) -> JsonObject:
        assert (await refusal(work.send(Op.WRITE_DOCUMENT, args))).code == code
        return await work.send(Op.APPEND_DOCUMENT, args)

    work = platform().fails(Op.WRITE_DOCUMENT, code)
    work.gone = {Op.APPEND_DOCUMENT}
    answer, _ = await serve((Step(Op.WRITE_DOCUMENT, run=tries), Step(Op.COMPILE)), {}, work)
    assert answer == {"compiled": True}


# Pages.


async def test_a_page_that_is_fetched_here_is_stored_as_a_memory_is() -> None:
    answer, step = await served("ingest_url", platform(Op.INGEST_URL))
    assert answer == {"path": "fallback", "document": ANSWERS[Op.CREATE_DOCUMENT]}
    assert step.via is Op.CREATE_DOCUMENT
    work = platform(Op.INGEST_URL)
    await served("ingest_url", work)
    assert work.sent[-1] == (Op.CREATE_DOCUMENT, {**PAGE, "brain": BRAIN})


async def test_a_page_that_is_too_large_for_a_put_goes_in_a_batch() -> None:
    work = platform(Op.INGEST_URL, Op.CREATE_DOCUMENT)
    work.answers[Op.FETCH_PAGE] = lambda _: {**PAGE, "content": LARGE}
    _, step = await served("ingest_url", work)
    assert step.via is Op.BATCH_WRITE
    assert Op.WRITE_DOCUMENT not in work.ops


@pytest.mark.parametrize("code", ["fetch_blocked", "fetch_failed", "timeout", "upstream_error", "forbidden"])
async def test_a_fetch_that_the_platform_refused_is_not_made_here_instead(code: str) -> None:
    work = platform().fails(Op.INGEST_URL, code)
    assert (await refusal(served("ingest_url", work))).code == code
    assert work.ops == [Op.INGEST_URL]


async def test_a_url_nobody_may_be_sent_to_is_sent_to_nobody() -> None:
    work = platform()
    work.blocked = {"https://a.example/"}
    assert (await refusal(served("ingest_url", work))).code == "fetch_blocked"
    assert work.sent == []


async def test_a_fetch_of_our_own_that_fails_stores_nothing() -> None:
    work = platform(Op.INGEST_URL).fails(Op.FETCH_PAGE, "fetch_blocked")
    assert (await refusal(served("ingest_url", work))).code == "fetch_blocked"
    assert work.ops == [Op.FETCH_PAGE]
