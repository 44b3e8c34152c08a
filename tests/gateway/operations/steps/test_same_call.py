"""A call to a session that comes again is the same call: it goes on where it was cut, and nothing is said twice."""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.operations import names, notes
from gateway.operations.errors import Absent, Doubt, GatewayError
from gateway.operations.steps.same_call import SameCall, beginning, message_key, said_since
from gateway.operations.table import JsonObject, Op
from tests.gateway.operations.steps.inmemory import BRAIN, Fault, lost, refusal, unsure
from tests.gateway.operations.steps.talking import PATH, Logging, Talking, Tearing, Wall, World, call, until_said
from tests.tiers import by_tier

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture
def wall() -> Iterator[Wall]:
    with mock.patch.object(notes, "now", Wall()) as patched:
        yield patched


WORLDS = pytest.mark.parametrize("world", [Talking, Logging])


@WORLDS
async def test_the_same_call_again_says_nothing_new(world: type[World], wall: Wall) -> None:
    work = world()
    first = await work.say("a", "b")
    wall.pass_by(9.9)
    again = await work.say("a", "b")
    assert again["reused"] is True
    assert [record["id"] for record in again["messages"]] == [record["id"] for record in first["messages"]]
    assert await work.contents() == ["a", "b"]


@WORLDS
async def test_the_same_words_ten_minutes_later_are_said_again(world: type[World], wall: Wall) -> None:
    work = world()
    await work.say("a", "b")
    wall.pass_by(10)
    assert "reused" not in await work.say("a", "b")
    assert await work.contents() == ["a", "b", "a", "b"]


@WORLDS
async def test_the_same_words_after_others_are_said_again(world: type[World], wall: Wall) -> None:
    work = world()
    for said in ("yes", "no", "yes", "no"):
        assert "reused" not in await work.say(said)
    assert await work.contents() == ["yes", "no", "yes", "no"]


@WORLDS
async def test_a_call_of_equal_messages_is_said_in_full(world: type[World], wall: Wall) -> None:
    work = world()
    for _ in range(2):
        assert len((await work.say("a", "a", "a"))["messages"]) == 3
    assert await work.contents() == ["a", "a", "a"]


@WORLDS
@pytest.mark.parametrize("stored", [1, 2])
async def test_a_call_that_was_cut_goes_on_where_it_was_cut(world: type[World], stored: int, wall: Wall) -> None:
    work = world()
    await work.say("before")
    await work.say(*"abc"[:stored]) if world is Talking else None
    if isinstance(work, Logging):
        await work.say(*"abc")
        lines = work.files[PATH].rstrip(b"\n").split(b"\n")
        work.files[PATH] = b"\n".join(lines[: len(lines) - 3 + stored])
    wall.pass_by(9)
    answer = await work.say(*"abc")
    assert [record["content"] for record in answer["messages"]] == ["a", "b", "c"]
    assert "reused" not in answer
    assert await work.contents() == ["before", "a", "b", "c"]


@WORLDS
async def test_what_another_said_meanwhile_makes_it_another_call(world: type[World], wall: Wall) -> None:
    work = world()
    await work.say("a", "b")
    await work.say("meanwhile")
    await work.say("a", "b")
    assert await work.contents() == ["a", "b", "meanwhile", "a", "b"]


# On a platform with sessions.


async def test_the_last_messages_are_asked_for_before_anything_is_said() -> None:
    work = Talking()
    await work.say("a", "b", "c")
    assert work.ops == [Op.LIST_MESSAGES, *[Op.APPEND_MESSAGE] * 3]
    assert work.sent[0][1] == {"brain": BRAIN, "session_id": "s", "limit": 3}


def told(*contents: str, at: str) -> list[JsonObject]:
    return [{"id": f"m{n}", "role": "user", "content": c, "created_at": at} for n, c in enumerate(contents)]


