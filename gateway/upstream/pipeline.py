"""An operation on its way to the platform, in three stages.

* resolve    which route it takes; a route that proves absent is looked for once more
* attempt    how often it is sent and how long that may take: the policy of the operation's row
* exchange   one request and its answer (`exchange.py`)

The result is an answer, or one of our own errors: errors of HTTP and words of a platform go no further.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self

import httpx
import structlog

from gateway.operations.caller import Call
from gateway.operations.errors import Absent, Doubt, GatewayError, StreamBroken, Unsure
from gateway.operations.json_text import TooLarge, parse_json, parse_list
from gateway.operations.observer import Observer
from gateway.operations.shared_timer import SharedTimer
from gateway.operations.table import Args, Effect, JsonObject, JsonValue, Kind, Op
from gateway.upstream.breaker import Breaker
from gateway.upstream.budget import Budget
from gateway.upstream.credentials import Credentials, Endpoint
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.detect.detector import Detector
from gateway.upstream.detect.refusal import READS_A_DOCUMENT, from_refusal, is_collision, problem_of
from gateway.upstream.detect.verdict import Verdict
from gateway.upstream.dialects.dialect import Dialect, Frames, Route, json_object
from gateway.upstream.exchange import NOT_SENT, TOO_LARGE, Exchange, Heard, in_doubt_if_stored, read_whole
from gateway.upstream.observed import ObservedExchange, RequestObserver
from gateway.upstream.retry import (
    FAILURES,
    Collided,
    TurnedAway,
    may_be_lost,
    raise_if_turned_away,
    raise_if_worth_another,
    repeat,
)

log = structlog.get_logger()

# The time for a request of a call that has used up its own: enough for a look at the outcome of a write.
_LAST_SECONDS: Final = 5.0
# Some platforms send a few more results than they were asked for, and some of those are not for the caller.
_MOST_FOUND: Final = 100
_MARGIN: Final = 100


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of an operation."""

    answer: JsonObject
    route: str
    """The route that served it."""
    may_have_written: bool


