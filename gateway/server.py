"""Composition root: the only module that turns settings into a running gateway."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from fastmcp import FastMCP

from gateway import __version__
from gateway.brain import Brain
from gateway.errors import GatewayError
from gateway.fetch import Fetcher
from gateway.files import Roots
from gateway.http import OneToken
from gateway.settings import Settings
from gateway.startup import CannotStart
from gateway.surfaces.base import Surface
from gateway.upstream.client import Endpoint, Upstream
from gateway.upstream.platform import PLATFORM

log = structlog.get_logger()


class Gateway:
    """One brain and the surfaces on it. Holds what must be closed when the process ends."""

    def __init__(self, settings: Settings, *, roots: tuple[Path, ...]) -> None:
        self._settings = settings
        self._fetch = Fetcher()
        self._embedded: asyncio.Future[Endpoint] | None = None
        self._stop_embedded: Callable[[], None] = lambda: None
        self._upstream = Upstream(PLATFORM, self._endpoint)
        self.brain = Brain(
            self._upstream,
            default=settings.default_brain,
            roots=Roots(roots) if roots else None,
            fetch=self._fetch,
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
        return mcp

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
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
