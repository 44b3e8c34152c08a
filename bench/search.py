"""Search on the embedded brain with 100,000 chunks: as the store does it, and over HTTP."""

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import numpy as np

from bench.client import Connection
from bench.corpus import Corpus
from bench.processes import running
from bench.result import Row, Section, Unmeasured, percentile, table, verdict
from bench.sizes import Sizes
from bench.streams import run
from bench.wire import get
from contract.platform.library import Operation
from contract.platform.meaning import vectors
from contract.platform.meaning.calibration import Calibration
from contract.platform.meaning.offline import OfflineEmbedder
from contract.platform.meaning.sentence import SentenceEmbedder
from contract.platform.meaning.vectors import Model
from contract.platform.store import Store

_BUDGETS = {"one rare word": 60.0, "two or three words": 60.0, "a whole question": 60.0}
_BATCH = 100
_TOP_K = 10
_MIB = 1024 * 1024
_PATIENCE_MS = 60_000


def measure(sizes: Sizes, workdir: Path) -> Section:
    data_dir = workdir / "brain"
    corpus = Corpus(sizes.chunks)
    began = time.perf_counter()
    _load(data_dir, corpus)
    loading = time.perf_counter() - began
    _pretend_to_read(data_dir)
    chunks = _chunk_count(data_dir)
    if abs(chunks - sizes.chunks) > sizes.chunks // 100:
        raise Unmeasured(f"The brain has {chunks:,} chunks instead of {sizes.chunks:,}.")
    queries = corpus.queries(sizes.queries)
    direct = sizes.quiet.take(lambda: _in_process(data_dir, queries))
    with running("platform", ["gateway", "platform", "--data-dir", str(data_dir)], workdir) as platform:
        before = platform.rss_bytes()
        over_http: dict[str, list[float]] = sizes.quiet.take(lambda: run(_over_http(platform.port, queries)))
        memory = (before, platform.rss_bytes())
    section = Section("Search on the embedded brain, by words and meaning")
    lines = []
    for kind, budget in _BUDGETS.items():
        p50, p95 = percentile(over_http[kind], 0.5), percentile(over_http[kind], 0.95)
        row = Row(
            f"search on the embedded brain, {chunks:,} chunks: {kind}",
            f"p50 {p50:.1f} ms, p95 {p95:.1f} ms over HTTP",
            "",
            f"p95 ≤ {budget:.0f} ms",
            verdict(p95 <= budget),
            "" if p95 <= budget else _blame(direct[kind]),
        )
        section.rows.append(row)
        for how, values in (("store", direct[kind]), ("HTTP, kept alive", over_http[kind])):
            figures = [percentile(values, share) for share in (0.5, 0.95)]
            lines.append([kind, how, *(f"{figure:.1f}" for figure in [*figures, max(values)])])
    section.details = [
        table(["Query", "Through", "p50 ms", "p95 ms", "worst ms"], lines),
        f"{chunks:,} chunks of 150 words, loaded in {loading:.0f} s; {sizes.queries} queries of each kind, one at a "
        "time, each once. Words of queries are as frequent as they are in the text, stop words apart; a rare word is "
        "in some tens of chunks. The vectors of the sentence model are made by chance, not of the texts.",
        _told_sizes(data_dir, memory, direct["until hybrid"]),
    ]
    return section


def _told_sizes(data_dir: Path, memory: tuple[int, int], until_hybrid: list[float]) -> str:
    (file,) = data_dir.glob("*.sqlite3")
    with closing(sqlite3.connect(file)) as connection:
        (of_vectors,) = connection.execute("SELECT sum(length(vector)) FROM vectors").fetchone()
    before, after = (size / _MIB for size in memory)
    return (
        f"The file has {file.stat().st_size / _MIB:,.0f} MiB, {of_vectors / _MIB:,.0f} of them vectors. The process "
        f"takes {before:,.0f} MiB before the first search and {after:,.0f} afterwards, with the vectors and what of "
        f"the file is mapped. The first search, which loads the model, took {until_hybrid[0]:,.0f} ms; after "
        f"{until_hybrid[-1]:,.0f} ms the vectors were read, and searches were by meaning, too."
    )


