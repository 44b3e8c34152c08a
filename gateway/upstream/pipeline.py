"""The only module that talks to a platform: one pooled HTTP client, a dialect, and the mapping of failures."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import httpx
import structlog

from gateway.operations.caller import Call
from gateway.operations.errors import Absent, Doubt, GatewayError, StreamBroken, Unsure
from gateway.operations.table import READS, STORES, Args, JsonObject, JsonValue, Op
from gateway.operations.wait_timer import Watch
from gateway.upstream.breaker import Breaker
from gateway.upstream.budget import Budget
from gateway.upstream.credentials import Credentials, Endpoint, Static
from gateway.upstream.detect.detector import Answer, Detector
from gateway.upstream.detect.refusal import READS_A_DOCUMENT, from_refusal, is_collision, problem_of
from gateway.upstream.detect.verdict import Verdict
from gateway.upstream.dialects.dialect import Dialect, Route, json_object, parsed_json
from gateway.upstream.retry import (
    FAILURES,
    NOT_SENT,
    POLICIES,
    Collided,
    Kind,
    TurnedAway,
    attempted,
    noted_if_lost,
    raise_if_turned_away,
    raise_if_worth_another,
)
from gateway.upstream.sse import frames
from gateway.upstream.wire.request import parts_of, request_of
from gateway.upstream.wire.transport import pooled_client

log = structlog.get_logger()

ANSWER_BYTES: Final = 64 * 1024 * 1024
# What a request of a call gets that has used up its time: enough for a look at what became of it.
_LAST_SECONDS: Final = 5.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds an operation may take, all attempts together, by kind."""

    connect: float = 5.0
    probe: float = 5.0
    read: float = 30.0
    ingest: float = 300.0
    stage: float = 300.0
    first_event: float = 120.0
    idle: float = 120.0
    ask: float = 600.0

    def of(self, op: Op) -> float:
        return float(getattr(self, POLICIES[op].deadline))


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
    ) -> None:
        self._detector = Detector(dialects, self._probed, clock=clock)
        self._endpoint = endpoint
        self._credentials = credentials or Static()
        self._http = http or pooled_client()
        # Apart: however many answers are under way, nothing else waits for a connection.
        self._streams = http or pooled_client()
        self._deadlines = deadlines or Deadlines()
        self._budget = Budget(clock)
        self._breakers = {kind: Breaker(kind.value, clock, shared=shared) for kind in Kind}

    def state(self) -> JsonObject:
        """How the platform was of late: for each kind of request, whether it is being left alone."""
        return {kind.value: "failing" if breaker.is_open else "ok" for kind, breaker in self._breakers.items()}

    async def close(self) -> None:
        await self._http.aclose()
        await self._streams.aclose()

    async def send(self, call: Call, op: Op, args: Args) -> JsonObject:
        """One operation, one answer.

        Raises:
            Absent: the platform has no such route.
            GatewayError: it refused, failed, or could not be reached.
        """

        async def exchange(route: Route, verdict: Verdict) -> JsonObject:
            call.route = route.name
            answer = await self._exchange(call, op, route, args, verdict)
            if op is Op.LIST_BRAINS and not _lists_brains(answer, verdict.dialect):
                # Spelled in another dialect: the request is the same in each of them, its answer is not.
                self._detector.doubt()
                route = (await self._detector.verdict(call)).route(op)
            with _understood(op):
                if (found := json_object(route.decode(answer, args))) is None:
                    raise GatewayError("upstream_error", "The platform's answer is not a JSON object.")
            return found

        return await self._by_route(call, op, exchange)

    @asynccontextmanager
    async def stream(self, call: Call, op: Op, args: Args) -> AsyncGenerator[AsyncGenerator[JsonObject, None], None]:
        """One operation, an answer in frames. The connection is closed however the caller leaves."""
        started = asyncio.get_running_loop().time()

        async def opened(route: Route, verdict: Verdict) -> tuple[Route, httpx.Response]:
            call.route = route.name
            return route, await self._opened(call, op, route, args, verdict)

        route, response = await self._by_route(call, op, opened)
        try:
            untimed = route.reframe(frames(response))
            async with aclosing(untimed), aclosing(self._timed(untimed, started)) as timed:
                yield timed
        finally:
            await response.aclose()

    async def examined(self, call: Call) -> Verdict:
        """What is known of the platform once every route was looked at."""
        return await self._detector.examined(call)

    async def verdict(self, call: Call) -> Verdict:
        """What is known of the platform."""
        return await self._detector.verdict(call)

    def finds(self, path: str) -> bool:
        """Whether the platform's search ever finds what is stored at a path, as far as is known."""
        known = self._detector.known
        return known is None or known.dialect.finds(path)

    async def _by_route(self, call: Call, op: Op, use: Callable[[Route, Verdict], Awaitable[T]]) -> T:
        """What comes of using the route of an operation; once more, by what is known then, if it is not there."""
        verdict = await self._detector.verdict(call)
        for _ in range(2):
            route = verdict.route(op)
            try:
                return await use(route, verdict)
            except Absent:
                verdict = await self._detector.corrected(call, verdict, route)
            except GatewayError as error:
                if error.code == "validation_error":
                    self._detector.doubt()
                raise
        raise Absent

    async def _opened(self, call: Call, op: Op, route: Route, args: Args, verdict: Verdict) -> httpx.Response:
        """The response to a request for a stream, its body still to come; a refusal is read here and raised."""

        async def sent() -> httpx.Response:
            request = await self._request(call, op, route, args)
            request.headers["accept"] = "text/event-stream"
            # Packed, the first words would wait for the next ones.
            request.headers["accept-encoding"] = "identity"
            return await self._streams.send(request, stream=True)

        async def answered() -> tuple[httpx.Response, bytes]:
            response = await sent()
            # Some have a page for every path.
            if response.status_code < 300 and not verdict.denies(response, b""):
                return response, b""
            return response, await _read_whole(response)

        response, body = await self._attempts(call, op, self._deadlines.first_event, answered)
        if response.is_closed:
            raise _refused(op, response, body, verdict)
        return response

    async def _probed(self, call: Call, method: str, path: str) -> Answer:
        """The answer to a request with nothing in it."""
        endpoint = await self._endpoint()
        request = self._http.build_request(
            method,
            endpoint.url.rstrip("/") + path,
            content=None if method == "GET" else b"{}",
            headers=self._headers(endpoint, call) | ({} if method == "GET" else {"content-type": "application/json"}),
        )
        async with self._bounded(Op.LIST_BRAINS, self._deadlines.probe):
            response = await self._http.send(request, stream=True)
            return response, await _read_whole(response)

    async def _request(self, call: Call, op: Op, route: Route, args: Args) -> httpx.Request:
        endpoint = await self._endpoint()
        headers = self._headers(endpoint, call)
        if call.caller.llm_key is not None:
            headers["x-llm-api-key"] = call.caller.llm_key
        seconds = max(self._deadlines.first_event, self._deadlines.idle) if op is Op.ASK else self._deadlines.of(op)
        body, connect = route.encode(args), self._deadlines.connect
        return request_of(route.method, endpoint.url, route.fill(args), body, headers, seconds=seconds, connect=connect)

    def _headers(self, endpoint: Endpoint, call: Call) -> dict[str, str]:
        return {"x-request-id": call.request_id, **self._credentials.headers(endpoint, call)}

    async def _exchange(self, call: Call, op: Op, route: Route, args: Args, verdict: Verdict) -> JsonValue:
        async def answered() -> tuple[httpx.Response, bytes]:
            response = await self._http.send(await self._request(call, op, route, args), stream=True)
            with _understood(op):
                return response, await _read_whole(response)

        lost: list[BaseException] = []
        try:
            response, body = await self._attempts(call, op, self._seconds_for(call, op), answered, lost)
            if response.status_code >= 300 or verdict.denies(response, body):
                raise _refused(op, response, body, verdict)
        except GatewayError as error:
            if not lost or op in READS or isinstance(error, Unsure) or error.code == "conflict":
                raise
            # This attempt was refused; one before it may have arrived.
            raise Unsure(error, Doubt.LOST) from error
        if response.status_code == 204 and op is not Op.READ_DOCUMENT:
            return {}
        if response.status_code == 202 and not body.strip():
            return {"status": "queued"}
        with _understood(op):
            answer = _parsed(op, body)
        if response.status_code == 202 and isinstance(answer, dict):
            # Taken, and not yet done: whatever else it says, nobody may call that stored.
            answer["status"] = "queued"
        return answer

    async def _attempts(
        self,
        call: Call,
        op: Op,
        seconds: float,
        answered: Callable[[], Awaitable[tuple[httpx.Response, bytes]]],
        lost: list[BaseException] | None = None,
    ) -> tuple[httpx.Response, bytes]:
        """The answer of the last attempt there was. Those that may have arrived are noted as `lost`."""
        caller, person = call.caller.subject, call.caller.principal.person
        breaker = self._breakers[POLICIES[op].kind]

        async def once() -> tuple[httpx.Response, bytes]:
            with breaker.watched(FAILURES, person), noted_if_lost([] if lost is None else lost):
                response, body = await answered()
                raise_if_turned_away(response, body)
            raise_if_worth_another(op, response, body)
            if is_collision(op, response, body):
                raise Collided
            return response, body

        self._budget.sent(caller)
        async with self._bounded(op, seconds, person):
            try:
                return await attempted(once, op, seconds=seconds, may_repeat=lambda: self._budget.take(caller))
            except TurnedAway as last:
                return last.response, last.body

    def _seconds_for(self, call: Call, op: Op) -> float:
        """What is left of the call's time, which is that of its longest operation; a little, when nothing is."""
        own = self._deadlines.of(op)
        if call.began is None:
            return own
        call.longest = max(call.longest, own)
        left = call.began + call.longest - time.monotonic()
        return min(own, max(left, _LAST_SECONDS))

    @asynccontextmanager
    async def _bounded(self, op: Op, seconds: float, person: str = "") -> AsyncIterator[None]:
        """So long for what is in the block; what HTTP raises there leaves in our words."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            self._breakers[POLICIES[op].kind].failed(person)
            raise _lost(op, GatewayError("timeout"), Doubt.LATE) from error
        except Collided as error:
            # It was not made. Whoever won may be writing the very same, and need time for it.
            raise Unsure(GatewayError("upstream_error"), Doubt.LOST) from error
        except httpx.HTTPError as error:
            # The kind of failure, and the system's words for it, are not for callers. Parsers would quote the platform.
            reason = None if isinstance(error, httpx.ProtocolError | httpx.DecodingError) else str(error)[:200]
            log.warning("upstream.unreachable", op=op.value, error=type(error).__name__, reason=reason)
            if isinstance(error, httpx.ConnectError):
                self._detector.distrust()
            raise _from_transport_failure(op, error) from error

    async def _timed(self, stream: AsyncIterator[JsonObject], started: float) -> AsyncGenerator[JsonObject, None]:
        """Frames under three clocks: until the first, between any two, and over all of them."""
        loop = asyncio.get_running_loop()
        wall, due = started + self._deadlines.ask, started + self._deadlines.first_event
        async with Watch() as watch:
            while True:
                try:
                    frame = await watch.wait(anext(stream, None), min(wall, due))
                except TimeoutError as error:
                    raise StreamBroken("timeout", "The platform stopped sending its answer.") from error
                if frame is None:
                    return
                yield frame
                due = loop.time() + self._deadlines.idle


async def _read_whole(response: httpx.Response) -> bytes:
    """The body, in memory, up to a cap: a platform gone wrong must not take the gateway with it."""
    parts: list[bytes] = []
    size = 0
    async with aclosing(response):
        async for part in parts_of(response):
            size += len(part)
            if size > ANSWER_BYTES:
                raise GatewayError("upstream_error", "The platform's answer is too large.")
            parts.append(part)
    return b"".join(parts)


def _parsed(op: Op, body: bytes) -> JsonValue:
    if op is Op.READ_DOCUMENT:
        return {"body": body}
    try:
        return parsed_json(body)
    except ValueError as error:
        raise GatewayError("upstream_error", "The platform's answer is not JSON.") from error


def _refused(op: Op, response: httpx.Response, body: bytes, verdict: Verdict) -> Exception:
    # Where a missing document looks like a missing route, it is the document: every dialect has the route.
    is_missing_document = verdict.blurred and op in READS_A_DOCUMENT and response.status_code == 404
    if verdict.denies(response, body) and not is_missing_document:
        return Absent()
    if response.status_code >= 500:
        log.warning("upstream.failed", op=op.value, status=response.status_code)
    return from_refusal(op, response, problem_of(response, body))


def _lists_brains(answer: JsonValue, dialect: Dialect) -> bool:
    items = (json_object(answer) or {}).get("items")
    return not isinstance(items, list) or not items or any(dialect.brain_key in b for b in items if isinstance(b, dict))


def _lost(op: Op, failure: GatewayError, doubt: Doubt) -> GatewayError:
    """No answer: for a read that is the whole story, for a write its outcome is not known."""
    return failure if op in READS or op is Op.ASK else Unsure(failure, doubt)


def _from_transport_failure(op: Op, error: httpx.HTTPError) -> GatewayError:
    if isinstance(error, NOT_SENT):
        return GatewayError("upstream_unavailable")
    if isinstance(error, httpx.TimeoutException):
        return _lost(op, GatewayError("timeout"), Doubt.LATE)
    if isinstance(error, httpx.DecodingError):
        return _lost(op, GatewayError("upstream_error", "The platform's answer cannot be decoded."), Doubt.ANSWERED)
    return _lost(op, GatewayError("upstream_unavailable"), Doubt.LOST)


@contextmanager
def _understood(op: Op) -> Iterator[None]:
    """What cannot be read of the answer to a write may be the news that it was made."""
    try:
        yield
    except GatewayError as error:
        raise (Unsure(error, Doubt.ANSWERED) if op in STORES else error) from error.__cause__
