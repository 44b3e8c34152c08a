"""Nothing that looks like a secret is in what the code under test writes, in any test of the suite."""

import re
from collections.abc import Generator

import pytest

# Shapes, not values: whichever test makes a token, its shape gives it away.
SHAPES = re.compile(
    r"bgt_[A-Za-z0-9_-]{43}|b(?:to|rt)_[A-Za-z0-9_-]{16}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\."
    r"|(?i:bearer) +[A-Za-z0-9_.~+/-]{6,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\"d\": *\"[A-Za-z0-9_-]{40,}"
)
_SHOWN = 3


def found_in(text: str) -> list[str]:
    """The first few, cut short: they are secrets."""
    return [match.group()[:16] + "…" for match in SHAPES.finditer(text)][:_SHOWN]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # A test that failed prints its own variables, and is red anyway. What servers say as they stop comes last of all.
    if report.passed and (found := found_in("".join(content for _, content in report.sections))):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} wrote what looks like a secret: {found}"
    return report
