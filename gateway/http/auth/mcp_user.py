"""The caller in the form that MCP's own libraries expect."""

from fastmcp.server.auth import AccessToken
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.operations.caller import LOCAL, Principal


class McpUser:
    """Tells a server of FastMCP who calls. Calls that are answered without FastMCP skip this work."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = AuthContextMiddleware(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = scope.get("state", {}).get("principal", LOCAL)
        if principal is not LOCAL:
            scope = {**scope, "user": AuthenticatedUser(_access_token(principal))}
        await self._app(scope, receive, send)


def _access_token(principal: Principal) -> AccessToken:
    return AccessToken(
        token="",
        # Not the client's own id: values are sealed for one caller by this id, and several callers share a client.
        client_id=principal.partition,
        scopes=sorted(principal.scopes),
        subject=principal.subject,
        claims={"iss": principal.issuer, "sub": principal.subject},
    )
