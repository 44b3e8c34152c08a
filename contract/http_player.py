"""Runs cases against a platform, over HTTP."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError

from contract import judge
from contract.case import Case, Expect, Listening, ListeningStep, ParallelStep, Request, Step, single_steps
from contract.causes import SILENCE, fault_of, own_route, route_of, says_no_model
from contract.exchange import NO_JSON, Answer, NoAnswer, told, with_names
from contract.fill import Unknown, filled, found
from contract.names import names_of, short_name
from contract.outcome import Blocked, Cause, Failed, Failure, NotSupported, Unchecked
from contract.own_brain import refuse_to_write_elsewhere
from contract.silence import Silence
from contract.targets import HttpTarget
from contract.words import cut, shown

# What a platform says of its models, and some cases need.
SAID_BY_ITSELF: Final = {
    "vectors": "a platform that makes vectors itself, at once",
    "model": "a platform that says that it has a language model",
    "rules": "a platform that says that it has no language model",
}


class HttpPlayer:
    def __init__(self, target: HttpTarget) -> None:
        self._target = target
        self._no_brain: Blocked | None = None
        self._shared = ""
        self._unknown_route: Answer | None = None
        self._told_models: dict[str, bool] = {}
        self._silence = Silence(target.is_alive)

    @property
    def told(self) -> str:
        return self._target.told

    async def prepare(self, cases: Sequence[Case]) -> None:
        """Finds out, before anything is judged, what the platform can do, and makes a brain for the run.

        Raises: Unchecked.
        """
        target = self._target
        try:
            await target.recognise()
            self._shared = await self._brain_to_play_in()
        except Blocked as error:
            self._no_brain = error
        target.capabilities["brains"] = self._no_brain.cause.sentence if self._no_brain else "yes"
        try:
            nowhere = Request(method="POST", path=f"/v1/brains/{self._shared or 'none'}/no-such-route-{target.run}")
            self._unknown_route = await target.send(nowhere)
            if self._shared:
                await self._find_capabilities()
        except NoAnswer as error:
            await self._silence.note(f"{nowhere.method} {nowhere.path}", str(error))

    async def _brain_to_play_in(self) -> str:
        given = self._target.brain
        if given is None:
            made = await self._target.make_brain("shared")
            await refuse_to_write_elsewhere(self._target, made)
            return made
        there = await self._target.send(Request(method="GET", path=f"/v1/brains/{given}"))
        if there.status != 200:
            raise Unchecked(f"there is no brain {given}: GET /v1/brains/{given} answered {there.told()}")
        paths = await self._target.paths(given)
        self._target.there_before = None if paths is None else set(paths)
        record = there.json()
        # A path may have a slug or an id, but answers have the id.
        return str(record.get("id") or given) if isinstance(record, dict) else given

    async def _find_capabilities(self) -> None:
        """Finds out whether routes exist, by empty requests, which change nothing."""
        documents = "" if self._target.dialect == "daemon" else "/documents"
        for name, path in (
            ("sessions", f"/sessions/contract-{self._target.run}/messages"),
            ("ingest", f"{documents}/ingest/file"),
            ("ask", "/ask"),
        ):
            answer = await self._target.send(Request(method="POST", path=f"/v1/brains/{self._shared}{path}", json={}))
            self._target.capabilities[name] = "no such route" if self._is_unknown_route(answer) else "yes"
        if self._target.capabilities["ask"] == "yes":
            self._target.capabilities["model"] = await self._find_model()
        if self._target.dialect == "platform":
            await self._find_models()

    async def _find_models(self) -> None:
        """What the platform says of its models, if it does."""
        told = (await self._target.send(Request(method="GET", path="/v1/models"))).json()
        embedding, language = (
            one if isinstance(told, dict) and isinstance(one := told.get(kind), dict) else {}
            for kind in ("embedding", "language")
        )
        self._told_models = {
            "vectors": embedding.get("state") == "ready" and embedding.get("source") == "offline",
            "model": language.get("source") not in (None, "none"),
            "rules": language.get("source") == "none",
        }
        for name, model in (("vectors", embedding), ("language model", language)):
            self._target.capabilities[name] = f"{model.get('source')}, {model.get('state')}" if model else "not told"

    async def _find_model(self) -> str:
        question = {"question": "contract", "query": "contract"}
        request = Request(method="POST", path=f"/v1/brains/{self._shared}/ask", json=question)
        answer = await self._target.send(request)
        if says_no_model(answer.text):
            return f"none: {cut(answer.text, 120)}"
        return "not needed, or there" if answer.status < 400 else f"ask fails: {cut(answer.told(), 120)}"

    def applies(self, case: Case) -> str | None:
        """Why the case does not apply, if it does not."""
        if case.speaks(self._target.dialect):
            return None
        return f"of the {case.dialect} dialect"

    def lacks(self, case: Case) -> str | None:
        """What the case needs and the run does not have."""
        if case.needs == "token" and self._target.token is None:
            return "it needs a token: give --token"
        if case.needs == "page" and self._target.page is None:
            return "it needs a page that the platform can fetch: give --page"
        if case.needs in SAID_BY_ITSELF and not self._told_models.get(case.needs):
            return f"it needs {SAID_BY_ITSELF[case.needs]} (GET /v1/models)"
        if self._target.brain is not None and case.makes_a_brain:
            return f"it makes brains, and --brain {self._target.brain} says to make none"
        return None

    def offers(self, case: Case) -> str | None:
        """None: the answers of a platform say themselves what does not exist."""
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
        """Open a stream, run the other steps once it has begun, and judge its events. Returns the saved names."""
        began, saved = asyncio.Event(), dict[str, Any]()
        stream = asyncio.create_task(self._step(case, step, names, began=began))
        first = asyncio.create_task(began.wait())
        try:
            await asyncio.wait({stream, first}, return_when=asyncio.FIRST_COMPLETED)
            # If the stream has ended already, it says what is wrong.
            for other in step.meanwhile if began.is_set() else ():
                saved |= _saved(other, await self._step(case, other, names | saved), names | saved)
            return saved | _saved(step, await stream, names | saved)
        finally:
            first.cancel()
            stream.cancel()
            await asyncio.gather(first, stream, return_exceptions=True)

    async def _names(self, case: Case) -> dict[str, Any]:
        names = names_of(case, self._target.run, self._target.page)
        # What is sent to a brain that is not there may land in another, unless it was seen that brains are kept apart.
        if self._no_brain is not None and (case.brain != "none" or _writes_to_a_brain(case)):
            raise Blocked(self._no_brain.cause)
        if case.brain == "none":
            return names
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
            is_needed = any(step is one for one in only_needed(case))
            raise self._verdict(case, request, expect, answer, wrong, is_needed=is_needed)
        return answer

    def _verdict(
        self, case: Case, request: Request, expect: Expect, answer: Answer, wrong: list[str], *, is_needed: bool
    ) -> Exception:
        """A failure of the case; or, if a step that only prepares it failed, a case that was not tried."""
        route = route_of(request.method, request.path)
        refused = answer.status >= 400 and all(status < 400 for status in expect.statuses)
        if says_no_model(answer.text) and (answer.status >= 400 or answer.media_type == "text/event-stream"):
            return Blocked(Cause(f"the platform has no model: {cut(answer.text, 160)}", False, "model"))
        if refused and is_needed:
            return Blocked(fault_of(route, answer.told()))
        error = answer.told() if refused else ""
        # A refusal does no harm, whatever form it has: only a read that fails may show that something is lost.
        is_harmless = answer.status >= 400 and (not refused or request.method not in ("GET", "HEAD"))
        harms = case.harm is not None and not is_harmless
        return Failed(Failure(told(request), "; ".join(wrong[:5]), answer.told(), route, error, refused, harms))

    async def _answer(self, request: Request, expect: Expect, began: asyncio.Event | None = None) -> Answer:
        wanted = f"status {' or '.join(map(str, expect.statuses))}"
        route = route_of(request.method, request.path)
        self._silence.refuse(route)
        try:
            answer = await self._target.send(request, began)
        except NoAnswer as error:
            if error.dead:
                await self._silence.note(route, str(error))
            subject = SILENCE if error.dead else route
            raise Failed(Failure(told(request), wanted, str(error), subject, str(error))) from error
        self._silence.end()
        if (request.method, request.path) == ("POST", "/v1/brains") and answer.status in (200, 201):
            self._target.remember(answer)
        return answer

    def _is_unknown_route(self, answer: Answer) -> bool:
        """Whether an answer says that there is no such route, in the words of this target."""
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


def _writes_to_a_brain(case: Case) -> bool:
    asked = [one.request for one in single_steps(case.steps)]
    return any(one.method not in ("GET", "HEAD") and one.path.startswith("/v1/brains/") for one in asked)


def only_needed(case: Case) -> list[Step]:
    """The steps before the first on the route that the case is about. Those after it show its effect."""
    own, steps = own_route(case.source), list(single_steps(case.steps))
    routes = [route_of(one.request.method, one.request.path.replace("${b}", "/v1/brains/x")) for one in steps]
    return steps[: routes.index(own)] if own in routes else []


async def all_of(steps: Any) -> None:
    """Run all at once. The first failure counts, after the others have ended."""
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
