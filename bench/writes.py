"""What a vector adds to a write on the embedded brain: the same notes with one and without, by turns."""

import time
from functools import partial
from itertools import islice
from pathlib import Path

from bench.corpus import CHUNKS_PER_DOCUMENT, Corpus
from bench.result import Row, Section, Unmeasured, percentile, table, verdict
from bench.sizes import Sizes
from contract.platform.library import Operation
from contract.platform.meaning.offline import OfflineEmbedder
from contract.platform.store import Store

_BUDGET = 1.3
_WARMING = 20
# Whole notes that are written first, as by a process that has been there for a while: it knows the more usual words.
_BEFORE = 100


def measure(sizes: Sizes, workdir: Path) -> Section:
    """Each kind of note is written to two stores in turn, so that both find the same machine."""
    section = Section("Writes to the embedded brain")
    lines = []
    notes = _notes(sizes.writes)
    before = notes.pop("before")
    for kind, texts in notes.items():
        without, with_vectors = sizes.quiet.take(partial(_by_turns, workdir, before, texts))
        p50, bare = percentile(with_vectors, 0.5), percentile(without, 0.5)
        ratio = p50 / bare
        section.rows.append(
            Row(
                f"a write to the embedded brain with its vectors: {kind}",
                f"p50 {p50:.2f} ms",
                f"{ratio:.2f} × without",
                f"≤ {_BUDGET} ×",
                verdict(ratio <= _BUDGET),
            )
        )
        for how, values in (("without", without), ("with", with_vectors)):
            lines.append([kind, how, *(f"{percentile(values, share):.2f}" for share in (0.5, 0.95))])
    section.details = [
        table(["Note", "Vectors", "p50 ms", "p95 ms"], lines),
        f"{sizes.writes} notes of each kind through the store, each in a durable transaction of its own, after "
        f"{_BEFORE} notes of ten chunks. Of the words, one in ten to one in twenty is new to the process, which costs "
        "some microseconds.",
    ]
    return section


def _notes(number: int) -> dict[str, list[str]]:
    """Those of a kind have nothing in common with those of another, nor with those that are written before."""
    documents = Corpus(CHUNKS_PER_DOCUMENT * (_BEFORE + 3 * number)).documents()
    before, sentences, pages, whole = (
        [text for _, text in islice(documents, many)] for many in (_BEFORE, number, number, number)
    )
    return {
        "before": before,
        "a sentence": [" ".join(text.split()[:15]) for text in sentences],
        "150 words": [" ".join(text.split()[:150]) for text in pages],
        "ten chunks": whole,
    }


def _by_turns(workdir: Path, before: list[str], texts: list[str]) -> tuple[list[float], list[float]]:
    directory = workdir / f"writes-{time.monotonic_ns()}"
    stores = [Store.open(directory / "without"), Store.open(directory / "with", OfflineEmbedder())]
    times: tuple[list[float], list[float]] = ([], [])
    try:
        brains = [store.brain("main") for store in stores]
        for store, brain in zip(stores, brains, strict=True):
            written = (Operation("write", f"before/{n}.md", text.encode()) for n, text in enumerate(before))
            store.documents.batch(brain, list(written))
        for n, text in enumerate([*texts[:_WARMING], *texts]):
            order = (0, 1) if n % 2 else (1, 0)
            for which in order:
                began = time.perf_counter()
                stores[which].documents.put(brains[which], f"memory/global/{n}.md", text.encode())
                if n >= _WARMING:
                    times[which].append((time.perf_counter() - began) * 1e3)
        told = stores[1].embedding()
        if told["embedded"] != told["chunks"]:
            raise Unmeasured("Some of what was written has no vector.")
    finally:
        for store in stores:
            store.close()
    return times
