"""Vectors without a network: the vector of a text is the sum of those of its words, scaled to length 1.

Common English words have theirs in a table that comes with the platform. All others are cut into pieces, which have
theirs in an installed package. The package's own code is not imported: its loader asks a network for the tokenizer, and
it brings in far more than is needed.
"""

import json
from array import array
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from contract.platform.meaning.known import KnownWords
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

# Several times the length of a chunk. A longer text has no spaces, and its beginning is enough.
LONGEST: Final = 8192
# The tokenizer's sign for a space. Only a piece at the beginning of a word begins with it.
SPACE: Final = "\u2581"
# Control characters are white space. So is what stands beside words in prose, and is no part of a number.
SPACES: Final = bytes(ord(" ") if code < ord(" ") or chr(code) in '"()[]{}<>|*`;!?' else code for code in range(256))
NUMBER: Final = "q"
# The tokenizer keeps all other threads waiting.
CUT_AT_ONCE: Final = 32
# Room for rows. There is twice as much whenever it is used up.
FIRST_ROWS: Final = 4096


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
        numbers = lexicon.numbers_of([_spaced(text) for text in texts])
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

    A row is made when it is first needed, because most never are, and gets the next number.
    """

    def __init__(self, table: Table, tokenizer: "Tokenizer", weights: "NDArray[np.float16]") -> None:
        import numpy as np

        self._table, self._model, self._weights = table, tokenizer.model, weights
        numbers = tokenizer.get_vocab()
        self._letters = {piece for piece in numbers if len(piece) == 1}
        self._first_pieces = {number for piece, number in numbers.items() if piece.startswith(SPACE)}
        # The rows that were made, as numbers that are quick to add, and the number of the row of each piece. Words of
        # the table count on after the last piece.
        self._rows = np.empty((FIRST_ROWS, weights.shape[-1]), dtype=np.float32)
        self._made: dict[int, int] = {}
        self._making = Lock()
        self._known = KnownWords(self._learn)

    @classmethod
    def load(cls, table: Table) -> "Lexicon":
        return cls(table, _tokenizer(), _weights())

    def numbers_of(self, texts: Sequence[bytes]) -> "list[NDArray[np.int64]]":
        """For each text the numbers of the rows of all pieces of its words."""
        return self._known.numbers_of(texts)

    def rows_of(self, numbers: "NDArray[np.int64]", out: "Vectors") -> "Vectors":
        # "clip" changes nothing, as every number has a row. Without it, numpy would copy the rows once more.
        return self._rows.take(numbers, axis=0, out=out, mode="clip")

    def _learn(self, words: Sequence[str]) -> list[bytes]:
        readable = [self._readable(word) for word in words]
        places = [self._table.places(word) for word in readable]
        cut = self._cut([word for word, some in zip(readable, places, strict=True) if some is None])
        learned: list[bytes] = []
        for word, some in zip(words, places, strict=True):
            if some is not None:
                pieces = [place + len(self._weights) for place in some]
            elif _is_no_word(word, len(pieces := next(cut))):
                pieces = []
            made = self._made
            numbers = [made[piece] if piece in made else self._make(piece) for piece in pieces]
            learned.append(array(NUMBER, numbers).tobytes())
        return learned

    def _cut(self, words: Sequence[str]) -> Iterator[list[int]]:
        """The pieces of each word. A call of the tokenizer takes longer than what it does for a word."""
        for at in range(0, len(words), CUT_AT_ONCE):
            cut = self._model.tokenize("".join([SPACE + word for word in words[at : at + CUT_AT_ONCE]]))
            pieces: list[int] = []
            for piece in [piece.id for piece in cut]:
                if piece in self._first_pieces and pieces:
                    yield pieces
                    pieces = []
                pieces.append(piece)
            yield pieces

    def _make(self, piece: int) -> int:
        """Make the row of a piece. Other threads may read those that are there meanwhile."""
        import numpy as np

        with self._making:
            number = self._made.get(piece, len(self._made))
            if number == len(self._made):
                if number == len(self._rows):
                    self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
                self._rows[number] = self._row(piece)
                self._made[piece] = number
            return number

    def _row(self, piece: int) -> "Vectors":
        if piece < len(self._weights):
            return self._table.projected(self._weights[piece].astype("float32"))
        return self._table.row(piece - len(self._weights))

    def _readable(self, word: str) -> str:
        """The text without letters that are in no piece: they would be cut into bytes, which is slow and useless."""
        return word if word.isascii() else "".join(filter(self._letters.__contains__, word))


def _spaced(text: str) -> bytes:
    """What the tokenizer takes: not too long, without halves of characters, and without its own sign for a space.

    Whatever is between words is a space of ASCII.
    """
    beginning = text[:LONGEST]
    if not beginning.isascii():
        beginning = " ".join(beginning.encode(errors="replace").decode().replace(SPACE, " ").split())
    return beginning.encode().translate(SPACES)


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
