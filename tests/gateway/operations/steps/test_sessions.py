"""Appending to sessions and closing them, on platforms that have sessions and on those that have none."""

import asyncio
from typing import Any

import pytest

from gateway.operations import names, notes
from gateway.operations.errors import Absent, Doubt, GatewayError
from gateway.operations.steps import documents, sessions
from gateway.operations.steps.session_log import read_log
from gateway.operations.table import Args, JsonObject, Op
from tests.gateway.operations.steps.inmemory import BRAIN, Fault, InMemory, lost, refusal, unsure

PATH = names.session_log_path("c0ffee", "s")
REFLECTION_PATH = names.reflection_path("c0ffee", "s")
SESSION = {"brain": BRAIN, "session_id": "s"}


def said(*contents: str, **other: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content} for content in contents]
    return {**SESSION, "messages": messages, "actor_id": None, **other}


async def contents(work: InMemory) -> list[str]:
    return [m["content"] for m in (await read_log(work, BRAIN, "s")).messages]


def with_sessions(**faults: Any) -> InMemory:
    return InMemory(answers={Op.APPEND_MESSAGE: lambda args: {"id": "m", **args}}, **faults)


async def test_messages_go_to_a_session_one_by_one_and_the_last_lets_it_extract() -> None:
    work = with_sessions()
    answer = await sessions.append_one_by_one(work, said("a", "b", "c", actor_id="ada"))
    sent = [args for _, args in work.sent]
    assert [args["content"] for args in sent] == ["a", "b", "c"]
    # Nobody knows after which message the first one comes, so it has no key.
    assert "idempotency_key" not in sent[0]["metadata"]
    assert [{**args["metadata"], "idempotency_key": None} for args in sent] == [
        {"skip_extract": True, "actor_id": "ada", "idempotency_key": None},
        {"skip_extract": True, "actor_id": "ada", "idempotency_key": None},
        {"skip_extract": False, "actor_id": "ada", "idempotency_key": None},
    ]
    assert [set(record) for record in answer["messages"]] == [{"id", "brain", "session_id", "role", "content"}] * 3


@pytest.mark.parametrize("stored", [0, 1, 2])
@pytest.mark.parametrize("code", ["timeout", "outcome_unknown", "rate_limited", "no_brain"])
async def test_messages_stop_at_the_first_failure(stored: int, code: str) -> None:
    work = with_sessions().fails(Op.APPEND_MESSAGE, Fault(GatewayError(code), passed_over=stored))
    error = await refusal(sessions.append_one_by_one(work, said("a", "b", "c")))
    assert (error.code, error.extra) == (code, {"appended": stored, "remaining": 3 - stored})
    assert len(work.sent) == stored + 1


async def test_a_route_that_goes_missing_halfway_is_a_failure() -> None:
    """Passed on as an absence, it would make another step write the messages again."""
    work = with_sessions().fails(Op.APPEND_MESSAGE, Fault(Absent(), passed_over=1))
    error = await refusal(sessions.append_one_by_one(work, said("a", "b", "c")))
    assert error.extra == {"appended": 1, "remaining": 2}


async def test_a_route_that_was_never_there_is_absent() -> None:
    with pytest.raises(Absent):
        await sessions.append_one_by_one(with_sessions(gone={Op.APPEND_MESSAGE}), said("a"))


# By a log, where the platform has no sessions.


async def test_messages_are_lines_of_a_log_and_records_for_the_caller() -> None:
    work = InMemory()
    answer = await sessions.append_to_log(work, said("a", "b", actor_id="ada"))
    assert work.ops == [Op.READ_DOCUMENT, Op.APPEND_DOCUMENT]
    assert answer["extraction"] == "unavailable"
    assert "reused" not in answer
    for record, content in zip(answer["messages"], ["a", "b"], strict=True):
        assert (record["role"], record["content"], record["session_id"]) == ("user", content, "s")
        assert record["id"].startswith("msg_")
    assert len({record["id"] for record in answer["messages"]}) == 2
    kept = (await read_log(work, BRAIN, "s")).messages
    call = kept[0]["call"]
    assert kept == [
        {"kind": "message", **record, "actor_id": "ada", "call": call, "n": n}
        for n, record in enumerate(answer["messages"])
    ]


async def test_sessions_of_two_callers_are_two_logs() -> None:
    ours, theirs = InMemory(), InMemory(caller="other")
    theirs.files = ours.files
    await sessions.append_to_log(ours, said("mine"))
    await sessions.append_to_log(theirs, said("theirs"))
    assert await contents(ours) == ["mine"]
    assert len(ours.files) == 2


