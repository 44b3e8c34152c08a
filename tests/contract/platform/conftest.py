"""One real server for all tests of the platform, and a brain of its own for each of them."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from contract.platform.app import create_app
from contract.platform.ingest import FetchRefused, Page
from contract.platform.store import Store
from gateway.app.embedded import convert_in_child
from tests.contract.platform.serving import served
from tests.contract.platform.specification import Specification

TOKEN = "a-test-token"
PAGES: dict[str, Page | FetchRefused] = {}
NUMBERS = itertools.count(1)

Json: TypeAlias = dict[str, Any]


async def fetch(url: str) -> Page:
    found = PAGES[url]
    if isinstance(found, FetchRefused):
        raise found
    return found


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store.open(tmp_path_factory.mktemp("brains"))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def url(store: Store) -> Iterator[str]:
    with served(create_app(store, token=TOKEN, fetch=fetch, convert=convert_in_child)) as base:
        yield base


@pytest.fixture(scope="session")
def client(url: str, specification: Specification) -> Iterator[httpx.Client]:
    """An authorised client that holds every answer against the specification."""

    def checked(response: httpx.Response) -> None:
        response.read()
        specification.check(response)

    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=url, headers=headers, timeout=30, event_hooks={"response": [checked]}) as made:
        yield made


@pytest.fixture
def brain(client: httpx.Client) -> str:
    """The path of a brain that no other test has."""
    number = next(NUMBERS)
    made = client.post("/v1/brains", json={"name": f"Test {number}", "slug": f"test-{number}"})
    return f"/v1/brains/{made.json()['id']}"


@pytest.fixture
def write(client: httpx.Client, brain: str) -> Callable[[str, str | bytes], None]:
    """Put a document into the test's brain."""

    def put(path: str, content: str | bytes) -> None:
        answer = client.put(f"{brain}/documents", params={"path": path}, content=content)
        assert answer.status_code == 204, answer.text

    return put


@pytest.fixture
def search(client: httpx.Client, brain: str) -> Callable[..., list[Json]]:
    """The hits for a query in the test's brain."""

    def hits(q: str, **params: str | int) -> list[Json]:
        answer = client.get(f"{brain}/search", params={"q": q, **params})
        assert answer.status_code == 200, answer.text
        found: list[Json] = answer.json()["hits"]
        return found

    return hits


@pytest.fixture
def paths(client: httpx.Client, brain: str) -> Callable[..., list[str]]:
    """All file paths of the test's brain."""

    def listed(**params: str) -> list[str]:
        answer = client.get(f"{brain}/documents", params={"recursive": "true", "include_generated": "true", **params})
        return [item["path"] for item in answer.json()["items"]]

    return listed


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "brains"
