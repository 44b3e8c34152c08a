"""Plays cases against a platform, over HTTP."""

import asyncio
from typing import Any, Final

from pydantic import ValidationError

from contract import judge
from contract.case import Case, Expect, Listening, ListeningStep, ParallelStep, Request, Step
from contract.exchange import NO_JSON, Answer, NoAnswer, told, with_names
from contract.fill import Unknown, filled, found
from contract.names import names_of, short_name
from contract.outcome import Failed, Failure, NoBrain, NotSupported
from contract.targets import HttpTarget
from contract.words import cut, shown

# After so many requests in a row that nobody answered, the rest of the cases is not waited for.
GIVEN_UP: Final = 6


class HttpPlayer:
    def __init__(self, target: HttpTarget) -> None:
        self._target = target
        self._no_brain: NoBrain | None = None
        self._shared = ""
        self._unknown_route: Answer | None = None
        self._silent = 0

    @property
    def told(self) -> str:
        return self._target.told

    async def prepare(self) -> None:
        """A brain that cannot be made is the failure of the cases that need it.

        Raises: Unchecked.
        """
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

    def applies(self, case: Case) -> bool:
        return case.speaks(self._target.dialect)

    def lacks(self, case: Case) -> str | None:
        """What the run has not got and the case needs."""
        if case.needs == "token" and self._target.token is None:
            return "needs a token; none was given"
        if case.needs == "page" and self._target.page is None:
            return "needs a page that the platform can fetch; none was given"
        return None

    async def play(self, case: Case) -> None:
        names = await self._names(case)
        for number, step in enumerate(case.steps):
            if isinstance(step, ParallelStep):
                many = step.parallel
                await all_of(self._step(case, many.step, {**names, "n": n + 1}) for n in range(many.times))
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
        names = names_of(case, self._target.run, self._target.page)
        if case.brain == "none":
            return names
        if self._no_brain is not None:
            raise self._no_brain
        brain = self._shared if case.brain == "shared" else await self._target.make_brain(short_name(case))
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
            raise Failed(
                Failure(f"{step.request.method} {step.request.path}", "a value saved before", cut(str(error)))
            ) from error
        answer = await self._answer(request, expect, began)
        if may_be_missing and self._is_unknown_route(answer):
            raise NotSupported(f"there is no route for {request.method} {request.path}")
        if wrong := judge.faults(expect, answer):
            raise Failed(Failure(told(request), "; ".join(wrong[:5]), answer.told()))
        return answer

    async def _answer(self, request: Request, expect: Expect, began: asyncio.Event | None = None) -> Answer:
        wanted = f"status {' or '.join(map(str, expect.statuses))}"
        if self._silent >= GIVEN_UP:
            raise Failed(Failure(told(request), wanted, f"not sent: {self._silent} requests in a row had no answer"))
        try:
            answer = await self._target.send(request, began)
        except NoAnswer as error:
            self._silent += error.dead
            raise Failed(Failure(told(request), wanted, str(error))) from error
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


async def all_of(steps: Any) -> None:
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
        raise Failed(Failure(told(step.request), cut(shown(step.save)), str(error))) from error