class Upstream:
    """Sends operations to one platform, in its dialect."""

    def __init__(
        self,
        dialects: Sequence[Dialect],
        endpoint: Callable[[], Awaitable[Endpoint]],
        *,
        http: httpx.AsyncClient | None = None,
        deadlines: Deadlines | None = None,
        credentials: Credentials | None = None,
        shared: bool = False,
        clock: Callable[[], float] = time.monotonic,
        observer: Observer | None = None,
        requests: RequestObserver | None = None,
    ) -> None:
        """`observer` is told of rare events, and `requests` of each request."""
        self._deadlines = deadlines or Deadlines()
        self._observer = observer or Observer()
        way = Exchange if requests is None else partial(ObservedExchange, requests)
        self._exchange = way(endpoint, self._deadlines, credentials, http)
        self._detector = Detector(dialects, self._probe, clock=clock, observer=self._observer)
        self._budget = Budget(clock)
        self._timer = SharedTimer()
        self._breakers = {kind: Breaker(kind.value, clock, shared=shared, observer=self._observer) for kind in Kind}

    def state(self) -> JsonObject:
        """How the platform is at the moment: for each kind of request, whether it is being left alone."""
        return {kind.value: "failing" if breaker.is_open else "ok" for kind, breaker in self._breakers.items()}

    async def close(self) -> None:
        await self._exchange.close()

    async def examine(self, call: Call) -> Verdict:
        """What is known of the platform after every route was tried."""
        return await self._detector.examine(call)

    async def verdict(self, call: Call) -> Verdict:
        """What is known of the platform."""
        return await self._detector.verdict(call)

    def speaks(self, dialect: Dialect) -> bool:
        """Whether the platform speaks this dialect, as far as is known."""
        return self._detector.known is not None and self._detector.known.dialect is dialect

    def finds(self, path: str) -> bool:
        """Whether the platform's search ever finds what is stored at a path, as far as is known."""
        known = self._detector.known
        return known is None or known.dialect.finds(path)

    def writes_index(self) -> bool:
        """Whether the platform writes index files when it consolidates, as far as is known."""
        known = self._detector.known
        return known is not None and known.dialect.writes_index

    async def send(self, call: Call, op: Op, args: Args) -> Reply:
        """One operation, one answer.

        Raises:
            Absent: the platform has no such route.
            GatewayError: it refused, failed, or could not be reached.
        """
        route, verdict, heard = await self._resolve(call, op, args)
        try:
            answer = _shorten(op, args, await _parse(op, heard))
            if op is Op.LIST_BRAINS and not _lists_brains(answer, verdict.dialect):
                # By now it is another dialect. Its request is the same, but its answer is not.
                self._detector.doubt()
                route = (await self._detector.verdict(call)).route(op)
            if (decoded := json_object(route.decode(answer, args))) is None:
                raise GatewayError("upstream_error", "The platform's answer is not a JSON object.")
        except GatewayError as error:
            raise in_doubt_if_stored(op, error) from error.__cause__
        return Reply(decoded, route.name, op.writes)

    async def open(self, call: Call, op: Op, args: Args) -> "AnswerStream":
        """One operation with an answer in frames. Nothing of it was read yet, and the caller must close it.

        Raises:
            Absent: the platform has no such route.
            GatewayError: it refused, failed, or could not be reached.
        """
        started = asyncio.get_running_loop().time()
        route, _, heard = await self._resolve(call, op, args)
        frames = route.reframe(self._exchange.frames(heard))
        return AnswerStream(heard.response, frames, self._deadlines, started, self._timer)

    async def look(self, call: Call, path: str, method: str = "GET") -> JsonObject | None:
        """The answer of a route that few platforms have and no tool needs; None if there is no such route.

        Raises:
            GatewayError: the platform could not be reached.
        """
        answer, body = await self._probe(call, method, path)
        if answer.status_code != 200:
            return None
        try:
            return json_object(parse_json(body))
        except (ValueError, TooLarge):
            return None

    async def _resolve(self, call: Call, op: Op, args: Args) -> tuple[Route, Verdict, Heard]:
        """The answer by the route of an operation. If it is absent, tries once more with what is known then."""
        verdict = await self._detector.verdict(call)
        for _ in range(2):
            route = verdict.route(op)
            call.note_route(op, route.name)
            lost: list[BaseException] = []
            heard = await self._attempt(call, op, route, args, verdict, lost)
            if not heard.is_refusal and (heard.is_open or not verdict.denies(heard.response, heard.body)):
                return route, verdict, heard
            refusal = _refusal_of(op, heard, verdict)
            if isinstance(refusal, GatewayError):
                if refusal.code == "validation_error":
                    self._detector.doubt()
                raise _in_doubt(op, refusal, lost)
            verdict = await self._detector.correct(call, verdict, route)
        raise Absent

    async def _attempt(
        self, call: Call, op: Op, route: Route, args: Args, verdict: Verdict, lost: list[BaseException]
    ) -> Heard:
        """The answer of the last attempt. Earlier attempts that may have arrived are noted as `lost`."""
        caller, person = call.caller.partition, call.caller.principal.person
        breaker = self._breakers[op.policy.kind]
        seconds = self._seconds_for(call, op)

        async def once() -> Heard:
            breaker.let_through()
            try:
                heard = await self._exchange.send(call, op, route, args)
                if heard.is_open and verdict.denies(heard.response, b""):
                    # Some platforms have a page for every path.
                    heard = Heard(heard.response, await read_whole(heard.response, op))
                raise_if_turned_away(heard)
            except FAILURES as error:
                breaker.fail(person)
                if may_be_lost(error):
                    lost.append(error)
                raise
            breaker.succeed()
            raise_if_worth_another(op, heard)
            if is_collision(op, heard.response, heard.body):
                raise Collided
            return heard

        self._budget.count_sent(caller)
        try:
            with self._timer.limit(seconds):
                return await repeat(once, op, seconds=seconds, may_repeat=lambda: self._may_repeat(op, caller))
        except TurnedAway as last:
            return last.heard
        except (TimeoutError, Collided, httpx.HTTPError) as error:
            raise _in_doubt(op, self._in_our_words(op, error, person), lost) from error
        except GatewayError as error:
            raise _in_doubt(op, error, lost) from error.__cause__

    def _may_repeat(self, op: Op, caller: str) -> bool:
        is_allowed = self._budget.take(caller)
        self._observer.repeated(op.policy.kind.value, is_allowed=is_allowed)
        return is_allowed

    def _seconds_for(self, call: Call, op: Op) -> float:
        """The rest of the call's time, which is that of its longest operation; if it is used up, a short extra time."""
        own = self._deadlines.of(op)
        if call.began is None or op.policy.kind in (Kind.ASK, Kind.DERIVE):
            return own
        call.longest = max(call.longest, own)
        left = call.began + call.longest - time.monotonic()
        return min(own, max(left, _LAST_SECONDS))

    async def _probe(self, call: Call, method: str, path: str) -> tuple[httpx.Response, bytes]:
        try:
            async with asyncio.timeout(self._deadlines.probe):
                return await self._exchange.probe(call, method, path)
        except (TimeoutError, httpx.HTTPError) as error:
            raise self._in_our_words(Op.LIST_BRAINS, error) from error

    def _in_our_words(self, op: Op, error: Exception, person: str = "") -> GatewayError:
        """The error for a request without an answer."""
        if isinstance(error, TimeoutError):
            self._breakers[op.policy.kind].fail(person)
            return _unanswered(op, GatewayError("timeout"), Doubt.LATE)
        if isinstance(error, Collided):
            # The write was not made. The one that won may be the same, and needs time to finish.
            return Unsure(GatewayError("upstream_error"), Doubt.LOST)
        assert isinstance(error, httpx.HTTPError)
        # The kind of failure, and the system's words for it, are not for callers. Parsers would quote the platform.
        reason = None if isinstance(error, httpx.ProtocolError | httpx.DecodingError) else str(error)[:200]
        log.warning("upstream.unreachable", op=op.value, error=type(error).__name__, reason=reason)
        if isinstance(error, httpx.ConnectError):
            self._detector.distrust()
        return _from_transport_failure(op, error)


