"""A platform with a language model that follows a script."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from contract.platform.app import create_app
from contract.platform.store import Store
from tests.contract.platform.serving import served
from tests.contract.platform.specification import Specification
from tests.models import ScriptedModel, scripted


@pytest.fixture
def model_store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "brains")
    yield opened
    opened.close()


@pytest.fixture
def model(model_store: Store, specification: Specification) -> Iterator["Told"]:
    with scripted() as (script, endpoint), served(create_app(model_store, token=None, llm=endpoint)) as base:

        def checked(response: httpx.Response) -> None:
            response.read()
            specification.check(response)

        with httpx.Client(base_url=f"{base}/v1/brains/main", timeout=30, event_hooks={"response": [checked]}) as http:
            yield Told(script, http)


class Told:
    """A brain with a model: what it is told to say, and a client of the brain."""

    def __init__(self, script: ScriptedModel, http: httpx.Client) -> None:
        self.script, self.http = script, http

    def write(self, path: str, content: str) -> None:
        assert self.http.put("/documents", params={"path": path}, content=content.encode()).status_code == 204

    def paths(self) -> list[str]:
        listed = self.http.get("/documents", params={"recursive": "true", "include_generated": "true"})
        return [item["path"] for item in listed.json()["items"]]

    def read(self, path: str) -> str:
        return self.http.get("/documents/read", params={"path": path}).text
