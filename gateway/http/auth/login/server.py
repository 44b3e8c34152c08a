"""The endpoints of the login: metadata, registration, the pages, tokens and their end."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.auth.access import http_answer
from gateway.http.auth.jwt import JwtInbound
from gateway.http.auth.login.authorize import Authorize
from gateway.http.auth.login.clients import BadClient, Clients
from gateway.http.auth.login.forms import BadForm, address_of, body_of, form_of
from gateway.http.auth.login.grants import Denied, Grants
from gateway.http.auth.login.proofs import METHOD
from gateway.http.auth.login.throttle import REGISTRATIONS, Throttle
from gateway.http.auth.signed import ALGORITHMS
from gateway.operations import scopes

log = structlog.get_logger()

METADATA_PATH: Final = "/.well-known/oauth-authorization-server"
_OPEN: Final = {"access-control-allow-origin": "*"}
_UNSTORED: Final = {"cache-control": "no-store", "pragma": "no-cache", **_OPEN}
_PREFLIGHT: Final = {
    **_OPEN,
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "authorization, content-type, mcp-protocol-version",
    "access-control-max-age": "600",
}
_Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class LoginServer:
    """All that answers for the login. One is made when the gateway starts."""

    issuer: str
    clients: Clients
    grants: Grants
    authorize: Authorize
    throttle: Throttle
    access: JwtInbound
    """Verifies the access tokens that are to be revoked."""

    def over(self, app: ASGIApp) -> ASGIApp:
        """Answers at its own paths, before what is served below."""
        handlers: Mapping[tuple[str, str], _Handler] = {
            ("GET", METADATA_PATH): self._metadata,
            ("GET", "/authorize"): self.authorize.begin,
            ("POST", "/authorize"): self.authorize.go_on,
            ("POST", "/token"): self._token,
            ("POST", "/register"): self._register,
            ("POST", "/revoke"): self._revoke,
        }
        paths = {path for _, path in handlers}
        for_programs = paths - {"/authorize"}

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["path"] not in paths:
                await app(scope, receive, send)
                return
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            handler = handlers.get((method, scope["path"]))
            if handler is not None:
                try:
                    response = await handler(Request(scope, receive))
                except ClientDisconnect:
                    return
            elif method == "OPTIONS" and scope["path"] in for_programs:
                response = Response(status_code=204, headers=_PREFLIGHT)
            else:
                response = _refuse(scope, "invalid_request", "method", 400)
            await response(scope, receive, send)

        return answer

    async def _metadata(self, _request: Request) -> Response:
        return JSONResponse(self.metadata(), headers={"cache-control": "public, max-age=300", **_OPEN})

    def metadata(self) -> Mapping[str, Any]:
        """What clients find out by themselves (RFC 8414)."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "scopes_supported": list(scopes.ORDER),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            **self._authentication(),
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self.clients.has_documents,
        }

    def _authentication(self) -> Mapping[str, Any]:
        # Keys are found by documents, and signatures are for the algorithms that we verify (RFC 8414).
        if not self.clients.has_documents:
            return {"token_endpoint_auth_methods_supported": ["none"]}
        return {
            "token_endpoint_auth_methods_supported": ["none", METHOD],
            "token_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        }

    async def _register(self, request: Request) -> Response:
        if wait := await self.throttle.take(REGISTRATIONS, address_of(request)):
            return _refuse(request.scope, "temporarily_unavailable", "too many", 429, wait)
        try:
            client, said = self.clients.register(await body_of(request))
        except BadForm as error:
            return _refuse(request.scope, "invalid_client_metadata", str(error))
        except BadClient as error:
            error_code = "invalid_redirect_uri" if "redirect_uris" in str(error) else "invalid_client_metadata"
            return _refuse(request.scope, error_code, str(error), description=str(error))
        log.info("login.registered", client=client.name)
        return JSONResponse(
            {
                "client_id": client.id,
                "client_name": said.client_name,
                "redirect_uris": list(client.redirect_uris),
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
            },
            201,
            _UNSTORED,
        )

    async def _token(self, request: Request) -> Response:
        try:
            given = await form_of(request)
            match given.get("grant_type"):
                case "authorization_code":
                    tokens = await self.grants.redeem(given)
                case "refresh_token":
                    tokens = await self.grants.refresh(given)
                case _:
                    raise Denied("unsupported_grant_type", "grant_type")
        except BadForm as error:
            return _refuse(
                request.scope, "invalid_request", str(error), description=f"Send it once and plainly: {error}."
            )
        except Denied as denied:
            return _refuse(request.scope, denied.error, str(denied), denied.status)
        return JSONResponse(tokens, headers=_UNSTORED)

    async def _revoke(self, request: Request) -> Response:
        try:
            await self.grants.revoke(await form_of(request), self.access)
        except BadForm as error:
            return _refuse(request.scope, "invalid_request", str(error))
        except Denied as denied:
            return _refuse(request.scope, denied.error, str(denied), denied.status)
        return Response(status_code=200, headers=_UNSTORED)


_SENTENCES: Final[Mapping[str, str]] = {
    "invalid_grant": "This code or refresh token is not good here, or not any more. Log in again.",
    "invalid_client": "A program that says private_key_jwt must send a fresh client_assertion that it has signed.",
    "invalid_target": "Tokens are issued for this gateway alone: leave resource out, or name it as its metadata do.",
    "invalid_scope": "A refreshed token can have no more scopes than were granted.",
    "unsupported_grant_type": "Only authorization_code and refresh_token are served here.",
    "temporarily_unavailable": "This cannot be done at the moment. Try again in a little while.",
    "invalid_request": "This request cannot be understood, or something that it needs is missing.",
}


def _refuse(
    scope: Scope, error: str, reason: str, status: int = 400, wait: float | None = None, description: str | None = None
) -> Response:
    http_answer(scope).reason = f"{error}: {reason}"
    retry = {"retry-after": str(max(1, round(wait or 5)))} if status in {429, 503} else {}
    said = description or _SENTENCES.get(error, "")
    return JSONResponse({"error": error, "error_description": said}, status, {**_UNSTORED, **retry})
