"""The interface of models that make vectors from texts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    # Imported when used, because it takes a tenth of a second, and many processes never search by meaning.
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]


class Embedder(Protocol):
    """Texts that mean the same get vectors that point the same way."""

    @property
    def name(self) -> str:
        """The name of the model and of its use. Vectors with another name cannot be compared with these."""

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """One row for each text: of length 1, or all zeros if the text has nothing to go by."""
