"""Vectors without a network: a table with one vector for each piece of a word, read from an installed package.

The vector of a text is the sum of those of its pieces, scaled to length 1. The package's own code is not imported: its
loader asks a network for the tokenizer, and it brings in far more than is needed.
"""

import json
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from contract.platform.meaning.embedder import Vectors

PACKAGE: Final = "wordllama"
WEIGHTS: Final = "wordllama/weights/l2_supercat_256.safetensors"
TOKENIZER: Final = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
TENSOR: Final = "embedding.weight"

# Several times a chunk. What is longer is a text without spaces, of which the beginning says enough.
LONGEST: Final = 8192


class OfflineEmbedder:
    """Loaded when it is first used: that takes some tenths of a second."""

    name: Final = "wordllama-256"
    dimensions: Final = 256

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: tuple[Tokenizer, NDArray[np.float16]] | None = None

    def embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy as np

        tokenizer, table = self._load()
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            pieces = tokenizer.encode(_readable(text), add_special_tokens=False).ids
            if pieces:
                total = table[pieces].sum(axis=0, dtype=np.float32)
                vectors[row] = total / max(float(np.linalg.norm(total)), 1e-9)
        return vectors

    def _load(self) -> "tuple[Tokenizer, NDArray[np.float16]]":
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = _tokenizer(), _table()
        return self._loaded


def _readable(text: str) -> str:
    """What the tokenizer takes: not too long, and without halves of characters."""
    return " ".join(text[:LONGEST].encode(errors="replace").decode().split())


def _tokenizer() -> "Tokenizer":
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(_file(TOKENIZER)))


def _table() -> "NDArray[np.float16]":
    """The rows as they are in the file, which processes share: 8 bytes of length, a header in JSON, the numbers."""
    import numpy as np

    path = _file(WEIGHTS)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))[TENSOR]
    begin, _ = header["data_offsets"]
    return np.memmap(path, dtype="<f2", mode="r", offset=8 + length + begin, shape=tuple(header["shape"]))


def _file(name: str) -> Path:
    return Path(str(distribution(PACKAGE).locate_file(name)))
