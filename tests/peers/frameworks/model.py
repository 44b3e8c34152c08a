"""A model that plays a script: a server shaped like the APIs of OpenAI, Anthropic and Gemini, on loopback."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.peers.frameworks.shapes import ANTHROPIC, GEMINI, MODEL, OPENAI, Json, Shape, Turn, Use


@dataclass(frozen=True)
class Asked:
    """One request for a turn: the tools it offered, and what it told the model since the model last spoke."""

    offered: dict[str, Json]
    told: str


@dataclass
class ScriptedModel:
    """Plays its turns in order, one for each request, and notes what it is told. It ends with the last turn.

    A request without tools (for a title, say) is no turn. Clients put a prefix before the name of a tool: the script
    does without.
    """

    script: Sequence[Turn]
    asked: list[Asked] = field(default_factory=list)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/v1/chat/completions", self._openai, methods=["POST"]),
                Route("/v1/messages", self._anthropic, methods=["POST"]),
                Route("/v1beta/models/{call}", self._gemini, methods=["POST"]),
            ]
        )

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "tests"}]})

    async def _openai(self, request: Request) -> Response:
        body = await request.json()
        return self._answer(OPENAI, body, streamed=body.get("stream", False))

    async def _anthropic(self, request: Request) -> Response:
        body = await request.json()
        return self._answer(ANTHROPIC, body, streamed=body.get("stream", False))

    async def _gemini(self, request: Request) -> Response:
        called = request.path_params["call"].partition(":")[2]
        if called == "countTokens":
            return JSONResponse({"totalTokens": 1})
        return self._answer(GEMINI, await request.json(), streamed=called == "streamGenerateContent")

    def _answer(self, shape: Shape, body: Any, *, streamed: bool) -> Response:
        turn = self._play(shape, body)
        if not streamed:
            return JSONResponse(shape.answer(turn))
        events = [
            (f"event: {name}\n" if name else "") + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
            for name, data in shape.events(turn)
        ]
        return Response("".join(events), media_type="text/event-stream")

    def _play(self, shape: Shape, body: Json) -> Turn:
        offered = shape.offered(body)
        if not offered:
            return "Nothing to add."
        self.asked.append(Asked(offered, shape.told(body)))
        turn = self.script[min(len(self.asked), len(self.script)) - 1]
        if isinstance(turn, str):
            return turn
        names = [name for name in offered if name == turn.tool or name.endswith(f"_{turn.tool}")]
        return Use(names[0], turn.arguments, f"call_{len(self.asked)}") if names else f"I am not offered {turn.tool}."
