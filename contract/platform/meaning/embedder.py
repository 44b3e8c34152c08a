"""What makes vectors of texts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    # Costs a tenth of a second, which a process that never searches by meaning does not spend.
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]


class Embedder(Protocol):
    """Texts that mean the same get vectors that point the same way."""

    @property
    def name(self) -> str:
        """Of the model and of how it is used: vectors of another name cannot be compared with these."""

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """One row for each text: of length 1, or all zeros if the text has nothing to go by."""
