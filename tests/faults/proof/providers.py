"""Writes through every tool while the provider of models is in trouble, and what it made up for afterwards."""

import asyncio
import tempfile
import time
from pathlib import Path

from tests.faults.everything import Outcome, played
from tests.faults.proof.part import Part
from tests.faults.proof.progress import say
from tests.faults.provider import TROUBLES

ROUNDS = 10
HEADERS = (
    "the provider",
    "writes",
    "stored as told",
    "reads",
    "without a vector when it came back",
    "found by a model then",
    "complaints",
)


def run(full: bool) -> Part:
    began = time.monotonic()
    outcomes = [_played(name, ROUNDS if full else 1) for name in TROUBLES]
    return Part(
        "A provider of models in trouble",
        "Whatever the provider of embeddings and of the language model does, every write of every surface is stored "
        "once and said to be, everything is found by its words, and once the provider is back every vector is made "
        "and the model looks at all that was left for it, once.",
        HEADERS,
        [_row(outcome) for outcome in outcomes],
        [complaint for outcome in outcomes for complaint in outcome.complaints],
        time.monotonic() - began,
        [
            "One gateway with an embedded brain, both models at one provider. Each round calls every tool that writes; "
            "then each surface is searched, and a question asked. Each round leaves one fact that only the model "
            "finds.",
            "Pauses between tries are shortened, and so are the waits of a provider that keeps callers waiting.",
        ],
    )


def _played(name: str, rounds: int) -> Outcome:
    say(f"providers: {name} …")
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(played(Path(folder), TROUBLES[name], rounds))


def _row(outcome: Outcome) -> tuple[str, ...]:
    figures = (outcome.writes, outcome.once, outcome.reads, outcome.chunks, outcome.derived, len(outcome.complaints))
    return outcome.trouble, *(f"{figure:,}" for figure in figures)
