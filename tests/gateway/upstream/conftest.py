"""What the tests of the upstream share."""

import pytest
from tenacity import wait_none

from gateway.upstream import retry
from tests.gateway.operations.steps.inmemory import hurry


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many attempts and looks as ever, and no wait between them but what a platform asks for."""
    hurry(monkeypatch)
    monkeypatch.setattr(retry, "_BACKOFF", wait_none())
