"""The only module that talks to a platform: one pooled HTTP client, a dialect, and the mapping of failures."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx

from gateway.caller import Call
from gateway.errors import Absent, GatewayError, StreamBroken
from gateway.operations import READS, Args, JsonObject, JsonValue, Op
from gateway.upstream.dialect import Body, Dialect, Route, json_object, parsed_json
from gateway.upstream.refusal import from_refusal, says_no_such_route
from gateway.upstream.retry import NOT_SENT, retrying
from gateway.upstream.sse import frames

ANSWER_BYTES: Final = 64 * 1024 * 1024
WRITE_GRACE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the platform is, and the bearer it wants."""

    url: str
    token: str | None = None


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds a call may take, by kind of operation."""

    connect: float = 5.0
    read: float = 30.0
    ingest: float = 300.0
    consolidate: float = 300.0
    first_event: float = 120.0
    idle: float = 120.0
    ask: float = 600.0

    def of(self, op: Op) -> float:
        if op in {Op.INGEST_FILE, Op.INGEST_URL}:
            return self.ingest
        if op in {Op.CONSOLIDATE, Op.COMPILE}:
            return self.consolidate
        return self.read


def pooled_client(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client that carries nothing from one caller to the next: no cookies, no default credentials."""
    return httpx.AsyncClient(
        transport=transport,
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        # Idle connections cost httpx CPU on every request; and Node closes them after 5 s.
        limits=httpx.Limits(max_connections=1000, max_keepalive_connections=20, keepalive_expiry=4),
        timeout=httpx.Timeout(30, connect=5, pool=5),
    )


