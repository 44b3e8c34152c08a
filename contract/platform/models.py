"""The address of a model that the platform may ask."""

import re
from dataclasses import dataclass, field
from typing import Final

_VERSION: Final = re.compile(r"/v[0-9][^/]*(?:/|$)")


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A model behind an OpenAI-compatible address."""

    url: str
    """With `/v1` or without: both are taken."""
    model: str
    key: str | None = field(default=None, repr=False)

    def address(self, route: str) -> str:
        """The URL of a route such as `chat/completions`."""
        root = self.url.rstrip("/").removesuffix(f"/{route}")
        return f"{root}/{route}" if _VERSION.search(root.partition("://")[2]) else f"{root}/v1/{route}"
