"""What one tenant's trouble must not be to another: a lock, a platform left alone, a look that is not made."""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.gateway.conftest import eventually
from tests.served import Era
from tests.tenants.people import Person, house, result_of
from tests.tenants.test_isolation import ERAS
from tests.tenants.test_slow_neighbour import SLOW, SlowNames, slow_names

__all__ = ["slow_names"]
NOISY, OTHER = Person("noisy", "web", "red"), Person("other", "web", "red")


@pytest.mark.parametrize("era", ERAS)
async def test_a_session_of_the_same_name_at_another_tenant_does_not_wait(tmp_path: Path, era: Era) -> None:
    said = {"messages": [{"role": "user", "content": "x"}], "session_id": "s", "brain": "notes"}
    with house(tmp_path, [NOISY, OTHER], read_seconds=5) as full:
        full.platform.stalled.add("noisy")

        async def is_stalled() -> bool:
            return full.platform.waiting > 0

        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            slow = asyncio.create_task(full.call(http, NOISY, era, "memory_extract", said))
            await eventually(is_stalled)
            answer = await full.call(http, OTHER, era, "memory_extract", said)
            was_first = not slow.done() and full.platform.waiting > 0
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
    assert not result_of(answer)["isError"]
    assert was_first


@pytest.mark.parametrize("era", ERAS)
async def test_a_tenant_whose_brain_hangs_does_not_close_the_way_for_others(tmp_path: Path, era: Era) -> None:
    query = {"query": "x", "brain": "notes"}
    with house(tmp_path, [NOISY, OTHER], read_seconds=1) as full:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            before = await full.call(http, OTHER, era, "memory_search", query)
            full.platform.stalled.add("noisy")
            hung = await asyncio.gather(*(full.call(http, NOISY, era, "memory_search", query) for _ in range(30)))
            after = await full.call(http, OTHER, era, "memory_search", query)
    assert {result_of(answer)["structuredContent"]["code"] for answer in hung} == {"timeout"}
    assert not result_of(before)["isError"]
    assert not result_of(after)["isError"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.slow
async def test_slow_names_of_one_caller_do_not_let_another_past_the_look_at_an_address(
    tmp_path: Path, slow_names: SlowNames, era: Era
) -> None:
    """A look-up that took too long goes on in its thread, and what cannot be looked up in time passes."""
    inside = {"url": "https://inside.example/", "brain": "notes"}
    slow_names.known["inside.example"] = "10.0.0.5"
    with house(tmp_path, [NOISY, OTHER]) as full:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            for n in range(3):
                pair = [{"url": f"https://n{n}{m}{SLOW}/", "brain": "notes"} for m in range(2)]
                await asyncio.gather(*(full.call(http, NOISY, era, "memory_ingest_url", page) for page in pair))
            assert slow_names.waiting == 6
            answer = await full.call(http, OTHER, era, "memory_ingest_url", inside)
            file = await full.call(http, OTHER, era, "memory_ingest_file", {"path": "note.md", "brain": "notes"})
            # Files are read in threads too: in others than those of names.
            assert slow_names.waiting == 6
    assert not result_of(file)["isError"]
    assert result_of(answer)["structuredContent"]["code"] == "fetch_blocked"
