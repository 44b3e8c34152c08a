"""A server of the tools as the target of a run: its tools, its vocabulary, and the brains that the run makes there."""

import json
import secrets
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from contract.causes import fault_of, silence_of
from contract.exchange import NoAnswer, NoConnection
from contract.names import own_name
from contract.outcome import Blocked, Cause, Unchecked
from contract.rpc import SETUP_SECONDS, JsonObject, Reply, Session
from contract.words import some

PINS: Final = Path(__file__).parent / "tools"
CREATE: Final = "memory_create_brain"
HOW: Final = "give --brain NAME to play in a brain of yours, or --anywhere if all that it writes may go to that brain"


@cache
def pins() -> dict[str, dict[str, JsonObject]]:
    """The tools of each surface by name, as they are pinned."""
    # Tools that one server has beside a surface are not a surface.
    files = [path for path in PINS.glob("*.json") if not path.stem.endswith("_extras")]
    read = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}
    return {surface: {tool["name"]: tool for tool in tools} for surface, tools in read.items()}


@cache
def writers(surface: str) -> frozenset[str]:
    """The tools of a vocabulary that change something."""
    return frozenset(name for name, tool in pins()[surface].items() if not tool["annotations"]["readOnlyHint"])


@cache
def scoped(surface: str) -> frozenset[str]:
    """The tools of a vocabulary that have an argument for the brain."""
    return frozenset(name for name, tool in pins()[surface].items() if "brain" in tool["inputSchema"]["properties"])


