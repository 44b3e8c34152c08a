"""What the tests of the upstream share."""

import pytest
import respx
from tenacity import wait_none

from gateway.upstream import retry
from tests.gateway.operations.steps.inmemory import hurry
from tests.gateway.upstream.platforms import PLATFORM_URL


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many attempts and looks as ever, and no wait between them but what a platform asks for."""
    hurry(monkeypatch)
    monkeypatch.setattr(retry, "_BACKOFF", wait_none())


@pytest.fixture
def platform() -> respx.MockRouter:
    """A platform that answers as a test says, and fails a test that asks for anything else; see `client_of`."""
    return respx.MockRouter(base_url=PLATFORM_URL)
