"""Calls of a language model: what is said arrives, and whatever goes wrong is one clear value."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from contract.platform.llm import client, outcome
from contract.platform.llm.client import Chat, Deadlines
from contract.platform.llm.outcome import Failed, Finished
from contract.platform.models import ModelEndpoint
from tests.models import OWN_KEY, Turn, say, scripted

SECRET = "the vault opens with 4711"
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": SECRET}]
SOON = Deadlines(connect=0.5, first=0.3, idle=0.3, whole=5)


async def heard(chat: Chat, key: str | None = None) -> tuple[str, Finished | Failed]:
    pieces = [piece async for piece in chat.stream("ask", ASKED, key)]
    result = pieces[-1]
    assert not isinstance(result, str)
    return "".join(str(piece) for piece in pieces[:-1]), result


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://a.example", "http://a.example/v1/chat/completions"),
        ("http://a.example/v1", "http://a.example/v1/chat/completions"),
        ("http://a.example/v1/", "http://a.example/v1/chat/completions"),
        ("http://a.example/v1/chat/completions", "http://a.example/v1/chat/completions"),
        ("http://a.example/v1beta/openai", "http://a.example/v1beta/openai/chat/completions"),
        ("http://v1.example/ollama", "http://v1.example/ollama/v1/chat/completions"),
    ],
)
def test_an_address_is_taken_with_its_version_or_without(url: str, address: str) -> None:
    assert ModelEndpoint(url, "m").address("chat/completions") == address


def test_the_key_of_an_endpoint_is_not_shown() -> None:
    assert "hush" not in repr(ModelEndpoint("http://a.example", "m", "hush"))


async def test_what_a_model_says_arrives_piece_by_piece_with_its_tokens() -> None:
    with scripted(say("Nine ", "o'clock.")) as (model, endpoint):
        assert await heard(Chat(endpoint)) == ("Nine o'clock.", Finished(11, 7))
    assert model.keys == [f"Bearer {OWN_KEY}"]
    assert model.asked[0]["stream"] is True
    assert "tools" not in model.asked[0]


async def test_tokens_that_nobody_counted_are_estimated_and_said_to_be() -> None:
    with scripted(say("x" * 400, usage=None)) as (_, endpoint), capture_logs() as logs:
        _, result = await heard(Chat(endpoint))
    assert result == Finished(len("Be brief." + SECRET) // 4, 100, estimated=True)
    assert (logs[-1]["completion_tokens"], logs[-1]["estimated"]) == (100, True)


async def test_a_server_that_does_not_stream_is_understood() -> None:
    with scripted(say("All at once.", whole=True)) as (_, endpoint):
        assert await heard(Chat(endpoint)) == ("All at once.", Finished(11, 7))


async def test_a_server_that_knows_few_options_is_asked_without_them_from_then_on() -> None:
    with scripted(Turn(status=400), say("ok"), say("again")) as (model, endpoint):
        chat = Chat(endpoint)
        assert (await heard(chat))[0] == "ok"
        assert (await heard(chat))[0] == "again"
    assert [("temperature" in asked, "stream_options" in asked) for asked in model.asked] == [
        (True, True),
        (False, False),
        (False, False),
    ]


async def test_a_request_that_is_refused_either_way_changes_no_later_one() -> None:
    with scripted(Turn(status=400), Turn(status=400), say("ok")) as (model, endpoint):
        chat = Chat(endpoint)
        assert isinstance((await heard(chat))[1], Failed)
        assert (await heard(chat))[0] == "ok"
    assert ["max_tokens" in asked for asked in model.asked] == [True, False, True]


async def test_a_model_that_repeats_the_fence_is_stopped() -> None:
    pieces = ["<<< 0123", "4567 piece", *(f" {n}" for n in range(50))]
    with scripted(say(*pieces), say(*pieces)) as (_, endpoint):
        assert await Chat(endpoint).complete("facts", ASKED, fence="01234567") == outcome.REPEATED
        assert await Chat(endpoint).complete("facts", ASKED, fence="01234568") == "".join(pieces)


async def test_a_key_that_is_lent_is_used_once_and_not_kept() -> None:
    with scripted(say("ok")) as (model, endpoint):
        chat = Chat(endpoint)
        await heard(chat, "lent-key")
        await heard(chat)
    assert model.keys == ["Bearer lent-key", f"Bearer {OWN_KEY}"]
    assert "lent-key" not in repr(vars(chat))


REFUSALS = {
    400: ("upstream_error", False),
    401: ("upstream_error", False),
    403: ("upstream_error", False),
    404: ("upstream_error", False),
    429: ("rate_limited", True),
    500: ("upstream_unavailable", True),
    503: ("upstream_unavailable", True),
    504: ("timeout", True),
    302: ("upstream_error", False),
}


@pytest.mark.parametrize("status", REFUSALS)
async def test_a_refusal_is_told_by_a_code_that_quotes_nothing(status: int) -> None:
    with scripted(Turn(status=status)) as (_, endpoint), capture_logs() as logs:
        said, result = await heard(Chat(endpoint))
    assert said == ""
    assert isinstance(result, Failed)
    assert (result.code, result.retryable) == REFUSALS[status]
    assert SECRET not in repr((result, logs))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("999999", 3600.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("soon", None),
        ("-3", None),
    ],
)
async def test_retry_after_is_read_in_both_forms(header: str, seconds: float | None) -> None:
    with scripted(Turn(status=429, headers=(("retry-after", header),))) as (_, endpoint):
        _, result = await heard(Chat(endpoint))
    assert isinstance(result, Failed)
    assert result.retry_after == seconds


WRONG = {
    "cut before a word": (Turn(ends=False), outcome.SAID_NOTHING),
    "cut midway": (say("Nine", ends=False), outcome.CUT_OFF),
    "empty": (say(), outcome.SAID_NOTHING),
    "no JSON": (Turn(raw=(b"data: {nope\n\n",)), outcome.NO_SENSE),
    "a list": (Turn(raw=(b"data: [1]\n\n",)), outcome.NO_SENSE),
    "an error in the stream": (Turn(raw=(b'data: {"error": {"message": "no"}}\n\n',)), outcome.NO_SENSE),
    "a page": (Turn(raw=(b"<html>Hello</html>",), ends=False), outcome.SAID_NOTHING),
    "content that is no text": (
        Turn(raw=(b'data: {"choices": [{"delta": {"content": 7}}]}\n\n',)),
        outcome.SAID_NOTHING,
    ),
    "choices that are none": (Turn(raw=(b'data: {"choices": "x"}\n\n',)), outcome.SAID_NOTHING),
}


@pytest.mark.parametrize("case", WRONG)
async def test_what_is_no_whole_answer_is_one_clear_failure(case: str) -> None:
    turn, failure = WRONG[case]
    with scripted(turn) as (_, endpoint):
        assert (await heard(Chat(endpoint)))[1] == failure


@pytest.mark.parametrize(
    "raw",
    [pytest.param((b"data: " + b"x" * 2000,), id="line"), pytest.param((b": " + b"x" * 900 + b"\n",) * 6, id="stream")],
)
async def test_what_is_too_much_is_not_read_to_its_end(raw: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LINE_BYTES", 1000)
    monkeypatch.setattr(client, "STREAM_BYTES", 4000)
    with scripted(Turn(raw=raw, hangs=True)) as (_, endpoint):
        assert (await heard(Chat(endpoint)))[1] == outcome.TOO_LONG


async def test_an_answer_that_reached_the_limit_says_so() -> None:
    with scripted(say("Half of", finish="length")) as (_, endpoint):
        assert await heard(Chat(endpoint)) == ("Half of", Finished(11, 7, is_cut=True))


@pytest.mark.not_quick
@pytest.mark.parametrize(
    ("turn", "said"),
    [
        pytest.param(Turn(hangs=True), "", id="no first word"),
        pytest.param(say("Nine", hangs=True), "Nine", id="no next word"),
        pytest.param(Turn(raw=(b": still here\n\n",), hangs=True), "", id="comments alone"),
    ],
)
async def test_a_silent_model_is_left_in_time(turn: Turn, said: str) -> None:
    with scripted(turn) as (_, endpoint):
        assert await heard(Chat(endpoint, SOON)) == (said, outcome.TIMED_OUT)


async def test_the_whole_takes_no_longer_than_it_may() -> None:
    with scripted(say("Nine", hangs=True)) as (_, endpoint):
        assert (await heard(Chat(endpoint, replace(SOON, idle=60, whole=0.3))))[1] == outcome.TIMED_OUT


async def test_a_model_that_is_not_there_is_said_to_be_unreachable(unused_tcp_port: int) -> None:
    assert await heard(Chat(ModelEndpoint(f"http://127.0.0.1:{unused_tcp_port}", "m"))) == ("", outcome.UNREACHABLE)


async def test_the_log_is_told_what_a_call_took_and_nothing_of_what_was_said() -> None:
    with scripted(say("It is 4711.")) as (_, endpoint), capture_logs() as logs:
        await heard(Chat(endpoint), "lent-key")
    (line,) = logs
    assert line.pop("seconds") >= 0
    assert line == {
        "event": "model_call",
        "log_level": "info",
        "task": "ask",
        "model": "scripted",
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "estimated": False,
        "outcome": "ok",
    }


async def test_whoever_leaves_ends_the_call() -> None:
    with scripted(say("Nine", hangs=True)) as (model, endpoint):
        async with aclosing(Chat(endpoint).stream("ask", ASKED)) as pieces:
            with capture_logs() as logs:
                assert await anext(pieces) == "Nine"
                await pieces.aclose()
        assert logs[-1]["outcome"] == "stopped"
        assert await asyncio.to_thread(model.is_left.wait, 30)


async def test_how_the_last_call_with_our_own_key_ended_is_known() -> None:
    with scripted(say("ok"), Turn(status=401), Turn(status=429)) as (_, endpoint):
        chat = Chat(endpoint)
        await heard(chat)
        ended = [chat.last]
        for key in ("lent-key", None):
            await heard(chat, key)
            ended.append(chat.last)
    assert ended == [Finished(11, 7), Finished(11, 7), outcome.of_status(429, None)]
