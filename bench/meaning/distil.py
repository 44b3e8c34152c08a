"""`python -m bench.meaning.distil`: makes the vectors of common English words in `contract/platform/meaning/table`.

They are learned from a sentence model, all-MiniLM-L6-v2: sums of them should come near to what it says of whole texts,
which are definitions and examples from WordNet 3.0 (Debian's `wordnet-base`). Beside them stand the vectors of
wordllama, which know other languages. What most of the texts need of both is kept. It takes about 20 minutes of a
processor; what the sentence model says is kept in a folder, to begin again from there.
"""

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.meaning import minilm
from contract.platform import words as platform_words
from contract.platform.meaning import table
from contract.platform.meaning.offline import Lexicon
from contract.platform.meaning.table import Table

Numbers: TypeAlias = NDArray[np.float32]

# How many definitions and examples are learned from, and how many words that MiniLM has no single piece for are added.
TEXTS, MORE_WORDS = 36_000, 14_000
AT_ONCE: Final = 2048
# How far a word may move from what MiniLM says of it alone, in so many steps.
RIDGE, STEPS = 0.1, 12
# What MiniLM counts beside wordllama, and a stop word beside others by each: chosen on one half of `bench/meaning`.
SHARE, STOP_WORD, STOP_WORD_OF_WORDLLAMA = 0.5, 0.3, 0.6
# Of two texts of wordllama, MiniLM or both, few numbers say most.
DIMENSIONS: Final = 256

_SENSE: Final = re.compile(r"\(.*\)")
_WORD: Final = re.compile(r"[a-z]{2,19}|i|a")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.meaning.distil", description=__doc__)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="its files")
    parser.add_argument("--kept", type=Path, default=Path(".distil"), help="where MiniLM's vectors are kept")
    given = parser.parse_args()
    model = Kept(given.kept)
    every = _texts(given.wordnet)
    words = _words(every, model.vocabulary(), _uses(given.wordnet))
    learned = Sums(every[:TEXTS], words)
    by_minilm = _fitted(learned, model.embed(every[:TEXTS]), model.embed(words))
    rows, projection = _joined(learned, words, by_minilm, _by_wordllama(words))
    table.write(words, rows, projection)
    sys.stdout.write(f"{len(words)} words, {sum(file.stat().st_size for file in table.FOLDER.iterdir())} bytes\n")


class Kept:
    """MiniLM, whose vectors are kept in a folder: those of texts and words that were asked for before are not made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self._model = minilm.load()
        self._known: dict[str, Numbers] = {}
        for file in sorted(folder.glob("*.json")):
            texts: list[str] = json.loads(file.read_text(encoding="utf-8"))
            self._known |= zip(texts, np.load(file.with_suffix(".npy")).astype(np.float32), strict=True)

    def embed(self, texts: Sequence[str]) -> Numbers:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for at in range(0, len(new), AT_ONCE):
            some = new[at : at + AT_ONCE]
            made = self._model.embed(some).astype(np.float16)
            name = self._folder / f"{len(self._known):07}"
            np.save(name.with_suffix(".npy"), made)
            name.with_suffix(".json").write_text(json.dumps(some), encoding="utf-8")
            self._known |= zip(some, made.astype(np.float32), strict=True)
        return np.stack([self._known[text] for text in texts])

    def vocabulary(self) -> dict[str, int]:
        return self._model.vocabulary()


def _uses(wordnet: Path) -> Counter[str]:
    """How often each word is used in the texts that WordNet's makers have read."""
    uses: Counter[str] = Counter()
    for line in (wordnet / "cntlist.rev").read_text(encoding="latin1").splitlines():
        sense, _, count = line.split()
        uses[sense.partition("%")[0]] += int(count)
    return uses


def _texts(wordnet: Path) -> list[str]:
    """Definitions and examples, those of common words first."""
    uses = _uses(wordnet)
    entries = [entry for kind in ("noun", "verb", "adj", "adv") for entry in _entries(wordnet, kind, uses)]
    random.Random(1).shuffle(entries)
    entries.sort(key=lambda entry: -min(entry[0], 20))
    return list(dict.fromkeys(text for _, texts in entries for text in texts))


def _entries(wordnet: Path, kind: str, uses: Counter[str]) -> Iterator[tuple[int, list[str]]]:
    for line in (wordnet / f"data.{kind}").read_text(encoding="latin1").splitlines():
        if line.startswith("  "):
            continue
        head, _, told = line.partition("|")
        fields = head.split()
        names = [_SENSE.sub("", fields[4 + 2 * n]) for n in range(int(fields[3], 16))]
        count = max(uses[name.lower()] for name in names)
        texts = [example for example in re.findall(r'"([^"]+)"', told) if len(example.split()) > 2]
        if count or kind != "noun":
            definition = re.sub(r';?\s*"[^"]*"', "", told.strip()).strip(" ;")
            texts.append(f"{', '.join(names[:3]).replace('_', ' ')}: {definition}")
        yield count, texts


