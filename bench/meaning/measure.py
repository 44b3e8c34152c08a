"""Recall of each kind of question, by words, by meaning and by both, each by a search of the platform's own store."""

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeAlias

from bench.meaning.data import Collection, Part, Question
from contract.platform.brains import Brain
from contract.platform.choice import choose, nearest
from contract.platform.library import Operation
from contract.platform.meaning.embedder import Embedder
from contract.platform.meaning.offline import OfflineEmbedder
from contract.platform.meaning.sentence import SentenceEmbedder
from contract.platform.question import Question as Asked
from contract.platform.search import Found, Hit
from contract.platform.store import Store

Way: TypeAlias = Literal["words", "meaning", "both"]
# What an answer by rule tells: a note that answers the question (right), or another note (wrong), each as the answer or
# only as the nearest note.
Told: TypeAlias = Literal["right", "nearest, right", "nothing", "nearest, wrong", "wrong"]

DEPTHS: Final = (1, 5, 10)
NO_ANSWER: Final = "no answer"
# The nearest in meaning are among so many hits by words and meaning, and are put in order by meaning alone.
SORTED_BY_MEANING: Final = 100
LONGEST_WAIT: Final = 600


@dataclass(slots=True)
class Figures:
    """Of one way of searching, for one kind of question."""

    found: list[tuple[float, ...]] = field(default_factory=list)
    """For each question the share of its notes within the first 1, 5 and 10 hits."""
    best: list[float] = field(default_factory=list)
    """For each question the score of the first hit."""
    hits: list[int] = field(default_factory=list)
    """For each question how many of the ten hits that it wants there are."""
    told: Counter[Told] = field(default_factory=Counter)

    def recalls(self) -> list[float]:
        return [sum(column) / len(self.found) for column in zip(*self.found, strict=True)]

    def add(self, question: Question, ranked: Sequence[tuple[str, float]]) -> None:
        """Notes in order, each with its score."""
        self.hits.append(len(ranked))
        self.best.append(ranked[0][1] if ranked else 0.0)
        if question.answers:
            names = [name for name, _ in ranked]
            self.found.append(
                tuple(len(question.answers.intersection(names[:depth])) / len(question.answers) for depth in DEPTHS)
            )


# By kind of question.
Kinds: TypeAlias = dict[str, Figures]


def measure(every: Sequence[Collection], embedder: Embedder | None, part: Part) -> dict[str, dict[Way, Kinds]]:
    """For each collection, by way of searching. Without an embedder, words are the only way."""
    made: dict[str, dict[Way, Kinds]] = {}
    with _filled(every, embedder) as (store, brains):
        for collection in every:
            ways = made.setdefault(collection.name, {})
            for brain, notes in zip(brains[collection.name], collection.brains, strict=True):
                for question in collection.questions:
                    if question.part == part and question.answers <= notes.keys():
                        found = _found(store, brain, question.text, embedder is not None)
                        for way, ranked in _ranked(store, brain, question.text, found):
                            ways.setdefault(way, {}).setdefault(question.kind, Figures()).add(question, ranked)
                        whole: Way = "both" if embedder else "words"
                        ways[whole][question.kind].told[_told(found, question)] += 1
    return made


@contextmanager
def _filled(every: Sequence[Collection], embedder: Embedder | None) -> Iterator[tuple[Store, dict[str, list[Brain]]]]:
    """A store with all notes, each with its vector, and the brains of each collection."""
    with tempfile.TemporaryDirectory() as folder:
        # The sentence model is used as a newcomer has it, with the small one beside it.
        if isinstance(embedder, SentenceEmbedder):
            store = Store.open(Path(folder), OfflineEmbedder(), sentences=embedder)
        else:
            store = Store.open(Path(folder), embedder)
        try:
            brains: dict[str, list[Brain]] = {}
            for collection in every:
                for number, notes in enumerate(collection.brains):
                    brain = store.create_brain(f"{collection.name} {number}")
                    store.documents.batch(
                        brain, [Operation("write", f"{name}.md", text.encode()) for name, text in notes.items()]
                    )
                    brains.setdefault(collection.name, []).append(brain)
            _wait_for_vectors(store)
            yield store, brains
        finally:
            store.close()


def _wait_for_vectors(store: Store) -> None:
    """A service makes them in the background; on a busy machine it may fail now and then."""
    ends = time.monotonic() + LONGEST_WAIT
    while (status := store.embedding())["state"] not in ("ready", "off"):
        if time.monotonic() > ends:
            raise RuntimeError(f"after {LONGEST_WAIT} s, the model is {status}")
        time.sleep(0.05)


def _found(store: Store, brain: Brain, text: str, is_hybrid: bool) -> Found:
    ends = time.monotonic() + LONGEST_WAIT
    while (found := store.search(brain, text, max(DEPTHS))).method != "hybrid" and is_hybrid:
        # A query does not wait long for a service; by now it may know the answer.
        if time.monotonic() > ends:
            raise RuntimeError("a question was searched for by its words alone")
        time.sleep(0.5)
    return found


def _ranked(store: Store, brain: Brain, text: str, found: Found) -> Iterator[tuple[Way, Sequence[tuple[str, float]]]]:
    yield "both" if found.method == "hybrid" else "words", _notes(found.hits, [hit.score for hit in found.hits])
    if found.method == "hybrid":
        hits = [hit for hit in store.search(brain, text, SORTED_BY_MEANING).hits if hit.semantic is not None]
        hits.sort(key=lambda hit: hit.semantic or 0.0, reverse=True)
        hits = hits[: max(DEPTHS)]
        yield "meaning", _notes(hits, [hit.semantic or 0.0 for hit in hits])


def _told(found: Found, question: Question) -> Told:
    asked = Asked.read(question.text)
    answered = choose(found, asked)
    quotes = answered or nearest(found, asked)
    if not quotes:
        return "nothing"
    if any(PurePosixPath(quote.hit.path).stem in question.answers for quote in quotes):
        return "right" if answered else "nearest, right"
    return "wrong" if answered else "nearest, wrong"


def _notes(hits: Sequence[Hit], scores: Sequence[float]) -> list[tuple[str, float]]:
    """Each note once, by its best chunk."""
    best: dict[str, float] = {}
    for hit, score in zip(hits, scores, strict=True):
        best.setdefault(PurePosixPath(hit.path).stem, score)
    return list(best.items())
