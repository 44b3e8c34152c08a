"""Runs cases against a target, several at once. It prints nothing: what happens is told to whoever asked for it."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from contract.call import CallCase
from contract.case import Case
from contract.http_player import HttpPlayer
from contract.mcp_player import McpPlayer
from contract.mcp_target import McpTarget
from contract.outcome import Failed, Failure, Judged, NoBrain, NotSupported, Result, Run, Told, Unchecked
from contract.targets import HttpTarget
from contract.words import cut

AT_ONCE: Final = 8
Kind = TypeVar("Kind", bound=Judged, contravariant=True)


class Player(Protocol[Kind]):
    """Knows how to send the steps of one kind of case."""

    @property
    def told(self) -> str: ...
    async def prepare(self) -> None: ...
    def applies(self, case: Kind) -> bool: ...
    def lacks(self, case: Kind) -> str | None: ...
    async def play(self, case: Kind) -> None: ...


async def run(
    target: HttpTarget, cases: Sequence[Case], *, at_once: int = AT_ONCE, tell: Told | None = None
) -> Run[HttpTarget]:
    """Every case that the platform's dialect has; its brains are gone afterwards where it lets them go.

    Raises: Unchecked.
    """
    try:
        results, left_out = await _played(HttpPlayer(target), cases, at_once, tell)
    finally:
        await target.clean_up()
    return Run(target, results, left_out)


async def run_calls(
    target: McpTarget, cases: Sequence[CallCase], *, at_once: int = AT_ONCE, tell: Told | None = None
) -> Run[McpTarget]:
    """Every case of the vocabulary that the server has. No tool deletes a brain: the one of the run is left.

    Raises: Unchecked.
    """
    try:
        results, left_out = await _played(McpPlayer(target), cases, at_once, tell)
    finally:
        await target.session.close()
    return Run(target, results, left_out)


async def _played(
    player: Player[Kind], cases: Sequence[Kind], at_once: int, tell: Told | None
) -> tuple[list[Result], int]:
    await player.prepare()
    chosen = [case for case in cases if player.applies(case)]
    if not chosen:
        raise Unchecked(f"{player.told}, and none of the {len(cases)} cases that were chosen is about that")
    results: list[Result] = []
    room = asyncio.Semaphore(at_once)

    async def one(case: Kind) -> None:
        async with room:
            results.append(await _result(player, case))
        if tell is not None:
            tell(results[-1], len(results), len(chosen))

    await asyncio.gather(*(one(case) for case in chosen))
    results.sort(key=lambda result: result.case.id)
    return results, len(cases) - len(chosen)


async def _result(player: Player[Kind], case: Kind) -> Result:
    if (why := player.lacks(case)) is not None:
        return Result(case, "not supported", why=why)
    try:
        await player.play(case)
    except Failed as error:
        return Result(case, "failed", error.failure)
    except NotSupported as error:
        return Result(case, "not supported", why=str(error))
    except NoBrain as error:
        return Result(case, "failed", Failure("a brain for the case", "a brain", str(error)))
    except Exception as error:  # noqa: BLE001  # one case must not end the run, whatever came back
        seen = f"the harness itself failed: {type(error).__name__}: {cut(str(error))}"
        return Result(case, "failed", Failure("the case", "an outcome", seen))
    return Result(case, "passed")