class AnswerStream:
    """The frames of an answer, in the groups in which they came, within three time limits. Always closes the stream."""

    def __init__(
        self, response: httpx.Response, frames: Frames, deadlines: Deadlines, started: float, timer: SharedTimer
    ) -> None:
        self._response, self._frames, self._timer = response, frames, timer
        self._idle = deadlines.idle
        # Until the first frame, between any two, and over all of them.
        self._wall, self._due = started + deadlines.ask, started + deadlines.first_event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._frames.aclose()
        finally:
            await self._response.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[JsonObject]:
        loop = asyncio.get_running_loop()
        try:
            with self._timer.limit(min(self._wall, self._due) - loop.time()):
                frames = await anext(self._frames, None)
        except TimeoutError as error:
            raise StreamBroken("timeout", "The platform stopped sending its answer.") from error
        if frames is None:
            raise StopAsyncIteration
        self._due = loop.time() + self._idle
        return frames


def _refusal_of(op: Op, heard: Heard, verdict: Verdict) -> GatewayError | Absent:
    """Turns a refusal into an error of ours, or into `Absent` if the route does not exist."""
    response, body = heard.response, heard.body
    # A missing document may look like a missing route. It is the document, because every dialect has the route.
    is_missing_document = verdict.blurred and op in READS_A_DOCUMENT and response.status_code == 404
    if verdict.denies(response, body) and not is_missing_document:
        return Absent()
    if response.status_code >= 500:
        log.warning("upstream.failed", op=op.value, status=response.status_code)
    refusal = from_refusal(op, response, problem_of(response, body))
    if refusal.code == "unauthorized" and verdict.dialect.wants:
        return GatewayError("unauthorized", verdict.dialect.wants)
    return refusal


def _in_doubt(op: Op, error: GatewayError, lost: Sequence[BaseException]) -> GatewayError:
    """The error of the last attempt. If an earlier one may have arrived, it is not known whether the write was made."""
    if not lost or not op.writes or isinstance(error, Unsure) or error.code == "conflict":
        return error
    return Unsure(error, Doubt.LOST)


async def _parse(op: Op, heard: Heard) -> JsonValue:
    status, body = heard.response.status_code, heard.body
    if op is Op.READ_DOCUMENT:
        return {"body": body}
    if status == 204:
        return {}
    if status == 202 and not body.strip():
        return {"status": "queued"}
    try:
        answer = await parse_list(body) if op is Op.LIST_DOCUMENTS else parse_json(body)
    except TooLarge as error:
        raise GatewayError("upstream_error", TOO_LARGE) from error
    except ValueError as error:
        raise GatewayError("upstream_error", "The platform's answer is not JSON.") from error
    if status == 202 and isinstance(answer, dict):
        # Accepted but not done yet: whatever else the answer says, a receipt must not call this stored.
        answer["status"] = "queued"
    return answer


def _shorten(op: Op, args: Args, answer: JsonValue) -> JsonValue:
    """The results, without those that were not asked for, because each result costs time in the layers above."""
    if op.effect is not Effect.FIND or not isinstance(answer, dict):
        return answer
    most = (args.get("top_k") or _MOST_FOUND) + _MARGIN
    for key, found in answer.items():
        if isinstance(found, list) and len(found) > most:
            answer[key] = found[:most]
    return answer


def _lists_brains(answer: JsonValue, dialect: Dialect) -> bool:
    items = (json_object(answer) or {}).get("items")
    return not isinstance(items, list) or not items or any(dialect.brain_key in b for b in items if isinstance(b, dict))


def _unanswered(op: Op, failure: GatewayError, doubt: Doubt) -> GatewayError:
    """No answer came. For a read that is a plain failure; for a write the outcome is not known."""
    return Unsure(failure, doubt) if op.writes else failure


def _from_transport_failure(op: Op, error: httpx.HTTPError) -> GatewayError:
    if isinstance(error, NOT_SENT):
        return GatewayError("upstream_unavailable")
    if isinstance(error, httpx.TimeoutException):
        return _unanswered(op, GatewayError("timeout"), Doubt.LATE)
    if isinstance(error, httpx.DecodingError):
        failure = GatewayError("upstream_error", "The platform's answer cannot be decoded.")
        return _unanswered(op, failure, Doubt.ANSWERED)
    return _unanswered(op, GatewayError("upstream_unavailable"), Doubt.LOST)
