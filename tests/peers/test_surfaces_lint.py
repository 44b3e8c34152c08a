"""Every surface as programs of others see it: the Inspector's lint, a tokenizer, and the TypeScript SDK."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.pin import PINNED as PINNED_KEYS
from gateway.surfaces.catalog import SURFACES
from tests.peers.test_typescript_clients import HERE, driven
from tests.served import Era, Served, serving
from tests.test_pins import PINNED, SERVED

BUDGETS = {"memory": 2_500}
BUDGET = 2_000
COUNT = """
import { readFileSync } from 'node:fs'
import { encode } from 'gpt-tokenizer'
const tools = JSON.parse(readFileSync(0, 'utf8'))
process.stdout.write(JSON.stringify(tools.map((tool) => encode(JSON.stringify(tool)).length)))
"""
# One call of each surface, and what its answer says.
CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "memory": ("memory_remember", {"content": "Otters hold hands."}, "memory/global/"),
    "kv": ("jettson_memory_put", {"key": "otters", "value": "Otters hold hands."}, "default/otters"),
    "team": ("memory_remember", {"content": "Otters hold hands.", "type": "decision", "scope": "global"}, ""),
    "being": ("get_current_time", {"timezone": "Asia/Tokyo"}, "datetime"),
    "memo": ("memoai_memo_record", {"content": "Otters hold hands."}, "Memo recorded successfully: "),
    "chat": ("search", {"query": "otters"}, '{"results":['),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("gateway")
    with serving(folder, folder, project="peers") as made:
        yield made


def ran(*command: str, cwd: Path, said: str = "") -> subprocess.CompletedProcess[str]:
    """A program of Node, with nothing of the person's own settings."""
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(cwd)}
    return subprocess.run(
        ["node", *command],
        input=said,
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("surface", SURFACES)
def test_the_inspector_has_nothing_against_the_tools(served: Served, tmp_path: Path, surface: str) -> None:
    inspector = str(HERE / "node_modules" / ".bin" / "mcp-inspector")
    target = (f"{served.url}/{surface}/mcp", "--transport", "http")
    done = ran(inspector, "--cli", *target, "--method", "tools/list", "--strict", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == [tool["name"] for tool in SERVED[surface]]


@pytest.mark.parametrize("surface", SURFACES)
def test_the_definitions_of_the_tools_cost_no_more_tokens_than_they_may(surface: str) -> None:
    tools = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in PINNED[surface]]
    done = ran("--input-type=module", "-e", COUNT, cwd=HERE, said=json.dumps(tools))
    assert done.returncode == 0, done.stderr
    assert 0 < sum(json.loads(done.stdout)) <= BUDGETS.get(surface, BUDGET)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_client_of_another_make_uses_every_surface(served: Served, tmp_path: Path, era: Era, surface: str) -> None:
    tool, arguments, says = CALLS[surface]
    target = ("http", f"{served.url}/{surface}/mcp")
    seen = driven(era, *target, cwd=tmp_path, data_dir=tmp_path, calls=[(tool, arguments)])
    assert [{key: tool[key] for key in PINNED_KEYS if key in tool} for tool in seen["tools"]] == SERVED[surface]
    (step,) = seen["results"]
    assert not step["result"].get("isError"), step["result"]["content"]
    assert says in step["result"]["content"][0]["text"]
