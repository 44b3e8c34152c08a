"""What is known of words: numbers, which somebody else has for each."""

import random
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64]
    Hashes: TypeAlias = NDArray[np.uint64]

# Of the words of a brain, few are used often. What is longer is a run of a script without spaces, or an address.
KEPT_WORDS, LONGEST_KEPT = 50_000, 32
# From so many bytes on, all words are looked up at once. For fewer, that is no quicker.
MANY: Final = 3000
NUMBER_SIZE: Final = 8
# Before a space these are no part of a word, so that "end," is the same word as "end". Within a number they are.
ENDS: Final = (b",", b".", b":")


class KnownWords:
    """The numbers of each word, as bytes. Words that are missing are learned when somebody asks for them."""

    def __init__(self, learn: Callable[[Sequence[str]], list[bytes]]) -> None:
        self._learn = learn
        self._kept: dict[bytes, bytes] = {}
        self._at_once = AtOnce(self.find)

    def numbers_of(self, texts: Sequence[bytes]) -> "list[Numbers]":
        """For each text the numbers of all its words, between which there are spaces."""
        import numpy as np

        if sum(map(len, texts)) >= MANY:
            return self._at_once.numbers_of(texts)
        return [np.frombuffer(b"".join(self.find(_words(text))), dtype=np.int64) for text in texts]

    def find(self, words: Sequence[bytes]) -> list[bytes]:
        found = list(map(self._kept.get, words))
        # That is quick. A word without numbers is rare.
        if not all(found):
            missing = list(dict.fromkeys(word for word, numbers in zip(words, found, strict=True) if numbers is None))
            learned = dict(zip(missing, self._learn([word.decode() for word in missing]), strict=True))
            if len(self._kept) + len(learned) > KEPT_WORDS:
                # If another thread needs one of these words, it learns the word again.
                self._kept.clear()
            self._kept.update((word, numbers) for word, numbers in learned.items() if len(word) <= LONGEST_KEPT)
            return [learned[word] if numbers is None else numbers for word, numbers in zip(words, found, strict=True)]
        return [numbers for numbers in found if numbers]


def _words(text: bytes) -> list[bytes]:
    text += b" "
    for end in ENDS:
        text = text.replace(end + b" ", b" ")
    return text.split()


# Eight bytes of a word are read at once.
STEP: Final = 8
PADDING: Final = b" " * (LONGEST_KEPT + STEP)
# There is room for several times the words, as each has only one place. If another word takes it, the words are asked
# for it again.
BITS: Final = 18
# A span of numbers: where it begins, and in the lowest bits its length.
LENGTH_BITS: Final = 16
MOST_NUMBERS: Final = 500_000


class AtOnce:
    """All words of some texts, looked up at once.

    A dictionary is asked for one word after another, and waits each time until what it needs has come from memory. In a
    long text, that took longer than all else that is done for a vector. numpy asks for all words, and then waits once.
    """

    def __init__(self, find: Callable[[Sequence[bytes]], list[bytes]]) -> None:
        self._find = find
        self._lock = Lock()
        self._hashes: Hashes | None = None

    def _begin(self) -> None:
        import numpy as np

        # Each process draws its own, so that nobody can write a word that is taken for another.
        factors = [random.SystemRandom().getrandbits(64) | 1 for _ in range(LONGEST_KEPT // STEP)]
        self._factors = np.array(factors, dtype=np.uint64)
        self._masks = np.array([(1 << 8 * size) - 1 for size in range(STEP + 1)], dtype=np.uint64)
        # By place: the hash of the word that is there, and the span of its numbers.
        self._hashes, self._spans = np.zeros(1 << BITS, dtype=np.uint64), np.zeros(1 << BITS, dtype=np.int64)
        self._numbers, self._used = np.empty(1024, dtype=np.int64), 0

    def numbers_of(self, texts: Sequence[bytes]) -> "list[Numbers]":
        import numpy as np

        joined = b" ".join([b"", *texts, PADDING])
        signs = np.frombuffer(joined, dtype=np.uint8)
        letters = signs != ord(" ")
        for end in ENDS:
            letters[:-1] &= (signs[:-1] != ord(end)) | letters[1:]
        edges = np.flatnonzero(letters[1:] != letters[:-1]) + 1
        begins, lengths = edges[0::2], edges[1::2] - edges[0::2]
        with self._lock:
            if self._hashes is None or self._used >= MOST_NUMBERS:
                self._begin()
            spans = self._spans_of(joined, begins, lengths)
            counts, firsts = spans & ((1 << LENGTH_BITS) - 1), spans >> LENGTH_BITS
            ends = counts.cumsum()
            numbers = self._numbers.take(np.arange(counts.sum()) + (firsts - ends + counts).repeat(counts))
        # Before each text there is a space.
        words = begins.searchsorted(list(accumulate((len(text) + 1 for text in texts), initial=1)))
        bounds = np.concatenate([[0], ends]).take(words).tolist()
        return [numbers[first:last] for first, last in pairwise(bounds)]

    def _spans_of(self, joined: bytes, begins: "Numbers", lengths: "Numbers") -> "Numbers":
        import numpy as np

        assert self._hashes is not None
        hashes = self._hashes_of(joined, begins, lengths)
        places = (hashes >> np.uint64(64 - BITS)).view(np.int64)
        spans: Numbers = self._spans.take(places)
        is_long = lengths > LONGEST_KEPT
        missing = np.flatnonzero((self._hashes.take(places) != hashes) | is_long)
        if len(missing):
            where = zip(begins.take(missing).tolist(), lengths.take(missing).tolist(), strict=True)
            spans[missing] = self._add(self._find([joined[begin : begin + length] for begin, length in where]))
            # The hash of a long word is that of its beginning.
            kept = missing[~is_long.take(missing)]
            self._hashes[places.take(kept)], self._spans[places.take(kept)] = hashes.take(kept), spans.take(kept)
        return spans

    def _hashes_of(self, joined: bytes, begins: "Numbers", lengths: "Numbers") -> "Hashes":
        """No two words of eight bytes or less have the same; of longer ones hardly ever any two."""
        import numpy as np

        starts = np.ndarray((len(joined) - STEP + 1,), dtype="<u8", buffer=joined, strides=(1,))
        hashes: Hashes = np.zeros(len(begins), dtype=np.uint64)
        longest = min(int(lengths.max(initial=0)), LONGEST_KEPT)
        for step, at in enumerate(range(0, longest, STEP)):
            # What is behind the end of a word does not count.
            part = starts[begins + at] & self._masks.take(lengths - at, mode="clip")
            hashes += part * self._factors[step]
        return hashes

    def _add(self, found: Sequence[bytes]) -> list[int]:
        """Keep these numbers, and return the span of each."""
        import numpy as np

        new = np.frombuffer(b"".join(found), dtype=np.int64)
        first, self._used = self._used, self._used + len(new)
        while self._used > len(self._numbers):
            self._numbers = np.concatenate([self._numbers, np.empty_like(self._numbers)])
        self._numbers[first : self._used] = new
        counts = [len(numbers) // NUMBER_SIZE for numbers in found]
        firsts = accumulate(counts[:-1], initial=first)
        return [first << LENGTH_BITS | count for first, count in zip(firsts, counts, strict=True)]
