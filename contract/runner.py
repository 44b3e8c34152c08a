"""Runs cases against a target, several at once. It prints nothing: what happens is told to whoever asked for it."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import ValidationError

from contract import judge
from contract.case import Case, Expect, Listening, ListeningStep, ParallelStep, Request, Step
from contract.exchange import NO_JSON, Answer, NoAnswer, told, with_names
from contract.fill import Unknown, filled, found
from contract.targets import HttpTarget, NoBrain
from contract.words import cut, shown

AT_ONCE: Final = 8
# After so many requests in a row that nobody answered, the rest of the cases is not waited for.
GIVEN_UP: Final = 6
# A slug has 64 characters, and some of them say that it is ours and of which run.
NAME_LIMIT: Final = 46

Outcome = Literal["passed", "failed", "not supported"]


@dataclass(frozen=True)
class Failure:
    """What was asked, what should have come, and what came."""

    request: str
    expected: str
    seen: str


@dataclass(frozen=True)
class Result:
    case: Case
    outcome: Outcome
    failure: Failure | None = None
    why: str = ""


@dataclass
class Run:
    """The results of a run, in the order of their ids."""

    target: HttpTarget
    results: list[Result] = field(default_factory=list)
    left_out: int = 0


class _Failed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.expected)
        self.failure = failure


class _NotSupported(Exception):
    pass


Told = Callable[[Result, int, int], None]


async def run(target: HttpTarget, cases: Sequence[Case], *, at_once: int = AT_ONCE, tell: Told | None = None) -> Run:
    """Every case that the target's dialect has; the target's brains are gone afterwards where it lets them go."""
    runner = _Runner(target)
    await runner.prepare()
    chosen = [case for case in cases if case.speaks(target.dialect)]
    results: list[Result] = []
    room = asyncio.Semaphore(at_once)

    async def one(case: Case) -> None:
        async with room:
            results.append(await runner.result(case))
        if tell is not None:
            tell(results[-1], len(results), len(chosen))

    try:
        await asyncio.gather(*(one(case) for case in chosen))
    finally:
        await target.clean_up()
    results.sort(key=lambda result: result.case.id)
    return Run(target, results, left_out=len(cases) - len(chosen))


class _Runner:
    def __init__(self, target: HttpTarget) -> None:
        self._target = target
        self._no_brain: NoBrain | None = None
        self._shared = ""
        self._unknown_route: Answer | None = None
        self._silent = 0

    async def prepare(self) -> None:
        """Whatever is wrong with the target here becomes the failure of the cases that need it."""
        try:
            await self._target.recognise()
            self._shared = await self._target.make_brain("shared")
        except NoBrain as error:
            self._no_brain = error
        try:
            nowhere = Request(
                method="POST", path=f"/v1/brains/{self._shared or 'none'}/no-such-route-{self._target.run}"
            )
            self._unknown_route = await self._target.send(nowhere)
        except NoAnswer:
            self._silent += 1

    async def result(self, case: Case) -> Result:
        if case.needs == "token" and self._target.token is None:
            return Result(case, "not supported", why="needs a token; none was given")
        if case.needs == "page" and self._target.page is None:
            return Result(case, "not supported", why="needs a page that the platform can fetch; none was given")
        try:
            await self._steps(case)
        except _Failed as error:
            return Result(case, "failed", error.failure)
        except _NotSupported as error:
            return Result(case, "not supported", why=str(error))
        except NoBrain as error:
            return Result(case, "failed", Failure("a brain for the case", "a brain", str(error)))
        except Exception as error:  # noqa: BLE001  # one case must not end the run, whatever came back
            seen = f"the harness itself failed: {type(error).__name__}: {cut(str(error))}"
            return Result(case, "failed", Failure("the case", "an outcome", seen))
        return Result(case, "passed")

    async def _steps(self, case: Case) -> None:
        names = await self._names(case)
        for number, step in enumerate(case.steps):
            if isinstance(step, ParallelStep):
                many = step.parallel
                await _all(self._step(case, many.step, {**names, "n": n + 1}) for n in range(many.times))
            elif isinstance(step, ListeningStep):
                names |= await self._listen(case, step.listening, names)
            else:
                answer = await self._step(case, step, names, may_be_missing=case.optional and number == 0)
                names |= _saved(step, answer, names)

    async def _listen(self, case: Case, step: Listening, names: dict[str, Any]) -> dict[str, Any]:
        """Open a stream, run the other steps once it has begun, and judge what it told; the names that were saved."""
        began, saved = asyncio.Event(), dict[str, Any]()
        stream = asyncio.create_task(self._step(case, step, names, began=began))
        first = asyncio.create_task(began.wait())
        try:
            await asyncio.wait({stream, first}, return_when=asyncio.FIRST_COMPLETED)
            # A stream that has ended already says itself what is wrong with it.
            for other in step.meanwhile if began.is_set() else ():
                saved |= _saved(other, await self._step(case, other, names | saved), names | saved)
            return saved | _saved(step, await stream, names | saved)
        finally:
            first.cancel()
            stream.cancel()
            await asyncio.gather(first, stream, return_exceptions=True)

    async def _names(self, case: Case) -> dict[str, Any]:
        name = short_name(case)
        unique = f"{name}-{self._target.run}"
        names: dict[str, Any] = {"unique": unique, "here": f"contract/{unique}", "page": self._target.page or ""}
        if case.brain == "none":
            return names
        if self._no_brain is not None:
            raise self._no_brain
        brain = self._shared if case.brain == "shared" else await self._target.make_brain(name)
        return {**names, "brain": brain, "b": f"/v1/brains/{brain}", "shared": self._shared}

    async def _step(
        self,
        case: Case,
        step: Step,
        names: dict[str, Any],
        *,
        may_be_missing: bool = False,
        began: asyncio.Event | None = None,
    ) -> Answer:
        try:
            request, expect = with_names(step.request, names), judge.with_names(step.expect, names)
        except (Unknown, ValidationError) as error:
            raise _Failed(
                Failure(f"{step.request.method} {step.request.path}", "a value saved before", cut(str(error)))
            ) from error
        answer = await self._answer(request, expect, began)
        if may_be_missing and self._is_unknown_route(answer):
            raise _NotSupported(f"there is no route for {request.method} {request.path}")
        if wrong := judge.faults(expect, answer):
            raise _Failed(Failure(told(request), "; ".join(wrong[:5]), answer.told()))
        return answer

    async def _answer(self, request: Request, expect: Expect, began: asyncio.Event | None = None) -> Answer:
        wanted = f"status {' or '.join(map(str, expect.statuses))}"
        if self._silent >= GIVEN_UP:
            raise _Failed(Failure(told(request), wanted, f"not sent: {self._silent} requests in a row had no answer"))
        try:
            answer = await self._target.send(request, began)
        except NoAnswer as error:
            self._silent += error.dead
            raise _Failed(Failure(told(request), wanted, str(error))) from error
        self._silent = 0
        if (request.method, request.path, answer.status) == ("POST", "/v1/brains", 201):
            self._target.remember(answer)
        return answer

    def _is_unknown_route(self, answer: Answer) -> bool:
        """An answer that says there is no such route, in the words of this very target."""
        if answer.status not in (404, 405, 501):
            return False
        body = answer.json()
        if isinstance(body, dict) and str(body.get("detail", "")).lower().startswith("no route for"):
            return True
        nowhere = self._unknown_route
        return answer.status != 404 or (
            nowhere is not None
            and nowhere.status == 404
            and answer.media_type == nowhere.media_type != "application/problem+json"
        )


def short_name(case: Case) -> str:
    """What brains and documents of a case are called: short enough for a slug."""
    return re.sub(r"[^a-z0-9]+", "-", case.id.partition("/")[2].lower()).strip("-")[:NAME_LIMIT].strip("-")


async def _all(steps: Any) -> None:
    """All at once; the first that fails is the failure, once the others have ended."""
    outcomes = await asyncio.gather(*steps, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def _saved(step: Step, answer: Answer, names: dict[str, Any]) -> dict[str, Any]:
    body = answer.json()
    whole = {"json": None if body is NO_JSON else body, "text": answer.text, "headers": dict(answer.headers)}
    try:
        return {name: found(str(filled(place, names)), whole) for name, place in step.save.items()}
    except Unknown as error:
        raise _Failed(Failure(told(step.request), cut(shown(step.save)), str(error))) from error
