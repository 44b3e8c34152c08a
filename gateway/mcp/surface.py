"""What all surfaces share: their tools, what HTTP must know about them, and the words for failures."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from fastmcp import FastMCP
from pydantic import ConfigDict, ValidationError

from gateway.brain.brain import Brain
from gateway.mcp.input_errors import sentence
from gateway.mcp.recent_calls import RecentCalls
from gateway.mcp.request import current_caller
from gateway.mcp.result import Result
from gateway.mcp.shown import full_text
from gateway.mcp.tool import Body, Input, ToolSpec, Use, tool
from gateway.operations.caller import LOCAL, Call, Caller, Principal, make_request_id
from gateway.operations.errors import GatewayError

READ_ONLY: Final = "This gateway is read-only: nothing can be stored, changed or deleted through it."
_WORD: Final = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator decides for surfaces."""

    actor: str = LOCAL.subject
    """Who calls if callers are not told apart."""
    project: str | None = None
    """The project of a call that names none."""
    shared: bool = False
    """Whether callers are different people, none of whom may learn of another."""
    write_scope: str = "ask"
    recall_notes: int = 500
    context_entries: int = 20
    model: str = ""
    full_text: bool = True
    """Whether a second text has what a summary leaves out."""
    extra_tools: bool = False
    """Whether `memory` has tools beside those of its contract."""
    read_only: bool = False
    """Whether no tool may write anything."""
    tool_prefix: str = ""
    """The prefix of the names of tools; `{surface}` in it is the name of the surface."""


class Surface:
    """One vocabulary of tools. Subclasses mark methods with `@tool` and may word failures their own way."""

    name: ClassVar[str]
    instructions: ClassVar[str]
    project_headers: ClassVar[tuple[str, ...]] = ("x-project",)
    """The headers in which a caller names the project. The first one that is sent is used."""
    brain_parameter: ClassVar[str | None] = None
    """A parameter of the URL that names the brain, as good as one in the path."""
    unauthorized: ClassVar[Mapping[str, Any]] = {}
    """What the clients of this vocabulary are told in addition if they bring no valid token."""
    takes_llm_key: ClassVar[bool] = False
    """Whether a caller may lend the platform a key for its language model."""
    under_way: int = 0
    """How many calls are being served."""
    recent: RecentCalls | None = None
    """The list in which callers see their calls; None if there is no page."""

    def __init__(self, brain: Brain, options: Options | None = None) -> None:
        self._brain = brain
        self._options = options or Options()
        self.tool_prefix = self._options.tool_prefix.replace("{surface}", self.name)

    def add_to(self, mcp: FastMCP) -> None:
        """Add resources and completions, which are not tools."""

    def caller(self) -> Caller:
        """Who calls, from the HTTP request if there is one. Over stdio it is the local user."""
        return current_caller(
            self.project_headers, default_project=self._options.project, takes_llm_key=self.takes_llm_key
        )

    def call(self) -> Call:
        """The current call, with the id of its HTTP request if it has one."""
        caller = self.caller()
        request_id = make_request_id() if caller.http is None else caller.http.request_id
        return Call(caller, request_id, surface=self.name)

    def foreign_project(self, project: str) -> GatewayError:
        """The message for a project that is not the caller's."""
        return GatewayError("forbidden", "The X-Project header names a project that does not exist, or is not yours.")

    def sees_every_project(self, principal: Principal) -> bool:
        """Whether callers may use all projects, as with one tenant; otherwise only the projects of their token."""
        return principal is LOCAL or not self._options.shared

    def uses(self) -> dict[str, tuple[Use, ...]]:
        """What each tool asks of a brain."""
        return {body.spec.name: body.uses for body in self._every_body()}

    def hidden(self) -> frozenset[str]:
        """The tools that the operator has turned off. They are not listed, and a call to one says so."""
        return frozenset(body.spec.name for body in self._every_body() if self._is_hidden(body.spec))

    def bodies(self) -> list[Any]:
        """The methods that are bodies of tools."""
        return [_refusing(body) if self._is_hidden(body.spec) else body for body in self._every_body()]

    def _every_body(self) -> list[Any]:
        return [getattr(self, name) for name, member in vars(type(self)).items() if hasattr(member, "spec")]

    def _is_hidden(self, spec: ToolSpec) -> bool:
        return self._options.read_only and not spec.hints.read_only_hint

    def named(self, words: str) -> str:
        """A text of ours, in which the tools of this surface have the names under which they are served."""
        if not self.tool_prefix:
            return words
        tools = self.uses()
        return _WORD.sub(lambda word: self.tool_prefix + word[0] if word[0] in tools else word[0], words)

    def full_text(self, texts: Sequence[tuple[str, str]]) -> str | None:
        """The full text, for models that get only texts, unless the operator has turned it off."""
        return full_text(texts) if texts and self._options.full_text else None

    def offers(self, name: str) -> bool:
        """Whether a tool is served at all."""
        return True

    def invalid(self, error: ValidationError) -> str:
        """What is wrong with arguments."""
        return sentence(error)

    def failed(self, error: GatewayError, call: Call) -> Result:
        body = error.as_json(call.request_id)
        return Result(f"{body['code']}: {error.message}\n{json.dumps(body, ensure_ascii=False)}", body, is_error=True)


class _Anything(Input):
    """Arguments that nobody looks at."""

    model_config = ConfigDict(extra="ignore")


def _refusing(body: Any) -> Body:
    """Stands in for a tool that is turned off: with any arguments, it says why."""

    async def refuse(args: _Anything, call: Call) -> Result:
        raise GatewayError("forbidden", READ_ONLY)

    return tool(body.spec, *body.uses)(refuse)
