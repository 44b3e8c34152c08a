"""The vectors of common English words, which come with the platform: `python -m bench.meaning.distil` makes them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contract.platform.meaning.embedder import Vectors

FOLDER: Final = Path(__file__).with_name("table")
WORDS: Final = FOLDER / "words.txt"
# Of each word as many whole numbers of a byte as a vector has, and what to multiply them with.
ROWS, SCALES, PROJECTION = (FOLDER / f"{name}.npy" for name in ("rows", "scales", "projection"))
GREATEST: Final = 127

_RUN: Final = re.compile(r"[^\W\d_]+")
_CODE: Final = re.compile(r"[\d_]")


def words_of(token: str) -> list[str] | None:
    """The words in what stands between two spaces, as the table writes them; None for a number or a code."""
    if token.isalpha():
        return [token.lower()]
    return None if _CODE.search(token) else _RUN.findall(token.lower())


class Table:
    def __init__(
        self, words: Sequence[str], rows: "NDArray[np.int8]", scales: "Vectors", projection: "Vectors"
    ) -> None:
        self._places = {word: place for place, word in enumerate(words)}
        self._rows, self._scales, self._projection = rows, scales, projection

    def __len__(self) -> int:
        return len(self._places)

    @classmethod
    def load(cls) -> "Table":
        """The rows stay in their file, which processes share."""
        import numpy as np

        words = WORDS.read_text(encoding="utf-8").split()
        return cls(words, np.load(ROWS, mmap_mode="r").view(np.ndarray), np.load(SCALES), np.load(PROJECTION))

    def places(self, token: str) -> list[int] | None:
        """Where the words of a token are; None if not all of them are here."""
        if token.isalpha():
            # Most tokens are a word as it is.
            place = self._places.get(token.lower())
            return None if place is None else [place]
        words = words_of(token)
        found = None if words is None else [self._places.get(word, -1) for word in words]
        return None if found is None or -1 in found else found

    def row(self, place: int) -> "Vectors":
        made: Vectors = self._rows[place] * self._scales[place]
        return made

    def projected(self, vector: "Vectors") -> "Vectors":
        """A vector of wordllama as one that can be compared with those of the table."""
        made: Vectors = self._projection @ vector
        return made


def write(words: Sequence[str], rows: "Vectors", projection: "Vectors") -> None:
    import numpy as np

    scales = (np.abs(rows).max(axis=1) / GREATEST).astype(np.float32)
    WORDS.write_text("\n".join(words) + "\n", encoding="utf-8")
    np.save(ROWS, np.rint(rows / np.maximum(scales, 1e-12)[:, None]).astype(np.int8))
    np.save(SCALES, scales)
    np.save(PROJECTION, projection)
