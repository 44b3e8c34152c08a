"""The OpenAPI file and the reference platform held against each other, with requests that are made of the file."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.platform.app import create_app
from contract.platform.store import Store
from gateway.app.embedded import convert_in_child
from tests.contract.platform.serving import served
from tests.contract.platform.specification import OPENAPI, Specification
from tests.contract.targets import TOKEN, fetch

CONFIG = Path(__file__).with_name("schemathesis.toml")


@pytest.fixture
def url(data_dir: Path) -> Iterator[str]:
    store = Store.open(data_dir)
    for slug in ("fuzzed", "deleted"):
        store.create_brain(slug, slug)
    with served(create_app(store, token=TOKEN, fetch=fetch, convert=convert_in_child)) as base:
        yield base
    store.close()


def finite(folder: Path) -> Path:
    """The file without the stream that has no end, and for a platform that lets nobody in without a token."""
    document: dict[str, Any] = yaml.safe_load(OPENAPI.read_text(encoding="utf-8"))
    del document["paths"]["/v1/brains/{brain}/events"]
    document["security"] = [{"bearer": []}]
    for methods in document["paths"].values():
        for name, operation in methods.items():
            if name != "parameters" and "default" in operation["responses"]:
                # Every status is a default one: what is no refusal has to be named.
                operation["responses"]["4XX"] = operation["responses"].pop("default")
    path = folder / "openapi.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


# Requests that do not know of each other all go to one brain that is there, but for the one that may go.
APART = """
[parameters]
"path.brain" = "fuzzed"

[[operations]]
include-operation-id = "delete_brain"
parameters = { "path.brain" = "deleted" }
"""
# Requests that follow each other take what earlier ones have made. Few operations, so that they often meet:
# what was made is there, and what was deleted is not.
LIFE = ("create_brain", "get_brain", "delete_brain", "list_documents", "search")


def schemathesis(folder: Path, url: str, config: str, *options: str) -> str:
    """What it says of a run that found nothing."""
    written = folder / "schemathesis.toml"
    written.write_text(CONFIG.read_text(encoding="utf-8") + config, encoding="utf-8")
    # In a process of its own: its plugin for pytest would cost every run of any test a second.
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(written), "run", str(finite(folder))]
    access = ["--url", url, "--header", f"Authorization: Bearer {TOKEN}", "--no-color"]
    done = subprocess.run([*command, *access, *options], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_every_operation_answers_as_the_file_says(url: str, tmp_path: Path, specification: Specification) -> None:
    told = schemathesis(tmp_path, url, APART, "--phases", "coverage,fuzzing")
    # All but the stream.
    assert f"Tested: {len(specification.operations()) - 1}\n" in told


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_what_was_made_is_there_until_it_is_deleted(url: str, tmp_path: Path) -> None:
    chosen = [word for name in LIFE for word in ("--include-operation-id", name)]
    told = schemathesis(tmp_path, url, "", "--phases", "stateful", *chosen)
    assert f"Tested: {len(LIFE)}\n" in told
