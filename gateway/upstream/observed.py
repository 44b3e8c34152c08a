"""The way to a platform if requests are observed: the observer is told of each request when it begins and ends."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol

import httpx

from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.table import Args, JsonObject, Op
from gateway.upstream.credentials import Credentials, Endpoint
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.dialects.dialect import Route
from gateway.upstream.exchange import NONE, NOT_SENT, Exchange, Heard


class ObservedRequest(Protocol):
    """One request."""

    headers: Mapping[str, str]
    """They tell the platform to which trace it belongs."""

    def answer(self, outcome: str, heard: Heard | None) -> None:
        """The request has ended, with an answer or without one. A stream has only begun."""

    def receive(self, size: int) -> None:
        """More of a stream came."""

    def say(self, pieces: int) -> None:
        """How many pieces of an answer came together."""

    def close(self) -> None:
        """A stream has ended, or its reader has left."""


class RequestObserver(Protocol):
    """Is told of every request to the platform."""

    def begin(self, call: Call, op: Op, route: Route) -> ObservedRequest:
        """A request is about to be sent."""

    def headers(self) -> Mapping[str, str]:
        """The same for a request that is not observed."""


class ObservedExchange(Exchange):
    """Sends as `Exchange` does, and tells the observer."""

    def __init__(
        self,
        observer: RequestObserver,
        endpoint: Callable[[], Awaitable[Endpoint]],
        deadlines: Deadlines,
        credentials: Credentials | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(endpoint, deadlines, credentials, http)
        self._observer = observer

    async def send(self, call: Call, op: Op, route: Route, args: Args, trace: Mapping[str, str] = NONE) -> Heard:
        request = self._observer.begin(call, op, route)
        # The caller left, or the time of the call is up.
        outcome, heard = "given_up", None
        try:
            heard = await super().send(call, op, route, args, request.headers)
            outcome = _class_of(heard.response.status_code)
        except (httpx.HTTPError, GatewayError) as error:
            outcome = _failure(error)
            raise
        finally:
            request.answer(outcome, heard)
        if heard.is_open:
            heard.response.stream = _Stream(heard.response, request)
        return heard

    def frames(self, heard: Heard) -> AsyncGenerator[list[JsonObject], None]:
        return _count_pieces(super().frames(heard), heard)

    async def probe(
        self, call: Call, method: str, path: str, trace: Mapping[str, str] = NONE
    ) -> tuple[httpx.Response, bytes]:
        return await super().probe(call, method, path, self._observer.headers())


class _Stream(httpx.AsyncByteStream):
    """An answer that streams, as it came."""

    def __init__(self, response: httpx.Response, request: ObservedRequest) -> None:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        self._stream, self.request = response.stream, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self.request.receive(len(part))
            yield part
            # Otherwise it would stay in memory while the platform thinks.
            del part

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self.request.close()


async def _count_pieces(
    frames: AsyncGenerator[list[JsonObject], None], heard: Heard
) -> AsyncGenerator[list[JsonObject], None]:
    stream = heard.response.stream
    assert isinstance(stream, _Stream)
    try:
        async for together in frames:
            if pieces := sum(frame["type"] == "answer_delta" for frame in together):
                stream.request.say(pieces)
            yield together
            del together
    finally:
        await frames.aclose()


def _class_of(status: int) -> str:
    return "429" if status == 429 else f"{status // 100}xx" if 200 <= status < 600 else "other"


def _failure(error: Exception) -> str:
    if isinstance(error, NOT_SENT):
        return "unreachable"
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    return "cut_off" if isinstance(error, httpx.HTTPError) else "too_large"
