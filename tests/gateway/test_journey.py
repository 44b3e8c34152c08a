"""The journey of a call is short: so few functions of ours lie between a tool's method and the transport."""

import sys
from pathlib import Path

import gateway
from gateway.brain.brain import Brain
from gateway.operations.caller import Call
from gateway.surfaces.memory.schema import SearchInput
from gateway.surfaces.memory.surface import Memory
from gateway.upstream.credentials import Endpoint
from gateway.upstream.dialects.platform import PLATFORM
from gateway.upstream.pipeline import Upstream
from tests.journey import Journey
from tests.served import listening
from tests.upstreams import Scripted

MOST_FRAMES = 16


async def test_a_search_goes_through_few_functions_of_ours() -> None:
    platform = Scripted({"GET /v1/brains/main/search": lambda _request: {"hits": [], "brain_id": "main"}})
    journey = Journey(str(Path(gateway.__file__).parent) + "/", "search")
    with listening(platform.app()) as url:

        async def endpoint() -> Endpoint:
            return Endpoint(url)

        upstream = Upstream((PLATFORM,), endpoint)
        memory = Memory(Brain(upstream))
        before = sys.getprofile()
        sys.setprofile(journey)
        try:
            await memory.search(SearchInput(query="otters", brain="main"), Call())
        finally:
            sys.setprofile(before)
            await upstream.close()
    (way,) = journey.requests
    sys.stdout.write(f"{len(way)} frames: {' > '.join(way)}\n")
    assert way[0].endswith("Memory.search")
    assert way[-1].endswith("handle_async_request")
    assert len(way) <= MOST_FRAMES, " > ".join(way)
