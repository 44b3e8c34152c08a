"""Composition root: the only module that turns settings into a running gateway."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from fastmcp import FastMCP

from gateway import __version__
from gateway.brain import Brain
from gateway.caller import Call
from gateway.capabilities import URI, capabilities
from gateway.errors import GatewayError
from gateway.fetch import Fetcher
from gateway.files import Roots
from gateway.http import OneToken
from gateway.settings import Settings
from gateway.startup import CannotStart
from gateway.surfaces.base import Surface, current_caller
from gateway.upstream.client import Deadlines, Endpoint, Upstream
from gateway.upstream.daemon import DAEMON
from gateway.upstream.dialect import Dialect
from gateway.upstream.platform import PLATFORM

log = structlog.get_logger()

_DRAIN_SECONDS = 10.0


class Gateway:
    """One brain and the surfaces on it. Holds what must be closed when the process ends."""

    def __init__(self, settings: Settings, *, roots: tuple[Path, ...]) -> None:
        self._settings = settings
        self._fetch = own_fetch(settings)
        self._embedded: asyncio.Future[Endpoint] | None = None
        self._stop_embedded: Callable[[], None] = lambda: None
        self._upstream = Upstream(_dialects(settings), self._endpoint, deadlines=_deadlines(settings))
        self.brain = Brain(
            self._upstream,
            default=settings.default_brain,
            roots=Roots(roots) if roots else None,
            fetch=self._fetch,
            vet=Fetcher(allowed=settings.fetch_allow).vet,
        )

    def server(self, surface: Surface) -> FastMCP:
        """An MCP server for one surface, without FastMCP's detours."""
        token = self._settings.token
        tools = surface.tools()
        mcp = FastMCP(
            "brains-gateway",
            instructions=surface.instructions,
            version=__version__,
            tools=tools,
            auth=OneToken(token.get_secret_value()) if token else None,
            mask_error_details=True,
            dereference_schemas=False,
        )
        # Without this look-up the SDK runs a whole tools/list before every call on the modern wire.
        schemas = {tool.name: tool.parameters for tool in tools}
        mcp._mcp_server.get_tool_input_schema = schemas.get

        @mcp.resource(
            URI,
            name="capabilities",
            title="Capabilities",
            description="How each tool is served by the platform behind this gateway, and what is missing there.",
            mime_type="application/json",
        )
        async def report() -> str:
            return json.dumps(await capabilities(self.brain, surface, Call(current_caller())), ensure_ascii=False)

        return mcp

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self.brain.close(_DRAIN_SECONDS)
            await self._upstream.close()
            await asyncio.to_thread(self._stop_embedded)

    async def _endpoint(self) -> Endpoint:
        if self._settings.upstream_url is not None:
            token = self._settings.upstream_token
            return Endpoint(self._settings.upstream_url, token.get_secret_value() if token else None)
        if self._embedded is None:
            self._embedded = asyncio.ensure_future(asyncio.to_thread(self._start_embedded))
        try:
            return await asyncio.shield(self._embedded)
        except CannotStart as error:
            self._embedded = None
            log.error("embedded.failed", reason=str(error))
            message = "The embedded brain cannot start; the log says why."
            raise GatewayError("upstream_unavailable", message, retryable=False) from None

    def _start_embedded(self) -> Endpoint:
        # Imported when used: with a platform configured, or for tools/list alone, none of it is needed.
        from gateway.embedded import EmbeddedBrain

        embedded = EmbeddedBrain(self._settings.data_dir, self._fetch)
        self._stop_embedded = embedded.stop
        log.info("embedded.started", data_dir=str(self._settings.data_dir))
        return embedded.endpoint


def own_fetch(settings: Settings) -> Fetcher | None:
    """What fetches pages from here, if anything may."""
    return Fetcher(allowed=settings.fetch_allow) if settings.fetch == "on" else None


def _deadlines(settings: Settings) -> Deadlines:
    return Deadlines(
        connect=settings.connect_seconds,
        read=settings.read_seconds,
        ingest=settings.ingest_seconds,
        stage=settings.stage_seconds,
        first_event=settings.first_event_seconds,
        idle=settings.idle_seconds,
        ask=settings.ask_seconds,
    )


def _dialects(settings: Settings) -> tuple[Dialect, ...]:
    """The dialects the platform may speak; of the embedded brain that is known."""
    if settings.upstream_url is None or settings.dialect == "platform":
        return (PLATFORM,)
    return (DAEMON,) if settings.dialect == "daemon" else (PLATFORM, DAEMON)
