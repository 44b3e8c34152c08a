"""The door: a request to MCP goes no further unless it is known who calls."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.brain.limits import Limits
from gateway.http.auth.inbound import Inbound, ProviderDown, Refused
from gateway.http.auth.while_valid import do_while_valid
from gateway.http.mcp_path import McpPath, is_guarded
from gateway.http.refusal_log import REFUSALS
from gateway.operations import audit, scopes
from gateway.operations.caller import LOCAL, HttpAnswer, Principal
from gateway.operations.errors import GatewayError

_TOKEN_LENGTH: Final = 16 * 1024
_CREDENTIALS: Final = re.compile(rb"(?i:bearer) +([\x21-\x7e]+)")
# How long an answer may go on after its token was revoked or has expired.
RECHECK_SECONDS: Final = 5.0
_MOST_SEEN: Final = 10_000
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"


@dataclass(frozen=True, slots=True)
class Resource:
    """What this gateway is to an OAuth client: one protected resource, whatever path is called."""

    audience: str
    issuer: str
    public_url: str
    login_scope: str = scopes.READ
    """The scope that clients ask for first. With read alone, tools that write are not shown, so none asks for more."""

    def metadata(self) -> Mapping[str, Any]:
        return {
            "resource": self.audience,
            "authorization_servers": [self.issuer],
            "scopes_supported": list(scopes.ORDER),
            "bearer_methods_supported": ["header"],
            "resource_name": "brains-gateway",
        }

    def metadata_url(self, path: str) -> str:
        return f"{self.public_url}{METADATA_PATH}{path}"


class Access:
    """Lets callers in by their token, and tells others what they need."""

    def __init__(
        self,
        app: ASGIApp,
        inbound: Inbound | None,
        resource: Resource | None,
        limits: Limits,
        surfaces: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
        *,
        needs_token: bool = True,
        recheck_seconds: float = RECHECK_SECONDS,
    ) -> None:
        """`surfaces` are those that are served, the one at `/mcp` first, with what each tells callers it refuses."""
        self._app = app
        self._inbound, self._resource = inbound, resource
        self._limits = limits
        self._surfaces = surfaces
        self._needs_token, self._recheck_seconds = needs_token, recheck_seconds
        self._seen: set[tuple[str, str | None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._guards(scope["path"]):
            # Other paths end here, because routers below might read a path in another way and let it in.
            await Response(status_code=404)(scope, receive, send)
            return
        if [name for name, _ in scope["headers"]].count(b"host") > 1:
            # The guard has checked one of these headers, but a proxy may have used the other.
            http_answer(scope).reason = "two host names"
            await Response(status_code=421)(scope, receive, send)
            return
        if self._inbound is None and not self._limits.are_set:
            await self._app(_let_in(scope, LOCAL), receive, send)
            return
        with ExitStack() as under_way:
            try:
                principal = http_answer(scope).principal = await self._principal(scope)
                place = await self._limits.admit_call(principal.partition)
                under_way.enter_context(self._limits.hold_call(principal.partition, place))
            except Refused as error:
                http_answer(scope).reason = str(error)
                await self._unauthorized(scope)(scope, receive, send)
            except ProviderDown as error:
                http_answer(scope).reason = str(error)
                await self._provider_down(error.retry_after)(scope, receive, send)
            except GatewayError as error:
                http_answer(scope).reason = error.message
                await self._too_many(error)(scope, receive, send)
            else:
                if audit.is_kept() and self._inbound is not None:
                    self._note_login(principal, http_answer(scope))
                await self._serve(_let_in(scope, principal), receive, send, principal)

    def _note_login(self, principal: Principal, answer: HttpAnswer) -> None:
        """Write a line for a caller whom this process has not seen at that address before."""
        key = (principal.partition, answer.address)
        if key in self._seen:
            return
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen.add(key)
        audit.note("login", **audit.of_caller(principal, answer), outcome="ok", request_id=answer.request_id)

    def _guards(self, path: str) -> bool:
        return is_guarded(path, self._surfaces)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        """Run the call to its end, or until the token is revoked or expires."""
        begun = False

        async def note(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        async def is_valid() -> bool:
            try:
                return await self._principal(scope) == principal
            except ProviderDown:
                # The token was valid, and nothing says that it no longer is.
                return True
            except Refused:
                return False

        if self._inbound is None:
            await self._app(scope, receive, send)
        elif not await do_while_valid(self._app(scope, receive, note), is_valid, self._recheck_seconds):
            answer = http_answer(scope)
            answer.reason = "the token ended"
            if begun:
                # An answer that has begun can no longer be refused, only ended.
                REFUSALS.note_answer(401, scope, answer)
                await send({"type": "http.response.body", "body": b""})
            else:
                await self._unauthorized(scope)(scope, receive, send)

    async def _principal(self, scope: Scope) -> Principal:
        if self._inbound is None:
            return LOCAL
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if not given and not self._needs_token:
            return LOCAL
        if (
            len(given) != 1
            or len(given[0]) > _TOKEN_LENGTH
            or (said := _CREDENTIALS.fullmatch(given[0].strip())) is None
        ):
            raise Refused("no token" if not given else "not one bearer token")
        return await self._inbound.principal(said.group(1).decode("ascii"))

    def _unauthorized(self, scope: Scope) -> Response:
        assert self._inbound is not None
        brought = any(name == b"authorization" for name, _ in scope["headers"])
        wrong = "This token is not valid here: it is wrong, expired, revoked or meant for another. " if brought else ""
        login = scopes.READ if self._resource is None else self._resource.login_scope
        said = {"code": "unauthorized", "message": wrong + self._inbound.wants, "retryable": False}
        path = McpPath.of(scope["path"], self._surfaces)
        surface = (path.surface if path else "") or next(iter(self._surfaces), "")
        besides = self._surfaces.get(surface, {}) if path else {}
        return JSONResponse(
            {**said, **besides},
            401,
            {
                "www-authenticate": challenge(
                    self._resource, scope["path"], "invalid_token" if brought else None, scopes.including(login)
                )
            },
        )

    def _provider_down(self, retry_after: int) -> Response:
        error = provider_down(retry_after)
        return JSONResponse(without_id(error), 503, {"retry-after": str(retry_after)})

    def _too_many(self, error: GatewayError) -> Response:
        return JSONResponse(without_id(error), 429, {"retry-after": str(error.retry_after_seconds or 1)})


def http_answer(scope: Scope) -> HttpAnswer:
    """What the log is told about this request."""
    answer: HttpAnswer = scope["state"]["http"]
    return answer


def _let_in(scope: Scope, principal: Principal) -> Scope:
    """The request, with its caller."""
    return {**scope, "state": {**scope["state"], "principal": principal}}


def challenge(resource: Resource | None, path: str, error: str | None, needed: Sequence[str]) -> str:
    """What a client must bring, in the words of RFC 6750 and RFC 9728."""
    said = {"error": error, "scope": " ".join(needed)}
    if resource is not None:
        said["resource_metadata"] = resource.metadata_url(path.rstrip("/"))
    words = ", ".join(f"{name}={json.dumps(value)}" for name, value in said.items() if value)
    return f"Bearer {words}".strip()


def provider_down(retry_after: int) -> GatewayError:
    return GatewayError(
        "upstream_unavailable",
        "Whether this token is valid cannot be told at the moment: its provider does not answer. Keep the token.",
        retry_after_seconds=retry_after,
    )


def without_id(error: GatewayError) -> dict[str, Any]:
    said = error.as_json("")
    del said["request_id"]
    return said
