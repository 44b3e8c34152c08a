"""The interface of models that make vectors from texts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    # Imported when used, because it takes a tenth of a second, and many processes never search by meaning.
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]


class EmbeddingFailed(Exception):
    """Why there are no vectors, in a few words without content, address or key."""

    def __init__(self, reason: str, *, retry_after: float | None = None, too_much: bool = False) -> None:
        super().__init__(reason)
        self.retry_after = retry_after
        self.too_much = too_much
        """Whether the service might accept fewer or shorter texts."""


class Embedder(Protocol):
    """Texts that mean the same get vectors that point the same way."""

    @property
    def name(self) -> str:
        """The name of the model and of its use. Vectors with another name cannot be compared with these."""

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """One row for each text: of length 1, or all zeros if the text has nothing to go by."""
