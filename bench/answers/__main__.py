"""`python -m bench.answers`: the embedded brain without a model, on questions and facts of ours, into bench/ANSWERS.md.

`--before TREE` plays another checkout beside this one. `--wrong` shows what went wrong in the half for choosing; nobody
should look at the other half while choosing rules.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml

from bench import machine
from bench.processes import ROOT
from bench.result import table

HERE = Path(__file__).parent
PAGE = HERE.parent / "ANSWERS.md"
Method: TypeAlias = Literal["words", "meaning"]
NOTHING = "This brain holds nothing on that."


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row of the data, with what came of it."""

    what: str
    is_reported: bool
    asked: str
    is_right: bool
    answer: str


def played(tree: Path, method: Method) -> dict[str, Any]:
    """What a checkout answers. `-P`, or the folder of the file would come before the tree."""
    done = subprocess.run(
        [sys.executable, "-P", HERE / "play.py", method],
        env={**os.environ, "PYTHONPATH": str(tree)},
        cwd=tree,
        stdout=subprocess.PIPE,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def judged(result: dict[str, Any]) -> list[Outcome]:
    outcomes = []
    for n, (row, said) in enumerate(zip(_rows("questions.yaml"), result["answers"], strict=True)):
        what = "questions without an answer" if row.get("nothing") else "questions answered"
        outcomes.append(Outcome(what, n % 2 == 1, row["ask"], _is_right(row, said["answer"]), said["answer"]))
    for n, (row, said) in enumerate(zip(_rows("told.yaml"), result["told"], strict=True)):
        found = {
            "facts told, found by search": "\n".join(hit["content"] for hit in said["hits"]),
            "facts told, found by recall in the session": "\n".join(hit["content"] for hit in said["recalled"]),
            "facts told, answered by ask": said["answer"],
        }
        outcomes += [Outcome(what, n % 2 == 1, row["ask"], row["says"] in text, text) for what, text in found.items()]
    return outcomes


def _rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = yaml.safe_load((HERE / name).read_text(encoding="utf-8"))
    return rows


def _is_right(row: dict[str, Any], answer: str) -> bool:
    if row.get("nothing"):
        return answer == NOTHING
    has_all = all(any(one in answer for one in part.split("|")) for part in row["says"])
    return has_all and not any(part in answer for part in row.get("not", ()))


def _counted(outcomes: list[Outcome], what: str, is_reported: bool) -> str:
    counted = [outcome.is_right for outcome in outcomes if (outcome.what, outcome.is_reported) == (what, is_reported)]
    return f"{sum(counted)} of {len(counted)}"


def figures(sides: Mapping[str, list[Outcome]]) -> str:
    """What each side has right, of the half for reporting and of that for choosing."""
    halves = [("reported", True), ("for choosing", False)]
    head = ["", *(f"{half}: {side}" for half, _ in halves for side in sides)]
    rows = [
        [what, *(_counted(outcomes, what, is_reported) for _, is_reported in halves for outcomes in sides.values())]
        for what in dict.fromkeys(outcome.what for outcomes in sides.values() for outcome in outcomes)
    ]
    return table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.answers", description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of another commit, to play beside this one")
    parser.add_argument(
        "--wrong", action="store_true", help="show what is wrong in the half for choosing, write nothing"
    )
    arguments = parser.parse_args()
    sides = {} if arguments.before is None else {"before": judged(played(arguments.before.resolve(), "words"))}
    sides |= {"words": judged(played(ROOT, "words")), "words and meaning": judged(played(ROOT, "meaning"))}
    sys.stdout.write(f"{figures(sides)}\n")
    if arguments.wrong:
        for side, outcomes in sides.items():
            for outcome in outcomes:
                if not outcome.is_right and not outcome.is_reported:
                    sys.stdout.write(f"\n{side}, {outcome.what}: {outcome.asked}\n  {outcome.answer!r}\n")
        return
    PAGE.write_text(_page(figures(sides), arguments.before), encoding="utf-8")


def _page(told: str, before: Path | None) -> str:
    facts = dict(machine.described())
    commit = "" if before is None else f" Before is commit {_commit(before)}."
    return f"""\
# Answers

Made by `python -m bench.answers` on {facts["date"]}, commit {facts["commit"]}, {facts["Python"]}.{commit}

The data is ours: notes and files of different shape, what people ask of them, and what they tell an assistant in
passing. Every second row was used to choose the rules, the others only to report. No language model takes part. A
question is answered if all that a right answer must contain is in it, and nothing that it must not. A fact is found if
it is in the first three hits. *Words* is a brain that finds by words alone; a brain is by words and meaning, unless it
is told otherwise.

{told}
"""


def _commit(tree: Path) -> str:
    said = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=tree, capture_output=True, text=True, check=True
    )
    return said.stdout.strip()


if __name__ == "__main__":
    main()