def _load(data_dir: Path, corpus: Corpus) -> None:
    store = Store.open(data_dir, OfflineEmbedder())
    try:
        brain = store.brain("main")
        batch: list[Operation] = []
        for path, text in corpus.documents():
            batch.append(Operation("write", path, text.encode()))
            if len(batch) == _BATCH:
                store.documents.batch(brain, batch)
                batch = []
        if batch:
            store.documents.batch(brain, batch)
    finally:
        store.close()


def _pretend_to_read(data_dir: Path) -> None:
    """A vector of the sentence model for each chunk, by chance: it would take an hour to make them of what they say."""
    (file,) = data_dir.glob("*.sqlite3")
    model = Model(SentenceEmbedder.name, SentenceEmbedder.dimensions)
    random = np.random.default_rng(1)
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        number = vectors.register(connection, model, Calibration(unrelated=0.03, related=0.41))
        chunks = [row["n"] for row in connection.execute("SELECT n FROM chunks ORDER BY n")]
        (brain,) = connection.execute("SELECT n FROM brains WHERE slug = 'main'").fetchone()
        for at in range(0, len(chunks), _BATCH):
            some = chunks[at : at + _BATCH]
            rows = random.standard_normal((len(some), model.dimensions), dtype=np.float32)
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            vectors.add(connection, brain, number, list(zip(some, vectors.encoded(rows), strict=True)))
        connection.commit()


def _chunk_count(data_dir: Path) -> int:
    (file,) = data_dir.glob("*.sqlite3")
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("SELECT count(*) FROM chunks").fetchone()[0])


def _in_process(data_dir: Path, queries: dict[str, list[str]]) -> dict[str, list[float]]:
    store = Store.open(data_dir, OfflineEmbedder(), sentences=SentenceEmbedder())
    times: dict[str, list[float]] = {"until hybrid": [], **{kind: [] for kind in queries}}
    try:
        brain = store.brain("main")
        began, method = time.perf_counter(), ""
        while method != "hybrid":
            # Each time that passed until a search was answered: the first one by words alone.
            method = store.search(brain, "the first", _TOP_K).method
            times["until hybrid"].append((time.perf_counter() - began) * 1e3)
            if times["until hybrid"][-1] > _PATIENCE_MS:
                raise Unmeasured("Searches are by words alone.")
        for kind, asked in _mixed(queries):
            began = time.perf_counter()
            found = store.search(brain, asked, _TOP_K).records(brain)
            times[kind].append((time.perf_counter() - began) * 1e3)
            _check(asked, found)
    finally:
        store.close()
    return times


async def _over_http(port: int, queries: dict[str, list[str]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {kind: [] for kind in queries}
    connection = await Connection.open(port)
    async with asyncio.timeout(300):
        method = ""
        while method != "hybrid":
            method = json.loads((await connection.exchange(get("/v1/brains/main/search?q=first"))).body)["method"]
        for kind, asked in _mixed(queries):
            request = get(f"/v1/brains/main/search?q={quote(asked)}&top_k={_TOP_K}")
            began = time.perf_counter()
            answer = await connection.exchange(request)
            times[kind].append((time.perf_counter() - began) * 1e3)
            if answer.status != 200:
                raise Unmeasured(f"A search was answered {answer.status}: {answer.body[:200]!r}")
            _check(asked, json.loads(answer.body)["hits"])
    await connection.close()
    return times


def _mixed(queries: dict[str, list[str]]) -> list[tuple[str, str]]:
    """One of each kind in turn, so that no kind finds the cache warmer than another."""
    return [pair for group in zip(*queries.values(), strict=True) for pair in zip(queries, group, strict=True)]


def _check(asked: str, hits: list[dict[str, object]]) -> None:
    words = {word.strip("?") for word in asked.split()}
    if not hits or not words & {*str(hits[0]["content"]).split(), *str(hits[0]["title"]).split()}:
        raise Unmeasured(f"A search for {asked!r} found nothing that has any of it.")


def _blame(direct: list[float]) -> str:
    return f"of which the store's search p95 {percentile(direct, 0.95):.1f} ms; the rest is HTTP and JSON"
