"""One gateway in front of one core for the tests of a module; each test has a project of its own."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.memoai.world import World, memo_world


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with memo_world(tmp_path_factory.mktemp("memoai"), read_seconds=5) as world:
        world.person("ada", "acme", "first").search("anything")
        yield world


@pytest.fixture
def world(started: World) -> World:
    """The gateway knows what it needs to, and what was seen before is forgotten."""
    core = started.core
    core.projects = None
    for noted in (core.requests, core.claims, core.bodies, core.instead, core.afterwards):
        noted.clear()
    return started


@pytest.fixture
def project() -> str:
    return f"p-{uuid4().hex[:12]}"
