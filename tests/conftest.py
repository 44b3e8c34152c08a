"""What all tests share: an environment of their own."""

import logging
import os
from collections.abc import Iterator

import pytest
import structlog

from tests.secrets_in_output import pytest_runtest_makereport as pytest_runtest_makereport

# Before anything imports FastMCP: its own logging would be set up at import.
os.environ["FASTMCP_LOG_ENABLED"] = "false"
os.environ["FASTMCP_CHECK_FOR_UPDATES"] = "off"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the person who runs the tests reaches them."""
    for name in list(os.environ):
        if name.startswith(("BRAINS_", "JB_", "JBMCP_")):
            monkeypatch.delenv(name)


@pytest.fixture
def _logging_as_it_was() -> Iterator[None]:
    """Both kinds of logging are set up for a whole process: each test gives back what it found."""
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.configure(**before)
    root.handlers[:] = handlers
    root.setLevel(level)
