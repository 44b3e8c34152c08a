"""Upstream requests a call: those of the table in docs/platforms.md, within the budgets."""

import pytest

from tests.gateway.requests import COLUMNS, PAGE, counted, table, with_table

# Tools and the most requests they may make on a daemon, until they are answered.
BUDGETS = {
    "`memory_search`": 1,
    "`memory_ask`": 1,
    "`memory_ingest_file`": 2,
    "`memory_ingest_url`": 2,
    "`memory_remember`": 3,
}


@pytest.mark.slow
async def test_the_table_in_the_documentation_is_what_is_counted() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_table(text, await table()) == text, "run: .venv/bin/python -m tests.gateway.requests"


@pytest.mark.parametrize("dialect", COLUMNS[:2])
async def test_budgets_are_kept(dialect: str) -> None:
    counts = await counted(dialect)
    assert {name: counts[name][0] for name in BUDGETS if counts[name][0] > BUDGETS[name]} == {}
