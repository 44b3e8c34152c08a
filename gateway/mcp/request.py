"""What the request of a call says: who calls, for which project, and how the client names the call."""

import re
from collections.abc import Sequence
from typing import Final

from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context, get_http_request
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from gateway.operations.caller import NOBODY, Caller, Principal
from gateway.operations.errors import GatewayError

IDEMPOTENCY_KEY: Final = "brains/idempotencyKey"
_LLM_KEY_LENGTH: Final = 4096
_TOKEN_LENGTH: Final = 256
_KEY: Final = re.compile(r"[A-Za-z0-9._:-]{1,255}")


def current_caller(
    project_headers: Sequence[str] = ("x-project",), *, default_project: str | None = None, takes_llm_key: bool = False
) -> Caller:
    """Who calls, from the HTTP request if there is one. Over stdio it is the local user."""
    try:
        request = get_http_request()
    except RuntimeError:
        return Caller(project=default_project)
    principal: Principal = getattr(request.state, "principal", NOBODY)
    in_url: str | None = getattr(request.state, "brain", None)
    only_project = principal.projects[0] if len(principal.projects) == 1 else default_project
    named_project = next((named for header in project_headers if (named := request.headers.get(header))), None)
    return Caller(
        principal.partition,
        ceiling=in_url if principal.brain is None else principal.brain,
        in_url=in_url,
        preferred=request.headers.get("x-brain"),
        principal=principal,
        project=named_project or only_project,
        llm_key=_llm_key(request.headers.get("x-llm-api-key")) if takes_llm_key else None,
        http=getattr(request.state, "http", None),
    )


def check_progress_token(context: Context) -> None:
    """It comes back with every word of an answer.

    Raises:
        MCPError: invalid params.
    """
    request = context.request_context
    token = ((request.meta if request else None) or {}).get("progressToken", "")
    if len(str(token)) > _TOKEN_LENGTH:
        raise MCPError(INVALID_PARAMS, f"progressToken must have at most {_TOKEN_LENGTH} characters.")


def _llm_key(header: str | None) -> str | None:
    """A key that can stand in a header again."""
    return header if header and len(header) <= _LLM_KEY_LENGTH and header.isascii() and header.isprintable() else None


def idempotency_key() -> str | None:
    """What the client named this call, so that it can be sent again: `_meta["brains/idempotencyKey"]`.

    Raises:
        GatewayError: validation_error.
    """
    request = get_context().request_context
    key = ((request.meta if request else None) or {}).get(IDEMPOTENCY_KEY)
    if key is None or (isinstance(key, str) and _KEY.fullmatch(key)):
        return key
    raise GatewayError(
        "validation_error",
        f"_meta[{IDEMPOTENCY_KEY!r}] must be 1 to 255 letters, digits or any of . : - _ in a string.",
    )
