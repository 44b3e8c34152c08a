"""What all tests share: an environment of their own."""

import os

import pytest

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
