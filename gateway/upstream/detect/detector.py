"""Finds out what a platform can do, without a side effect: every route is tried on a brain that cannot exist.

A route that exists says that the brain does not; a route that does not exist answers as any nonsense path does.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import httpx
import structlog

from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.json_text import parse_json
from gateway.operations.observer import Observer
from gateway.operations.table import JsonObject, Op, Probe
from gateway.upstream.detect.refusal import from_refusal, problem_of
from gateway.upstream.detect.verdict import Fingerprint, Verdict, fingerprint, names_no_route
from gateway.upstream.dialects.dialect import Dialect, Route, json_object

log = structlog.get_logger()

_PROVISIONAL_SECONDS: Final = 5.0
_FRESH_SECONDS: Final = 10.0
_DOUBT_SECONDS: Final = 60.0
_AT_ONCE: Final = 8
_BRAINS: Final = "/v1/brains"
# A proxy or a check of tokens may give these answers, so they say nothing about routes.
_GATEKEEPERS: Final = frozenset({401, 407, 408, 425, 429})
_TOOK_IT: Final = frozenset({400, 413, 415, 422})
_NOTHING_THERE: Final = "Nothing at the platform's URL answers as a brains platform does. Check BRAINS_UPSTREAM_URL."
Answer = tuple[httpx.Response, bytes]
Prober = Callable[[Call, str, str], Awaitable[Answer]]
"""Sends a method and a path, with nothing in it. Raises GatewayError when no answer comes."""


class Detector:
    """Finds out once, for all calls that wait, and keeps the result until it proves wrong."""

    def __init__(
        self,
        dialects: Sequence[Dialect],
        probe: Prober,
        *,
        clock: Callable[[], float] = time.monotonic,
        observer: Observer | None = None,
    ) -> None:
        self._observer = observer or Observer()
        self._dialects = dialects
        self._probe = probe
        self._clock = clock
        self._running: asyncio.Future[Verdict] | None = None
        # If the dialect is given, there is nothing to find out: routes are learned on use.
        self.known = Verdict(dialects[0], clock=clock) if len(dialects) == 1 else None

    async def verdict(self, call: Call) -> Verdict:
        """What is known of the platform. If necessary, it is found out first.

        Raises:
            GatewayError: the platform cannot be reached, or refuses the credential: then nothing is known.
        """
        if self.known is not None and self.known.until > self._clock():
            return self.known
        try:
            return await self._find_out(call)
        except GatewayError as error:
            if self.known is None:
                raise GatewayError(
                    error.code, error.message, retryable=error.retryable, retry_after_seconds=error.retry_after_seconds
                ) from error
            return self.known

    async def examine(self, call: Call) -> Verdict:
        """What is known after every route was tried, also of a platform whose dialect was given.

        Raises:
            GatewayError: the platform cannot be reached, or lets nobody in.
        """
        verdict = await self.verdict(call)
        return verdict if verdict.nowhere or len(self._dialects) > 1 else await self._find_out(call)

    async def correct(self, call: Call, verdict: Verdict, route: Route) -> Verdict:
        """What is known of the platform, now that a route answered as if it did not exist.

        Raises:
            GatewayError: no_brain, when the route is there after all: then it was the brain that is not.
        """
        if route.name not in verdict.present:
            if verdict.blurred and not await self._has_brain(call, verdict):
                raise GatewayError("no_brain")
            self._lose(verdict, route)
            return verdict
        if verdict.blurred and self._clock() - verdict.since < _FRESH_SECONDS:
            raise GatewayError("no_brain")
        if verdict is self.known:
            verdict.until = 0.0
        now = await self.verdict(call)
        if now.blurred and route.name in now.present:
            raise GatewayError("no_brain")
        if now is verdict:
            self._lose(now, route)
        # Detection finds the route, but using it failed: several servers differ. After the next failure it counts as
        # absent.
        now.present -= {route.name}
        return now

    def _lose(self, verdict: Verdict, route: Route) -> None:
        verdict.lose(route.name)
        self._observer.lacks(len(verdict.absent))

    async def _has_brain(self, call: Call, verdict: Verdict) -> bool:
        """Whether a route that other brains have exists for the brain of this call, as far as that can be known."""
        known = next((route for route in _probed_empty([verdict.dialect]) if route.name in verdict.present), None)
        if known is None or call.brain is None:
            return True
        answer = await self._probe(call, known.method, known.fill({"brain": call.brain}))
        return fingerprint(*answer) not in verdict.nowhere

    def distrust(self) -> None:
        """Forget what is known: the platform went away, and another version may come back."""
        if self.known is not None and len(self._dialects) > 1:
            self.known.until = 0.0

    def doubt(self) -> None:
        """An answer does not fit this platform, which may be another one by now. Look again, but not too often."""
        if self.known is not None and self._clock() - self.known.since > _DOUBT_SECONDS:
            self.distrust()

    async def _find_out(self, call: Call) -> Verdict:
        """One detection for all calls that wait. It goes on if the call that began it leaves."""
        if self._running is None:
            self._running = asyncio.ensure_future(Round(self._dialects, self._probe, call, self._clock).verdict())
            self._running.add_done_callback(self._end)
        return await asyncio.shield(self._running)

    def _end(self, running: "asyncio.Future[Verdict]") -> None:
        self._running = None
        if not running.cancelled() and running.exception() is not None:
            self._observer.detected(None)
        if running.cancelled() or (len(self._dialects) == 1 and running.exception() is not None):
            return
        if running.exception() is None:
            self.known = running.result()
            self._observer.detected(self.known.dialect.name)
            self._observer.lacks(len(self.known.absent))
            if len(self._dialects) == 1:
                self.known.until = float("inf")
        elif self.known is not None:
            # The old knowledge stays, because not every call should try again.
            self.known.until = self._clock() + _PROVISIONAL_SECONDS


class Round:
    """One round of detection."""

    def __init__(self, dialects: Sequence[Dialect], probe: Prober, call: Call, clock: Callable[[], float]) -> None:
        self._dialects = [dialect for dialect in dialects if not dialect.without_brains]
        self._without_brains = [dialect for dialect in dialects if dialect.without_brains]
        self._probe = probe
        self._call = call
        self._clock = clock
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._requests = 0
        self._on_ghost: frozenset[Fingerprint] = frozenset()
        self._seen: set[str] = set()
        self._no_list: Answer | None = None
        """The answer of a platform that does not list its brains."""
        self._refused = GatewayError("upstream_error", _NOTHING_THERE)
        """The error if no route is found."""

    async def verdict(self) -> Verdict:
        started = self._clock()
        brains = await self._brains()
        if brains is not None and not self._dialects:
            raise self._refused
        found = await self._on_a_ghost(brains) or await self._on_a_brain(brains)
        ms = round((self._clock() - started) * 1000)
        log.info("upstream.detected", dialect=found.dialect.name, requests=self._requests, ms=ms, absent=found.absent)
        return found

    async def _on_a_ghost(self, brains: list[JsonObject] | None) -> Verdict | None:
        """What probes with a brain that cannot exist show; None if no route said that this brain does not exist."""
        ghost = f"ghost-{secrets.token_hex(8)}"
        nowhere = await self._nowhere(ghost)
        if self._no_list is not None and {fingerprint(*self._no_list)} == nowhere:
            for dialect in self._without_brains:
                if (verdict := await self._on_its_own_routes(dialect, nowhere)) is not None:
                    return verdict
        answers = await self._try_all(ghost, (route for dialect in self._dialects for route in _probed(dialect)))
        there = {name for name, answer in answers.items() if _is_there(answer, nowhere)}
        is_missed = any(_misses_the_brain(answers[name]) for name in there)
        if is_missed or (there and self._first_id(brains or []) is None):
            return self._judge(brains, there, answers, nowhere)
        if not there:
            _raise_if_gated(answers)
        if brains is None:
            raise self._refused
        self._on_ghost, self._seen = nowhere, there
        return None

    async def _on_its_own_routes(self, dialect: Dialect, nowhere: frozenset[Fingerprint]) -> Verdict | None:
        """What empty requests to the routes of a dialect without brains show; None if it is not spoken here."""
        routes = _probed_empty([dialect])
        try:
            answers = [await self._send(route.method, route.fill({})) for route in routes]
        except GatewayError:
            return None
        if all(_knows_the_route(answer, nowhere) for answer in answers):
            return Verdict(dialect, frozenset(route.name for route in routes), nowhere, clock=self._clock)
        if dialect.wants and all(answer[0].status_code in {401, 403} and problem_of(*answer) for answer in answers):
            self._refused = GatewayError("unauthorized", dialect.wants)
        return None

    async def _on_a_brain(self, brains: list[JsonObject] | None) -> Verdict:
        """What requests that change nothing show on a brain that exists."""
        if (brain := self._first_id(brains or [])) is None:
            soon = self._clock() + _PROVISIONAL_SECONDS
            return Verdict(self._dialect(set(), brains), clock=self._clock, until=soon)
        nowhere = await self._nowhere(brain)
        answers = await self._try_all(brain, _probed_empty(self._dialects))
        there = self._seen | {name for name, answer in answers.items() if _took_it(answer, nowhere)}
        return self._judge(brains, there, answers, nowhere, blurred=bool(self._on_ghost & nowhere))

    def _judge(
        self,
        brains: list[JsonObject] | None,
        there: set[str],
        answers: "dict[str, Answer | GatewayError]",
        nowhere: frozenset[Fingerprint],
        *,
        blurred: bool = False,
    ) -> Verdict:
        dialect = self._dialect(there, brains, nowhere)
        found = Verdict(dialect, frozenset(there), nowhere, blurred, clock=self._clock)
        found.lose(*(name for name, answer in answers.items() if name not in there and _is_absent(answer, nowhere)))
        return found

    async def _brains(self) -> list[JsonObject] | None:
        """The brains there are; None where a platform does not list them.

        Raises:
            GatewayError: it refuses the credential, or cannot be reached.
        """
        response, body = await self._send("GET", _BRAINS)
        if response.status_code in {404, 405, 501}:
            self._no_list = response, body
            return None
        if response.status_code >= 300:
            raise from_refusal(Op.LIST_BRAINS, response, problem_of(response, body))
        try:
            items = (json_object(parse_json(body)) or {}).get("items")
        except ValueError:
            items = None
        if not isinstance(items, list):
            raise GatewayError("upstream_error", "The platform's brain list is not a list.")
        return [item for item in items if isinstance(item, dict)]

    async def _nowhere(self, brain: str) -> frozenset[Fingerprint]:
        """The answers to paths that no route has, below each root: a front end may answer differently at each."""
        nonsense = {"brain": brain, "nonsense": secrets.token_hex(8)}
        paths = [Route("POST", f"{root}/{{brain}}/{{nonsense}}").fill(nonsense) for root in _roots(self._dialects)]
        methods = ("POST", "GET") if self._no_list is None else ("POST",)
        answers = await asyncio.gather(*(self._send(method, path) for path in paths for method in methods))
        # If the list of brains does not exist, its answer is also that of a missing GET route, unless it has its own
        # words.
        if self._no_list is not None and fingerprint(*self._no_list) != fingerprint(*answers[0]):
            answers.append(await self._send("GET", paths[0]))
        # What stands before another root, such as a login page, says nothing about the one that every platform has.
        for response, body in answers:
            if f"{_BRAINS}/" in response.url.path and not _is_evidence(response):
                raise from_refusal(Op.LIST_BRAINS, response, problem_of(response, body))
        return frozenset(fingerprint(*answer) for answer in answers if _is_evidence(answer[0]))

    async def _try_all(self, brain: str, routes: Iterable[Route]) -> dict[str, Answer | GatewayError]:
        """The answer of each route, or the failure if none came."""
        distinct = {route.name: route for route in routes if "{brain}" in route.path}
        args = {"brain": brain, "session_id": "ghost"}
        sent = (self._send(route.method, route.fill(args)) for route in distinct.values())
        answers = await asyncio.gather(*sent, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, GatewayError):
                raise answer
        return dict(zip(distinct, answers, strict=True))  # type: ignore[arg-type]  # the rest was raised above

    async def _send(self, method: str, path: str) -> Answer:
        async with self._gate:
            self._requests += 1
            return await self._probe(self._call, method, path)

    def _first_id(self, brains: list[JsonObject]) -> str | None:
        for brain in brains:
            found = next(filter(None, (brain.get(dialect.brain_key) for dialect in self._dialects)), None)
            if isinstance(found, str) and found not in {".", ".."}:
                return found
        return None

    def _dialect(
        self, there: set[str], brains: list[JsonObject] | None, nowhere: frozenset[Fingerprint] = frozenset()
    ) -> Dialect:
        """The dialect with the largest share of its own routes; when in doubt, the one in which brains are listed."""
        looked_for = {d.name: {route.name for route in _probed(d)} for d in self._dialects}
        shared = set.intersection(*looked_for.values())

        def likelihood(dialect: Dialect) -> tuple[float, bool]:
            own = looked_for[dialect.name] - shared
            return len(own & there) / max(len(own), 1), any(dialect.brain_key in brain for brain in brains or [])

        best = max(self._dialects, key=likelihood)
        is_plain = {media_type for _, media_type, _ in nowhere} == {"text/plain"}
        return best.plain if best.plain is not None and is_plain else best


def _probed(dialect: Dialect) -> list[Route]:
    """The routes that are probed; the others are learned on use."""
    return [route for op, route in dialect.routes.items() if op.probe is not Probe.NEVER]


def _probed_empty(dialects: Iterable[Dialect]) -> list[Route]:
    """The routes that may be tried on a brain that exists, because empty requests to them change nothing."""
    # In the order of the table, which begins with the routes that most platforms have.
    return [dialect.routes[op] for dialect in dialects for op in Op if op.probe is Probe.EMPTY and op in dialect.routes]


def _is_evidence(response: httpx.Response) -> bool:
    """Whether an answer is the platform's own, about this route: no refused credential, no redirect, no failure."""
    status = response.status_code
    return status not in _GATEKEEPERS and not 300 <= status < 400 and (status < 500 or status == 501)