@pytest.mark.parametrize(
    ("tail", "messages", "there"),
    [
        ("", "ab", ""),
        ("ab", "ab", "ab"),
        ("xab", "ab", "ab"),
        ("xa", "ab", "a"),
        ("xy", "ab", ""),
        ("abx", "ab", ""),
        ("ba", "ab", "a"),
        ("aa", "aab", "aa"),
        ("aaa", "aab", "aa"),
        ("b", "ab", ""),
        ("abab", "abc", "ab"),
    ],
)
def test_what_was_said_is_the_longest_beginning_that_ends_the_session(
    tail: str, messages: str, there: str, wall: Wall
) -> None:
    before = told(*tail, at=wall())
    found = beginning(before, call(*messages)["messages"])
    assert found == (before[-len(there) :] if there else [])


@pytest.mark.parametrize("other", [{"role": "assistant"}, {"content": "A"}])
def test_another_role_or_word_is_another_message(other: JsonObject, wall: Wall) -> None:
    (record,) = told("a", at=wall())
    assert beginning([{**record, **other}], call("a")["messages"]) == []


@pytest.mark.parametrize("at", [None, "", "yesterday", 3, "2026-11-16T11:50:00+00:00"])
def test_what_was_said_at_no_time_or_long_ago_is_no_beginning(at: Any, wall: Wall) -> None:
    assert beginning(told("a", at=at), call("a")["messages"]) == []


async def test_a_tail_that_comes_newest_first_is_turned_round(wall: Wall) -> None:
    work = Talking()
    for said in ("a", "b"):
        await work.say(said)
        wall.pass_by(1)
    work.answers[Op.LIST_MESSAGES] = lambda _args: {"items": work.said[::-1]}
    assert (await work.say("a", "b"))["reused"] is True


def test_a_message_counts_as_said_only_after_the_last_that_is_known() -> None:
    tail = told("a", "b", "a", at="")
    (message,) = call("a")["messages"]
    assert said_since(tail, tail[1], message) == tail[2]
    assert said_since(tail, tail[2], message) is None
    assert said_since(tail, None, message) == tail[0]
    assert said_since([], None, message) is None


@pytest.mark.parametrize("last", [{"id": "gone"}, {"id": None}, {}])
def test_where_the_last_that_is_known_cannot_be_found_nobody_knows(last: JsonObject) -> None:
    (message,) = call("a")["messages"]
    with pytest.raises(GatewayError, match="upstream_error"):
        said_since([*told("a", at=""), {"role": "user", "content": "b"}], last, message)


def keys_of(work: Talking) -> list[str]:
    return [args["metadata"]["idempotency_key"] for op, args in work.sent if op is Op.APPEND_MESSAGE]


@pytest.mark.parametrize("key", [None, "k"])
async def test_the_messages_of_a_call_have_the_same_keys_whichever_gateway_sends_them(key: str | None) -> None:
    ours, theirs = Talking(), Talking()
    for work in (ours, theirs):
        await work.say("before")
        await work.say("a", "a", key=key)
    assert keys_of(ours) == keys_of(theirs)
    assert len(set(keys_of(ours))) == 3


@pytest.mark.parametrize("key", [None, "k"])
async def test_the_rest_of_a_call_that_broke_off_has_the_keys_it_had(key: str | None) -> None:
    whole, broken = Talking(), Talking().fails(Op.APPEND_MESSAGE, Fault(GatewayError("timeout"), passed_over=2))
    await whole.say("a", "b", "c", key=key)
    await refusal(broken.say("a", "b", "c", key=key))
    await broken.say("a", "b", "c", key=key)
    assert [*dict.fromkeys(keys_of(broken))] == keys_of(whole)


async def test_words_that_are_said_again_later_have_another_key(wall: Wall) -> None:
    work = Talking()
    await work.say("yes")
    wall.pass_by(10)
    await work.say("yes")
    for n in range(3):
        wall.pass_by(10)
        await work.say("no", "yes", key=str(n))
    assert len(set(keys_of(work))) == 8


def test_a_message_whose_place_nobody_knows_has_no_key() -> None:
    (message,) = call("a")["messages"]
    for last in (None, {}, {"id": None}, {"id": ""}):
        assert message_key(message, None, 0, last, is_first=False) is None
        assert message_key(message, "k", 0, last, is_first=False) is not None
    assert message_key(message, None, 0, None, is_first=True) is not None


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("done", [True, False])
async def test_a_message_whose_answer_was_lost_is_said_once(at: int, done: bool) -> None:
    work = Talking()
    await work.say("before")
    work.fails(Op.APPEND_MESSAGE, Fault(unsure(), done=done, passed_over=at))
    answer = await work.say("a", "b", "c")
    assert [record["id"] for record in answer["messages"]] == ["m1", "m2", "m3"]
    assert await work.contents() == ["before", "a", "b", "c"]


