"""Reads from a call's request who calls, for which project, and how the client names the call."""

import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol

from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_http_request
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ClientCapabilities, ElicitResult, InputResponses

from gateway.operations.caller import NOBODY, Caller, Principal
from gateway.operations.errors import GatewayError

IDEMPOTENCY_KEY: Final = "brains/idempotencyKey"
PROGRESS_TOKEN: Final = "progressToken"
# Names of W3C, in headers and in `_meta`.
TRACE_CONTEXT: Final = ("traceparent", "tracestate")
_LLM_KEY_LENGTH: Final = 4096
TOKEN_LENGTH: Final = 256
_KEY: Final = re.compile(r"[A-Za-z0-9._:-]{1,255}")


class Incoming(Protocol):
    """The request of a call, read by FastMCP or by `gateway/http/direct.py`."""

    @property
    def http(self) -> "HttpRequest | None":
        """None over stdio."""

    @property
    def meta(self) -> Mapping[str, Any]: ...

    @property
    def revision(self) -> str: ...

    @property
    def client_name(self) -> str | None: ...

    @property
    def capabilities(self) -> ClientCapabilities | None: ...

    @property
    def input_responses(self) -> InputResponses | None: ...

    async def report(self, progress: int, *messages: str) -> None:
        """Send progress to the client, one notification for each message, if it asked for progress."""

    async def elicit(self, message: str, schema: dict[str, Any]) -> ElicitResult:
        """Ask the person at the client a question, if there is a way back to the client.

        Raises:
            MCPError: there is none.
        """


class HttpRequest(NamedTuple):
    """Headers by their names in lower case, and what our layers know of the request."""

    headers: Mapping[str, str]
    state: Mapping[str, Any]


INCOMING: Final[ContextVar[Incoming]] = ContextVar("incoming")


class ReadByFastMCP:
    """A request that FastMCP has read."""

    def __init__(self, context: Context) -> None:
        self._context = context
        request = context.request_context
        self.meta: Mapping[str, Any] = (request.meta if request else None) or {}
        self.http = _http_of_fastmcp()

    @property
    def revision(self) -> str:
        return self._context.session.protocol_version

    @property
    def client_name(self) -> str | None:
        said = self._context.session.client_params
        return None if said is None else said.client_info.name

    @property
    def capabilities(self) -> ClientCapabilities | None:
        return self._context.session.client_capabilities

    @property
    def input_responses(self) -> InputResponses | None:
        return self._context.input_responses

    async def report(self, progress: int, *messages: str) -> None:
        for number, message in enumerate(messages, progress):
            # The session's own method: integers stay integers, and it is silent without a token.
            await self._context.session.report_progress(number, message=message)

    async def elicit(self, message: str, schema: dict[str, Any]) -> ElicitResult:
        return await self._context.session.elicit_form(message, schema, self._context.request_id)


def _http_of_fastmcp() -> HttpRequest | None:
    try:
        request = get_http_request()
    except RuntimeError:
        return None
    return HttpRequest(request.headers, request.scope.get("state", {}))


def current_caller(
    project_headers: Sequence[str] = ("x-project",), *, default_project: str | None = None, takes_llm_key: bool = False
) -> Caller:
    """Who calls, from the HTTP request if there is one. Over stdio it is the local user."""
    incoming = INCOMING.get(None)
    request = _http_of_fastmcp() if incoming is None else incoming.http
    if request is None:
        return Caller(project=default_project)
    headers, state = request
    principal: Principal = state.get("principal", NOBODY)
    in_url: str | None = state.get("brain")
    only_project = principal.projects[0] if len(principal.projects) == 1 else default_project
    named_project = next((named for header in project_headers if (named := headers.get(header))), None)
    return Caller(
        principal.partition,
        ceiling=in_url if principal.brain is None else principal.brain,
        in_url=in_url,
        preferred=headers.get("x-brain"),
        principal=principal,
        project=named_project or only_project,
        llm_key=_llm_key(headers.get("x-llm-api-key")) if takes_llm_key else None,
        http=state.get("http"),
    )


def check_progress_token(meta: Mapping[str, Any]) -> None:
    """Check the client's progress token, which is sent back with every piece of an answer.

    Raises:
        MCPError: invalid params.
    """
    if len(str(meta.get(PROGRESS_TOKEN, ""))) > TOKEN_LENGTH:
        raise MCPError(INVALID_PARAMS, f"progressToken must have at most {TOKEN_LENGTH} characters.")


def _llm_key(header: str | None) -> str | None:
    """A key that can be sent in a header again."""
    return header if header and len(header) <= _LLM_KEY_LENGTH and header.isascii() and header.isprintable() else None


def idempotency_key() -> str | None:
    """The client's own key for this call, so that it can be repeated: `_meta["brains/idempotencyKey"]`.

    Raises:
        GatewayError: validation_error.
    """
    key = INCOMING.get().meta.get(IDEMPOTENCY_KEY)
    if key is None or (isinstance(key, str) and _KEY.fullmatch(key)):
        return key
    raise GatewayError(
        "validation_error",
        f"_meta[{IDEMPOTENCY_KEY!r}] must be 1 to 255 letters, digits or any of . : - _ in a string.",
    )