def _roots(dialects: Iterable[Dialect]) -> list[str]:
    """The paths below which the dialects have their brains."""
    paths = (route.path for dialect in dialects for route in dialect.routes.values() if "{brain}" in route.path)
    return list(dict.fromkeys((_BRAINS, *(path.partition("/{brain}")[0] for path in paths))))


def _is_there(answer: Answer | GatewayError, nowhere: frozenset[Fingerprint]) -> bool:
    return not isinstance(answer, GatewayError) and _is_evidence(answer[0]) and not _is_absent(answer, nowhere)


def _is_absent(answer: Answer | GatewayError, nowhere: frozenset[Fingerprint]) -> bool:
    if isinstance(answer, GatewayError) or not _is_evidence(answer[0]):
        return False
    return answer[0].status_code in {405, 501} or names_no_route(*answer) or fingerprint(*answer) in nowhere


def _misses_the_brain(answer: Answer | GatewayError) -> bool:
    """Whether an answer is a refusal of a brain that does not exist; some platforms check the arguments first."""
    return not isinstance(answer, GatewayError) and answer[0].status_code in {403, 404, 410}


def _took_it(answer: Answer | GatewayError, nowhere: frozenset[Fingerprint]) -> bool:
    """Whether a route of a brain that exists checked the request."""
    if isinstance(answer, GatewayError) or fingerprint(*answer) in nowhere:
        return False
    return answer[0].status_code < 300 or answer[0].status_code in _TOOK_IT


def _knows_the_route(answer: Answer, nowhere: frozenset[Fingerprint]) -> bool:
    """Whether a route checked the request, or refuses it as MemoAI does: in an `error` that has a `type`.

    Weaker evidence is not enough: outside of brains there may be any server, and many have a page for refusals.
    """
    response, problem = answer[0], problem_of(*answer)
    if problem is None or fingerprint(*answer) in nowhere:
        return False
    error = problem.get("error")
    is_told_so = isinstance(error, dict) and isinstance(error.get("type"), str)
    return response.status_code in _TOOK_IT or (is_told_so and response.status_code in {403, 404})


def _raise_if_gated(answers: "dict[str, Answer | GatewayError]") -> None:
    """No route was found. That is a result only if all of them answered."""
    for answer in answers.values():
        if isinstance(answer, GatewayError):
            raise answer
        if not _is_evidence(answer[0]):
            raise from_refusal(Op.LIST_BRAINS, answer[0], problem_of(*answer))