@pytest.mark.parametrize(
    ("doubt", "expected"),
    [(Doubt.LATE, ("outcome_unknown", False)), (Doubt.ANSWERED, ("upstream_error", False))],
)
async def test_a_message_that_may_be_under_way_is_not_said_again(doubt: Doubt, expected: tuple[str, bool]) -> None:
    work = Talking().fails(Op.APPEND_MESSAGE, Fault(unsure(doubt), passed_over=1))
    error = await refusal(work.say("a", "b", "c"))
    assert (error.code, error.retryable) == expected
    assert error.extra == {"appended": 1, "remaining": 2}
    assert work.ops.count(Op.APPEND_MESSAGE) == 2


@pytest.mark.parametrize("fault", ["upstream_unavailable", "timeout", "rate_limited"])
async def test_a_session_that_cannot_be_asked_is_told_nothing(fault: str) -> None:
    work = Talking().fails(Op.LIST_MESSAGES, fault)
    error = await refusal(work.say("a", "b"))
    assert (error.code, error.extra) == (fault, {"appended": 0, "remaining": 2})
    assert work.said == []


@pytest.mark.parametrize("tells", [Fault(Absent()), "validation_error"], ids=repr)
async def test_where_the_platform_does_not_tell_what_was_said_nothing_is_said_twice(tells: Fault | str) -> None:
    """There is no look: what is not known stays so, and may not be tried again."""
    for done in (True, False):
        work = Talking().fails(Op.LIST_MESSAGES, tells)
        work.fails(Op.APPEND_MESSAGE, Fault(unsure(), done=done, passed_over=1))
        error = await refusal(work.say("a", "b", "c"))
        assert (error.code, error.retryable) == ("outcome_unknown", False)
        assert error.extra == {"appended": 1, "remaining": 2}
        assert work.ops.count(Op.APPEND_MESSAGE) == 2


async def test_a_platform_that_fails_to_tell_at_this_moment_is_told_nothing_and_may_be_asked_again() -> None:
    work = Talking()
    await work.say("a")
    work.fails(Op.LIST_MESSAGES, "upstream_error")
    error = await refusal(work.say("a"))
    assert (error.code, error.retryable) == ("upstream_error", True)
    assert (await work.say("a"))["reused"] is True
    assert await work.contents() == ["a"]


async def test_a_session_nobody_has_written_to_may_be_said_not_to_be_there() -> None:
    work = Talking().fails(Op.LIST_MESSAGES, "not_found")
    await work.say("a")
    assert await work.contents() == ["a"]


# With a key, in a log.


async def test_with_the_same_key_a_call_is_the_same_whenever_it_comes(wall: Wall) -> None:
    work = Logging()
    first = await work.say("a", "b", key="k")
    wall.pass_by(600)
    await work.say("between")
    assert await work.say("a", "b", key="k") == {**first, "reused": True}
    assert await work.contents() == ["a", "b", "between"]


async def test_with_another_key_the_same_words_are_another_call() -> None:
    work = Logging()
    ids = [(await work.say("ok", key=key))["messages"][0]["id"] for key in ("1", "2", "3")]
    assert await work.contents() == ["ok", "ok", "ok"]
    assert len(set(ids)) == 3


async def test_the_key_names_the_messages_wherever_they_are_said() -> None:
    said = [(await Logging().say("a", key="k"))["messages"][0]["id"] for _ in range(2)]
    assert said[0] == said[1]


async def test_a_repetition_after_a_call_with_a_key_is_kept(wall: Wall) -> None:
    """Those are other words in between, whoever named them."""
    work = Logging()
    await work.say("yes")
    await work.say("no", key="k")
    assert "reused" not in await work.say("yes")
    assert await work.contents() == ["yes", "no", "yes"]


