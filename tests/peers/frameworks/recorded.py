"""What a client sends to a gateway: every call of a tool, noted on its way in."""

import json
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.peers.frameworks.shapes import Json


@dataclass
class Recorded:
    """An application, and the `params` of each `tools/call` that was sent to it over HTTP."""

    app: ASGIApp
    calls: list[Json] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()

        async def overheard() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    self._note(bytes(body))
            return message

        await self.app(scope, overheard, send)

    def _note(self, body: bytes) -> None:
        sent = json.loads(body) if body else None
        if isinstance(sent, dict) and sent.get("method") == "tools/call":
            self.calls.append(sent["params"])
