"""The audit of the seeds tells the truth as far as a machine can say: what it names exists, and its sums are right."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.seeds.table import CASES, SEEDS, VERDICTS, Row, Seed, is_case, named_tests, seeds
from tests.test_docs import is_dead
from tests.test_pins import PINNED

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "seeds.md"


@pytest.fixture(params=SEEDS)
def seed(request: pytest.FixtureRequest) -> Seed:
    """Read here, so that a row of another shape fails a test."""
    return seeds()[request.param]


@cache
def ids_in(file: Path) -> set[str]:
    """The ids of the tests in a file, read and not run."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found = [one for one in inside if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        names |= {f"{file.relative_to(ROOT)}::{prefix}{one.name}" for one in found if one.name.startswith("test_")}
    return names


def of_verdict(seed: Seed, *verdicts: str) -> list[Row]:
    return [row for row in seed.rows if row.verdict in verdicts]


def test_what_holds_names_a_test_and_needs_no_reason(seed: Seed) -> None:
    assert [row.says for row in of_verdict(seed, "holds") if not row.tests or row.reason] == []


def test_what_does_not_wholly_hold_says_why(seed: Seed) -> None:
    assert [row.says for row in of_verdict(seed, *VERDICTS[1:]) if not row.reason.endswith(".")] == []
    assert [row.says for row in of_verdict(seed, "in part") if not row.tests] == []
    assert [row.says for row in of_verdict(seed, "not ours") if row.tests] == []


def test_every_test_and_every_case_that_is_named_exists(seed: Seed) -> None:
    named = named_tests(seed.rows)
    cases = {test for test in named if is_case(test)}
    files = {ROOT / test.partition("::")[0] for test in named - cases}
    existing = {test for file in files if file.is_file() for test in ids_in(file)}
    existing |= {case for case in cases if (CASES / f"{case}.yaml").is_file()}
    assert sorted(named - existing) == []


def test_every_page_that_is_named_has_that_heading(seed: Seed) -> None:
    assert sorted({row.see for row in seed.rows if row.see and is_dead(row.see, PAGE)}) == []


def test_no_two_rows_are_alike(seed: Seed) -> None:
    said = Counter((where, row.says.casefold()) for where, rows in seed.sections.items() for row in rows)
    assert [row for row, times in said.items() if times > 1] == []
    assert [row.says for row in seed.rows if len(set(row.tests)) < len(row.tests)] == []


def test_a_sentence_is_one_line_of_a_table(seed: Seed) -> None:
    odd = [text for row in seed.rows for text in (row.says, row.reason) if re.search(r"[|\n]", text)]
    assert odd == []
    assert [row.says for row in seed.rows if not re.search(r"[.`]$", row.says)] == []


@pytest.mark.parametrize("surface", SEEDS)
def test_every_tool_has_its_sections_and_every_argument_a_sentence(surface: str) -> None:
    sections = seeds()[surface].sections
    for tool in PINNED[surface]:
        said = " ".join(row.says for where, rows in sections.items() if where.startswith(tool["name"]) for row in rows)
        missing = [name for name in tool["inputSchema"]["properties"] if f"`{name}" not in said]
        assert said, tool["name"]
        assert missing == [], tool["name"]


def test_the_totals_of_the_page_are_those_of_its_tables() -> None:
    """Counted in the page itself, and not in what it was made from."""
    text = PAGE.read_text(encoding="utf-8")
    told: dict[str, list[int]] = {}
    for name, numbers in re.findall(r"^\| (`\w+`|all) \| ((?:\d+ \|? ?)+)\|$", text, re.MULTILINE):
        told[name.strip("`")] = [int(number) for number in numbers.split(" | ")]
    counted = {}
    for surface in SEEDS:
        (table,) = re.findall(rf"<!-- seed of {surface}: generated -->\n(.*?)<!--", text, re.DOTALL)
        verdicts = Counter(re.findall(r"^\| .+? \| (holds|in part|does not hold|not ours) \| ", table, re.MULTILINE))
        counted[surface] = [verdicts.total(), *(verdicts[verdict] for verdict in VERDICTS)]
    counted["all"] = [sum(column) for column in zip(*counted.values(), strict=True)]
    assert told == counted
