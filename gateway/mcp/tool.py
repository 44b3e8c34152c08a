"""A tool as data: what the client sees of it, its arguments, and the chains it asks of a brain."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar, Union, get_args, get_origin

from mcp_types import InputRequiredResult, ToolAnnotations
from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from gateway.mcp.input_errors import printable
from gateway.mcp.result import Result
from gateway.operations import scopes
from gateway.operations.caller import Call
from gateway.operations.table import JsonObject

# Some hosts add this to the arguments of every call, for a scheduler of their own.
_ADDED_BY_HOSTS: Final = "wait_for_previous"


def _refuse_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "must not be blank")
    return text


# For text that somebody should be able to find again. Spaces alone are a mistake.
NOT_BLANK: Final = AfterValidator(_refuse_blank)


class Input(BaseModel):
    """The arguments of a tool: unknown ones are refused, and only values that strict hosts must send are converted.

    Some hosts fill in every argument, so null and "" of an optional one are the same as leaving it out. Some know only
    one kind of number, so 10.0 is 10 where a whole number is wanted.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    as_sent: ClassVar[frozenset[str]] = frozenset()
    """Optional arguments that name the thing to delete or change: null and "" do not count as left out."""
    _optional: ClassVar[frozenset[str]] = frozenset()
    _whole: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        fields = {field.alias or name: field for name, field in cls.model_fields.items()}
        cls._optional = frozenset(name for name, field in fields.items() if not field.is_required()) - cls.as_sent
        cls._whole = frozenset(name for name, field in fields.items() if _is_whole_number(field.annotation))

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """The arguments of a call, checked.

        Raises:
            ValidationError: what is wrong with them.
        """
        return cls.model_validate({name: value for name, value in arguments.items() if name != _ADDED_BY_HOSTS})

    def needs(self) -> str | None:
        """The scope that these arguments need, if it differs from the tool's."""
        return None

    @model_validator(mode="before")
    @classmethod
    def _tidy(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        sent = {name: value for name, value in data.items() if name not in cls._optional or value not in (None, "")}
        for name, value in sent.items():
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str) and "\0" in text:
                    raise ValueError(f"{printable(name)} must not contain a NUL character")
            if value == "":
                raise ValueError(f"{printable(name)} must not be empty")
            if isinstance(value, float) and name in cls._whole:
                if not value.is_integer():
                    raise ValueError(f"{printable(name)} must be a whole number")
                sent[name] = int(value)
        return sent


def _is_whole_number(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_whole_number(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return any(_is_whole_number(option) for option in get_args(annotation) if option is not NoneType)
    return annotation is int


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the client sees it."""

    name: str
    title: str
    description: str
    output: JsonObject | None
    """None if the result is only text."""
    hints: ToolAnnotations
    scope: str = scopes.WRITE
    """The scope that a caller needs to see the tool. Some arguments need more."""


@dataclass(frozen=True, slots=True)
class Use:
    """A chain that a tool uses, and example arguments for the case in which it does."""

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