@dataclass
class McpTarget:
    """A server behind a URL or a command.

    With `brain`, the run uses that brain and makes none. With `anywhere`, it may write wherever the server chooses.
    `query` has words that find something, for servers on which no tool can write what to find.
    """

    name: str
    session: Session
    page: str | None = None
    folder: Path | None = None
    seconds: float = 30.0
    brain: str | None = None
    anywhere: bool = False
    query: str = "the"
    surface: str = "memory"
    tools: dict[str, JsonObject] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    written: int = 0
    capabilities: dict[str, str] = field(default_factory=dict)
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def told(self) -> str:
        server = " ".join(str(self.session.server[key]) for key in ("name", "version") if key in self.session.server)
        named = f" ({server})" if server else ""
        return f"{self.name}{named} has the {self.surface} tools, on MCP {self.session.version}"

    @property
    def leftovers(self) -> list[str]:
        """What the run leaves behind, in sentences."""
        if not writers(self.surface):
            return ["Left behind: nothing, because none of the tools writes."]
        if self.brain is not None or self.surface != "memory" or (self.anywhere and not self.left):
            where = f"your brain {self.brain}" if self.brain else "the brain that the server chose"
            named = f"under names that begin with {own_name(self.run, '')}"
            return [f"Left behind: what {self.written} writes left in {where}, most of it {named}."]
        if not self.left:
            return ["Left behind: nothing."]
        odd = sorted(name for name in self.left if not name.startswith(own_name(self.run, "")))
        also = f" Also {', '.join(odd)}." if odd else ""
        return [
            f"Left behind: {some(len(self.left), 'brain', 'brains')}, because no tool deletes one. What the run makes "
            f"is named {own_name(self.run, '')}…; `contract clean --http` deletes it at the platform behind.{also}"
        ]

    def facts(self) -> dict[str, Any]:
        known = {key: str(self.session.server[key]) for key in ("name", "version") if key in self.session.server}
        facts = {"target": self.name, "surface": self.surface, "protocol": self.session.version}
        return {**facts, "server": known, "writes": self.written}

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
        shares = {surface: _share(names, self.tools) for surface, names in pins().items()}
        best = max(shares, key=lambda surface: shares[surface])
        if not shares[best]:
            raise Unchecked(f"{self.name} has none of the tools of the contract, but {', '.join(self.tools) or 'none'}")
        self.surface = best

    async def call(self, tool: str, arguments: JsonObject, meta: JsonObject) -> Reply:
        """Raises: NoAnswer."""
        params: JsonObject = {"name": tool, "arguments": arguments}
        reply = await self.session.ask("tools/call", {**params, "_meta": meta} if meta else params, self.seconds)
        if tool == CREATE:
            self.remember(reply)
        elif tool in writers(self.surface) and not reply.is_error:
            self.written += 1
        return reply

    async def is_alive(self) -> bool:
        """Whether the server answers anything at all."""
        try:
            await self.session.ask("tools/list", {}, min(self.seconds, SETUP_SECONDS))
        except NoAnswer:
            return False
        return True

    def shows_brain(self, tool: str) -> bool:
        """Whether the schema of a tool shows how to name a brain."""
        schema = self.tools.get(tool, {}).get("inputSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        return isinstance(properties, dict) and "brain" in properties

    async def refuse_to_write_elsewhere(self) -> None:
        """Check before the first write that it will certainly go where the run says.

        Raises: Unchecked.
        """
        if self.anywhere:
            return
        stopped = f"nothing was written, because {self.name}"
        if self.surface != "memory":
            chosen = "choose one at the server (--header 'X-Brain: …', a path, or its settings), and give --anywhere"
            raise Unchecked(f"{stopped} has tools that name no brain: what they write stays in its brain; {chosen}")
        hidden = sorted(tool for tool in scoped("memory") & self.tools.keys() if not self.shows_brain(tool))
        if hidden and self.brain is None:
            raise Unchecked(
                f"{stopped} does not show how to name a brain: the schema of {hidden[-1]} has no `brain`, so what is "
                f"written would go to the default brain; {HOW}"
            )
        if CREATE not in self.tools and self.brain is None:
            raise Unchecked(f"{stopped} has no {CREATE}, so the run has no brain of its own; {HOW}")
        nobody = own_name(self.run, "nobody")
        probe = next((one for one in ("memory_search", "memory_recall") if one in self.tools), None)
        if probe is None or not await self._refuses(probe, nobody):
            why = f"{probe} in a brain that is not there ({nobody}) is answered as if it were" if probe else "no search"
            raise Unchecked(
                f"{stopped} seems to ignore which brain is named: {why}; give --anywhere if all that the run writes "
                "may go to its default brain"
            )

    async def _refuses(self, tool: str, brain: str) -> bool:
        try:
            return (await self.call(tool, {"query": "contract", "brain": brain}, {})).is_error
        except NoAnswer as error:
            raise Unchecked(f"nothing was written, because {tool} of {self.name} has no answer: {error}") from error

    async def make_brain(self, purpose: str) -> str | None:
        """A new brain, if a tool makes brains; no tool deletes one.

        Raises: Blocked.
        """
        if self.brain is not None:
            raise Blocked(Cause(f"it needs a brain of its own, and --brain {self.brain} says to make none", False))
        if CREATE not in self.tools:
            return None
        slug = own_name(self.run, purpose)
        try:
            made = await self.call(CREATE, {"name": f"Contract {self.run} {purpose}", "slug": slug}, {})
        except NoAnswer as error:
            raise Blocked(silence_of(str(error)) if error.dead else fault_of(CREATE, str(error))) from error
        brain = made.structured.get("id") if isinstance(made.structured, dict) else None
        if made.is_error or not isinstance(brain, str):
            raise Blocked(fault_of(CREATE, made.text if made.is_error else f"it tells no id: {made.told()}"))
        return brain

    def remember(self, made: Reply) -> None:
        """Note every brain that a call made: no tool deletes one, so the owner must be told."""
        record = made.structured if isinstance(made.structured, dict) and not made.is_error else {}
        name = record.get("slug") or record.get("id")
        if isinstance(name, str) and name not in self.left:
            self.left.append(name)


def _share(names: dict[str, JsonObject], offered: JsonObject) -> float:
    return len(names.keys() & offered.keys()) / len(names)
