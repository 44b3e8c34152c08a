"""What all surfaces share: a tool as data, its arguments checked, its failures worded, one log line a call."""

import inspect
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import structlog
from fastmcp import FastMCP
from fastmcp.server.dependencies import get_context, get_http_request
from fastmcp.tools import Tool, ToolResult
from fastmcp.tools.base import InputRequiredToolResult
from mcp_types import InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, model_validator

from gateway.brain.brain import Brain
from gateway.brain.limits import LimitReached
from gateway.mcp.result import Result
from gateway.mcp.schema import input_schema
from gateway.operations import scopes
from gateway.operations.caller import LOCAL, NOBODY, Call, Caller, Principal
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject

log = structlog.get_logger()

IDEMPOTENCY_KEY = "brains/idempotencyKey"
_LLM_KEY_LENGTH = 4096
_KEY = re.compile(r"[A-Za-z0-9._:-]{1,255}")

# Ends of a call that whoever runs the gateway wants to hear of.
_TROUBLE = frozenset(
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


class Input(BaseModel):
    """The arguments of a tool: nothing is coerced, nothing unknown is let through."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def needs(self) -> str | None:
        """The scope that these arguments need, where it is another than the tool's."""
        return None

    @model_validator(mode="before")
    @classmethod
    def _no_nul(cls, data: Any) -> Any:
        for name, value in data.items() if isinstance(data, dict) else ():
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str) and "\0" in text:
                    raise ValueError(f"{_printable(name)} must not contain a NUL character")
            if value == "":
                raise ValueError(f"{_printable(name)} must not be empty")
        return data


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the client sees it."""

    name: str
    title: str
    description: str
    output: JsonObject | None
    """None where the result is text alone."""
    hints: ToolAnnotations
    scope: str = scopes.WRITE
    """What a caller must be allowed to be shown the tool; arguments may need more."""


@dataclass(frozen=True, slots=True)
class Use:
    """A chain that a tool asks of a brain, and in which case: arguments that stand for it."""

    chain: str
    case: str = ""
    args: Mapping[str, str] = field(default_factory=dict)


Body = Callable[[Any, Call], Awaitable[Result | InputRequiredResult]]
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Result | InputRequiredResult]])


def tool(spec: ToolSpec, *uses: Use) -> Callable[[Handler], Handler]:
    """Mark a method of a surface as the body of a tool; its `args` annotation is the input."""

    def mark(handler: Handler) -> Handler:
        handler.spec = spec  # type: ignore[attr-defined]  # functions carry attributes; Callable cannot say so
        handler.uses = uses  # type: ignore[attr-defined]
        return handler

    return mark


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator decides for surfaces."""

    actor: str = LOCAL.subject
    """Who calls where callers are not told apart."""
    project: str | None = None
    """The project of a call that names none."""
    shared: bool = False
    """Whether callers are different people, none of whom may learn of another."""
    write_scope: str = "ask"
    recall_notes: int = 500
    context_entries: int = 20
    model: str = ""


class Surface:
    """One vocabulary of tools. Subclasses mark methods with `@tool` and may word failures their own way."""

    name: ClassVar[str]
    instructions: ClassVar[str]
    project_headers: ClassVar[tuple[str, ...]] = ("x-project",)
    """Where a caller names the project, the first that is there."""
    takes_llm_key: ClassVar[bool] = False
    """Whether a caller may lend the platform a key for its language model."""
    under_way: int = 0
    """How many calls are being served."""

    def __init__(self, brain: Brain, options: Options | None = None) -> None:
        self._brain = brain
        self._options = options or Options()

    def add_to(self, mcp: FastMCP) -> None:
        """Add what is no tool: resources, completions."""

    def caller(self) -> Caller:
        """Who calls, from the HTTP request if there is one. Over stdio it is the local user."""
        return current_caller(
            self.project_headers, default_project=self._options.project, takes_llm_key=self.takes_llm_key
        )

    def foreign_project(self, project: str) -> GatewayError:
        """What is said of a project that is not the caller's."""
        return GatewayError("forbidden", "The X-Project header names a project that does not exist, or is not yours.")

    def sees_every_project(self, principal: Principal) -> bool:
        """Whether all projects are theirs to use, as where there is one tenant; else those are that they bring."""
        return principal is LOCAL or not self._options.shared

    def tools(self) -> list[Tool]:
        return [SurfaceTool.of(self, method) for method in self._marked() if self.offers(method.spec.name)]

    def uses(self) -> dict[str, tuple[Use, ...]]:
        """What each tool asks of a brain."""
        return {method.spec.name: method.uses for method in self._marked()}

    def _marked(self) -> list[Any]:
        return [getattr(self, name) for name, member in vars(type(self)).items() if hasattr(member, "spec")]

    def offers(self, name: str) -> bool:
        """Whether a tool is served at all."""
        return True

    def invalid(self, error: ValidationError) -> str:
        """What is wrong with arguments."""
        return sentence(error)

    def failed(self, error: GatewayError, call: Call) -> Result:
        body = error.as_json(call.request_id)
        return Result(f"{error.code}: {error.message}\n{_line(body)}", body, is_error=True)


