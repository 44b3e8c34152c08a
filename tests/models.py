"""A language model that follows a script: a server on loopback with the chat API that everybody speaks."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from contract.platform.models import ModelEndpoint
from tests.contract.platform.serving import served

Json: TypeAlias = dict[str, Any]
MODEL = "scripted"
OWN_KEY = "key-of-the-operator"


@dataclass(frozen=True)
class Turn:
    """What the model does when it is called."""

    pieces: tuple[str, ...] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    usage: tuple[int, int] | None = (11, 7)
    finish: str | None = "stop"
    ends: bool = True
    """Whether the stream is ended as it should be, or cut."""
    raw: tuple[bytes, ...] = ()
    """Sent as they are, in place of pieces."""
    hangs: bool = False
    """Whether nothing more comes after the pieces, and the stream stays open."""
    whole: bool = False
    """Whether all comes at once, as JSON: some servers do not stream."""
    calls: tuple[Json, ...] = ()
    """Tool calls that nobody has offered."""


def say(*pieces: str, **rest: Any) -> Turn:
    return Turn(pieces, **rest)


def say_json(value: object) -> Turn:
    return Turn((json.dumps(value),))


@dataclass
class ScriptedModel:
    """Plays its turns in order, the last one again and again; keeps what it was asked."""

    turns: list[Turn] = field(default_factory=lambda: [say("ok")])
    by_task: Callable[[Json], Turn | None] = lambda asked: None
    asked: list[Json] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    is_left: threading.Event = field(default_factory=threading.Event)
    """Whether a stream was left by whoever had asked."""

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])])

    @property
    def told(self) -> str:
        """All that it was told in its last call."""
        return "\n".join(message["content"] for message in self.asked[-1]["messages"])

    async def _complete(self, request: Request) -> Response:
        asked = await request.json()
        self.asked.append(asked)
        self.keys.append(request.headers.get("authorization"))
        turn = self.by_task(asked) or (self.turns.pop(0) if len(self.turns) > 1 else self.turns[0])
        headers = dict(turn.headers)
        if turn.status != 200:
            # As real ones do, it quotes what it was sent.
            said = {"error": {"message": f"refused: {asked['messages'][-1]['content'][:500]}", "type": "scripted"}}
            return JSONResponse(said, turn.status, headers)
        if turn.whole:
            message = {"role": "assistant", "content": "".join(turn.pieces)}
            choice = {"index": 0, "message": message, "finish_reason": turn.finish}
            return JSONResponse({"choices": [choice], "usage": _usage(turn)}, headers=headers)
        return StreamingResponse(self._stream(turn, asked), media_type="text/event-stream", headers=headers)

    async def _stream(self, turn: Turn, asked: Json) -> AsyncIterator[bytes]:
        try:
            for raw in turn.raw:
                yield raw
            for call in turn.calls:
                yield _event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]})
            for piece in turn.pieces:
                yield _event({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
                # So that each is sent by itself.
                await asyncio.sleep(0)
            if turn.hangs:
                await asyncio.Event().wait()
            if not turn.ends:
                return
            yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": turn.finish}]})
            if turn.usage is not None and asked.get("stream_options"):
                yield _event({"choices": [], "usage": _usage(turn)})
            yield b"data: [DONE]\n\n"
        except asyncio.CancelledError:
            self.is_left.set()
            raise


@contextmanager
def scripted(*turns: Turn) -> Iterator[tuple[ScriptedModel, ModelEndpoint]]:
    """A model on loopback that plays these turns, and where it is."""
    model = ScriptedModel(list(turns) or [say("ok")])
    with served(model.app()) as url:
        yield model, ModelEndpoint(url, MODEL, OWN_KEY)


def _usage(turn: Turn) -> Json | None:
    if turn.usage is None:
        return None
    prompt, completion = turn.usage
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _event(data: Json) -> bytes:
    return f"data: {json.dumps({'model': MODEL, **data})}\n\n".encode()
