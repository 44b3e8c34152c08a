"""The log of a session: lines that are only ever added, by any number of gateways."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.operations import names
from gateway.operations.errors import Absent, Doubt, GatewayError
from gateway.operations.steps import documents
from gateway.operations.steps.session_log import append, line, parts, read_log
from gateway.operations.table import Op
from tests.gateway.operations.steps.inmemory import BRAIN, Fault, InMemory, lost, refusal

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
PATH = names.session_log_path("c0ffee", "s")


def message(content: str) -> bytes:
    return line({"kind": "message", "role": "user", "content": content})


def closed(messages: int, **answer: Any) -> bytes:
    return line({"kind": "closed", "answer": answer, "messages": messages})


async def contents(work: InMemory) -> list[str]:
    return [m["content"] for m in (await read_log(work, BRAIN, "s")).messages]


async def test_a_log_that_nobody_began_is_empty() -> None:
    log = await read_log(InMemory(), BRAIN, "s")
    assert (log.messages, log.extracted, log.closed) == ([], 0, None)


@UNHURRIED
@given(st.lists(st.text(), min_size=1))
async def test_what_was_appended_is_read_in_order(said: list[str]) -> None:
    work = InMemory()
    for text in said:
        await append(work, BRAIN, PATH, [message(text)])
    assert await contents(work) == said


async def test_a_line_is_one_line_whatever_it_holds() -> None:
    entry = {"content": 'a\nb\r\n"\u2028\u0085\x00 größe'}
    assert line(entry).count(b"\n") == 1
    assert json.loads(line(entry)) == entry


async def test_two_gateways_append_in_turn() -> None:
    ours = InMemory()
    theirs = InMemory(ours.files)
    for turn, work in enumerate([ours, theirs, ours, theirs]):
        await append(work, BRAIN, PATH, [message(f"{turn}a"), message(f"{turn}b")])
    assert await contents(ours) == ["0a", "0b", "1a", "1b", "2a", "2b", "3a", "3b"]


@pytest.mark.parametrize("kept", range(1, len(message("torn")) - 1))
async def test_a_torn_line_takes_no_other_with_it(kept: int) -> None:
    work = InMemory()
    await append(work, BRAIN, PATH, [message("before")])
    work.files[PATH] += message("torn")[:kept]
    await append(work, BRAIN, PATH, [message("after"), message("later")])
    assert await contents(work) == ["before", "after", "later"]


@pytest.mark.parametrize(
    "bad",
    [
        b"nonsense",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b"{}",
        b'{"kind": "something new"}',
        b'{"kind": "message"}',
        b'{"kind": "message", "role": "user"}',
        b'{"kind": ["message"]}',
        b'{"kind": "extracted", "through": "all"}',
        b'{"kind": "extracted"}',
        b'{"kind": "closed", "answer": "yes", "messages": 2}',
        b"[" * 100_000,
    ],
    ids=lambda bad: ascii(bad[:40]),
)
async def test_a_line_that_says_nothing_is_passed_over(bad: bytes) -> None:
    work = InMemory({PATH: message("a") + bad + b"\n" + message("b")})
    log = await read_log(work, BRAIN, "s")
    assert [m["content"] for m in log.messages] == ["a", "b"]
    assert (log.extracted, log.closed) == (0, None)


async def test_how_far_memories_were_extracted_never_goes_back() -> None:
    """Of two gateways the slower may note its share last."""
    marks = [line({"kind": "extracted", "through": through, "paths": []}) for through in (2, 5, 3)]
    assert (await read_log(InMemory({PATH: b"".join(marks)}), BRAIN, "s")).extracted == 5


async def test_a_session_is_closed_until_something_is_said() -> None:
    work = InMemory({PATH: message("a") + closed(1, reflection_status="completed")})
    assert (await read_log(work, BRAIN, "s")).closed == {"reflection_status": "completed"}
    await append(work, BRAIN, PATH, [message("b")])
    assert (await read_log(work, BRAIN, "s")).closed is None


async def test_what_was_said_while_a_session_was_being_closed_is_not_closed_with_it() -> None:
    work = InMemory({PATH: message("a") + message("said meanwhile") + closed(1)})
    assert (await read_log(work, BRAIN, "s")).closed is None


async def test_of_two_ends_the_later_one_counts() -> None:
    work = InMemory({PATH: message("a") + closed(1, n=1) + message("b") + closed(2, n=2)})
    assert (await read_log(work, BRAIN, "s")).closed == {"n": 2}


async def test_lines_whose_answer_was_lost_are_looked_for() -> None:
    work = InMemory().fails(Op.APPEND_DOCUMENT, lost(done=True))
    await append(work, BRAIN, PATH, [message("a")])
    assert await contents(work) == ["a"]


async def test_lines_that_are_not_found_again_are_added_once_more() -> None:
    work = InMemory({PATH: message("b")}).fails(Op.APPEND_DOCUMENT, lost(done=False))
    await append(work, BRAIN, PATH, [message("a")])
    assert await contents(work) == ["b", "a"]
    assert work.ops.count(Op.APPEND_DOCUMENT) == 2


@pytest.mark.parametrize(
    ("doubts", "code"),
    [
        ([Doubt.LOST, Doubt.LOST], "upstream_unavailable"),
        ([Doubt.LOST, Doubt.ANSWERED], "upstream_error"),
        ([Doubt.ANSWERED], "upstream_error"),
        ([Doubt.LATE], "outcome_unknown"),
        ([Doubt.LOST, Doubt.LATE], "outcome_unknown"),
    ],
)
async def test_lines_are_added_again_only_when_they_never_arrived(doubts: list[Doubt], code: str) -> None:
    work = InMemory({PATH: message("b")})
    work.fails(Op.APPEND_DOCUMENT, *[lost(done=False, doubt=doubt) for doubt in doubts])
    error = await refusal(append(work, BRAIN, PATH, [message("a")]))
    assert (error.code, error.retryable) == (code, code != "upstream_error")
    assert work.ops.count(Op.APPEND_DOCUMENT) == len(doubts)
    assert await contents(work) == ["b"]


@pytest.mark.parametrize("look", [GatewayError("timeout"), GatewayError("upstream_unavailable"), Absent()])
async def test_lines_that_cannot_be_looked_for_are_not_known(look: Exception) -> None:
    """They are not added again here; a caller may say the same again, for lines say of which call they are."""
    work = InMemory().fails(Op.APPEND_DOCUMENT, lost(done=True)).fails(Op.READ_DOCUMENT, *[Fault(look)] * 4)
    error = await refusal(append(work, BRAIN, PATH, [message("a")]))
    assert (error.code, error.retryable) == ("outcome_unknown", True)
    assert work.ops.count(Op.APPEND_DOCUMENT) == 1


async def test_lines_that_show_up_a_while_later_are_found() -> None:
    work = InMemory().fails(Op.APPEND_DOCUMENT, lost(done=True))
    reads = 0

    def read(args: Any) -> dict[str, Any]:
        nonlocal reads
        reads += 1
        return {"body": work.files[str(args["path"])] if reads == 4 else b""}

    work.answers[Op.READ_DOCUMENT] = read
    await append(work, BRAIN, PATH, [message("a")])
    assert work.ops.count(Op.APPEND_DOCUMENT) == 1


@pytest.mark.parametrize("code", ["timeout", "forbidden", "rate_limited"])
async def test_a_refused_append_is_not_looked_for(code: str) -> None:
    work = InMemory().fails(Op.APPEND_DOCUMENT, code)
    assert (await refusal(append(work, BRAIN, PATH, [message("a")]))).code == code
    assert work.ops == [Op.APPEND_DOCUMENT]


@UNHURRIED
@given(st.lists(st.integers(1, documents.PUT_BYTES), min_size=1, max_size=12))
def test_parts_hold_all_lines_in_order_and_no_more_than_a_platform_takes(sizes: list[int]) -> None:
    lines = [b"x" * size for size in sizes]
    found = list(parts(lines))
    assert [one for part in found for one in part] == lines
    assert all(len(b"".join(part)) < 2 * 1024 * 1024 for part in found)
    assert all(part for part in found)
    for part, following in pairwise(found):
        assert len(b"".join(part)) + len(following[0]) > documents.PUT_BYTES, "as few parts as possible"


def test_a_line_larger_than_a_part_is_sent_alone() -> None:
    big = b"x" * (documents.PUT_BYTES + 1)
    assert list(parts([b"a", big, b"b"])) == [[b"a"], [big], [b"b"]]


@pytest.mark.not_quick
async def test_others_have_their_turn_while_a_long_log_is_read() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    # Nothing of it is worth keeping: no line is read into more than it is, and none is kept.
    work = InMemory(files={PATH: b"\n" * 100_000 + b"[" + b"{}," * 100_000 + b"{}]\n" + message("last")})
    task = asyncio.create_task(other())
    assert await contents(work) == ["last"]
    task.cancel()
    assert turns >= 100