@pytest.mark.parametrize("key", [None, "k"])
async def test_lines_that_two_gateways_added_at_once_are_read_once(key: str | None, wall: Wall) -> None:
    ours, theirs = Logging(), Logging()
    await ours.say("a", "b", key=key)
    wall.pass_by(1)
    await theirs.say("a", "b", key=key)
    ours.files[PATH] += theirs.files[PATH]
    assert await ours.contents() == ["a", "b"]
    lines = ours.files[PATH].split(b"\n")
    ours.files[PATH] = b"\n".join(sorted(lines, key=lambda line: bytes(line)[-9:]))
    assert sorted(await ours.contents()) == ["a", "b"], "whichever way they are mixed"


async def test_another_actor_is_another_call() -> None:
    work = Logging()
    await work.say("a", actor="ada")
    await work.say("a", actor="bob")
    assert await work.contents() == ["a", "a"]


# The law: whatever is cut, and whenever the same call comes again, each call is in the session once and in order.


CALLS = st.lists(
    st.tuples(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
        st.sampled_from([None, None, "1", "2"]),
        st.lists(st.tuples(st.integers(0, 100), st.sampled_from([Doubt.LOST, Doubt.LATE]), st.booleans()), max_size=3),
        st.integers(0, 2),
        st.sampled_from([0, 11]),
    ),
    max_size=5,
)


@settings(UNHURRIED, max_examples=by_tier(50, 300, 3000))
@given(CALLS)
async def test_whatever_is_cut_a_log_holds_each_call_once_and_in_order(calls: Any) -> None:
    with mock.patch.object(notes, "now", Wall()) as wall:
        work, expected, keyed, before = Tearing(), list[str](), set[tuple[Any, ...]](), None
        since = 0
        for contents, key, wounds, again, minutes in calls:
            wall.pass_by(minutes)
            since += minutes
            work.wounds = list(wounds)
            await until_said(work, len(wounds) + 1 + again, *contents, wall=wall, key=key)
            work.arrive()
            this = (key, *contents)
            if this not in keyed and (key is not None or this != before or since):
                expected += contents
                before, since = this, 0
            keyed |= {this} if key is not None else set()
        assert await work.contents() == expected


@settings(UNHURRIED, max_examples=by_tier(50, 200, 2000))
@given(
    st.lists(
        st.tuples(
            st.integers(1, 4),
            st.lists(
                st.tuples(st.integers(0, 3), st.sampled_from([Doubt.LOST, Doubt.LATE]), st.booleans()), max_size=3
            ),
            st.integers(0, 2),
        ),
        max_size=5,
    )
)
async def test_whatever_is_cut_a_session_holds_each_call_once_and_in_order(calls: Any) -> None:
    """Where the platform keeps it, words tell calls apart: here each has its own."""
    with mock.patch.object(notes, "now", Wall()) as wall:
        work, expected = Talking(), list[str]()
        for number, (length, faults, again) in enumerate(calls):
            contents = [f"{number}.{n}" for n in range(length)]
            for passed_over, doubt, done in [*faults, *[(99, Doubt.LOST, True)] * (again + 1)]:
                work.fails(Op.APPEND_MESSAGE, Fault(unsure(doubt), done, passed_over))
                await until_said(work, 1, *contents, wall=wall, insists=True)
            expected += contents
        assert await work.contents() == expected


async def test_what_arrives_after_another_call_is_not_taken_for_a_repetition_of_it() -> None:
    work = Logging().fails(Op.APPEND_DOCUMENT, lost(done=False, doubt=Doubt.LATE))
    await refusal(work.say("a", "b"))
    await work.say("a")
    await work.say("a", "b")
    assert await work.contents() == ["a", "a", "b"]


def test_a_call_is_digested_once_however_many_messages_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its text goes into the digest: once for each message would be quadratic."""
    digested: list[object] = []
    digest = names.digest

    def counting(value: object) -> str:
        digested.append(value)
        return digest(value)

    monkeypatch.setattr(names, "digest", counting)
    messages = [{"role": "user", "content": str(n)} for n in range(20)]
    SameCall("s", messages, None, None).entries()
    assert sum(messages in value for value in digested if isinstance(value, list)) == 1
