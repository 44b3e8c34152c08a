"""A server of the tools as the target of a run: its tools, its vocabulary, and the brains that the run makes there."""

import json
import secrets
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from contract.exchange import NoAnswer, NoConnection
from contract.outcome import NoBrain, Unchecked
from contract.rpc import SETUP_SECONDS, JsonObject, Reply, Session

PINS: Final = Path(__file__).parent / "tools"


@cache
def vocabularies() -> dict[str, frozenset[str]]:
    """The names of the tools of each surface, as they are pinned."""
    # What one server has beside a surface is no surface.
    files = [path for path in PINS.glob("*.json") if not path.stem.endswith("_extras")]
    pins = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}
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

    @property
    def leftovers(self) -> list[str]:
        """What the run leaves behind, in sentences."""
        if self.surface != "memory":
            return ["What it wrote is left in the brain that the server chose, under names of this run."]
        return [f"No tool deletes a brain. Left: {', '.join(sorted(self.left))}"] if self.left else []

    def facts(self) -> dict[str, Any]:
        return {"target": self.name, "surface": self.surface, "protocol": self.session.version}

    async def recognise(self) -> None:
        """Open the session, and find the vocabulary by the names of the tools.

        Raises: Unchecked.
        """
        self.session.setup_seconds = min(self.seconds, SETUP_SECONDS)
        try:
            await self.session.open()
            listed = await self.session.ask("tools/list", {}, self.session.setup_seconds)
        except NoConnection as error:
            raise Unchecked(f"nobody is at {self.name}: {error}") from error
        except NoAnswer as error:
            raise Unchecked(f"{self.name} is no server of MCP, or lets nobody in: {error}") from error
        tools = (listed.result or {}).get("tools")
        if not isinstance(tools, list):
            raise Unchecked(f"{self.name} should list its tools, and answered {listed.told()}")
        self.tools = {str(tool["name"]): tool for tool in tools if isinstance(tool, dict) and "name" in tool}
        shares = {surface: _share(names, self.tools) for surface, names in vocabularies().items()}
        best = max(shares, key=lambda surface: shares[surface])
        if not shares[best]:
            raise Unchecked(f"{self.name} has none of the tools of the contract, but {', '.join(self.tools) or 'none'}")
        self.surface = best

    async def call(self, tool: str, arguments: JsonObject, meta: JsonObject) -> Reply:
        """Raises: NoAnswer."""
        params: JsonObject = {"name": tool, "arguments": arguments}
        reply = await self.session.ask("tools/call", {**params, "_meta": meta} if meta else params, self.seconds)
        if tool == "memory_create_brain":
            self.remember(reply)
        return reply

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
        return brain

    def remember(self, made: Reply) -> None:
        """Every brain that a call made: no tool deletes one, so whoever runs this must know of it."""
        record = made.structured if isinstance(made.structured, dict) and not made.is_error else {}
        name = record.get("slug") or record.get("id")
        if isinstance(name, str) and name not in self.left:
            self.left.append(name)


def _share(names: frozenset[str], offered: JsonObject) -> float:
    return len(names & offered.keys()) / len(names)
