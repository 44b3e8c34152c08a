"""Vectors of whole sentences, without a network: all-MiniLM-L6-v2, which comes with the platform, computed with numpy.

It finds a note in other words far more often than the sum of its words does, and takes a hundred times as long. Its
numbers are kept as whole numbers of a byte, which takes no note from the first ten hits: `python -m bench.meaning.pack`
makes the files.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from contract.platform.meaning.embedder import EmbeddingFailed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

    from contract.platform.meaning.embedder import Vectors

    Numbers: TypeAlias = NDArray[np.float32]

FOLDER: Final = Path(__file__).with_name("sentence")
# The pieces that words are cut into, in the order of their rows. Then the numbers of all matrices in rows of the same
# length, as whole numbers of a byte; what to multiply each row with; and what is no matrix, one after the other.
PIECES, ROWS, SCALES, REST = (FOLDER / name for name in ("pieces.txt", "rows.npy", "scales.npy", "rest.npy"))

SIZE, LAYERS, HEADS = 384, 6, 12
WIDE: Final = 4 * SIZE
# The model has learned from texts of so many pieces, and a chunk is hardly ever longer. More would take long.
LONGEST: Final = 256
# What a piece takes of a text at most, so that of a huge text only the beginning is cut.
LONGEST_TEXT: Final = 16 * LONGEST
# What is cut into so many pieces, of two letters or fewer on average, is no word: a code, or a name that nobody knows.
SHREDS, SHRED = 4, 2
TINY: Final = 1e-12
# The weights take 65 MB of memory. They go when nobody has asked for so long, and are loaded again in a tenth of a
# second.
UNUSED_SECONDS: Final = 300.0


class SentenceEmbedder:
    """Loaded when it is first used: that takes a tenth of a second."""

    name: Final = "all-MiniLM-L6-v2-int8"
    dimensions: Final = SIZE

    def __init__(self) -> None:
        self._turn = Lock()
        self._loaded: Network | None = None
        self._failure: EmbeddingFailed | None = None
        self._used = 0.0

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Raises: EmbeddingFailed."""
        import numpy as np

        network = self._network()
        # One after the other: in a product of larger matrices, the last digits depend on the other texts.
        return np.stack([network.read(text) for text in texts]) if texts else np.empty((0, SIZE), dtype=np.float32)

    def rest(self) -> None:
        """Let go of the weights if nobody has asked for a while."""
        with self._turn:
            if time.monotonic() - self._used > UNUSED_SECONDS:
                self._loaded = None

    def _network(self) -> "Network":
        with self._turn:
            self._used = time.monotonic()
            if self._failure is not None:
                # Not tried by every search: new files come with a new installation.
                raise self._failure
            if self._loaded is None:
                try:
                    self._loaded = Network.load()
                except EmbeddingFailed as failure:
                    self._failure = failure
                    raise
            return self._loaded


class Linear(NamedTuple):
    weights: "Numbers"
    bias: "Numbers"

    def of(self, states: "Numbers") -> "Numbers":
        made: Numbers = states @ self.weights
        made += self.bias
        return made


class Norm(NamedTuple):
    gain: "Numbers"
    bias: "Numbers"

    def of(self, states: "Numbers") -> "Numbers":
        """The states themselves, changed: each row with mean 0 and variance 1, and then stretched and moved."""
        import numpy as np

        states -= states.mean(axis=1, keepdims=True)
        states /= np.sqrt(np.vecdot(states, states) / np.float32(SIZE) + np.float32(TINY))[:, None]
        states *= self.gain
        states += self.bias
        return states


@dataclass(frozen=True, slots=True)
class Layer:
    """Each piece looks at all others of its text (attention), and then by itself at what it has seen."""

    asked: Linear
    """What a piece asks for, what it offers and what it tells, side by side."""
    seen: Linear
    seen_norm: Norm
    raised: Linear
    lowered: Linear
    norm: Norm

    def of(self, states: "Numbers") -> "Numbers":
        seen = self.seen.of(_attended(self.asked.of(states)))
        seen += states
        states = self.seen_norm.of(seen)
        made = self.lowered.of(_bent(self.raised.of(states)))
        made += states
        return self.norm.of(made)


