"""Vectors without a network: a table with one vector for each piece of a word, read from an installed package.

The vector of a text is the sum of those of its pieces, scaled to length 1. The package's own code is not imported: its
loader asks a network for the tokenizer, and it brings in far more than is needed.
"""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from contract.platform.meaning.embedder import Vectors

Pieces: TypeAlias = Callable[[str], Sequence[int]]

PACKAGE: Final = "wordllama"
WEIGHTS: Final = "wordllama/weights/l2_supercat_256.safetensors"
TOKENIZER: Final = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
TENSOR: Final = "embedding.weight"

# Of the words of a brain, few are used often. A run of a script without spaces is no word, and comes only once.
KEPT_WORDS, LONGEST_KEPT = 50_000, 32
# Several times a chunk. What is longer is a text without spaces, of which the beginning says enough.
LONGEST: Final = 8192


class OfflineEmbedder:
    """Loaded when it is first used: that takes some tenths of a second."""

    name: Final = "wordllama-256"
    dimensions: Final = 256

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: tuple[Pieces, Table] | None = None

    def embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy as np

        pieces_of, table = self._load()
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            pieces = [piece for word in _readable(text).split() for piece in pieces_of(word)]
            if pieces:
                total = table.rows(pieces).sum(axis=0)
                vectors[row] = total / max(float(np.linalg.norm(total)), 1e-9)
        return vectors

    def _load(self) -> "tuple[Pieces, Table]":
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = _pieces_of(_tokenizer()), Table(_weights())
        return self._loaded


class Table:
    """The rows in numbers that are quick to add, each made when it is first needed: most never are."""

    def __init__(self, weights: "NDArray[np.float16]") -> None:
        import numpy as np

        self._weights = weights
        # Memory that was never written to takes no room.
        self._rows = np.zeros(weights.shape, dtype=np.float32)
        self._is_made = np.zeros(len(weights), dtype=bool)

    def rows(self, places: Sequence[int]) -> "Vectors":
        import numpy as np

        wanted = np.asarray(places)
        new = wanted[~self._is_made[wanted]]
        if len(new):
            # Another thread may be doing the same, with the same result.
            self._rows[new] = self._weights[new]
            self._is_made[new] = True
        rows: Vectors = self._rows.take(wanted, axis=0)
        return rows


def _readable(text: str) -> str:
    """What the tokenizer takes: not too long, and without halves of characters."""
    return text[:LONGEST].encode(errors="replace").decode()


def _pieces_of(tokenizer: "Tokenizer") -> Pieces:
    """The tokenizer for one word at a time: no piece reaches over a space, and most words come again and again."""

    def cut(word: str) -> tuple[int, ...]:
        pieces = tokenizer.encode(word, add_special_tokens=False).ids
        # What is cut into letters is no word: a code, a number, a name that nobody knows. It is found as it is written,
        # and its letters would only make it like other such.
        is_no_word = word.isascii() and len(pieces) >= 4 and len(word) <= 2 * len(pieces)
        return () if is_no_word else tuple(pieces)

    kept = lru_cache(KEPT_WORDS)(cut)
    return lambda word: kept(word) if len(word) <= LONGEST_KEPT else cut(word)


def _tokenizer() -> "Tokenizer":
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(_file(TOKENIZER)))


def _weights() -> "NDArray[np.float16]":
    """The rows as they are in the file, which processes share: 8 bytes of length, a header in JSON, the numbers."""
    import numpy as np

    path = _file(WEIGHTS)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))[TENSOR]
    begin, _ = header["data_offsets"]
    return np.memmap(path, dtype="<f2", mode="r", offset=8 + length + begin, shape=tuple(header["shape"]))


def is_installed() -> bool:
    """Whether the table is here: for some systems there is no wheel that has it."""
    try:
        distribution(PACKAGE)
    except PackageNotFoundError:
        return False
    return True


def _file(name: str) -> Path:
    return Path(str(distribution(PACKAGE).locate_file(name)))
