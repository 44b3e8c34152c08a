"""When a request is sent again."""

import httpx
import pytest

from gateway.errors import GatewayError
from gateway.operations import READS, Op
from gateway.upstream.retry import retrying

NOT_SENT = [httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout]
LOST = [httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError]
ANSWERS = [
    httpx.ReadTimeout,
    httpx.WriteTimeout,
    httpx.DecodingError,
    httpx.LocalProtocolError,
    httpx.UnsupportedProtocol,
]
WRITES = sorted(set(Op) - READS)


async def attempts(op: Op, *failures: Exception) -> tuple[int, Exception | None]:
    """How often a request is sent that fails like this, time after time, and what comes of it in the end."""
    waits: list[float] = []

    async def no_wait(seconds: float) -> None:
        waits.append(seconds)

    sent = 0
    try:
        async for attempt in retrying(op).copy(sleep=no_wait):
            with attempt:
                sent += 1
                if sent <= len(failures):
                    raise failures[sent - 1]
    except (httpx.HTTPError, GatewayError) as error:
        return sent, error
    assert len(waits) == sent - 1
    assert all(0 <= seconds <= 2 for seconds in waits)
    return sent, None


@pytest.mark.parametrize("failure", NOT_SENT)
@pytest.mark.parametrize("op", sorted(Op))
async def test_what_never_left_is_sent_again_whatever_it_is(op: Op, failure: type[httpx.HTTPError]) -> None:
    assert await attempts(op, failure("x")) == (2, None)


@pytest.mark.parametrize("failure", LOST)
@pytest.mark.parametrize("op", sorted(READS))
async def test_a_read_whose_answer_was_lost_is_asked_again(op: Op, failure: type[httpx.HTTPError]) -> None:
    assert await attempts(op, failure("x")) == (2, None)


@pytest.mark.parametrize("failure", [*LOST, *ANSWERS])
@pytest.mark.parametrize("op", WRITES)
async def test_a_write_that_may_have_arrived_is_never_sent_again(op: Op, failure: type[httpx.HTTPError]) -> None:
    sent, error = await attempts(op, failure("x"))
    assert (sent, type(error)) == (1, failure)


@pytest.mark.parametrize("failure", ANSWERS)
async def test_a_read_that_ran_out_of_time_or_made_no_sense_is_not_repeated(failure: type[httpx.HTTPError]) -> None:
    sent, error = await attempts(Op.SEARCH, failure("x"))
    assert (sent, type(error)) == (1, failure)


async def test_a_refusal_is_not_repeated() -> None:
    sent, error = await attempts(Op.SEARCH, GatewayError("rate_limited"))
    assert (sent, isinstance(error, GatewayError)) == (1, True)


async def test_three_attempts_are_all_and_the_last_failure_is_told() -> None:
    failures = [httpx.ConnectError("first"), httpx.ReadError("second"), httpx.ConnectTimeout("third")]
    sent, error = await attempts(Op.SEARCH, *failures)
    assert (sent, error) == (3, failures[2])


async def test_a_write_that_left_on_its_second_attempt_is_not_sent_a_third_time() -> None:
    sent, error = await attempts(Op.CREATE_DOCUMENT, httpx.ConnectError("x"), httpx.ReadError("x"))
    assert (sent, type(error)) == (2, httpx.ReadError)
