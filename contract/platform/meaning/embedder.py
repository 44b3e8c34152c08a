"""What makes vectors of texts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    name: str
    dimensions: int

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """A row of length 1 for each text, or of zeros for a text with nothing in it."""
