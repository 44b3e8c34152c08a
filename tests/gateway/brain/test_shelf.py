"""A note in a brain that several people share."""

import asyncio
from pathlib import Path

from contract.platform.app import create_app
from contract.platform.store import Store
from gateway.brain.brain import Brain
from gateway.brain.shelf import Shelf
from gateway.operations.caller import Call, Caller, Principal
from gateway.operations.errors import GatewayError
from gateway.upstream.credentials import Endpoint
from gateway.upstream.dialects.platform import PLATFORM
from gateway.upstream.pipeline import Upstream
from tests.served import listening

PATH = "memory/global/plan.md"


def call(name: str, brain: str) -> Call:
    principal = Principal("https://login.example", name, "client", "acme")
    return Call(Caller(principal.partition, preferred=brain, principal=principal))


async def test_of_two_people_who_read_the_same_one_replaces_it_whatever_each_calls_the_brain(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    with listening(create_app(store, token=None)) as url:

        async def endpoint() -> Endpoint:
            return Endpoint(url)

        upstream = Upstream((PLATFORM,), endpoint)
        brain = Brain(upstream, shared=True)
        shelf = Shelf(brain)
        try:
            made = await brain.create_brain(call("ann", ""), "Plans", "plans", "public")
            assert made["id"] != "plans"
            ann, bob = call("ann", "plans"), call("bob", made["id"])
            await shelf.put(ann, PATH, b"Begun.", None)
            # Both know the brain by now, so that both get to the note at once.
            seen = [(who, await shelf.read(who, PATH)) for who in (ann, bob)]
            await shelf.put(bob, PATH, b"Begun.", None)
            assert len({before.checksum for _, before in seen}) == 1
            said = await asyncio.gather(
                *(shelf.rewrite(who, before, who.caller.partition.encode()) for who, before in seen),
                return_exceptions=True,
            )
            assert [one for one in said if not isinstance(one, GatewayError)] == [True]
            assert [one.code for one in said if isinstance(one, GatewayError)] == ["conflict"]
        finally:
            await upstream.close()
    store.close()
