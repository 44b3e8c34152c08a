"""What all tests share: an environment of their own."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from tests.commands import logging_as_it_was
from tests.secrets_in_output import pytest_runtest_makereport as pytest_runtest_makereport
from tests.tiers import by_tier
from tests.tiers import pytest_collection as pytest_collection
from tests.tiers import pytest_collection_finish as pytest_collection_finish
from tests.tiers import pytest_collection_modifyitems as pytest_collection_modifyitems
from tests.tiers import pytest_ignore_collect as pytest_ignore_collect
from tests.twin import Log, answered_twice

# Of every property, so many examples; those that say a number themselves say it by tier too. That examples are made
# slowly says that the machine has much else to do.
settings.register_profile(
    "tier", max_examples=by_tier(25, 100, 1000), suppress_health_check=[HealthCheck.too_slow], deadline=None
)
settings.load_profile("tier")

# Before anything imports numpy, whose threads would wait for each other without sleeping: as the platform sets it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Before anything imports FastMCP: its own logging would be set up at import.
os.environ["FASTMCP_LOG_ENABLED"] = "false"
os.environ["FASTMCP_CHECK_FOR_UPDATES"] = "off"
# Each client reads every certificate that the system trusts, which takes 40 ms of CPU, and no test needs one of them.
NOBODY = str(Path(__file__).with_name("nobody.pem"))
os.environ["SSL_CERT_FILE"] = NOBODY


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the person who runs the tests reaches them; with DIRECT=off, every call goes by FastMCP."""
    for name in list(os.environ):
        if name.startswith(("BRAINS_", "JB_", "JBMCP_")):
            monkeypatch.delenv(name)
    if os.environ.get("DIRECT") == "off":
        monkeypatch.setenv("BRAINS_DIRECT", "off")


@pytest.fixture(autouse=True, scope="session")
def _nobody_is_trusted() -> Iterator[None]:
    """Nor by clients of httpx that do not look at the environment: those read what certifi has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("certifi.where", lambda: NOBODY)
        yield


@pytest.fixture(autouse=True, scope="session")
def _schemas_checked_once() -> Iterator[None]:
    """Each client checks the schema of each tool it calls, which takes 20 ms of CPU. They are the same few schemas."""
    check, good = Draft202012Validator.check_schema, set[str]()

    def check_once(schema: Any, *options: Any, **more: Any) -> None:
        text = json.dumps([schema, repr((options, more))], sort_keys=True)
        if text not in good:
            check(schema, *options, **more)
            good.add(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft202012Validator, "check_schema", check_once)
        yield


@pytest.fixture(autouse=True, scope="session")
def _twins() -> Iterator[Log | None]:
    """With TWICE in the environment, every call is answered by both paths, whatever is tested."""
    if not os.environ.get("TWICE"):
        yield None
        return
    with pytest.MonkeyPatch.context() as patch, answered_twice(patch) as log:
        yield log


@pytest.fixture(autouse=True)
def _no_difference(_twins: Log | None) -> Iterator[None]:
    yield
    if _twins is not None:
        told, _twins.differences[:] = list(_twins.differences), []
        assert told == []


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Each test gives back what it found."""
    with logging_as_it_was():
        yield
