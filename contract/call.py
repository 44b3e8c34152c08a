"""Cases for a server of the tools: calls over MCP, and what is expected of their results."""

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from contract.parts import Head, Part, Pattern

Surface: TypeAlias = Literal["memory", "kv", "team", "being", "memo", "chat"]


def _expression(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    return value


Expression: TypeAlias = Annotated[str, AfterValidator(_expression)]
Relation: TypeAlias = Literal["none", "bears_the_token", "counts_by_one", "has_no_total", "makes_the_answer"]


class Request(Part):
    """Any request of the protocol that is not a call of a tool."""

    method: str = Field(pattern=r"^[a-z]+/[a-z/]+$")
    params: dict[str, Any] = Field(default_factory=dict)


class Definition(Part):
    """A tool as its makers publish it: `arguments` are JSON schemas, and only their behaviour is compared.

    An argument whose name ends with `?` may be missing. With `alone`, there are no others; those in `lacks` are not
    there.
    """

    tool: str
    description: str | None = None
    arguments: dict[str, dict[str, Any]] = Field(default_factory=dict)
    required: list[str] = Field(default_factory=list)
    alone: bool = False
    lacks: list[str] = Field(default_factory=list)


class CallExpect(Part):
    """What is expected of a call. It must not be refused, unless `error` or `refused` says so.

    `error` is a failure in a result, and the codes its text may name; `refused` is that, or an error of the protocol.
    `json` is the text, read as JSON. `tells` are places in the reply, such as `structured.id`, whose values the text
    names; one that ends with `?` may be missing.
    """

    error: bool | str | list[str] = False
    refused: bool = False
    structured: Pattern = None
    text: Pattern = None
    tells: list[str] = Field(default_factory=list)
    json_: Pattern = Field(default=None, alias="json")
    result: Pattern = None
    progress: list[Relation] = Field(default_factory=list)
    defines: Definition | None = None


class CallStep(Part):
    """One call, `with` its arguments; or a `request` of another method.

    With `once`, the same call is sent one time in a run, and every case that has it gets the same reply: no tool
    deletes a brain, so as few as possible are made. `find` keeps the match of an expression in the text, or its
    first group, because some answers are prose with ids in it.
    """

    call: str | None = None
    with_: dict[str, Any] = Field(default_factory=dict, alias="with")
    meta: dict[str, Any] = Field(default_factory=dict)
    progress: bool = False
    once: bool = False
    request: Request | None = None
    expect: CallExpect
    save: dict[str, str] = Field(default_factory=dict)
    find: dict[str, Expression] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_of_both(self) -> "CallStep":
        if (self.call is None) == (self.request is None):
            raise ValueError("should have either a call or a request")
        if self.request is not None and {"with_", "meta", "progress"} & self.model_fields_set:
            raise ValueError("with, meta and progress are for calls")
        return self


class ParallelCalls(Part):
    """The same call several times at once; `${n}` in it counts from 1."""

    times: int = Field(ge=2, le=64)
    step: CallStep


class ParallelCallStep(Part):
    parallel: ParallelCalls


def _kind(written: Any) -> str:
    return "parallel" if isinstance(written, ParallelCallStep) or "parallel" in (written or ()) else "step"


AnyCallStep: TypeAlias = Annotated[
    Annotated[CallStep, Tag("step")] | Annotated[ParallelCallStep, Tag("parallel")], Discriminator(_kind)
]


class LocalFile(Part):
    """A file in the folder of the run, which the server can read too."""

    text: str = ""
    bytes: int | None = Field(default=None, ge=0, le=64 * 1024 * 1024)


class CallCase(Head):
    """The path of a case says to which surface and area it belongs: `mcp/<surface>/<area>/<name>`."""

    id: str = Field(pattern=r"^mcp/(memory|kv|team|being|memo|chat)/[a-z_]+/[a-z0-9-]+$")
    brain: Literal["shared", "apart", "none"] = "shared"
    needs: Literal["page", "folder", "document"] | None = None
    files: dict[str, LocalFile] = Field(default_factory=dict)
    optional: bool = False
    steps: list[AnyCallStep] = Field(min_length=1)

    @property
    def surface(self) -> str:
        return self.id.split("/")[1]

    @property
    def area(self) -> str:
        return self.id.split("/")[2]

    @property
    def own_tool(self) -> str:
        """The tool that the case is about. The other tools that it calls only prepare it."""
        prefix = {"memory": "memory_", "team": "memory_", "kv": "jettson_memory_", "memo": "memoai_memo_"}
        return f"{prefix.get(self.surface, '')}{self.area}"

    @property
    def tools(self) -> set[str]:
        """The tools that it calls."""
        return {step.call for step in self.single_steps if step.call is not None}

    @property
    def single_steps(self) -> list[CallStep]:
        return [step.parallel.step if isinstance(step, ParallelCallStep) else step for step in self.steps]

    @property
    def only_needed(self) -> list[CallStep]:
        """The steps before the first call of its own tool. Those after it show the effect of that call."""
        tools = [step.call for step in self.single_steps]
        return self.single_steps[: tools.index(self.own_tool)] if self.own_tool in tools else []

    @model_validator(mode="after")
    def _files_need_a_folder(self) -> "CallCase":
        if self.files and self.needs != "folder":
            raise ValueError("files lie in the folder of the run: say needs: folder")
        return self