HALF = "x" * (documents.PUT_BYTES // 2)


async def test_a_lot_is_sent_in_parts_of_at_most_two_mebibytes_and_in_order() -> None:
    work = InMemory()
    said_ = [HALF[n:] for n in range(5)]
    await sessions.append_to_log(work, said(*said_))
    sizes = [len(args["body"]) for op, args in work.sent if op is Op.APPEND_DOCUMENT]
    assert len(sizes) == 5
    assert max(sizes) <= 2 * 1024 * 1024
    assert await contents(work) == said_


@pytest.mark.parametrize("stored", [0, 1, 2])
@pytest.mark.parametrize("fault", ["timeout", "payload_too_large", "outcome_unknown"])
async def test_a_failure_says_how_many_were_appended(stored: int, fault: str) -> None:
    error_: GatewayError = unsure(Doubt.LATE) if fault == "outcome_unknown" else GatewayError(fault)
    work = InMemory().fails(Op.APPEND_DOCUMENT, Fault(error_, passed_over=stored))
    error = await refusal(sessions.append_to_log(work, said(HALF, HALF, HALF)))
    assert (error.code, error.extra) == (fault, {"appended": stored, "remaining": 3 - stored})
    assert len(await contents(work)) == stored


async def test_what_remains_can_be_sent_after_a_failure() -> None:
    work = InMemory().fails(Op.APPEND_DOCUMENT, Fault(GatewayError("timeout"), passed_over=1))
    first, second = f"1{HALF}", f"2{HALF}"
    await refusal(sessions.append_to_log(work, said(first, second)))
    await sessions.append_to_log(work, said(second))
    assert await contents(work) == [first, second]


async def test_a_log_that_cannot_be_appended_to_any_more_is_a_failure_and_no_absence() -> None:
    work = InMemory().fails(Op.APPEND_DOCUMENT, Fault(Absent(), passed_over=1))
    error = await refusal(sessions.append_to_log(work, said(HALF, HALF, HALF)))
    assert error.extra == {"appended": 1, "remaining": 2}
    with pytest.raises(Absent):
        await sessions.append_to_log(InMemory(gone={Op.APPEND_DOCUMENT}), said("a"))


@pytest.mark.parametrize("done", [True, False])
async def test_an_append_whose_answer_was_lost_is_made_once(done: bool) -> None:
    work = InMemory().fails(Op.APPEND_DOCUMENT, lost(done=done))
    await sessions.append_to_log(work, said("a", "b"))
    assert await contents(work) == ["a", "b"]


async def test_a_log_that_cannot_be_read_is_not_added_to() -> None:
    """Nobody knows whether the call was made before."""
    work = InMemory().fails(Op.READ_DOCUMENT, "upstream_unavailable")
    error = await refusal(sessions.append_to_log(work, said("a", "b")))
    assert (error.code, error.extra) == ("upstream_unavailable", {"appended": 0, "remaining": 2})
    assert work.ops == [Op.READ_DOCUMENT]


async def test_the_same_call_again_is_not_said_again_and_has_the_same_answer() -> None:
    work = InMemory()
    first = await sessions.append_to_log(work, said("a", "b", actor_id="ada"))
    before = dict(work.files)
    assert await sessions.append_to_log(work, said("a", "b", actor_id="ada")) == {**first, "reused": True}
    assert work.files == before


async def test_a_call_that_was_cut_goes_on_where_it_was_cut() -> None:
    work = InMemory().fails(Op.APPEND_DOCUMENT, Fault(GatewayError("timeout"), passed_over=1))
    call = said(f"1{HALF}", f"2{HALF}", f"3{HALF}")
    await refusal(sessions.append_to_log(work, call))
    answer = await sessions.append_to_log(work, call)
    assert [record["content"][0] for record in answer["messages"]] == ["1", "2", "3"]
    assert "reused" not in answer
    assert [content[0] for content in await contents(work)] == ["1", "2", "3"]
    kept = (await read_log(work, BRAIN, "s")).messages
    assert [record["id"] for record in answer["messages"]] == [entry["id"] for entry in kept]


async def test_two_calls_at_once_that_are_the_same_are_said_once() -> None:
    work = InMemory()
    answers = await asyncio.gather(*(sessions.append_to_log(work, said("a", "b")) for _ in range(3)))
    assert [answer.get("reused", False) for answer in answers] == [False, True, True]
    assert await contents(work) == ["a", "b"]


# Closing.


def reflecting(result: Any) -> InMemory:
    return InMemory(answers={Op.REFLECT: lambda _: {"result": result}})


async def closed(work: InMemory) -> JsonObject:
    return await sessions.close_by_log(work, SESSION)


REFLECTION = {"outcome": "success", "summary": "It went well.", "retry_feedback": "Stretch.", "heuristics": []}


async def test_a_session_in_which_nothing_was_said_has_no_result() -> None:
    work = reflecting(REFLECTION)
    answer = await closed(work)
    assert (answer["reflection_status"], answer["reflection_attempted"]) == ("no_result", False)
    assert work.ops == [Op.READ_DOCUMENT]
    assert work.jobs == {}


async def test_a_reflection_is_written_where_it_can_be_read_back() -> None:
    work = reflecting(REFLECTION)
    await sessions.append_to_log(work, said("a", "b"))
    answer = await closed(work)
    assert (answer["reflection_status"], answer["reflection_attempted"]) == ("completed", True)
    assert answer["reflection"] == {**REFLECTION, "path": REFLECTION_PATH, "should_record_episode": False}
    note = notes.parse(work.files[REFLECTION_PATH])
    assert (note.title, note.front["type"]) == ("Reflection on session s", "reflection")
    assert "It went well." in note.content
    assert "Stretch." in note.content


async def test_a_reflection_gets_what_was_said_and_a_name_of_ours() -> None:
    work = reflecting(REFLECTION)
    await sessions.append_to_log(work, said("a", "b", actor_id="ada"))
    await closed(work)
    args = next(args for op, args in work.sent if op is Op.REFLECT)
    assert args["messages"] == [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    assert f"reflections/{args['session_id']}.md" == REFLECTION_PATH


async def test_a_reflection_gets_the_last_that_fits_one_request() -> None:
    work = reflecting(REFLECTION)
    await sessions.append_to_log(work, said("first" + "x" * 300_000, "second" + "x" * 300_000, "third"))
    await closed(work)
    args = next(args for op, args in work.sent if op is Op.REFLECT)
    assert [m["content"][:6] for m in args["messages"]] == ["second", "third"]


async def test_a_path_that_the_platform_wrote_to_is_the_path() -> None:
    work = reflecting({**REFLECTION, "path": "reflections/theirs.md", "should_record_episode": True})
    await sessions.append_to_log(work, said("a"))
    reflection = (await closed(work))["reflection"]
    assert (reflection["path"], reflection["should_record_episode"]) == ("reflections/theirs.md", True)
    assert Op.WRITE_DOCUMENT not in work.ops


@pytest.mark.parametrize(
    "result",
    [
        None,
        {},
        {"outcome": "unknown"},
        {"outcome": "unknown", "summary": "", "path": "reflections/x.md"},
        {"outcome": None, "summary": None},
    ],
)
async def test_a_reflection_without_a_word_is_no_result(result: Any) -> None:
    work = reflecting(result)
    await sessions.append_to_log(work, said("a"))
    answer = await closed(work)
    assert (answer["reflection_status"], answer["reflection_attempted"]) == ("no_result", True)
    assert "reflection" not in answer
    assert REFLECTION_PATH not in work.files


@pytest.mark.parametrize(
    "result", [{"outcome": "unknown", "summary": "Hm."}, {"outcome": "partial"}, {"outcome": ["odd"], "summary": "x"}]
)
async def test_a_reflection_that_says_something_is_a_result(result: JsonObject) -> None:
    work = reflecting(result)
    await sessions.append_to_log(work, said("a"))
    assert (await closed(work))["reflection_status"] == "completed"


async def test_closing_twice_reflects_once_and_says_the_same() -> None:
    work = reflecting(REFLECTION)
    await sessions.append_to_log(work, said("a", "b"))
    first = await closed(work)
    assert await closed(work) == first
    assert work.ops.count(Op.REFLECT) == 1
    elsewhere = InMemory(work.files, work.answers)
    assert await closed(elsewhere) == first
    assert Op.REFLECT not in elsewhere.ops


async def test_something_said_after_closing_opens_the_session_again() -> None:
    work = reflecting(REFLECTION)
    await sessions.append_to_log(work, said("a"))
    await closed(work)
    await sessions.append_to_log(work, said("b"))
    await closed(work)
    reflected = [args for op, args in work.sent if op is Op.REFLECT]
    assert [len(args["messages"]) for args in reflected] == [1, 2]


@pytest.mark.parametrize("op", [Op.REFLECT, Op.WRITE_DOCUMENT])
async def test_a_session_that_could_not_be_closed_can_be_closed_again(op: Op) -> None:
    work = reflecting(REFLECTION)
    await sessions.append_to_log(work, said("a"))
    work.fails(op, "timeout")
    assert (await refusal(closed(work))).code == "timeout"
    assert (await closed(work))["reflection_status"] == "completed"


async def test_an_end_whose_answer_was_lost_is_noted_once() -> None:
    work = reflecting(REFLECTION)
    await sessions.append_to_log(work, said("a"))
    work.fails(Op.APPEND_DOCUMENT, lost(done=True))
    first = await closed(work)
    assert await closed(work) == first
    assert work.files[PATH].count(b'"kind":"closed"') == 1


async def test_closing_has_the_rest_looked_at_for_memories() -> None:
    work = reflecting(REFLECTION)
    await sessions.append_to_log(work, said("a"))
    extracted: list[Args] = []

    def extract(args: Args) -> JsonObject:
        extracted.append(args)
        return {"memories": []}

    work.answers[Op.EXTRACT] = extract
    await closed(work)
    assert len(work.jobs) == 1
    await work.after_the_answer()
    assert [args["messages"] for args in extracted] == [[{"role": "user", "content": "a"}]]
