"""A server of the tools in front of another: every request passes a function that may change it, or its reply."""

import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from contract.rpc import JsonObject, Reply, Session


@dataclass(frozen=True)
class Asked:
    method: str
    params: JsonObject

    @property
    def tool(self) -> str:
        return str(self.params.get("name", "")) if self.method == "tools/call" else ""

    @property
    def arguments(self) -> JsonObject:
        return dict(self.params.get("arguments") or {})

    def with_arguments(self, arguments: JsonObject) -> "Asked":
        return replace(self, params={**self.params, "arguments": arguments})

    def without(self, *names: str) -> "Asked":
        """The call without these arguments."""
        return self.with_arguments({key: value for key, value in self.arguments.items() if key not in names})


Forward: TypeAlias = Callable[[Asked], Awaitable[Reply]]
Act: TypeAlias = Callable[[Asked, Forward], Awaitable[Reply]]


@dataclass(frozen=True)
class Server:
    """One way for a server to be wrong, and the cases that must notice."""

    name: str
    act: Act
    breaks: tuple[str, ...]


def server(name: str, act: Act, *breaks: str) -> Server:
    """A server that breaks these cases, named without the `mcp/` they all begin with."""
    return Server(name, act, tuple(f"mcp/{one}" for one in breaks))


class BrokenSession:
    """A session with a real server that is not quite what it should be."""

    def __init__(self, session: Session, act: Act) -> None:
        self._session = session
        self._act = act
        self.version: str | None = None
        self.server: JsonObject = {}
        self.setup_seconds = session.setup_seconds

    async def open(self) -> None:
        await self._session.open()
        self.version, self.server = self._session.version, self._session.server

    async def ask(self, method: str, params: JsonObject, seconds: float) -> Reply:
        async def forward(asked: Asked) -> Reply:
            return await self._session.ask(asked.method, asked.params, seconds)

        return await self._act(Asked(method, params), forward)

    async def close(self) -> None:
        await self._session.close()


def succeeded(structured: Any = None, text: str = "done") -> Reply:
    result: JsonObject = {"content": [{"type": "text", "text": text}]}
    return Reply(result if structured is None else {**result, "structuredContent": structured})


def failed(text: str) -> Reply:
    return Reply({"content": [{"type": "text", "text": text}], "isError": True})


def on(tool: str, act: Act) -> Act:
    """The act for calls of one tool; `*` is any. The rest passes."""

    async def chosen(asked: Asked, forward: Forward) -> Reply:
        if asked.tool == tool or (tool == "*" and asked.tool):
            return await act(asked, forward)
        return await forward(asked)

    return chosen


def asks(tool: str, change: Callable[[Asked], Asked]) -> Act:
    """Calls of a tool are changed before they are served."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        return await forward(change(asked))

    return on(tool, act)


def answers(tool: str, change: Callable[[Reply], Reply]) -> Act:
    """Replies of a tool are changed, errors too."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        return change(await forward(asked))

    return on(tool, act)


def edits(tool: str, change: Callable[[Any], Any]) -> Act:
    """The structured content of a success is changed."""

    def edited(reply: Reply) -> Reply:
        if reply.is_error or reply.result is None:
            return reply
        return replace(reply, result={**reply.result, "structuredContent": change(copy.deepcopy(reply.structured))})

    return answers(tool, edited)


def says(tool: str, change: Callable[[str], str]) -> Act:
    """The text of a reply is changed, of errors too."""

    def said(reply: Reply) -> Reply:
        content = [{"type": "text", "text": change(reply.text)}]
        return reply if reply.result is None else replace(reply, result={**reply.result, "content": content})

    return answers(tool, said)


def refuses(tool: str, when: Callable[[JsonObject], bool], text: str = "validation_error: no") -> Act:
    """Some calls fail that should not."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        return failed(text) if when(asked.arguments) else await forward(asked)

    return on(tool, act)


def lenient(tool: str, structured: Any = None, text: str = "done") -> Act:
    """What is refused is taken as if it were right."""
    return answers(tool, lambda reply: succeeded(structured, text) if reply.is_error else reply)


def describes(tool: str, change: Callable[[JsonObject], JsonObject]) -> Act:
    """The definition of a tool is changed; `*` is that of all."""

    async def act(asked: Asked, forward: Forward) -> Reply:
        reply = await forward(asked)
        if asked.method != "tools/list" or reply.result is None:
            return reply
        tools = [change(copy.deepcopy(one)) if tool in ("*", one["name"]) else one for one in reply.result["tools"]]
        return replace(reply, result={**reply.result, "tools": tools})

    return act


def progresses(change: Callable[[list[JsonObject]], list[JsonObject]]) -> Act:
    """What is told of progress is changed."""
    return answers("*", lambda reply: replace(reply, progress=tuple(change([dict(one) for one in reply.progress]))))


def without(*names: str) -> Callable[[Any], Any]:
    """For `edits`: the object without these keys."""
    return lambda value: {key: item for key, item in value.items() if key not in names}


def having(more: Mapping[str, Any]) -> Callable[[Any], Any]:
    """For `edits`: the object with these values."""
    return lambda value: {**value, **more}


def needs_all(tool: JsonObject) -> JsonObject:
    """For `describes`: every parameter is a required one."""
    return {**tool, "inputSchema": {**tool["inputSchema"], "required": list(tool["inputSchema"]["properties"])}}


def says_no_limits(tool: JsonObject) -> JsonObject:
    """For `describes`: the parameters have their types, and nothing else."""
    bare = {name: {"type": one["type"]} for name, one in tool["inputSchema"]["properties"].items()}
    return {**tool, "inputSchema": {**tool["inputSchema"], "properties": bare}}


def lacks_parameter(name: str) -> Callable[[JsonObject], JsonObject]:
    """For `describes`: a parameter is not there."""

    def changed(tool: JsonObject) -> JsonObject:
        schema = tool["inputSchema"]
        return {**tool, "inputSchema": {**schema, "properties": without(name)(schema["properties"])}}

    return changed


def each(field: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """For `edits`: every item of a list is changed."""
    return lambda value: {**value, field: [change(item) for item in value[field]]}


def cut(field: str, change: Callable[[list[Any]], list[Any]]) -> Callable[[Any], Any]:
    """For `edits`: a list is changed."""
    return lambda value: {**value, field: change(value[field])}


def takes_parameter(name: str, kind: str) -> Callable[[JsonObject], JsonObject]:
    """For `describes`: a tool with one parameter more."""

    def changed(tool: JsonObject) -> JsonObject:
        schema = tool["inputSchema"]
        return {**tool, "inputSchema": {**schema, "properties": {**schema["properties"], name: {"type": kind}}}}

    return changed
