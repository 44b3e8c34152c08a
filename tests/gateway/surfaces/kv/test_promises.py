"""What the contract of `kv` says of age, expiry and failures, past the gateway's own notes where that takes it."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.daemons.fake import FakeDaemon, T
from tests.gateway.conftest import structured, text_of
from tests.gateway.surfaces.shelf import Shelf, shelf_on
from tests.served import listening, serving

pytestmark = pytest.mark.not_quick

NOTE = "memory/global/kv/default/tea.md"


def make_older(shelf: Shelf, days: float) -> None:
    """As if the note had been written so long ago."""
    moment = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
    shelf.put(NOTE, re.sub(r"^(created|modified): .*$", rf"\1: '{moment}'", shelf.read(NOTE), flags=re.MULTILINE))


@pytest.mark.parametrize(("days", "share"), [(30, 0.5), (60, 0.25)])
async def test_time_decay_halves_in_thirty_days(tmp_path: Path, days: float, share: float) -> None:
    with shelf_on("platform", tmp_path) as shelf:
        async with shelf.client("kv") as agent:
            await agent.good("jettson_memory_put", key="tea", value="Green leaves.")
            make_older(shelf, days)
            (found,) = (await agent.good("jettson_memory_search", query="leaves"))["results"]
    assert found["breakdown"]["timeDecay"] == pytest.approx(share, abs=0.001)


async def test_what_has_no_expiry_does_not_expire(tmp_path: Path) -> None:
    with shelf_on("platform", tmp_path) as shelf:
        async with shelf.client("kv") as agent:
            await agent.good("jettson_memory_put", key="tea", value="Green leaves.")
            make_older(shelf, 20_000)
            assert (await agent.good("jettson_memory_get", key="tea"))["found"] is True


@pytest.mark.parametrize(
    ("status", "words"),
    [(507, "memory quota exceeded: "), (413, "memory quota exceeded: "), (401, "memory channel is not configured.")],
)
async def test_what_a_platform_refuses_is_told_in_the_words_of_the_contract(
    tmp_path: Path, status: int, words: str
) -> None:
    daemon = FakeDaemon(T)
    daemon.brains["main"] = {}
    for route in ("PUT /v1/brains/{brain}/documents", "POST /v1/brains/{brain}/documents/batch-ops"):
        daemon.fail[route] = status
    with listening(daemon.app()) as url, serving(tmp_path, None, upstream_url=url) as served:
        async with served.over_http("modern", "/kv/mcp/main") as client:
            refused = await client.call_tool("jettson_memory_put", {"key": "k", "value": "v"}, raise_on_error=False)
            assert refused.is_error
            assert text_of(refused).startswith(f"Jettson Memory failed: {words}")
            # It is a result: the session goes on.
            assert structured(await client.call_tool("jettson_memory_get", {"key": "k"})) == {"found": False}
