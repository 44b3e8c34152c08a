"""A gateway where people log in, for all tests that do it no harm."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.http.auth.login.house import Clock, Person, add_user, house, patient


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("house")
    add_user(data)
    add_user(data, "bob", subject="bob@acme", org="acme", scope="brains:read", brain="main", projects=("north",))
    with house(data, ticks=patient()) as it:
        yield it


@pytest.fixture
def ada(url: str) -> Person:
    return Person(url)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a gateway of the test's own, with one user."""
    add_user(tmp_path)
    return tmp_path
