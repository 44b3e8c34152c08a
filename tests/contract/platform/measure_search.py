"""Search latency on a large brain: `python -m tests.contract.platform.measure_search [chunks] [data directory]`."""

import itertools
import random
import sys
import tempfile
import time
from pathlib import Path

from contract.platform.brains import Brain
from contract.platform.library import Operation
from contract.platform.store import Store
from contract.platform.words import STOP_WORDS

WORDS_PER_CHUNK, VOCABULARY, BATCH, QUERIES = 150, 60_000, 1000, 200
CONSONANTS, VOWELS = "bcdfghjklmnprstvwz", "aeiou"


def invented(number: int) -> str:
    """A pronounceable word for a number, different for every number."""
    word, rest = "", number * 7 + 20
    while rest:
        rest, consonant = divmod(rest, len(CONSONANTS))
        rest, vowel = divmod(rest, len(VOWELS))
        word += CONSONANTS[consonant] + VOWELS[vowel]
    return word


# By falling frequency: stop words lead, as they do in any language.
WORDS = [*sorted(STOP_WORDS), *(invented(number) for number in range(VOCABULARY))]
WEIGHTS = list(itertools.accumulate(1 / (rank + 2.7) ** 1.05 for rank in range(len(WORDS))))


def text(dice: random.Random, length: int) -> str:
    return " ".join(dice.choices(WORDS, cum_weights=WEIGHTS, k=length))


def content_word(dice: random.Random, rarest: int) -> str:
    """A word that is no stop word; every order of frequency is equally likely."""
    first = len(STOP_WORDS)
    return WORDS[int(first * (rarest / first) ** dice.random())]


def question(dice: random.Random) -> str:
    asked = [dice.choice(sorted(STOP_WORDS)) for _ in range(dice.randint(4, 8))]
    asked += [content_word(dice, 30_000) for _ in range(dice.randint(4, 7))]
    dice.shuffle(asked)
    return " ".join(asked) + "?"


def build(store: Store, brain: Brain, chunks: int) -> None:
    dice = random.Random(1)
    for start in range(0, chunks, BATCH):
        numbers = range(start, min(start + BATCH, chunks))
        notes = ((number, text(dice, WORDS_PER_CHUNK).encode()) for number in numbers)
        store.documents.batch(brain, [Operation("write", f"notes/{number}.md", content=note) for number, note in notes])


def percentiles(store: Store, brain: Brain, queries: list[str]) -> str:
    times = []
    for asked in queries:
        began = time.perf_counter()
        store.search(brain, asked, 10).records(brain)
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    p50, p95 = times[len(times) // 2], times[len(times) * 95 // 100]
    return f"p50 {p50:6.1f} ms   p95 {p95:6.1f} ms   worst {times[-1]:6.1f} ms"


def measure(data_dir: Path, chunks: int) -> None:
    store = Store.open(data_dir)
    brain = store.brain("main")
    if not store.documents.exists(brain, "notes/0.md"):
        began = time.perf_counter()
        build(store, brain, chunks)
        sys.stdout.write(f"{chunks} chunks written in {time.perf_counter() - began:.0f} s\n")
    dice = random.Random(2)
    kinds = {
        "one rare word": [WORDS[dice.randint(5000, 50_000)] for _ in range(QUERIES)],
        "two words": [" ".join(content_word(dice, 30_000) for _ in range(2)) for _ in range(QUERIES)],
        "three words": [" ".join(content_word(dice, 30_000) for _ in range(3)) for _ in range(QUERIES)],
        "a whole question": [question(dice) for _ in range(QUERIES)],
        "one common word": [WORDS[len(STOP_WORDS) + dice.randint(0, 50)] for _ in range(QUERIES)],
        "only stop words": [" ".join(dice.sample(sorted(STOP_WORDS), 3)) for _ in range(QUERIES)],
    }
    for kind, queries in kinds.items():
        sys.stdout.write(f"{kind:18} {percentiles(store, brain, queries)}\n")
    store.close()


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    if len(sys.argv) > 2:
        measure(Path(sys.argv[2]), size)
    else:
        with tempfile.TemporaryDirectory() as directory:
            measure(Path(directory), size)