class SurfaceTool(Tool):
    """A tool whose schema is pinned and whose every failure is one of ours."""

    _surface: Surface = PrivateAttr()
    _body: Body = PrivateAttr()
    _input: type[Input] = PrivateAttr()
    _scope: str = PrivateAttr()

    @classmethod
    def of(cls, surface: Surface, body: Body) -> "SurfaceTool":
        spec: ToolSpec = body.spec  # type: ignore[attr-defined]  # put there by @tool
        input_: type[Input] = inspect.signature(body).parameters["args"].annotation
        made = cls(
            name=spec.name,
            title=spec.title,
            description=spec.description,
            parameters=input_schema(input_),
            output_schema=spec.output,
            annotations=spec.hints,
        )
        made._surface, made._body, made._input = surface, body, input_
        made._scope = spec.scope
        return made

    def is_shown_to(self, principal: Principal) -> bool:
        return self._scope in principal.scopes

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """For whoever calls tools as FastMCP has them."""
        said = await self.served(arguments)
        if isinstance(said, InputRequiredResult):
            return InputRequiredToolResult(said)
        return ToolResult(said.text, said.data, is_error=said.is_error)

    async def served(self, arguments: dict[str, Any]) -> Result | InputRequiredResult:
        """The answer; or a question, which a modern client answers by calling again."""
        call = Call(self._surface.caller())
        started = time.perf_counter()
        status = "cancelled"
        self._surface.under_way += 1
        try:
            require(call, self._scope, self._surface)
            args = self._checked(arguments)
            require(call, args.needs() or self._scope, self._surface)
            result = await self._body(args, call)
            status = "ok"
            return result
        except GatewayError as error:
            status = error.code
            tell_http(call, error)
            return self._surface.failed(error, call)
        except Exception:  # the outermost boundary: a bug of ours must still be an answer a caller can use
            status = "crashed"
            log.exception("call.crashed", request_id=call.request_id, tool=self.name)
            return self._surface.failed(GatewayError("upstream_error", "The gateway failed; its log says why."), call)
        finally:
            self._surface.under_way -= 1
            log.log(
                logging.WARNING if status in _TROUBLE else logging.INFO,
                "call.served",
                request_id=call.request_id,
                tool=self.name,
                caller=call.caller.partition if call.caller.principal is not LOCAL else None,
                brain=call.brain,
                route=call.route,
                status=status,
                ms=round((time.perf_counter() - started) * 1000, 1),
            )

    def _checked(self, arguments: dict[str, Any]) -> Input:
        try:
            return self._input.model_validate(arguments)
        except ValidationError as error:
            raise GatewayError("validation_error", self._surface.invalid(error)) from None


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


def _llm_key(header: str | None) -> str | None:
    """A key that can stand in a header again."""
    return header if header and len(header) <= _LLM_KEY_LENGTH and header.isascii() and header.isprintable() else None


def tell_http(call: Call, error: GatewayError) -> None:
    """Note a refusal that HTTP has a status for."""
    if call.caller.http is not None and (isinstance(error, LimitReached) or error.code == "insufficient_scope"):
        call.caller.http.refusal = error


def require(call: Call, scope: str, surface: Surface) -> None:
    """Let the call do what the scope allows, and no more.

    Raises:
        GatewayError: insufficient_scope, with all that is needed; forbidden for a project that is not theirs.
    """
    if scope not in call.caller.principal.scopes:
        needed = scopes.including(scope)
        message = f"This needs the scope {scope}, which your token does not have. Use one with {' '.join(needed)}."
        raise GatewayError("insufficient_scope", message, extra={"required_scopes": list(needed)})
    caller = call.caller
    # Before anybody signs that it is theirs.
    foreign = caller.project is not None and caller.project not in caller.principal.projects
    if foreign and not surface.sees_every_project(caller.principal):
        raise surface.foreign_project(str(caller.project))
    call.scope = scope


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


def _line(body: JsonObject) -> str:
    return json.dumps(body, ensure_ascii=False)


# pydantic's kind of error -> our words for it. `{…}` are the limits the error carries.
_RULES = {
    "missing": "is required",
    "extra_forbidden": "is not an argument of this tool",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode text",
    "string_too_short": "must have at least {min_length} character(s)",
    "string_too_long": "must have at most {max_length:,} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "blank": "must not be blank",
    "day": "must be a date as in 2026-04-14",
    "bool_type": "must be true or false",
    "greater_than": "must be more than {gt:.12g}",
    "greater_than_equal": "must be at least {ge:.12g}",
    "less_than_equal": "must be at most {le:.12g}",
    "literal_error": "must be one of {expected}",
    "list_type": "must be a list",
    "too_short": "must have at least {min_length} entry",
    "too_long": "must have at most {max_length} entries",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}


def sentence(error: ValidationError) -> str:
    """The first few things wrong, each as field and rule; never the value, which may be a secret."""
    problems = [_problem(problem) for problem in error.errors(include_url=False, include_input=False)[:3]]
    return "; ".join(problems) + "."


def _problem(problem: Any) -> str:
    if problem["type"] == "value_error":
        return str(problem["msg"]).removeprefix("Value error, ")
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{_printable(part)}" for part in problem["loc"])
    rule = _RULES.get(problem["type"], "is not valid").format(**problem.get("ctx", {}))
    return f"{field.removeprefix('.') or 'arguments'} {rule}"


def _printable(name: object) -> str:
    text = "".join(c if c.isprintable() else "?" for c in str(name))
    return text if len(text) <= 64 else text[:64] + "…"
