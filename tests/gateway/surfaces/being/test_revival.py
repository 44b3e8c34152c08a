"""Dead nodes that are opened come back with the next patrol, also when that is cut off."""

import re
from collections.abc import AsyncIterator, Mapping

import pytest

from gateway.brain.notebook import Notebook
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.surfaces.being.nodes import Nodes
from tests.daemons.fake import FakeDaemon
from tests.gateway.conftest import House, Platforms, eventually, house_of, structured
from tests.gateway.surfaces.being.beings import TREE, Files, answered, found, patrolled, refusal, scene, told
from tests.gateway.surfaces.being.test_cut import Cutting, kept, patrol
from tests.gateway.surfaces.being.test_cut import told as brain_with_scenes

pytestmark = pytest.mark.not_quick


@pytest.fixture
async def daemon_house(platforms: Platforms) -> AsyncIterator[House]:
    """On a platform that can be looked into, past the gateway."""
    async for house in house_of(platforms, "T", "http", "modern"):
        yield house


async def merged(house: House, summary: str = "Otters swim and dive") -> tuple[str, str, str]:
    """Two nodes that are dead, and the one that was made of them."""
    one, two = await patrolled(house, scene("Otters swim", themes=["water"]), scene("Otters dive", themes=["depth"]))
    answer = await told(house, "merge_nodes", node_ids=f"{one},{two}", summary=summary)
    return one, two, answer.rpartition(" ")[2].removesuffix(".")


async def revived(house: House) -> None:
    """Patrols until one revives a node: that it was opened is counted after the answer."""

    async def is_revived() -> bool:
        done = await answered(house, "trigger_patrol", messages=[])
        return done.get("nodes_revived") == 1

    await eventually(is_revived)


async def test_a_dead_node_that_is_opened_is_live_after_the_next_patrol(web_house: House) -> None:
    one, two, whole = await merged(web_house)
    assert "nodes_revived" not in await answered(web_house, "trigger_patrol", messages=[])
    assert "dead: yes" in await told(web_house, "recall_memory", node_id=one)
    assert set(await found(web_house, "otters")) == {whole}
    await revived(web_house)
    assert set(await found(web_house, "otters")) == {whole, one}
    shown = await told(web_house, "recall_memory", node_id=one)
    assert "dead" not in shown
    assert "action:\nOtters swim" in shown
    hits = structured(await web_house.good("memory", "memory_search", query="otters swim"))["hits"]
    paths = {hit["path"].rpartition("/")[2] for hit in hits}
    assert f"{one}.md" in paths
    assert f"{two}.md" not in paths
    # The merged one is in the cluster of one of them.
    counts = re.findall(r"\((\d) nodes?\)", await told(web_house, "recall_memory"))
    assert sum(map(int, counts)) == 2


async def test_a_revived_node_keeps_what_it_was_and_the_merged_one_too(web_house: House) -> None:
    one, two, whole = await merged(web_house)
    before = await told(web_house, "recall_memory", node_id=whole)
    await told(web_house, "recall_memory", node_id=two)
    await revived(web_house)
    assert await told(web_house, "recall_memory", node_id=whole) == before
    assert one in before
    shown = await told(web_house, "recall_memory", node_id=two)
    assert "themes: depth" in shown
    # What was merged once can be merged again, into another; what is still dead cannot.
    await told(web_house, "merge_nodes", node_ids=f"{two},{whole}", summary="Otters dive deep")
    error = refusal(await web_house("being", "merge_nodes", node_ids=f"{one},{whole}", summary="x"))
    assert error["code"] == "conflict"


async def test_the_same_merge_again_kills_what_was_revived(web_house: House) -> None:
    one, two, whole = await merged(web_house)
    await told(web_house, "recall_memory", node_id=one)
    await revived(web_house)
    again = await told(web_house, "merge_nodes", node_ids=f"{two},{one}", summary="Otters swim and dive")
    assert whole in again
    assert await found(web_house, "otters") == [whole]
    # It died anew: what was counted before does not bring it back.
    assert "nodes_revived" not in await answered(web_house, "trigger_patrol", messages=[])


