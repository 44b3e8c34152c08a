"""The surfaces there are. Each is imported when it is served: over stdio that is one of them."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from gateway.brain.brain import Brain
from gateway.mcp.surface import Options, Surface

_CLASSES: Final[Mapping[str, str]] = {
    "memory": "Memory",
    "kv": "Kv",
    "team": "Team",
    "being": "Being",
    "memo": "Memo",
}


def surface_of(name: str, brain: Brain, options: Options) -> Surface:
    made: Surface = getattr(import_module(f"gateway.surfaces.{name}.surface"), _CLASSES[name])(brain, options)
    return made
