"""`python -m bench.meaning`: how well notes are found, as a table, and in `bench/MEANING.md`."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.meaning.data import Collection, Part, collections
from bench.meaning.endpoint import Endpoint
from bench.meaning.measure import NO_ANSWER, Figures, measure
from bench.result import table
from contract.platform.meaning.embedder import Embedder
from contract.platform.meaning.offline import OfflineEmbedder

_OUTPUT: Final = Path(__file__).parents[1] / "MEANING.md"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.meaning", description=__doc__)
    parser.add_argument("--part", choices=["choose", "report"], default="report", help="half of the questions")
    parser.add_argument("--embed-url", help="another model, at an OpenAI-compatible address")
    parser.add_argument("--embed-model", default="model", help="its name there")
    parser.add_argument("--output", type=Path, default=_OUTPUT)
    given = parser.parse_args(arguments)
    embedders: list[Embedder] = [OfflineEmbedder()]
    if given.embed_url:
        embedders.append(Endpoint(given.embed_url, given.embed_model))
    page = _page(collections(), embedders, given.part)
    given.output.write_text(page, encoding="utf-8")
    sys.stdout.write(page)


def _page(every: Sequence[Collection], embedders: Sequence[Embedder], part: Part) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    lines = [
        "# How well notes are found",
        "",
        "Share of the notes that answer a question which are within the first 1 / 5 / 10 hits: by words alone, by",
        "meaning alone, and by both, which is what the embedded brain does. `python -m bench.meaning` makes this page",
        "from the notes and questions in `bench/meaning`. Settings were chosen on one half of the questions, and this",
        f"is the half to {part}. {datetime.now(UTC):%Y-%m-%d}, commit {commit.stdout.strip() or 'unknown'}.",
        "",
    ]
    figures = [(collection, measure(collection, embedders, part)) for collection in every]
    for collection, by_way in figures:
        lines += [f"## {collection.name.capitalize()}: {len(collection.notes)} notes", "", _recalls(by_way), ""]
    lines += ["## Scores of the first hit", "", _scores([by_way for _, by_way in figures]), ""]
    return "\n".join(lines)


def _recalls(by_way: dict[str, dict[str, Figures]]) -> str:
    kinds = sorted({kind for figures in by_way.values() for kind in figures if kind != NO_ANSWER})
    header = ["Kind of question", "Questions", *by_way]
    rows = []
    for kind in kinds:
        cells = [" / ".join(f"{share:.2f}" for share in figures[kind].recalls()) for figures in by_way.values()]
        rows.append([kind, str(len(by_way["words"][kind].found)), *cells])
    return table(header, rows)


def _scores(every: Sequence[dict[str, dict[str, Figures]]]) -> str:
    """Middle and highest: where nothing answers, the first hit should have a low one."""
    rows = []
    for by_way in every:
        for kind in sorted(by_way["words"]):
            cells = []
            for figures in by_way.values():
                best = sorted(figures[kind].best)
                cells.append(f"{best[len(best) // 2]:.2f}, {best[-1]:.2f}")
            rows.append([kind, *cells])
    return table(["Kind of question: median, highest", *every[0]], rows)


if __name__ == "__main__":
    main(sys.argv[1:])
