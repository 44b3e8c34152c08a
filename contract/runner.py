"""Runs cases against a target, several at once. It prints nothing: the caller is told what happens."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar

from contract.call import CallCase
from contract.case import Case
from contract.http_player import HttpPlayer
from contract.mcp_player import McpPlayer
from contract.mcp_target import McpTarget
from contract.outcome import Blocked, Cause, Failed, Failure, Judged, NotSupported, Result, Run, Told, Unchecked
from contract.targets import HttpTarget
from contract.words import cut

AT_ONCE: Final = 8
Kind = TypeVar("Kind", bound=Judged, contravariant=True)


class Player(Protocol[Kind]):
    """Knows how to send the steps of one kind of case."""

    @property
    def told(self) -> str: ...
    async def prepare(self, cases: Sequence[Any]) -> None: ...
    def applies(self, case: Kind) -> str | None: ...
    def lacks(self, case: Kind) -> str | None: ...
    def offers(self, case: Kind) -> str | None: ...
    async def play(self, case: Kind) -> None: ...


async def run(
    target: HttpTarget, cases: Sequence[Case], *, at_once: int = AT_ONCE, tell: Told | None = None
) -> Run[HttpTarget]:
    """Run every case of the platform's dialect. Afterwards its brains are deleted, if the platform allows it.

    Raises: Unchecked.
    """
    done = Run(target)
    try:
        await _play(HttpPlayer(target), cases, at_once, tell, done)
    finally:
        await target.clean_up()
    return done


async def run_calls(
    target: McpTarget, cases: Sequence[CallCase], *, at_once: int = AT_ONCE, tell: Told | None = None
) -> Run[McpTarget]:
    """Run every case of the server's vocabulary. No tool deletes a brain, so those of the run stay.

    Raises: Unchecked.
    """
    done = Run(target)
    try:
        await _play(McpPlayer(target), cases, at_once, tell, done)
    finally:
        await target.session.close()
    return done


async def _play(player: Player[Kind], cases: Sequence[Kind], at_once: int, tell: Told | None, done: Run[Any]) -> None:
    began, done.started = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    await player.prepare(cases)
    chosen = [case for case in cases if player.applies(case) is None]
    done.left_out = Counter(why for case in cases if (why := player.applies(case)) is not None)
    if not chosen:
        raise Unchecked(f"{player.told}, and none of the {len(cases)} cases that were chosen is about that")
    room = asyncio.Semaphore(at_once)

    async def one(case: Kind) -> None:
        async with room:
            start = time.monotonic()
            result = await _result(player, case)
            done.results.append(replace(result, seconds=time.monotonic() - start))
        if tell is not None:
            tell(done.results[-1], len(done.results), len(chosen))

    await asyncio.gather(*(one(case) for case in chosen))
    done.results.sort(key=lambda result: result.case.id)
    done.seconds = time.monotonic() - began


async def _result(player: Player[Kind], case: Kind) -> Result:
    if (why := player.offers(case)) is not None:
        return Result(case, "not supported", why=why)
    if (why := player.lacks(case)) is not None:
        return Result(case, "not tested", why=why, cause=Cause(why, False))
    try:
        await player.play(case)
    except Failed as error:
        return Result(case, "failed", error.failure)
    except NotSupported as error:
        return Result(case, "not supported", why=str(error))
    except Blocked as error:
        return Result(case, "not tested", why=error.cause.sentence, cause=error.cause)
    except Exception as error:  # noqa: BLE001  # one case must not end the run, whatever came back
        seen = f"the harness itself failed: {type(error).__name__}: {cut(str(error))}"
        return Result(case, "failed", Failure("the case", "an outcome", seen, "the harness"))
    return Result(case, "passed")
