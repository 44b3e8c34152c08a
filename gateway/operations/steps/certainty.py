"""Sends writes until their outcome is certain: sends, looks if no clear answer comes, sends again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gateway.operations.errors import Absent, Doubt, GatewayError, Unsure

T = TypeVar("T")
Send = Callable[[], Awaitable[T]]
Look = Callable[[], Awaitable[T | None]]
"""What is stored; None when it is certainly not. Raises `conflict` when something else is there."""

# A platform may still be busy with a request whose connection broke. This is how long we wait for its result.
PAUSES: Final = (0.0, 0.2, 0.5, 1.0)
# How often a write whose repeat is the same write is sent, while its outcome is not known.
_SENT: Final = 4


def is_doubt(error: GatewayError) -> bool:
    return error.code == "outcome_unknown"


def doubt_of(error: GatewayError) -> Doubt:
    return error.doubt if isinstance(error, Unsure) else Doubt.LOST


def failure_of(error: GatewayError) -> GatewayError:
    """The error of a write that was in doubt, now that it is certain that nothing was stored."""
    if not is_doubt(error):
        return error
    failure = error.failure if isinstance(error, Unsure) else GatewayError("upstream_unavailable")
    failure.message = f"{failure.message} Nothing was stored."
    return failure


def repeatable(error: GatewayError) -> GatewayError:
    """The error of a write whose outcome is not known. It may be tried again if a repeat is the same write."""
    if is_doubt(error) and not error.retryable:
        error.retryable = True
        error.message = f"{error.message} Send the same call again: what is stored is not stored twice."
    return error


async def make_certain(send: Send[T], look: Look[T]) -> T:
    """The outcome of a write whose repeat is the same write.

    Raises:
        GatewayError: it is not stored; or `outcome_unknown`, which may be tried again.
    """
    unknown: GatewayError | None = None
    late = False
    for sent in range(_SENT):
        try:
            return await send()
        except GatewayError as error:
            if unknown is None and not is_doubt(error):
                raise
            last = error
        unknown = unknown or repeatable(last)
        late = late or doubt_of(last) is Doubt.LATE
        # The first look need not wait for a late request: the write can be sent again.
        if (found := await (settle if sent else look_again)(look, unknown)) is not None:
            return found
        if not late and (sent or doubt_of(last) is Doubt.ANSWERED):
            raise failure_of(last)
    assert unknown is not None
    raise unknown


async def make_certain_once(send: Send[T], look: Look[T], *, late_is_harmless: bool = False) -> T:
    """The outcome of a write that must not be made twice: sent again only when it never arrived.

    Raises:
        GatewayError: it is not stored; or `outcome_unknown`, which may be tried again if the one that is late does no
            harm beside its repeat.
    """
    last: GatewayError | None = None
    for _ in range(2):
        try:
            return await send()
        except GatewayError as error:
            if not is_doubt(error):
                raise
            last = error
        unknown = last if doubt_of(last) is Doubt.LATE and not late_is_harmless else repeatable(last)
        if (found := await settle(look, unknown)) is not None:
            return found
        if doubt_of(last) is not Doubt.LOST:
            break
    assert last is not None
    raise last if doubt_of(last) is Doubt.LATE else failure_of(last)


async def make_certain_by_asking(send: Send[T], glimpse: Look[T] | None = None) -> T:
    """The outcome of a write that the platform names itself and recognises: its answer to a repeat tells the outcome.

    A look at the place where it may be stored can save the repeat. That it is not there proves nothing.

    Raises:
        GatewayError: it is not stored; or `outcome_unknown`, which may be tried again.
    """
    doubt: GatewayError | None = None
    for _ in range(_SENT):
        try:
            return await send()
        except GatewayError as error:
            if not is_doubt(error) and doubt is None:
                raise
            # Also when this request certainly failed, because the one before it may have arrived.
            doubt = error if is_doubt(error) else Unsure(error, Doubt.LATE)
        if glimpse is not None and (found := await _glimpse(glimpse)) is not None:
            return found
    assert doubt is not None
    raise repeatable(doubt)


async def _glimpse(glimpse: Look[T]) -> T | None:
    try:
        return await glimpse()
    except (Absent, GatewayError):
        return None


async def look_again(look: Look[T], unknown: GatewayError) -> T | None:
    """What the first look finds that does not fail. If all looks fail, nothing is known."""
    return await _looks(look, unknown, until_found=False)


async def settle(look: Look[T], unknown: GatewayError) -> T | None:
    """What the looks find, the last of them after a while. If the last one fails, nothing is known."""
    return await _looks(look, unknown, until_found=True)


async def _looks(look: Look[T], unknown: GatewayError, *, until_found: bool) -> T | None:
    failed: GatewayError | None = None
    for pause in PAUSES:
        await asyncio.sleep(pause)
        try:
            found, failed = await look(), None
        except Absent:
            raise unknown from None
        except GatewayError as error:
            if error.code == "conflict":
                raise
            is_silent_again = error.code == "timeout" and failed is not None and failed.code == "timeout"
            if is_silent_again or not (error.retryable or error.code == "upstream_error"):
                raise unknown from error
            failed = error
            continue
        if found is not None or not until_found:
            return found
    if failed is not None:
        raise unknown from failed
    return None
