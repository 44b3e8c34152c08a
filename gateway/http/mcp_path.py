"""Which surface and which brain a path means: `/mcp`, `/<surface>/mcp`, and either with `/<brain>` behind it."""

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

PATTERN: Final = r"(?:/(?P<surface>[a-z]+))?/mcp(?:/(?P<brain>[^/]+))?/?"
_PATH: Final = re.compile(PATTERN)
_BELOW: Final = re.compile(r"(?:/(?P<surface>[a-z]+))?/mcp(?:/.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class McpPath:
    """The surface and brain of a request; without a surface, the one at `/mcp`."""

    surface: str | None
    brain: str | None

    @classmethod
    def of(cls, path: str, surfaces: Container[str]) -> "McpPath | None":
        """None if nothing is served at that path."""
        found = _PATH.fullmatch(path)
        if found is None or (found["surface"] is not None and found["surface"] not in surfaces):
            return None
        return cls(found["surface"], found["brain"])


def is_guarded(path: str, surfaces: Container[str]) -> bool:
    """Whether a path is that of MCP, or below it. Such a path needs a token before anything is answered."""
    found = _BELOW.fullmatch(path)
    return found is not None and (found["surface"] is None or found["surface"] in surfaces)
