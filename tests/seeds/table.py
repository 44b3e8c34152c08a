"""Every testable sentence of the five seeds: whether it holds, and which tests say so.

One file for each seed, `tests/seeds/<surface>.yaml`: sections, and in each the sentences in our own words. A test is
named by its pytest id without parameters, a case of the contract by its path below `contract/cases/` without `.yaml`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict

ROOT: Final = Path(__file__).parents[2]
CASES: Final = ROOT / "contract" / "cases"
# A surface that nobody was promised anything about has none.
SEEDS: Final = ("memory", "kv", "team", "being", "memo")
Verdict = Literal["holds", "in part", "does not hold", "not ours"]
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)


class Row(BaseModel):
    """One sentence of a seed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    says: str
    verdict: Verdict
    tests: list[str] = []
    reason: str = ""
    see: str = ""
    """Where it is documented: a page in `docs/`, and a heading of it."""


class Seed(BaseModel):
    """What a surface was promised to do: sections, with the sentences of each."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    about: str
    sections: dict[str, list[Row]]

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.sections.values() for row in rows]


@cache
def seeds() -> dict[str, Seed]:
    """The seeds by their surfaces."""
    files = {surface: ROOT / "tests" / "seeds" / f"{surface}.yaml" for surface in SEEDS}
    loaded = {surface: yaml.safe_load(file.read_text(encoding="utf-8")) for surface, file in files.items()}
    return {surface: Seed.model_validate(held) for surface, held in loaded.items()}


def totals_table() -> str:
    lines = [f"| Seed | Sentences | {' | '.join(VERDICTS)} |", "|---" * (2 + len(VERDICTS)) + "|"]
    lines += [_totals(f"`{surface}`", seed.rows) for surface, seed in seeds().items()]
    lines.append(_totals("all", [row for seed in seeds().values() for row in seed.rows]))
    return "\n".join(lines)


def gaps_table() -> str:
    """What does not hold, or not wholly, with the reason."""
    lines = ["| Seed | Where | It says | Verdict | Why |", "|---|---|---|---|---|"]
    for surface, seed in seeds().items():
        for where, rows in seed.sections.items():
            gaps = [row for row in rows if row.verdict in {"in part", "does not hold"}]
            lines += [_line(f"`{surface}`", where, row.says, row.verdict, _why(row)) for row in gaps]
    return "\n".join(lines)


def seed_table(surface: str) -> str:
    seed = seeds()[surface]
    lines = [f"{seed.about}. There are {len(seed.rows)} sentences."]
    for where, rows in seed.sections.items():
        lines += ["", f"### {where}", "", "| It says | Verdict | Held by, or why not |", "|---|---|---|"]
        for row in rows:
            lines.append(_line(row.says, row.verdict, _held(surface, row)))
    return "\n".join(lines)


def _totals(name: str, rows: Sequence[Row]) -> str:
    counts = Counter(row.verdict for row in rows)
    return _line(name, len(rows), *(counts[verdict] for verdict in VERDICTS))


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _held(surface: str, row: Row) -> str:
    tests = ", ".join(_linked(surface, test) for test in row.tests)
    return f"{_why(row)}{' Tests: ' if row.reason and tests else ''}{tests}"


def _why(row: Row) -> str:
    return row.reason + (f" [More]({row.see})." if row.see else "")


def _linked(surface: str, test: str) -> str:
    """The name of a test is a sentence; that of a case is short within its own seed."""
    if is_case(test):
        return f"[`{test.removeprefix(f'mcp/{surface}/')}`](../contract/cases/{test}.yaml)"
    file, *names = test.split("::")
    return f"[{names[-1].removeprefix('test_').replace('_', ' ')}](../{file})"


def is_case(test: str) -> bool:
    return "::" not in test


def named_tests(rows: Iterable[Row]) -> set[str]:
    return {test for row in rows for test in row.tests}
