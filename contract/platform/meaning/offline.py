"""Vectors without a network: the vector of a text is the sum of those of its words, scaled to length 1.

Common English words have theirs in a table that comes with the platform. All others are cut into pieces, which have
theirs in an installed package. The package's own code is not imported: its loader asks a network for the tokenizer, and
it brings in far more than is needed.
"""

import json
from array import array
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from contract.platform.meaning.table import Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from contract.platform.meaning.embedder import Vectors

PACKAGE: Final = "wordllama"
WEIGHTS: Final = "wordllama/weights/l2_supercat_256.safetensors"
TOKENIZER: Final = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
TENSOR: Final = "embedding.weight"

# Of the words of a brain, few are used often. A run of a script without spaces is no word, and comes only once.
KEPT_WORDS, LONGEST_KEPT = 50_000, 32
# Several times the length of a chunk. A longer text has no spaces, and its beginning is enough.
LONGEST: Final = 8192
# The tokenizer's sign for a space. Only a piece at the beginning of a word begins with it.
SPACE: Final = "\u2581"
NUMBER: Final = "i"


class OfflineEmbedder:
    """Loaded when it is first used: that takes some tenths of a second."""

    name: Final = "wordllama-minilm-256"
    dimensions: Final = 256

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: Lexicon | None = None

    def embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy as np

        lexicon = self._lexicon()
        numbers = [lexicon.numbers_of(_words(text)) for text in texts]
        longest = max(map(len, numbers), default=0)
        # All texts use the same memory, which stays in the processor's cache. Multiplying the rows by ones adds them
        # up, in half the time that a sum takes.
        rows, ones = np.empty((longest, self.dimensions), dtype=np.float32), np.ones(longest, dtype=np.float32)
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for place, some in enumerate(numbers):
            many = len(some)
            np.dot(ones[:many], lexicon.rows_of(some, rows[:many]), out=vectors[place])
        vectors /= np.maximum(np.sqrt(np.vecdot(vectors, vectors)), 1e-9)[:, None]
        return vectors

    def _lexicon(self) -> "Lexicon":
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = Lexicon.load(Table.load())
        return self._loaded


class Lexicon:
    """What each word is made of, which is worked out once, as most words come again and again; and the rows of that.

    Pieces have the first numbers, and the words of the table those after them.
    """

    def __init__(self, table: Table, tokenizer: "Tokenizer", weights: "NDArray[np.float16]") -> None:
        import numpy as np

        self._table, self._model, self._weights = table, tokenizer.model, weights
        self._letters = {piece for piece in tokenizer.get_vocab() if len(piece) == 1}
        # The rows in numbers that are quick to add, each made when it is first needed. Most never are, and memory that
        # was never written to takes no room.
        self._rows = np.zeros((len(weights) + len(table), weights.shape[-1]), dtype=np.float32)
        self._is_made = bytearray(len(self._rows))
        self._kept = _Kept(self._learn)

    @classmethod
    def load(cls, table: Table) -> "Lexicon":
        return cls(table, _tokenizer(), _weights())

    def numbers_of(self, words: Sequence[str]) -> "NDArray[np.int32]":
        """The numbers of all pieces of these words."""
        import numpy as np

        return np.frombuffer(b"".join(map(self._kept.__getitem__, words)), dtype=np.int32)

    def rows_of(self, numbers: "NDArray[np.int32]", out: "Vectors") -> "Vectors":
        # "clip" changes nothing, as every number has a row. Without it, numpy would copy the rows once more.
        return self._rows.take(numbers, axis=0, out=out, mode="clip")

    def _learn(self, word: str) -> bytes:
        readable = self._readable(word)
        places = self._table.places(readable)
        if places is None:
            numbers = [piece.id for piece in self._model.tokenize(SPACE + readable)]
            if _is_no_word(word, len(numbers)):
                return b""
        else:
            numbers = [place + len(self._weights) for place in places]
        for number in numbers:
            if not self._is_made[number]:
                self._make(number)
        return array(NUMBER, numbers).tobytes()

    def _make(self, number: int) -> None:
        """Make the row of a number. Another thread may make the same row meanwhile, with the same result."""
        if number < len(self._weights):
            self._rows[number] = self._table.projected(self._weights[number].astype("float32"))
        else:
            self._rows[number] = self._table.row(number - len(self._weights))
        self._is_made[number] = True

    def _readable(self, word: str) -> str:
        """The text without letters that are in no piece: they would be cut into bytes, which is slow and useless."""
        return word if word.isascii() else "".join(filter(self._letters.__contains__, word))


class _Kept(dict[str, bytes]):
    """The numbers of words, as bytes. A word that is missing is learned when somebody asks for it."""

    def __init__(self, learn: Callable[[str], bytes]) -> None:
        super().__init__()
        self._learn = learn

    def __missing__(self, word: str) -> bytes:
        numbers = self._learn(word)
        if len(word) <= LONGEST_KEPT:
            if len(self) >= KEPT_WORDS:
                # If another thread needs one of these words, it learns the word again.
                self.clear()
            self[word] = numbers
        return numbers


def _words(text: str) -> list[str]:
    """What the tokenizer takes: not too long, without halves of characters, and without its own sign for a space."""
    beginning = text[:LONGEST]
    if not beginning.isascii():
        beginning = beginning.encode(errors="replace").decode().replace(SPACE, " ")
    return beginning.split()


def _is_no_word(word: str, pieces: int) -> bool:
    """What is cut into letters is no word: a code, a number, a name that nobody knows.

    It is found as it is written, and its letters would only make it like other such.
    """
    return pieces >= 4 and len(word) <= 2 * pieces and word.isascii()


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
    mapped = np.memmap(path, dtype="<f2", mode="r", offset=8 + length + begin, shape=tuple(header["shape"]))
    return mapped.view(np.ndarray)


def is_installed() -> bool:
    """Whether the table is here: for some systems there is no wheel that has it."""
    try:
        distribution(PACKAGE)
    except PackageNotFoundError:
        return False
    return True


def _file(name: str) -> Path:
    return Path(str(distribution(PACKAGE).locate_file(name)))