def _words(texts: Sequence[str], pieces: dict[str, int], uses: Counter[str]) -> list[str]:
    """Those that MiniLM has a piece for, which are common ones, and those that are most used in the texts."""
    whole = sorted((piece for piece in pieces if _WORD.fullmatch(piece)), key=pieces.__getitem__)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update({word for word in re.findall("[a-z]+", text.lower()) if len(word) > 2})
    counts = Counter({word: count for word, count in counts.items() if count > 1})
    counts.update({word: count for word, count in uses.items() if word.isascii() and word.isalpha()})
    more = [word for word, _ in counts.most_common() if word not in pieces and _WORD.fullmatch(word)]
    return [*whole, *more[:MORE_WORDS]]


class Sums:
    """Texts as mean values of their words, and back: a matrix, of which only the places that are not 0 are held."""

    def __init__(self, texts: Sequence[str], words: Sequence[str]) -> None:
        place = {word: n for n, word in enumerate(words)}
        held = [[place[word] for word in _runs(text) if word in place] for text in texts]
        self._texts, self._words = len(texts), len(words)
        self._word = np.array([word for row in held for word in row])
        self._text = np.repeat(np.arange(len(texts)), [len(row) for row in held])
        self._share = np.array([1 / len(row) for row in held for _ in row], dtype=np.float32)[:, None]
        self._by_word = np.argsort(self._word, kind="stable")

    def of(self, words: Numbers) -> Numbers:
        return _summed(self._text, words[self._word] * self._share, self._texts)

    def back(self, texts: Numbers) -> Numbers:
        order = self._by_word
        return _summed(self._word[order], texts[self._text[order]] * self._share[order], self._words)


def _runs(text: str) -> list[str]:
    return [word for token in text.split() for word in table.words_of(token) or ()]


def _summed(places: NDArray[np.int64], rows: Numbers, length: int) -> Numbers:
    """The rows of each place, which are given in order, added up."""
    total = np.zeros((length, rows.shape[1]), dtype=np.float32)
    found, starts = np.unique(places, return_index=True)
    total[found] = np.add.reduceat(rows, starts, axis=0)
    return total


def _fitted(sums: Sums, texts: Numbers, alone: Numbers) -> Numbers:
    """Vectors of words whose mean values come near to those of the texts: least squares, by conjugate gradients."""
    wanted = texts - texts.mean(axis=0)
    # Common words come first, and say the less the more common they are.
    common = 1 / (np.arange(len(alone)) + 1000.0)
    rows: Numbers = ((alone - alone.mean(axis=0)) * (1e-4 / (1e-4 + common / common.sum()))[:, None]).astype(np.float32)
    first = sums.of(rows)
    rows *= (first * wanted).sum() / (first * first).sum()
    rest = sums.back(wanted - sums.of(rows))
    step, size = rest.copy(), (rest * rest).sum(axis=0)
    for _ in range(STEPS):
        moved = sums.back(sums.of(step)) + RIDGE * step
        length = size / np.maximum((step * moved).sum(axis=0), 1e-12)
        rows += length * step
        rest -= length * moved
        before, size = size, (rest * rest).sum(axis=0)
        step = rest + size / np.maximum(before, 1e-12) * step
    return rows


def _by_wordllama(words: Sequence[str]) -> Numbers:
    """The sum of the pieces of each word, with a table that has none."""
    nothing, as_it_is = np.zeros((0, DIMENSIONS), np.int8), np.eye(DIMENSIONS, dtype=np.float32)
    empty = Table([], nothing, np.zeros(0, np.float32), as_it_is)
    lexicon = Lexicon.load(empty)
    numbers = lexicon.numbers_of([word.encode() for word in words])
    return np.stack(
        [lexicon.rows_of(some, np.empty((len(some), DIMENSIONS), np.float32)).sum(axis=0) for some in numbers]
    )


def _joined(sums: Sums, words: Sequence[str], by_minilm: Numbers, by_wordllama: Numbers) -> tuple[Numbers, Numbers]:
    """Both in as few numbers as tell the texts apart, and what makes such of a vector of wordllama alone."""
    is_stop_word = np.array([platform_words.is_stop_word(word) for word in words])[:, None]
    usual, usual_of_wordllama = (
        float(np.median(np.linalg.norm(sums.of(rows), axis=1))) for rows in (by_minilm, by_wordllama)
    )
    scale = (1 - SHARE) ** 0.5 / usual_of_wordllama
    joined = np.hstack(
        [
            by_wordllama * np.where(is_stop_word, STOP_WORD_OF_WORDLLAMA, 1) * scale,
            by_minilm * np.where(is_stop_word, STOP_WORD, 1) * SHARE**0.5 / usual,
        ]
    )
    texts = sums.of(joined.astype(np.float32))
    texts /= np.maximum(np.linalg.norm(texts, axis=1, keepdims=True), 1e-9)
    _, axes = np.linalg.eigh(texts.T @ texts)
    kept = axes[:, ::-1][:, :DIMENSIONS]
    return (joined @ kept).astype(np.float32), (kept[: by_wordllama.shape[1]].T * scale).astype(np.float32)


if __name__ == "__main__":
    main()
