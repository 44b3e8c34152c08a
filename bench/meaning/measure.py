"""Recall of each kind of question, by words, by meaning and by both."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np

from bench.meaning.data import Collection, Part, Question
from contract.platform import markdown
from contract.platform.library import Operation
from contract.platform.meaning.calibration import Calibration, measured
from contract.platform.meaning.embedder import Embedder
from contract.platform.meaning.fusion import fuse, semantic
from contract.platform.search import Hit
from contract.platform.store import Store

DEPTHS: Final = (1, 5, 10)
NO_ANSWER: Final = "no answer"
# Of so many hits by words the score is taken; all others have none.
_FOUND_BY_WORDS: Final = 200


@dataclass(slots=True)
class Figures:
    """Of one way of searching, for one kind of question."""

    found: list[tuple[float, ...]] = field(default_factory=list)
    """For each question the share of its notes within the first 1, 5 and 10 hits."""
    best: list[float] = field(default_factory=list)
    """For each question the score of the first hit."""

    def recalls(self) -> list[float]:
        return [sum(column) / len(self.found) for column in zip(*self.found, strict=True)]


def measure(collection: Collection, embedders: Sequence[Embedder], part: Part) -> dict[str, dict[str, Figures]]:
    """By way of searching, then by kind of question."""
    questions = [question for question in collection.questions if question.part == part]
    keywords = _by_words(collection, questions)
    ways = ["words", *(f"{how}, {each.name}" for each in embedders for how in ("meaning", "both"))]
    figures: dict[str, dict[str, Figures]] = {way: {} for way in ways}
    names = list(collection.notes)
    for question, scores in zip(questions, keywords, strict=True):
        _count(figures["words"], question, sorted(((scores.get(name, 0.0), name) for name in names), reverse=True))
    for embedder in embedders:
        calibration = measured(embedder)
        cosines = _cosines(embedder, [question.text for question in questions], list(collection.notes.values()))
        for question, scores, row in zip(questions, keywords, cosines, strict=True):
            for how, ranked in _by_meaning(names, scores, row, calibration):
                _count(figures[f"{how}, {embedder.name}"], question, ranked)
    return figures


def _by_words(collection: Collection, questions: Sequence[Question]) -> list[dict[str, float]]:
    """The keyword score of each note, for each question, as the platform's own search gives it."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder))
        try:
            brain = store.brain("main")
            notes = [Operation("write", f"{name}.md", text.encode()) for name, text in collection.notes.items()]
            store.documents.batch(brain, notes)
            found = [store.search(brain, question.text, _FOUND_BY_WORDS).hits for question in questions]
        finally:
            store.close()
    return [_best_of_each_note(hits) for hits in found]


def _best_of_each_note(hits: Sequence[Hit]) -> dict[str, float]:
    return {PurePosixPath(hit.path).stem: hit.score for hit in sorted(hits, key=lambda hit: hit.score)}


def _cosines(embedder: Embedder, questions: Sequence[str], notes: Sequence[str]) -> list[list[float]]:
    """For each question that of each note, which is that of its best chunk."""
    chunks = [(place, chunk) for place, note in enumerate(notes) for chunk in markdown.chunks(note)]
    each = embedder.embed(questions) @ embedder.embed([chunk for _, chunk in chunks]).T
    best = np.full((len(notes), len(questions)), -1.0)
    np.maximum.at(best, [place for place, _ in chunks], each.T)
    columns: list[list[float]] = best.T.tolist()
    return columns


def _by_meaning(
    names: Sequence[str], keywords: dict[str, float], cosines: Sequence[float], calibration: Calibration
) -> Iterator[tuple[str, list[tuple[float, str]]]]:
    near = semantic(cosines, calibration).tolist()
    # Far away `semantic` is 0 for all, where the cosine still tells them apart.
    by_cosine = np.argsort(-np.asarray(cosines), kind="stable").tolist()
    yield "meaning", [(near[place], names[place]) for place in by_cosine]
    fused = fuse([keywords.get(name, 0.0) for name in names], cosines, calibration)
    yield "both", [(fused.scores[place], names[place]) for place in fused.order]


def _count(figures: dict[str, Figures], question: Question, ranked: Sequence[tuple[float, str]]) -> None:
    of_kind = figures.setdefault(question.kind, Figures())
    of_kind.best.append(ranked[0][0])
    if question.answers:
        hits = [name for score, name in ranked[: max(DEPTHS)] if score > 0]
        of_kind.found.append(
            tuple(len(question.answers.intersection(hits[:depth])) / len(question.answers) for depth in DEPTHS)
        )