class Upstream:
    """Sends operations to one platform, in its dialect."""

    def __init__(
        self,
        dialect: Dialect,
        endpoint: Callable[[], Awaitable[Endpoint]],
        *,
        http: httpx.AsyncClient | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._dialect = dialect
        self._endpoint = endpoint
        self._http = http or pooled_client()
        self._deadlines = deadlines or Deadlines()
        self._writes: set[asyncio.Task[JsonValue]] = set()

    async def close(self) -> None:
        """Let writes that were sent finish, then close the connections."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=WRITE_GRACE_SECONDS)
        await self._http.aclose()

    async def send(self, call: Call, op: Op, args: Args) -> JsonObject:
        """One operation, one answer.

        Raises:
            Absent: the platform has no such route.
            GatewayError: it refused, failed, or could not be reached.
        """
        route = self._route(op)
        call.route = route.name
        sending = self._exchange(call, op, route, args)
        answer = await (sending if op in READS else self._finished_even_if_cancelled(sending))
        if (found := json_object(route.decode(answer))) is None:
            raise GatewayError("upstream_error", "The platform's answer is not a JSON object.")
        return found

    @asynccontextmanager
    async def stream(self, call: Call, op: Op, args: Args) -> AsyncGenerator[AsyncGenerator[JsonObject, None], None]:
        """One operation, an answer in frames. The connection is closed however the caller leaves."""
        route = self._route(op)
        call.route = route.name
        request = await self._request(call, op, route, args)
        request.headers["accept"] = "text/event-stream"
        started = asyncio.get_running_loop().time()
        response = await self._opened(op, request)
        try:
            async with aclosing(frames(response)) as untimed, aclosing(self._timed(untimed, started)) as timed:
                yield timed
        finally:
            await response.aclose()

    async def _opened(self, op: Op, request: httpx.Request) -> httpx.Response:
        """The response to a request for a stream, its body still to come; a refusal is read here and raised."""
        async with _bounded(op, self._deadlines.first_event):
            response = await self._http.send(request, stream=True)
            if response.status_code < 300:
                return response
            body = await _read_whole(response)
        raise _refused(op, response, body)

    def _route(self, op: Op) -> Route:
        if (route := self._dialect.routes.get(op)) is None:
            raise Absent
        return route

    async def _request(self, call: Call, op: Op, route: Route, args: Args) -> httpx.Request:
        endpoint = await self._endpoint()
        body = route.encode(args)
        content, headers = _content(body)
        headers["x-request-id"] = call.request_id
        if endpoint.token is not None:
            headers["authorization"] = f"Bearer {endpoint.token}"
        seconds = max(self._deadlines.first_event, self._deadlines.idle) if op is Op.ASK else self._deadlines.of(op)
        return self._http.build_request(
            route.method,
            endpoint.url.rstrip("/") + route.fill(args),
            params=dict(body.params) or None,
            content=content,
            files={"file": (body.upload.name, body.upload.body, body.upload.content_type)} if body.upload else None,
            headers=headers,
            timeout=httpx.Timeout(seconds, connect=self._deadlines.connect, pool=self._deadlines.connect),
        )

    async def _exchange(self, call: Call, op: Op, route: Route, args: Args) -> JsonValue:
        async with _bounded(op, self._deadlines.of(op)):
            async for attempt in retrying(op):
                with attempt:
                    request = await self._request(call, op, route, args)
                    response = await self._http.send(request, stream=True)
                    body = await _read_whole(response)
        if response.status_code >= 300:
            raise _refused(op, response, body)
        return _parsed(op, body)

    async def _finished_even_if_cancelled(self, sending: Awaitable[JsonValue]) -> JsonValue:
        """A write that was sent is seen through when the caller leaves, so that nothing is half done."""
        task = asyncio.ensure_future(sending)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_retrieved)
            asyncio.get_running_loop().call_later(WRITE_GRACE_SECONDS, task.cancel)
            raise

    async def _timed(self, stream: AsyncIterator[JsonObject], started: float) -> AsyncGenerator[JsonObject, None]:
        """Frames under three clocks: until the first, between any two, and over all of them."""
        loop = asyncio.get_running_loop()
        wall, due = started + self._deadlines.ask, started + self._deadlines.first_event
        while True:
            try:
                async with asyncio.timeout_at(min(wall, due)):
                    frame = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise StreamBroken("timeout", "The platform stopped sending its answer.") from error
            yield frame
            due = loop.time() + self._deadlines.idle


def _content(body: Body) -> tuple[bytes | None, dict[str, str]]:
    if body.json is None or body.upload is not None:
        return None, {}
    text = json.dumps(body.json, ensure_ascii=False, separators=(",", ":"))
    return text.encode(), {"content-type": "application/json"}


@asynccontextmanager
async def _bounded(op: Op, seconds: float) -> AsyncIterator[None]:
    """So long for what is in the block; what HTTP raises there leaves in our words."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise _lost(op, "timeout") from error
    except httpx.HTTPError as error:
        raise _from_transport_failure(op, error) from error


async def _read_whole(response: httpx.Response) -> bytes:
    """The body, in memory, up to a cap: a platform gone wrong must not take the gateway with it."""
    parts: list[bytes] = []
    size = 0
    async with aclosing(response):
        async for part in response.aiter_bytes():
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


def _refused(op: Op, response: httpx.Response, body: bytes) -> Exception:
    problem: JsonObject | None = None
    if "json" in response.headers.get("content-type", ""):
        try:
            problem = json_object(parsed_json(body))
        except ValueError:
            problem = None
    if says_no_such_route(response, problem):
        return Absent()
    return from_refusal(op, response, problem)


def _lost(op: Op, code: str) -> GatewayError:
    """No answer: for a read that is the whole story, for a write its outcome is not known."""
    return GatewayError(code) if op in READS or op is Op.ASK else GatewayError("outcome_unknown")


def _from_transport_failure(op: Op, error: httpx.HTTPError) -> GatewayError:
    if isinstance(error, NOT_SENT):
        return GatewayError("upstream_unavailable")
    if isinstance(error, httpx.TimeoutException):
        return _lost(op, "timeout")
    return _lost(op, "upstream_unavailable")


def _retrieved(task: asyncio.Task[JsonValue]) -> None:
    """Nobody awaits this write any more; looking at its failure keeps asyncio from reporting it as lost."""
    if not task.cancelled():
        task.exception()
