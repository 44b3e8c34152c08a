"""A tool as data: what the client sees of it, its arguments, and the chains it asks of a brain."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mcp_types import InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, ConfigDict, model_validator

from gateway.mcp.input_errors import printable
from gateway.mcp.result import Result
from gateway.operations import scopes
from gateway.operations.caller import Call
from gateway.operations.table import JsonObject


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
                    raise ValueError(f"{printable(name)} must not contain a NUL character")
            if value == "":
                raise ValueError(f"{printable(name)} must not be empty")
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