class Network:
    def __init__(self, tokenizer: "Tokenizer", rows: "NDArray[np.int8]", scales: "Numbers", rest: "Numbers") -> None:
        import numpy as np

        stock, kept = _Stock(rows, scales), _Stock(rest, None)
        self._tokenizer = tokenizer
        # Of the pieces, few are needed for a text; the other matrices are needed whole.
        self._words, self._scales = stock.raw(tokenizer.get_vocab_size())
        self._positions = stock.matrix(LONGEST, SIZE)
        self._norm = Norm(kept.vector(SIZE), kept.vector(SIZE))
        self._layers = []
        for _ in range(LAYERS):
            asked = Linear(np.ascontiguousarray(stock.matrix(3 * SIZE, SIZE).T), kept.vector(3 * SIZE))
            seen = Linear(np.ascontiguousarray(stock.matrix(SIZE, SIZE).T), kept.vector(SIZE))
            seen_norm = Norm(kept.vector(SIZE), kept.vector(SIZE))
            raised = Linear(np.ascontiguousarray(stock.matrix(WIDE, SIZE).T), kept.vector(WIDE))
            lowered = Linear(stock.matrix(WIDE, SIZE), kept.vector(SIZE))
            norm = Norm(kept.vector(SIZE), kept.vector(SIZE))
            self._layers.append(Layer(asked, seen, seen_norm, raised, lowered, norm))
        if stock.left or kept.left:
            raise ValueError("more numbers than the model has")

    @classmethod
    def load(cls) -> "Network":
        """Raises: EmbeddingFailed."""
        import numpy as np

        try:
            # The rows of the pieces stay in their file, which processes share.
            rows = np.load(ROWS, mmap_mode="r").view(np.ndarray)
            return cls(_tokenizer(), rows, np.load(SCALES), np.load(REST))
        except MemoryError:
            raise
        except Exception as error:  # whatever is wrong with the files, there are no vectors
            raise EmbeddingFailed(
                f"cannot be loaded: its files are missing or damaged ({type(error).__name__})"
            ) from error

    def read(self, text: str) -> "Numbers":
        """The mean of what the last layer says of each piece of a text, of length 1; all zeros if it has no pieces."""
        import numpy as np

        # The tokenizer takes no halves of characters.
        encoding = self._tokenizer.encode(text[:LONGEST_TEXT].encode(errors="replace").decode())
        if not _has_words(encoding):
            return np.zeros(SIZE, dtype=np.float32)
        pieces = encoding.ids
        states: Numbers = self._words[pieces] * self._scales[pieces, None]
        states += self._positions[: len(pieces)]
        states = self._norm.of(states)
        for layer in self._layers:
            states = layer.of(states)
        vector: Numbers = states.sum(axis=0)
        vector /= np.sqrt(vector @ vector)
        return vector


class _Stock:
    """Numbers that are taken one matrix after the other."""

    def __init__(self, numbers: "NDArray[np.int8] | Numbers", scales: "Numbers | None") -> None:
        self._numbers, self._scales, self._taken = numbers, scales, 0

    @property
    def left(self) -> int:
        return len(self._numbers) - self._taken

    def raw(self, count: int) -> "tuple[NDArray[np.int8], Numbers]":
        assert self._scales is not None
        part = self._next(count)
        return self._numbers[part], self._scales[part]  # type: ignore[return-value]  # rows are whole numbers

    def matrix(self, count: int, size: int) -> "Numbers":
        rows, scales = self.raw(count)
        made: Numbers = rows.reshape(count, size) * scales[:, None]
        return made

    def vector(self, count: int) -> "Numbers":
        return self._numbers[self._next(count)].astype("float32")

    def _next(self, count: int) -> slice:
        if self.left < count:
            raise ValueError("fewer numbers than the model has")
        self._taken += count
        return slice(self._taken - count, self._taken)


def _has_words(encoding: "Encoding") -> bool:
    """Whether a text has anything to go by."""
    pieces, letters = Counter[int](), Counter[int]()
    for word, (start, end) in zip(encoding.word_ids, encoding.offsets, strict=True):
        if word is not None:
            pieces[word] += 1
            letters[word] += end - start
    return any(count < SHREDS or letters[word] > SHRED * count for word, count in pieces.items())


def _attended(asked: "Numbers") -> "Numbers":
    import numpy as np

    query, key, value = asked.reshape(-1, 3, HEADS, SIZE // HEADS).transpose(1, 2, 0, 3)
    shares: Numbers = query @ key.transpose(0, 2, 1)
    shares -= shares.max(axis=-1, keepdims=True)
    np.exp(shares, out=shares)
    told: Numbers = shares @ value
    told /= shares.sum(axis=-1, keepdims=True)
    return told.transpose(1, 0, 2).reshape(-1, SIZE)


def _bent(values: "Numbers") -> "Numbers":
    """By the hyperbolic tangent, which numpy has; it differs from the model's own bend in the fourth digit."""
    import numpy as np

    inner: Numbers = values * values
    inner *= np.float32(0.7978845608 * 0.044715)
    inner += np.float32(0.7978845608)
    inner *= values
    np.tanh(inner, out=inner)
    inner += 1
    inner *= values
    inner *= np.float32(0.5)
    return inner


def _tokenizer() -> "Tokenizer":
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    pieces = PIECES.read_text(encoding="utf-8").splitlines()
    numbers = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    begin, end = (("[CLS]", numbers["[CLS]"]), ("[SEP]", numbers["[SEP]"]))
    tokenizer.post_processor = processors.BertProcessing(end, begin)
    tokenizer.enable_truncation(LONGEST)
    return tokenizer
