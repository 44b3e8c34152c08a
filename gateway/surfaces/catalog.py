"""The surfaces there are: the only list of them. Below each name lies a package with a module `surface`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Tools of `memory` beside those of its contract, served where the operator wants them.
EXTRA_TOOLS: Final = ("memory_list", "memory_read", "memory_update", "memory_forget")
# A name, in paths and settings too -> the class of the surface.
SURFACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "memory": "Memory",
        "kv": "Kv",
        "team": "Team",
        "being": "Being",
        "memo": "Memo",
        "chat": "Chat",
    }
)
