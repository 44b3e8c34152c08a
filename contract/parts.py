"""The parts that cases of both kinds are made of."""

import base64
import binascii
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from contract import match


def _pattern(value: Any) -> Any:
    for problem in match.problems(value, "pattern"):
        raise ValueError(problem)
    return value


def _base64(value: str) -> str:
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"is not base64: {error}") from error
    return value


Pattern: TypeAlias = Annotated[Any, AfterValidator(_pattern)]
Base64: TypeAlias = Annotated[str, AfterValidator(_base64)]


class Part(BaseModel):
    """A piece of a case. Unknown keys are refused, because a misspelt one would check nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, coerce_numbers_to_str=True)


class Head(Part):
    """The fields of every case. Its id is its path."""

    id: str
    what: str = Field(min_length=10, pattern=r"\.$")
    requirement: Literal["must", "should"]
    source: str = Field(min_length=3)
    # For a case that is our own idea: why it is wise.
    why: str = ""
    # The harm that a failure does to notes. It makes the failure critical, whatever the requirement.
    harm: Literal["escape", "leak", "lost write", "doubled write"] | None = None
    # What an owner should know before it is sent to their server.
    tries: Literal["traversal", "injection", "sizes"] | None = None

    @model_validator(mode="after")
    def _ours_is_no_must(self) -> "Head":
        if self.source.startswith("ours") and (self.requirement == "must" or not self.why):
            raise ValueError("what is ours is a should, and says why it is wise")
        return self
