"""A server of the tools as the target of a run: its tools, its vocabulary, and the brains that the run makes there."""

import json
import secrets
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from contract.exchange import NoAnswer, NoConnection
from contract.outcome import NoBrain, Unreachable
from contract.rpc import SETUP_SECONDS, JsonObject, Reply, Session

PINS: Final = Path(__file__).parent / "tools"


@cache
def vocabularies() -> dict[str, frozenset[str]]:
    """The names of the tools of each surface, as they are pinned."""
    pins = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in PINS.glob("*.json")}
    return {surface: frozenset(tool["name"] for tool in tools) for surface, tools in pins.items()}


@dataclass
class McpTarget:
    """A server behind a URL or a command."""

    name: str
    session: Session
    page: str | None = None
    folder: Path | None = None
    seconds: float = 30.0
    surface: str = "memory"
    tools: dict[str, JsonObject] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def told(self) -> str:
        return f"{self.name} has the {self.surface} tools, on MCP {self.session.version}"

    def facts(self) -> dict[str, Any]:
        return {"target": self.name, "surface": self.surface, "protocol": self.session.version}

    async def recognise(self) -> None:
        """Open the session, and find the vocabulary by the names of the tools.

        Raises: NoAnswer, Unreachable.
        """
        self.session.setup_seconds = min(self.seconds, SETUP_SECONDS)
        try:
            await self.session.open()
        except NoConnection as error:
            raise Unreachable(f"nobody is at {self.name}: {error}") from error
        listed = await self.session.ask("tools/list", {}, self.session.setup_seconds)
        tools = (listed.result or {}).get("tools")
        if not isinstance(tools, list):
            raise NoAnswer(f"tools/list should list the tools, and answered {listed.told()}")
        self.tools = {str(tool["name"]): tool for tool in tools if isinstance(tool, dict) and "name" in tool}
        shares = {surface: _share(names, self.tools) for surface, names in vocabularies().items()}
        best = max(shares, key=lambda surface: shares[surface])
        if not shares[best]:
            raise Unreachable(
                f"{self.name} has none of the tools of the contract, but {', '.join(self.tools) or 'none'}"
            )
        self.surface = best

    async def call(self, tool: str, arguments: JsonObject, meta: JsonObject) -> Reply:
        """Raises: NoAnswer."""
        params: JsonObject = {"name": tool, "arguments": arguments}
        return await self.session.ask("tools/call", {**params, "_meta": meta} if meta else params, self.seconds)

    async def make_brain(self, purpose: str) -> str | None:
        """A new brain, where a tool makes brains; no tool deletes one.

        Raises: NoBrain.
        """
        if "memory_create_brain" not in self.tools:
            return None
        slug = f"contract-{purpose}-{self.run}"[:64].strip("-")
        try:
            made = await self.call("memory_create_brain", {"name": f"Contract {purpose} {self.run}", "slug": slug}, {})
        except NoAnswer as error:
            raise NoBrain(f"memory_create_brain: {error}") from error
        brain = made.structured.get("id") if isinstance(made.structured, dict) else None
        if made.is_error or not isinstance(brain, str):
            raise NoBrain(f"memory_create_brain should make a brain, and answered {made.told()}")
        self.left.append(brain)
        return brain


def _share(names: frozenset[str], offered: JsonObject) -> float:
    return len(names & offered.keys()) / len(names)
