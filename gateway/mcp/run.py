"""Runs a tool: checks the caller and the arguments, turns every failure into one of ours, writes one log line."""

import inspect
import logging
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import structlog
from fastmcp.server.dependencies import get_context
from fastmcp.tools import Tool, ToolResult
from fastmcp.tools.base import InputRequiredToolResult
from mcp_types import InputRequiredResult, TextContent
from pydantic import PrivateAttr, ValidationError

from gateway.brain.limits import LimitReached
from gateway.mcp.recent_calls import RecentCall, RecentCalls
from gateway.mcp.request import INCOMING, ReadByFastMCP
from gateway.mcp.result import Result
from gateway.mcp.schema import input_schema
from gateway.mcp.surface import Surface
from gateway.mcp.tool import Body, Input, ToolSpec
from gateway.operations import audit, scopes
from gateway.operations.caller import Call, Principal
from gateway.operations.errors import GatewayError
from gateway.operations.observer import ToolObserver

log = structlog.get_logger()

ToolObservers = Callable[[str, str], ToolObserver]
"""Returns the observer of a tool, by its surface and its name without a prefix."""
# Outcomes of a call that are important for the operator.
_TROUBLE: Final = frozenset(
    {
        "crashed",
        "unauthorized",
        "upstream_unavailable",
        "upstream_error",
        "timeout",
        "outcome_unknown",
        "stream_truncated",
    }
)

# Codes that mean: you may not do this, or it does not exist.
REFUSALS: Final = frozenset({"forbidden", "insufficient_scope", "no_brain", "file_not_allowed", "fetch_blocked"})


def tools_of(surface: Surface, observers: ToolObservers | None = None) -> list[Tool]:
    """The tools of a surface that are served."""
    return [SurfaceTool.of(surface, body, observers) for body in surface.bodies() if surface.offers(body.spec.name)]


class _Served(NamedTuple):
    """What a tool runs with."""

    surface: Surface
    body: Body
    input: type[Input]
    scope: str
    observer: ToolObserver | None


class SurfaceTool(Tool):
    """A tool whose schema is pinned and whose every failure is one of ours."""

    # One attribute for all, because a private attribute of a model takes longer to look up than any other.
    _served: _Served = PrivateAttr()

    @classmethod
    def of(cls, surface: Surface, body: Body, observers: ToolObservers | None = None) -> "SurfaceTool":
        spec: ToolSpec = body.spec  # type: ignore[attr-defined]  # put there by @tool
        input_: type[Input] = inspect.signature(body).parameters["args"].annotation
        made = cls(
            name=surface.tool_prefix + spec.name,
            title=spec.title,
            description=spec.description,
            parameters=input_schema(input_),
            output_schema=spec.output,
            annotations=spec.hints,
        )
        observer = None if observers is None else observers(surface.name, spec.name)
        made._served = _Served(surface, body, input_, spec.scope, observer)
        return made

    def is_shown_to(self, principal: Principal) -> bool:
        return self._served.scope in principal.scopes

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """For callers that use the interface of FastMCP's tools."""
        INCOMING.set(ReadByFastMCP(get_context()))
        said = await self.call(arguments)
        if isinstance(said, InputRequiredResult):
            return InputRequiredToolResult(said)
        texts = [TextContent(type="text", text=text) for text in said.texts]
        return ToolResult(texts, said.data, is_error=said.is_error)

    async def call(self, arguments: dict[str, Any]) -> Result | InputRequiredResult:
        """The answer, or a question, which a modern client answers by calling again."""
        surface, body, input_, scope, observer = self._served
        call = surface.call()
        call.tool = self.name
        started = time.perf_counter()
        status = "cancelled"
        surface.under_way += 1
        begun = None if observer is None else observer.begin()
        try:
            require(call, scope, surface)
            args = _check(arguments, input_, surface)
            if (needed := args.needs()) is not None:
                require(call, needed, surface)
            result = await body(args, call)
            status = "ok"
            return result
        except GatewayError as error:
            status = error.code
            error.message = surface.named(error.message)
            tell_http(call, error)
            if error.code in REFUSALS:
                audit.note("refused", **audit.of_call(call), outcome=error.code)
            return surface.failed(error, call)
        except Exception:  # the outermost boundary: even after a bug of ours, the caller needs a useful answer
            status = "crashed"
            log.exception("call.crashed", request_id=call.request_id, tool=self.name)
            return surface.failed(GatewayError("upstream_error", "The gateway failed; its log says why."), call)
        finally:
            surface.under_way -= 1
            seconds = time.perf_counter() - started
            note_call(call, surface.name, self.name, status, seconds, surface.recent)
            if observer is not None:
                observer.end(begun, call, status, seconds)


def note_call(call: Call, surface: str, tool: str, status: str, seconds: float, recent: RecentCalls | None) -> None:
    """Tell the log, and the caller's list of recent calls, how a call went, without its content."""
    principal, ms = call.caller.principal, round(seconds * 1000, 1)
    log.log(
        logging.WARNING if status in _TROUBLE else logging.INFO,
        "call.served",
        request_id=call.request_id,
        surface=surface,
        tool=tool,
        caller=principal.known_as,
        client=principal.client or None,
        brain=call.brain_id or call.brain,
        route=call.route,
        status=status,
        ms=ms,
    )
    if recent is not None:
        recent.add(call.caller.partition, RecentCall(time.time(), tool, call.brain, call.route, status, ms))


def _check(arguments: dict[str, Any], input_: type[Input], surface: Surface) -> Input:
    try:
        return input_.of(arguments)
    except ValidationError as error:
        raise GatewayError("validation_error", surface.invalid(error)) from None


def tell_http(call: Call, error: GatewayError) -> None:
    """Note a refusal that HTTP has a status for."""
    if call.caller.http is not None and (isinstance(error, LimitReached) or error.code == "insufficient_scope"):
        call.caller.http.refusal = error


def require(call: Call, scope: str, surface: Surface) -> None:
    """Let the call do what the scope allows, and no more.

    Raises:
        GatewayError: insufficient_scope, with all that is needed; forbidden for a project that is not theirs.
    """
    require_scope(call, scope)
    caller = call.caller
    # Before a token is signed that says that the project is theirs.
    foreign = caller.project is not None and caller.project not in caller.principal.projects
    if foreign and not surface.sees_every_project(caller.principal):
        raise surface.foreign_project(str(caller.project))


def require_scope(call: Call, scope: str) -> None:
    """Let the call do what the scope allows, and no more.

    Raises:
        GatewayError: insufficient_scope, with all that is needed.
    """
    if scope not in call.caller.principal.scopes:
        needed = scopes.including(scope)
        message = f"This needs the scope {scope}, which your token does not have. Use one with {' '.join(needed)}."
        raise GatewayError("insufficient_scope", message, extra={"required_scopes": list(needed)})
    call.scope = scope
