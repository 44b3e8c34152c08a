"""What vectors add to a write on the embedded brain: the same notes with and without, by turns.

It measures over HTTP, as clients see it, and through the store alone. `python -m bench.writes TREE` compares with
another checkout instead, over HTTP, by the clock and by the processors' time.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from bench.client import Connection, checked
from bench.corpus import CHUNKS_PER_DOCUMENT, Corpus
from bench.processes import Contestant, running
from bench.result import Row, Section, Unmeasured, percentile, table, verdict
from bench.sizes import Sizes
from bench.streams import run
from bench.wire import JsonObject, get, put
from contract.platform.library import Operation
from contract.platform.meaning.offline import OfflineEmbedder
from contract.platform.store import Store

Times = tuple[list[float], list[float]]
"""In milliseconds: without vectors, and with them."""

_BUDGET = 1.3
_WARMING = 20
# Whole notes that are written first, as by a process that has been there for a while: it knows the more usual words.
_BEFORE = 100


def measure(sizes: Sizes, workdir: Path) -> Section:
    """Each kind of note is written to two brains in turn, so that both find the same machine."""
    section = Section("Writes to the embedded brain")
    lines = []
    notes = _notes(sizes.writes)
    before = notes.pop("before")
    ways = {"over HTTP": _over_http, "through the store": _through_store}
    for how, write in ways.items():
        for kind, texts in notes.items():
            without, with_vectors = sizes.quiet.take(partial(write, workdir, before, texts))
            p50, bare = percentile(with_vectors, 0.5), percentile(without, 0.5)
            ratio = p50 / bare
            section.rows.append(
                Row(
                    f"a write to the embedded brain with its vectors, {how}: {kind}",
                    f"p50 {p50:.2f} ms",
                    f"{ratio:.2f} × without",
                    f"≤ {_BUDGET} ×",
                    verdict(ratio <= _BUDGET),
                )
            )
            for vectors, values in (("without", without), ("with", with_vectors)):
                figures = [f"{percentile(values, share):.2f}" for share in (0.5, 0.95)]
                lines.append([kind, how, vectors, *figures])
    section.details = [
        table(["Note", "Way", "Vectors", "p50 ms", "p95 ms"], lines),
        f"{sizes.writes} notes of each kind, each in a durable transaction of its own, after {_BEFORE} notes of ten "
        "chunks. Of the words, one in ten to one in twenty is new to the process, which costs some microseconds.",
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


def _by_turns(texts: list[str]) -> Iterator[tuple[int, str, tuple[int, int]]]:
    """Number, text, and which of the two brains comes first. The first few are written to warm up."""
    for n, text in enumerate([*texts[:_WARMING], *texts]):
        yield n - _WARMING, text, ((0, 1) if n % 2 else (1, 0))


def _over_http(workdir: Path, before: list[str], texts: list[str]) -> Times:
    directory = workdir / f"writes-{time.monotonic_ns()}"
    bare = ["bench.words_only", "--data-dir", str(directory / "without")]
    whole = ["gateway", "platform", "--data-dir", str(directory / "with")]
    with running("words-only", bare, workdir) as without, running("platform", whole, workdir) as with_vectors:
        times: Times = run(_to_both((without, with_vectors), before, texts))
    return times


async def _to_both(servers: tuple[Contestant, Contestant], before: list[str], texts: list[str]) -> Times:
    """The times of each server. The second makes vectors."""
    without, with_vectors = await _to_each(servers, before, texts)
    answer = json.loads(await checked(servers[1].port, get("/v1/models")))
    _check(answer["embedding"])
    return without.times, with_vectors.times


@dataclass(slots=True)
class Side:
    """The writes of one server: milliseconds by the clock, and of processors for each."""

    times: list[float] = field(default_factory=list)
    cpu: float = 0.0


async def _to_each(servers: Sequence[Contestant], before: list[str], texts: list[str]) -> list[Side]:
    """The same notes to some servers by turns."""
    sides = [Side() for _ in servers]
    async with asyncio.timeout(300):
        connections = [await Connection.open(server.port) for server in servers]
        for n, text in enumerate(before + texts[:_WARMING]):
            for connection in connections:
                await _put(connection, f"before/{n}.md", text)
        begun = [server.cpu_seconds() for server in servers]
        for n, text in enumerate(texts):
            first = n % len(servers)
            for which in [*range(first, len(servers)), *range(first)]:
                took = await _put(connections[which], f"memory/global/{n}.md", text)
                sides[which].times.append(took)
        for side, server, began in zip(sides, servers, begun, strict=True):
            side.cpu = (server.cpu_seconds() - began) * 1e3 / len(texts)
        for connection in connections:
            await connection.close()
    return sides


async def _put(connection: Connection, path: str, text: str) -> float:
    request = put(f"/v1/brains/main/documents?path={path}", text.encode())
    began = time.perf_counter()
    answer = await connection.exchange(request)
    took = (time.perf_counter() - began) * 1e3
    if answer.status != 204:
        raise Unmeasured(f"A write was answered {answer.status}: {answer.body[:200]!r}")
    return took


def _through_store(workdir: Path, before: list[str], texts: list[str]) -> Times:
    directory = workdir / f"writes-{time.monotonic_ns()}"
    stores = [Store.open(directory / "without"), Store.open(directory / "with", OfflineEmbedder())]
    times: Times = ([], [])
    try:
        brains = [store.brain("main") for store in stores]
        for store, brain in zip(stores, brains, strict=True):
            written = (Operation("write", f"before/{n}.md", text.encode()) for n, text in enumerate(before))
            store.documents.batch(brain, list(written))
        for n, text, order in _by_turns(texts):
            for which in order:
                began = time.perf_counter()
                stores[which].documents.put(brains[which], f"memory/global/{n + _WARMING}.md", text.encode())
                if n >= 0:
                    times[which].append((time.perf_counter() - began) * 1e3)
        _check(stores[1].embedding())
    finally:
        for store in stores:
            store.close()
    return times


def _check(told: JsonObject) -> None:
    """Of the model that makes its vectors in the transaction of a write: the sentence model reads the notes later."""
    told = told.get("meanwhile", told)
    if told["embedded"] != told["chunks"]:
        raise Unmeasured("Some of what was written has no vector.")


def compare(tree: Path, number: int, rounds: int, workdir: Path) -> str:
    """Compares this tree, with vectors and without, with another one, which may be older than search by meaning."""
    notes, lines = _notes(number), []
    before = notes.pop("before")
    for kind, texts in notes.items():
        turns = [_compared(tree, before, texts, workdir / f"{kind} {n}") for n in range(rounds)]
        figures: dict[str, Callable[[Side], float]] = {"p50 ms": lambda side: percentile(side.times, 0.5)}
        figures["ms of processors"] = lambda side: side.cpu
        for what, figure in figures.items():
            there, without, here = (
                percentile([figure(turn[which]) for turn in turns], 0.5) for which in range(len(turns[0]))
            )
            values = [f"{value:.2f}" for value in (there, without, here, here / there, here / without)]
            lines.append([kind, what, *values])
    headings = ["Note", "Of a write", "there", "here, no vectors", "here", "here / there", "here / no vectors"]
    return table(headings, lines)


def _compared(tree: Path, before: list[str], texts: list[str], workdir: Path) -> list[Side]:
    """Of a server of the other tree, of one of this tree without vectors, and of one with them."""
    workdir.mkdir()
    platform, words_only = ["gateway", "platform", "--data-dir"], ["bench.words_only", "--data-dir"]
    with (
        running("there", [*platform, str(workdir / "there")], workdir, tree=tree) as there,
        running("without", [*words_only, str(workdir / "without")], workdir) as without,
        running("here", [*platform, str(workdir / "here")], workdir) as here,
    ):
        sides: list[Side] = run(_to_each((there, without, here), before, texts))
        _check(json.loads(run(checked(here.port, get("/v1/models"))))["embedding"])
    return sides


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.writes", description=compare.__doc__)
    parser.add_argument("tree", type=Path, help="another checkout")
    parser.add_argument("--writes", type=int, default=300, help="of each kind of note")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median is taken")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(compare(given.tree.resolve(), given.writes, given.rounds, Path(folder)) + "\n")


if __name__ == "__main__":
    main()
