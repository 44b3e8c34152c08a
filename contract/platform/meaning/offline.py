"""Vectors without a network: the vector of a text is the sum of those of its words, scaled to length 1.

Common English words have theirs in a table that comes with the platform. All others are cut into pieces, which have
theirs in an installed package. The package's own code is not imported: its loader asks a network for the tokenizer, and
it brings in far more than is needed.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
# The tokenizer holds the interpreter's lock: other requests wait while so many characters are read.
LEARNED_AT_ONCE: Final = 16_384
# The tokenizer's sign for a space. Only a piece at the beginning of a word begins with it.
SPACE: Final = "\u2581"
NUMBER_BYTES: Final = 4


class OfflineEmbedder:
    """Loaded when it is first used: that takes some tenths of a second."""

    name: Final = "wordllama-minilm-256"
    dimensions: Final = 256

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: Lexicon | None = None

    def embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy as np

        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, rows in enumerate(self._lexicon().rows_of([_words(text) for text in texts])):
            # This product is the sum of the rows, in half the time.
            total = np.ones(len(rows), dtype=np.float32) @ rows
            vectors[row] = total / max(math.sqrt(total @ total), 1e-9)
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
        pieces = tokenizer.get_vocab()
        self._letters = {piece for piece in pieces if len(piece) == 1}
        self._begins_word = np.zeros(len(weights), dtype=np.bool_)
        self._begins_word[[number for piece, number in pieces.items() if piece.startswith(SPACE)]] = True
        # The rows in numbers that are quick to add, each made when it is first needed. Most never are, and memory that
        # was never written to takes no room.
        self._rows = np.zeros((len(weights) + len(table), weights.shape[-1]), dtype=np.float32)
        self._is_made = np.zeros(len(self._rows), dtype=np.bool_)
        self._kept: dict[str, bytes] = {}

    @classmethod
    def load(cls, table: Table) -> "Lexicon":
        return cls(table, _tokenizer(), _weights())

    def rows_of(self, texts: Sequence[Sequence[str]]) -> Iterator["Vectors"]:
        """For each text, which is given as words, the rows of all its pieces."""
        import numpy as np

        # Another thread may replace what is kept meanwhile.
        known = self._kept.get
        found = [list(map(known, text)) for text in texts]
        new = {word for text, pieces in zip(texts, found, strict=True) for word in _unknown(text, pieces)}
        learned: dict[str, bytes] = {}
        for group in _in_groups(new):
            learned |= self._learn(group)
        for text, pieces in zip(texts, found, strict=True):
            whole = [learned[word] if one is None else one for word, one in zip(text, pieces, strict=True)]
            yield self._rows.take(np.frombuffer(b"".join(whole), dtype=np.int32), axis=0)

    def _learn(self, words: Sequence[str]) -> dict[str, bytes]:
        import numpy as np

        learned, others = dict.fromkeys(words, b""), dict[str, str]()
        known = list[int]()
        for word in words:
            readable = self._readable(word)
            places = self._table.places(readable)
            if places is None:
                others[word] = readable
            else:
                numbers = np.array(places, dtype=np.int32) + len(self._weights)
                known += numbers.tolist()
                learned[word] = numbers.tobytes()
        self._make(np.array(known, dtype=np.int32))
        learned |= self._cut(others)
        self._keep(learned)
        return learned

    def _cut(self, words: Mapping[str, str]) -> dict[str, bytes]:
        """The pieces of words, which are given with how they are read.

        All at once, in a third of the time that one after the other takes: no piece reaches over a space.
        """
        import numpy as np

        pieces = self._model.tokenize("".join(SPACE + text for text in words.values())) if words else []
        numbers = np.array([piece.id for piece in pieces], dtype=np.int32)
        self._make(numbers)
        starts = np.flatnonzero(self._begins_word[numbers]).tolist()
        encoded, ends = numbers.tobytes(), [*starts, len(numbers)][1:]
        return {
            word: b"" if _is_no_word(word, end - start) else encoded[NUMBER_BYTES * start : NUMBER_BYTES * end]
            for word, start, end in zip(words, starts, ends, strict=False)
        }

    def _make(self, numbers: "NDArray[np.int32]") -> None:
        """Rows that are needed for the first time. Another thread may be making the same, with the same result."""
        unmade = numbers[~self._is_made[numbers]]
        pieces, words = unmade[unmade < len(self._weights)], unmade[unmade >= len(self._weights)]
        for number in pieces.tolist():
            # One after the other: in a product of two matrices the last digits depend on what else is in it.
            self._rows[number] = self._table.projected(self._weights[number].astype("float32"))
        self._rows[words] = self._table.rows(words - len(self._weights))
        self._is_made[unmade] = True

    def _readable(self, word: str) -> str:
        """The text without letters that are in no piece: they would be cut into bytes, which is slow and useless."""
        return word if word.isascii() else "".join(filter(self._letters.__contains__, word))

    def _keep(self, learned: Mapping[str, bytes]) -> None:
        if len(self._kept) + len(learned) > KEPT_WORDS:
            # Threads that are using the old ones keep them.
            self._kept = {}
        self._kept.update((word, pieces) for word, pieces in learned.items() if len(word) <= LONGEST_KEPT)


def _words(text: str) -> list[str]:
    """What the tokenizer takes: not too long, without halves of characters, and without its own sign for a space."""
    beginning = text[:LONGEST]
    if not beginning.isascii():
        beginning = beginning.encode(errors="replace").decode().replace(SPACE, " ")
    return beginning.split()


def _unknown(text: Sequence[str], pieces: Sequence[bytes | None]) -> Iterator[str]:
    """The words of a text whose pieces are not known."""
    if None in pieces:
        yield from (word for word, one in zip(text, pieces, strict=True) if one is None)


def _in_groups(words: Iterable[str]) -> Iterator[list[str]]:
    group, length = list[str](), 0
    for word in words:
        group.append(word)
        length += len(word)
        if length >= LEARNED_AT_ONCE:
            yield group
            group, length = [], 0
    if group:
        yield group


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
