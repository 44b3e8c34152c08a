"""How three makers of models speak: what a request offers and tells, and how an answer looks. Pure functions."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
MODEL = "scripted"


@dataclass(frozen=True)
class Use:
    """A turn in which the model calls a tool. A turn in which it only speaks is a string."""

    tool: str
    arguments: Json
    id: str = ""


Turn = Use | str


@dataclass(frozen=True)
class Shape:
    """One maker's API."""

    # The tools that a request offers, each as the maker's own JSON, by name.
    offered: Callable[[Json], dict[str, Json]]
    # What a request tells the model since the model last spoke.
    told: Callable[[Json], str]
    answer: Callable[[Turn], Json]
    # The same answer, as the data of events and their names, if they have some.
    events: Callable[[Turn], Iterator[tuple[str | None, Json | str]]]


def strings(value: object) -> Iterator[str]:
    """Every text in a piece of JSON, in order. Keys are no text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def said_since(messages: list[Json], speaker: str) -> str:
    """The texts behind the last message of a speaker."""
    last = max((place for place, message in enumerate(messages) if message.get("role") == speaker), default=-1)
    return "\n".join(strings(messages[last + 1 :]))


# OpenAI, chat completions


def _openai_offered(body: Json) -> dict[str, Json]:
    return {tool["function"]["name"]: tool["function"] for tool in body.get("tools") or [] if "function" in tool}


def _openai_message(turn: Turn) -> Json:
    if isinstance(turn, str):
        return {"role": "assistant", "content": turn}
    function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
    call = {"index": 0, "id": turn.id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _openai(turn: Turn, kind: str, key: str) -> Json:
    reason = "stop" if isinstance(turn, str) else "tool_calls"
    choice = {"index": 0, key: _openai_message(turn), "finish_reason": reason, "logprobs": None}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "answer", "object": kind, "created": 1, "model": MODEL, "choices": [choice], "usage": usage}


def _openai_events(turn: Turn) -> Iterator[tuple[str | None, Json | str]]:
    yield None, _openai(turn, "chat.completion.chunk", "delta")
    yield None, "[DONE]"


OPENAI = Shape(
    _openai_offered,
    lambda body: said_since(body["messages"], "assistant"),
    lambda turn: _openai(turn, "chat.completion", "message"),
    _openai_events,
)


# Anthropic, messages


def _anthropic_block(turn: Turn) -> Json:
    if isinstance(turn, str):
        return {"type": "text", "text": turn}
    return {"type": "tool_use", "id": turn.id, "name": turn.tool, "input": turn.arguments}


def _anthropic(turn: Turn) -> Json:
    reason = "end_turn" if isinstance(turn, str) else "tool_use"
    usage = {"input_tokens": 1, "output_tokens": 1}
    made = {"id": "answer", "type": "message", "role": "assistant", "model": MODEL, "usage": usage}
    return made | {"content": [_anthropic_block(turn)], "stop_reason": reason, "stop_sequence": None}


def _anthropic_events(turn: Turn) -> Iterator[tuple[str | None, Json | str]]:
    """A block begins empty, and what it holds follows."""
    whole, block = _anthropic(turn), _anthropic_block(turn)
    nothing: Json = {"text": ""} if isinstance(turn, str) else {"input": {}}
    piece = (
        {"type": "text_delta", "text": turn}
        if isinstance(turn, str)
        else {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}
    )
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    for event in (
        {"type": "message_start", "message": whole | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": block | nothing},
        {"type": "content_block_delta", "index": 0, "delta": piece},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": whole["usage"]},
        {"type": "message_stop"},
    ):
        yield str(event["type"]), event


ANTHROPIC = Shape(
    lambda body: {tool["name"]: tool for tool in body.get("tools") or []},
    lambda body: said_since(body["messages"], "assistant"),
    _anthropic,
    _anthropic_events,
)


# Gemini, generateContent


def _gemini_offered(body: Json) -> dict[str, Json]:
    declared = [tool.get("functionDeclarations") or [] for tool in body.get("tools") or []]
    return {function["name"]: function for functions in declared for function in functions}


def _gemini(turn: Turn) -> Json:
    part = {"text": turn} if isinstance(turn, str) else {"functionCall": {"name": turn.tool, "args": turn.arguments}}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL, "responseId": "answer"}


GEMINI = Shape(
    _gemini_offered,
    lambda body: said_since(body["contents"], "model"),
    _gemini,
    lambda turn: iter([(None, _gemini(turn))]),
)
