"""Composition root: the only module that turns settings into a running gateway."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import structlog
from fastmcp import FastMCP
from fastmcp.exceptions import ResourceError
from fastmcp.tools import Tool
from mcp.server.request_state import RequestStateSecurity

from gateway import __version__
from gateway.app.capabilities import URI, capabilities
from gateway.app.platform_watch import PlatformWatch
from gateway.app.shared_limits import shared_limits
from gateway.app.startup import CannotStart
from gateway.brain.brain import Brain
from gateway.brain.limits import Allowance, Limits
from gateway.config.reread_file import RereadFile, header_word, state_keys
from gateway.config.settings import Settings
from gateway.config.signing_keys import SigningKeys
from gateway.config.sources import WORKER_OF
from gateway.http.auth.access import Resource
from gateway.http.auth.inbound import AnyToken, Inbound, Naming, OneToken, short_hash
from gateway.http.auth.jwt import Expected, JwtInbound
from gateway.http.auth.keys import ProviderKeys
from gateway.http.auth.tokens import Tokens
from gateway.http.endpoint import Door
from gateway.http.metrics import Page
from gateway.http.operator import Operator
from gateway.http.public import Ready
from gateway.ingest.fetch import Fetcher
from gateway.ingest.files import Roots
from gateway.mcp.recent_calls import RecentCalls
from gateway.mcp.run import require, tell_http, tools_of
from gateway.mcp.sdk import IsAnswered, server_of
from gateway.mcp.surface import Options, Surface
from gateway.operations import scopes
from gateway.operations.caller import Call
from gateway.operations.chains import serve
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject
from gateway.surfaces.catalog import SURFACES
from gateway.upstream.credentials import Credentials, Endpoint, Internal, Passthrough, Static, Telling
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.dialects.catalog import DIALECTS
from gateway.upstream.dialects.dialect import Dialect
from gateway.upstream.dialects.memoai import MEMOAI
from gateway.upstream.dialects.platform import PLATFORM
from gateway.upstream.pipeline import Upstream
from gateway.upstream.wire.transport import pooled_client

if TYPE_CHECKING:
    from gateway.app.login import Login
    from gateway.app.observing import Observing

log = structlog.get_logger()

_DRAIN_SECONDS = 10.0


class Gateway:
    """One brain and the surfaces on it. Holds what must be closed when the process ends."""

    def __init__(
        self,
        settings: Settings,
        *,
        roots: tuple[Path, ...] | None,
        observing: "Observing | None" = None,
        limits_file: Path | None = None,
    ) -> None:
        """`roots` are the directories that files may be ingested from; None if that is not offered at all. All
        workers count in `limits_file` what callers use."""
        self._observing = observing
        observer = None if observing is None else observing.observer
        self._settings = settings
        self._fetch = own_fetch(settings)
        self._inbound: Inbound | None = None
        self.recent: RecentCalls | None = None
        self._provider: httpx.AsyncClient | None = None
        self._login: Login | None = None
        token = settings.upstream_token
        self._platform = (
            Endpoint(settings.upstream_url, token.get_secret_value() if token else None)
            if settings.upstream_url is not None
            else None
        )
        self._embedded: asyncio.Future[Endpoint] | None = None
        self._stop_embedded: Callable[[], None] = lambda: None
        # The callers of one tenant share what is stored, but none of them may take all the room.
        self._buckets = shared_limits(settings, limits_file)
        allowance = _allowance(settings) if settings.tells_callers_apart else None
        self._limits = Limits(allowance, shared=self._buckets if allowance else None, observer=observer)
        self._keys = SigningKeys(settings.signing_keys_file) if settings.signing_keys_file else None
        secret = settings.internal_key_file if settings.upstream_auth == "internal" else None
        self._internal_key = RereadFile(secret, header_word) if secret else None
        self._upstream = Upstream(
            _dialects(settings),
            self._endpoint,
            deadlines=deadlines_of(settings),
            credentials=self._credentials(),
            shared=settings.is_shared,
            observer=observer,
            requests=observing,
        )
        self._watch = PlatformWatch(self._where, pooled_client())
        self.brain = Brain(
            self._upstream,
            default=settings.default_brain,
            roots=None if roots is None else Roots(roots),
            fetch=self._fetch,
            vet=Fetcher(allowed=settings.fetch_allow).vet,
            limits=self._limits,
            turns=self._buckets if settings.redis_url is not None else None,
            shared=settings.is_shared,
            actor=settings.actor,
            read_only=settings.read_only,
            serve=serve if observing is None else observing.serve,
            observer=observer,
        )

    def _credentials(self) -> Credentials:
        settings = self._settings
        if settings.upstream_auth == "static":
            # Many tenants and one token: this can only be the embedded brain, also if it runs in the supervisor.
            return Telling() if settings.is_shared else Static()
        if settings.upstream_auth == "passthrough":
            return Passthrough()
        assert self._keys is not None
        return Internal(
            self._keys,
            issuer=str(settings.public_url),
            audience=str(settings.upstream_audience),
            internal_key=self._internal_key,
            # MemoAI scopes by a header. With one tenant, the header is as trustworthy as the caller.
            every_project=lambda: not settings.is_shared and self._upstream.speaks(MEMOAI),
        )

    def surface(self, name: str) -> Surface:
        # Imported when it is served, because over stdio only one surface is.
        module = import_module(f"gateway.surfaces.{name}.surface")
        made: Surface = getattr(module, SURFACES[name])(self.brain, _options(self._settings))
        made.recent = self.recent
        return made

    def surfaces(self) -> list[Surface]:
        """The surfaces that are served, the one at `/mcp` first."""
        first = self._settings.first_surface
        return [self.surface(name) for name in (first, *(n for n in self._settings.surfaces if n != first))]

    def server(
        self, surface: Surface, tools: Sequence[Tool] | None = None, is_answered: IsAnswered | None = None
    ) -> FastMCP:
        """An MCP server for one surface, with the report of what it can do."""
        security = _state_security(self._settings)
        observers, observer = (None, None) if (seen := self._observing) is None else (seen.tool, seen.observer)
        tools = tools_of(surface, observers) if tools is None else tools
        mcp = server_of(surface, tools, __version__, security, is_answered, observer)

        @mcp.resource(
            URI,
            name="capabilities",
            title="Capabilities",
            description="How each tool is served by the platform behind this gateway, and what is missing there.",
            mime_type="application/json",
        )
        async def report() -> str:
            call = surface.call()
            try:
                require(call, scopes.READ, surface)
            except GatewayError as error:
                tell_http(call, error)
                raise ResourceError(str(error)) from None
            return json.dumps(await capabilities(self.brain, [surface], call), ensure_ascii=False)

        return mcp

    def door(self, metrics: Page | None = None) -> Door:
        """Who may call over HTTP, and what `/metrics` shows to the operator, if anything."""
        if self._settings.auth == "jwt":
            self._provider = pooled_client()
        if self._settings.auth == "password":
            # Imported when used: few have a login of their own.
            from gateway.app.login import login_of

            self._login = login_of(self._settings, self._fetch, self._buckets)
        self._inbound = self._login.inbound if self._login else _inbound(self._settings, self._provider)
        passes_on = isinstance(self._inbound, AnyToken)
        return Door(
            self._inbound,
            _resource(self._settings),
            self._limits,
            needs_token=not passes_on,
            ready=self._ready,
            operator=_operator(self._settings),
            metrics=metrics,
            keys=self._keys.published if self._keys else None,
            login=self._login.server.over if self._login else None,
        )

    async def _ready(self, with_details: bool) -> Ready:
        platform = await self._watch.state()
        requests = self._upstream.state()
        if "failing" in (requests["read"], requests["write"], requests["ask"]):  # else only its model is down, if any
            platform = "unavailable"
        problems = [problem for problem in (await self._problems()) if problem]
        problem = f"not ready: {'; '.join(problems)}" if problems else None
        if not with_details:
            return Ready(not problems, platform, problem=problem)
        models = await self.models()
        details = {"problems": problems, "requests": requests, **({} if models is None else {"models": models})}
        return Ready(not problems, platform, details, problem)

    async def models(self, *, trying: bool = False) -> JsonObject | None:
        """The models of the embedded brain, and whether they work; None if it does not run, or a platform is set.

        Only with `trying`, a language model is asked for a word, to see whether it works.
        """
        if self._embedded is None and not self._is_worker:
            return None
        try:
            return await self._upstream.look(Call(), "/v1/models", "POST" if trying else "GET")
        except GatewayError:
            return None

    @property
    def _is_worker(self) -> bool:
        """Whether the platform is the embedded brain of the process whose worker this is."""
        return self._settings.upstream_url is not None and WORKER_OF in os.environ

    def _where(self) -> str | None:
        """The address of the platform. The embedded brain has none until it is used."""
        if self._settings.upstream_url is not None:
            return self._settings.upstream_url
        started = self._embedded
        is_there = started is not None and started.done() and not started.cancelled() and started.exception() is None
        return started.result().url if started is not None and is_there else None

    async def _problems(self) -> list[str | None]:
        # The gateway is responsible for the file of the embedded brain, but not for the state of another platform.
        is_ours = self._settings.upstream_url is None or self._is_worker
        return [
            self._watch.problem if is_ours else None,
            await self._inbound.problem() if self._inbound else None,
            "the file of signing keys cannot be read" if self._keys and not self._keys.is_current else None,
            "the file of the shared secret cannot be read" if _is_stale(self._internal_key) else None,
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self.brain.close(_DRAIN_SECONDS)
            await self._watch.close()
            if self._buckets is not None:
                await self._buckets.close()
            await self._upstream.close()
            if self._provider is not None:
                await self._provider.aclose()
            if self._login is not None:
                await self._login.close()
            await asyncio.to_thread(self._stop_embedded)
            if self._observing is not None:
                await asyncio.to_thread(self._observing.close)

    async def _endpoint(self) -> Endpoint:
        if self._platform is not None:
            return self._platform
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
        from gateway.app.embedded import embedded_brain

        embedded = embedded_brain(self._settings, self._fetch)
        self._stop_embedded = embedded.stop
        log.info("embedded.started", data_dir=str(self._settings.data_dir))
        return embedded.endpoint


def _inbound(settings: Settings, http: httpx.AsyncClient | None) -> Inbound | None:
    passes_on = settings.upstream_auth == "passthrough"
    naming = naming_of(settings)
    if settings.auth == "tokens":
        return Tokens(settings.tokens_path, naming)
    if settings.auth == "jwt":
        assert http is not None
        expected = Expected(
            str(settings.auth_issuer),
            settings.audience,
            shared_audience=settings.auth_shared_audience,
            org_claim=settings.org_claim,
            projects_claim=settings.projects_claim,
            brain_claim=settings.brain_claim,
        )
        keys = ProviderKeys(expected.issuer, settings.auth_jwks_url, http)
        return JwtInbound(expected, keys, keeps_token=passes_on, naming=naming)
    if settings.token is not None:
        return OneToken(settings.token.get_secret_value())
    return AnyToken() if passes_on else None


def naming_of(settings: Settings) -> Naming:
    """The names of callers in the log."""
    return short_hash if settings.log_callers == "hash" else str


def _resource(settings: Settings) -> Resource | None:
    if settings.auth not in {"jwt", "password"}:
        return None
    issuer = settings.auth_issuer if settings.auth == "jwt" else settings.public_url
    return Resource(settings.audience, str(issuer), str(settings.public_url), f"brains:{settings.login_scope}")


def _operator(settings: Settings) -> Operator:
    token = settings.metrics_token
    return Operator(token.get_secret_value() if token else None, is_anybody_here=settings.is_for_this_machine)


def _allowance(settings: Settings) -> Allowance:
    return Allowance(
        calls_per_second=settings.calls_per_second,
        calls_at_once=settings.calls_at_once,
        asks_at_once=settings.asks_at_once,
        fetches_per_minute=settings.fetches_per_minute,
        bytes_per_minute=settings.stored_per_minute,
    )


def _is_stale(file: RereadFile[str] | None) -> bool:
    if file is None:
        return False
    file.value()
    return not file.is_current


def _options(settings: Settings) -> Options:
    return Options(
        actor=settings.actor,
        project=None if settings.is_shared else settings.project,
        shared=settings.is_shared,
        write_scope=settings.write_scope,
        recall_notes=settings.recall_notes,
        context_entries=settings.context_entries,
        model=settings.being_model,
        full_text=settings.full_text == "on",
        read_only=settings.read_only,
        tool_prefix=settings.tool_prefix,
        extra_tools=settings.has_extra_tools,
    )


def _state_security(settings: Settings) -> RequestStateSecurity | None:
    """State that clients carry for us between requests is sealed with keys that every replica has."""
    if settings.state_keys_file is None:
        return None
    return RequestStateSecurity(keys=state_keys(settings.state_keys_file.read_bytes()), audience="brains-gateway")


def own_fetch(settings: Settings) -> Fetcher | None:
    """The fetcher of pages, if the gateway may fetch any."""
    return Fetcher(allowed=settings.fetch_allow) if settings.fetch == "on" else None


def deadlines_of(settings: Settings) -> Deadlines:
    return Deadlines(
        connect=settings.connect_seconds,
        # The first probe of the embedded brain starts it. On a slow machine this takes longer than a platform may.
        probe=settings.read_seconds if settings.upstream_url is None else Deadlines().probe,
        read=settings.read_seconds,
        ingest=settings.ingest_seconds,
        stage=settings.stage_seconds,
        first_event=settings.first_event_seconds,
        idle=settings.idle_seconds,
        ask=settings.ask_seconds,
    )


def _dialects(settings: Settings) -> tuple[Dialect, ...]:
    """The dialects that the platform may speak. That of the embedded brain is known."""
    if settings.upstream_url is None:
        return (PLATFORM,)
    return tuple(DIALECTS.values()) if settings.dialect == "auto" else (DIALECTS[settings.dialect],)
