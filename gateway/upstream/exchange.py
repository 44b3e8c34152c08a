"""One request to the platform, and its answer: adds the credential, sends the request, reads the answer within a cap.

Nothing here is sent twice, and nothing is judged: a refusal is a value like any other answer.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import httpx

from gateway.operations.caller import Call
from gateway.operations.errors import Doubt, GatewayError, Unsure
from gateway.operations.table import Args, Effect, JsonObject, Op
from gateway.upstream.credentials import Credentials, Endpoint, Static
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.dialects.dialect import Route
from gateway.upstream.sse import read_frames
from gateway.upstream.wire.request import close, parts_of, request_of
from gateway.upstream.wire.transport import pooled_client

TOO_LARGE: Final = "The platform's answer is too large."
NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# The cap for a refusal, which is much larger than any explanation.
REFUSAL_BYTES: Final = 1024 * 1024
NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer of the platform."""

    response: httpx.Response
    body: bytes
    is_open: bool = False
    """Whether it is a stream whose frames are still to come. The receiver must close it."""

    @property
    def is_refusal(self) -> bool:
        return self.response.status_code >= 300


class Exchange:
    """The way to one platform, for every caller: each request carries the credential of its own."""

    def __init__(
        self,
        endpoint: Callable[[], Awaitable[Endpoint]],
        deadlines: Deadlines,
        credentials: Credentials | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._deadlines = deadlines
        self._credentials = credentials or Static()
        self._http = http or pooled_client()
        # A client of its own for streams, so that other requests get a connection however many answers are under way.
        self._streams = http or pooled_client()

    async def close(self) -> None:
        await self._http.aclose()
        await self._streams.aclose()

    async def send(self, call: Call, op: Op, route: Route, args: Args, trace: Mapping[str, str] = NONE) -> Heard:
        """One operation and its whole answer. If the answer streams, only its beginning was read. The headers in
        `trace` say to which trace the request belongs.

        Raises:
            httpx.HTTPError: no answer came, or not all of it.
            GatewayError: upstream_error, when the answer is too large.
        """
        endpoint = await self._endpoint()
        headers = self._headers(endpoint, call, trace)
        if call.caller.llm_key is not None:
            headers["x-llm-api-key"] = call.caller.llm_key
        is_stream = op.effect is Effect.ANSWER
        # A stream may be silent for this long; its reader limits each frame. Any other answer has one deadline for all
        # attempts, and a time limit for each of its parts could never end before that.
        seconds = max(self._deadlines.first_event, self._deadlines.idle) if is_stream else None
        path, body, connect = route.fill(args), route.encode(args), self._deadlines.connect
        if body.headers:
            headers.update(body.headers)
        request = request_of(
            route.method, endpoint.url, path, body, headers, seconds=seconds, connect=connect, streams=is_stream
        )
        response = await (self._streams if is_stream else self._http).send(request, stream=True)
        if is_stream and response.status_code < 300:
            return Heard(response, b"", is_open=True)
        try:
            return Heard(response, await read_whole(response, op))
        except GatewayError as error:
            raise in_doubt_if_stored(op, error) from error.__cause__

    def frames(self, heard: Heard) -> AsyncGenerator[list[JsonObject], None]:
        """The frames of an answer that streams."""
        return read_frames(heard.response, _secrets_of(heard.response.request))

    async def probe(
        self, call: Call, method: str, path: str, trace: Mapping[str, str] = NONE
    ) -> tuple[httpx.Response, bytes]:
        """The answer to a request with nothing in it."""
        endpoint = await self._endpoint()
        is_get = method == "GET"
        request = self._http.build_request(
            method,
            endpoint.url.rstrip("/") + path,
            content=None if is_get else b"{}",
            headers={
                "accept-encoding": "identity",
                **self._headers(endpoint, call, trace),
                **({} if is_get else {"content-type": "application/json"}),
            },
        )
        response = await self._http.send(request, stream=True)
        # Detection also lists brains.
        return response, await read_whole(response, Op.LIST_BRAINS)

    def _headers(self, endpoint: Endpoint, call: Call, trace: Mapping[str, str]) -> dict[str, str]:
        return {"x-request-id": call.request_id, **self._credentials.headers(endpoint, call), **trace}


async def read_whole(response: httpx.Response, op: Op) -> bytes:
    """The body, in memory, up to a cap, so that a faulty platform cannot fill the gateway's memory.

    Raises:
        GatewayError: upstream_error, when it is larger.
    """
    most = op.answer_bytes if response.status_code < 300 else REFUSAL_BYTES
    parts: list[bytes] = []
    size = 0
    try:
        async for part in parts_of(response):
            size += len(part)
            if size > most:
                raise GatewayError("upstream_error", TOO_LARGE)
            parts.append(part)
    finally:
        # Not `response.aclose`, which takes longer because it goes through a context of httpx's.
        await close(response)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _secrets_of(request: httpx.Request) -> list[str]:
    """The secrets that a request showed to the platform."""
    shown = (request.headers.get(name, "") for name in ("authorization", "x-internal-key", "x-llm-api-key"))
    return [word for value in shown if (word := value.removeprefix("Bearer "))]


def in_doubt_if_stored(op: Op, error: GatewayError) -> GatewayError:
    """An answer to a write that cannot be read may say that the write was made."""
    return Unsure(error, Doubt.ANSWERED) if op.stores else error
