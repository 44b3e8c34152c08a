"""A gateway that only reads: tools that write are not listed, a call to one is told why, and nothing is written."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.brain.brain import Brain
from gateway.brain.call_context import CallContext, Services
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.table import Op
from tests.gateway.conftest import text_of
from tests.served import Era, serving
from tests.test_pins import ERAS, EXTRAS, PINNED

SERVED = {**PINNED, "memory": [*PINNED["memory"], *EXTRAS]}
WRITES = {
    surface: {tool["name"] for tool in pin if not tool["annotations"]["readOnlyHint"]}
    for surface, pin in SERVED.items()
}
SAID = "This gateway is read-only: nothing can be stored, changed or deleted through it."


def held(data: Path) -> tuple[int, int]:
    """How many brains and documents there are."""
    with closing(sqlite3.connect(data / "brains.sqlite3")) as connection:
        (brains,), (documents,) = connection.execute(
            "SELECT count(*) FROM brains UNION ALL SELECT count(*) FROM documents"
        )
    return brains, documents


@pytest.mark.parametrize("era", ERAS)
async def test_tools_that_write_are_not_listed_and_refuse_clearly(tmp_path: Path, era: Era) -> None:
    (tmp_path / "note.md").write_text("A note.")
    with serving(tmp_path / "data", tmp_path, read_only=True) as served:
        assert sum(map(len, WRITES.values())) == 19
        for surface, tools in WRITES.items():
            async with served.over_http(era, f"/{surface}/mcp") as client:
                listed = [tool.name for tool in await client.list_tools()]
                assert listed == [tool["name"] for tool in SERVED[surface] if tool["name"] not in tools]
                for tool in sorted(tools):
                    # Whatever the arguments are: nobody is told first what else would be wrong with them.
                    refused = await client.call_tool(tool, {"content": "x"}, raise_on_error=False)
                    assert refused.is_error, tool
                    assert SAID in text_of(refused), tool
        async with served.over_http(era) as client:
            assert not (await client.call_tool("memory_search", {"query": "x"})).is_error
            (report,) = await client.read_resource("brains://capabilities")
            told = json.loads(report.text)
            assert told["all_served"]
            assert not {row["tool"] for row in told["tools"]} & WRITES["memory"]
        async with served.over_http(era, "/being/mcp") as client:
            for tool in ("get_context", "recall"):
                assert not (await client.call_tool(tool, {"user_message": "x"} if tool == "recall" else {})).is_error
    assert held(tmp_path / "data") == (1, 0)


@pytest.mark.slow
async def test_over_stdio_it_is_the_same(tmp_path: Path) -> None:
    with serving(tmp_path / "data", tmp_path) as served:
        async with served.over_stdio("legacy", "kv", BRAINS_READ_ONLY="true") as client:
            assert not {tool.name for tool in await client.list_tools()} & WRITES["kv"]
            refused = await client.call_tool("jettson_memory_put", {"key": "k", "value": "v"}, raise_on_error=False)
    assert SAID in text_of(refused)


async def test_whatever_asks_for_a_write_it_is_not_sent() -> None:
    class Silent:
        async def send(self, *_: Any) -> None:
            raise AssertionError("it was sent")

    context = CallContext(Call(), Services(Silent(), read_only=True))  # type: ignore[arg-type]  # nothing is asked of it
    for op in Op:
        if op.writes:
            with pytest.raises(GatewayError, match="read-only"):
                await context.send(op, {})


async def test_work_after_an_answer_is_not_begun() -> None:
    begun = []

    async def job(_: Any) -> None:
        begun.append(True)

    brain = Brain(None, read_only=True)  # type: ignore[arg-type]  # nothing is asked of it
    brain.later(Call(), "job", job)
    await brain.close(1)
    assert begun == []
