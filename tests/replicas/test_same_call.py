"""A session call that comes again through another gateway, while what the first one has sent is still under way."""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.replicas.holding import happened, say, two_gateways


async def test_a_call_that_comes_again_while_its_first_gateway_works_on_it_is_stored_once(tmp_path: Path) -> None:
    with two_gateways(tmp_path) as world:
        first = asyncio.create_task(say(world, world.gateways[0]))
        await happened(world.platform.arrived)
        second = await say(world, world.gateways[1])
        assert (await first)["messages"] == second["messages"]
        assert world.stored() == ["one", "two"]


@pytest.mark.slow
async def test_a_call_that_comes_again_after_its_first_gateway_was_killed_is_stored_once(tmp_path: Path) -> None:
    with two_gateways(tmp_path) as world:
        first = asyncio.create_task(say(world, world.gateways[0]))
        await happened(world.platform.arrived)
        world.gateways[0].kill()
        with pytest.raises(httpx.TransportError):
            await first
        assert len((await say(world, world.gateways[1]))["messages"]) == 2
        assert world.stored() == ["one", "two"]
