"""A scripted stub of an OpenAI-compatible provider, for a real daemon to talk to."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.daemons.script import Script

__all__ = ["Script", "ScriptedLLM"]

MODEL = "scripted"


@dataclass
class ScriptedLLM:
    """Answers chat completions by the script; the system prompt tells which stage is asking."""

    script: Script = field(default_factory=Script)
    prompts: list[dict[str, Any]] = field(default_factory=list)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/v1/models", self._models, methods=["GET"]),
            ]
        )

    async def _models(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "tests"}]})

    async def _complete(self, request: Request) -> Response:
        asked = await request.json()
        self.prompts.append(asked)
        if self.script.fails:
            return JSONResponse({"error": {"message": "the script says fail", "type": "server_error"}}, 500)
        pieces = self._pieces(asked)
        if asked.get("stream"):
            return StreamingResponse(self._chunks(pieces), media_type="text/event-stream")
        message = {"role": "assistant", "content": "".join(pieces)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": len(pieces), "total_tokens": 1 + len(pieces)}
        return JSONResponse({**_envelope("chat.completion"), "choices": [choice], "usage": usage})

    def _pieces(self, asked: dict[str, Any]) -> list[str]:
        system = " ".join(str(message["content"]) for message in asked["messages"] if message["role"] == "system")
        stages = {
            "memory extraction": {"memories": self.script.memories},
            "reflection agent": self.script.reflection or {},
            "memory files for overlap": {"verdict": "distinct", "reason": "scripted"},
            "selecting memories": {"selected": []},
        }
        said = next((answer for mark, answer in stages.items() if mark in system), None)
        if said is None:
            return self.script.spoken()
        return ["I would rather talk about it."] if self.script.prose else [json.dumps(said)]

    async def _chunks(self, pieces: list[str]) -> AsyncIterator[bytes]:
        for piece in pieces:
            await asyncio.sleep(self.script.delay)
            self.script.said += 1
            yield _chunk({"content": piece}, None)
        if self.script.cut_after is None:
            yield _chunk({}, "stop")
            yield b"data: [DONE]\n\n"


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": int(time.time()), "model": MODEL}


def _chunk(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({**_envelope("chat.completion.chunk"), "choices": [choice]}).encode() + b"\n\n"
