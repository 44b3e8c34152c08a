"""What the tests of the steps share."""

import pytest

from tests.gateway.operations.steps.inmemory import hurry


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
