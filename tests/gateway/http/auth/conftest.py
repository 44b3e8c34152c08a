"""A provider, a clock that goes on when it is told to, and gateways that ask for a token."""

from collections.abc import Iterator

import pytest

from tests.gateway.http.auth.provider import Provider, providing


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as made:
        yield made