async def test_opening_live_nodes_and_recalling_them_revives_nothing(daemon_house: House) -> None:
    one, _two, whole = await merged(daemon_house)
    for node in (whole, whole):
        await told(daemon_house, "recall_memory", node_id=node)
    await told(daemon_house, "recall", user_message="otters")
    files = Files(daemon_house)

    async def is_counted() -> bool:
        return any("/_hits/" in path for path in await files.all())

    await eventually(is_counted)
    assert not any("/_opened/" in path for path in await files.all())
    assert "nodes_revived" not in await answered(daemon_house, "trigger_patrol", messages=[])
    assert "dead: yes" in await told(daemon_house, "recall_memory", node_id=one)


async def test_what_was_counted_is_gone_when_it_was_used(daemon_house: House) -> None:
    one, _two, _whole = await merged(daemon_house)
    await told(daemon_house, "recall_memory", node_id=one)
    await revived(daemon_house)
    assert not any("/_opened/" in path for path in await Files(daemon_house).all())


async def test_a_node_that_a_person_killed_comes_back_with_all_they_wrote(daemon_house: House) -> None:
    files, folder = Files(daemon_house), f"{TREE}/nodes/by-hand"
    await files.write(f"{folder}/gone.md", b"---\nvia: brains-gateway\nmood: calm\ndead: True\n---\n\nOtters by hand")
    await told(daemon_house, "recall_memory", node_id="gone")
    await revived(daemon_house)
    body = await files.read(f"{folder}/gone.md")
    assert b"mood: calm\n" in body
    assert b"dead" not in body
    assert "Otters by hand" in await told(daemon_house, "search_memory", query="otters")


async def test_what_was_counted_for_a_node_that_is_gone_is_passed_over(daemon_house: House) -> None:
    files = Files(daemon_house)
    await files.write(f"{TREE}/nodes/_opened/_hits/nobody.txt", b"..")
    assert (await answered(daemon_house, "trigger_patrol", messages=[]))["status"] == "ok"
    assert not any("/_opened/" in path for path in await files.all())


async def opened_and_dead(daemon: FakeDaemon, brain: Cutting) -> None:
    """Two of the nodes are merged, and one of them was opened since."""
    await patrol(brain)
    ids = sorted(path.rpartition("/")[2][:-3] for path in daemon.brains["b"] if "/nodes/" in path and "/_" not in path)
    nodes = Nodes(Notebook(brain))
    await nodes.merge(Call(), ids[:2], "Two loaves", None)
    await nodes.open(Call(), ids[0])
    await brain.close(10)


def dead_in(brain: Mapping[str, tuple[bytes, object]]) -> int:
    return sum(b"\ndead: 'true'\n" in body for body, _ in brain.values())


async def test_a_revival_that_is_cut_off_anywhere_and_run_again_is_the_same() -> None:
    async with brain_with_scenes() as (daemon, brain):
        await opened_and_dead(daemon, brain)
        before = dict(daemon.brains["b"])
        brain.writes_left = 1000
        assert (await patrol(brain))["nodes_revived"] == 1
        writes, expected = 1000 - brain.writes_left, kept(daemon)
        assert (dead_in(before), dead_in(daemon.brains["b"])) == (2, 1)
        # The node, the digest of its cluster, and what was counted.
        assert writes == 3
        for cut in range(writes):
            for makes_the_last in (False, True):
                daemon.brains["b"] = dict(before)
                brain.writes_left, brain.makes_the_last = cut, makes_the_last and cut > 0
                with pytest.raises(GatewayError):
                    await patrol(brain)
                brain.writes_left = None
                await patrol(brain)
                assert kept(daemon) == expected, f"cut after {cut} writes"
