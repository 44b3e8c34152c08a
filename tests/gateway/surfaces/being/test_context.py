"""What a being is told of itself at the beginning: what its bridges can do, and its ids, by which it is named."""

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.brain.directory import Directory
from gateway.operations import names
from gateway.operations.caller import Call, Caller
from gateway.operations.errors import GatewayError
from gateway.operations.notes import Note
from gateway.operations.table import JsonObject
from gateway.surfaces.being.context import capability_of, fitting
from gateway.surfaces.being.names import CAPABILITIES
from tests.gateway.conftest import House, Platforms, house_of, text_of
from tests.gateway.surfaces.being.beings import TREE, Files, answered

OURS = str(uuid.UUID("6f0b8a4e-53a1-4c8a-9d7a-0a0c1f1b2c3d"))


@pytest.fixture
async def daemon_house(platforms: Platforms) -> AsyncIterator[House]:
    """On a platform that can be looked into, past the gateway."""
    async for house in house_of(platforms, "T", "http", "modern"):
        yield house


@pytest.mark.not_quick
async def test_a_note_for_each_capability_is_told_with_its_name_and_description(daemon_house: House) -> None:
    files = Files(daemon_house)
    assert (await answered(daemon_house, "get_context"))["capability_tools"] == []
    await files.write(
        f"{TREE}/capabilities/lamp.md", b"---\nname: lamp_switch\ndescription: Switches the lamp\n---\n\nMore words.\n"
    )
    await files.write(f"{TREE}/capabilities/camera.md", b"Takes a\npicture")
    await files.write(f"{TREE}/capabilities/bridges/door.md", b"---\nname: door_open\n---\nOpens the door.")
    context = await answered(daemon_house, "get_context")
    assert context["capability_tools"] == [
        {"name": "camera", "description": "Takes a picture"},
        {"name": "door_open", "description": "Opens the door."},
        {"name": "lamp_switch", "description": "Switches the lamp"},
    ]
    assert (context["system_prompt"], context["snapshot"]) == ("", "")


def test_a_capability_is_told_in_short() -> None:
    long = capability_of(f"{CAPABILITIES}/x.md", Note("w " * 50_000, {"name": "n" * 5_000}))
    assert (len(long["name"]), len(long["description"])) == (200, 1_999)
    assert capability_of(f"{CAPABILITIES}/x.md", Note("a\0b"))["description"] == "a b"


def test_a_section_holds_the_newest_that_fit_and_says_how_many_do_not() -> None:
    newest = [(f"{TREE}/diary/{n}.md", Note("w" * 40_000, {"created": f"2026-01-0{9 - n}"})) for n in range(4)]
    told, left_out = fitting(newest, 23)
    assert [path for path, _ in told] == [f"{TREE}/diary/1.md", f"{TREE}/diary/0.md"]
    assert left_out == 2 + 3
    ((_, alone),), left_out = fitting([(f"{TREE}/diary/x.md", Note("w" * 2_000_000))], 1)
    assert len(alone.content) < 100_000
    assert alone.content.endswith("… (cut: 2,000,000 characters in all)")
    assert left_out == 0


@pytest.mark.not_quick
async def test_a_being_has_a_uuid_by_which_it_can_be_named(web_house: House) -> None:
    metadata = (await answered(web_house, "get_context"))["metadata"]
    being, brain = metadata["being_id"], metadata["brain_id"]
    assert uuid.UUID(being).version == 5
    assert being != brain
    await answered(web_house, "update_notes", notes=["Buy flour"])
    for path in (f"/being/mcp?being_id={being}", f"/being/mcp/{being}", f"/being/mcp/{brain}"):
        async with web_house.served.over_http("modern", path) as client:
            context = json.loads(text_of(await client.call_tool("get_context", {})))
            assert (context["metadata"], context["snapshot"]) == (metadata, "## Notes\n\n- Buy flour")
            # What goes on after the answer finds it as well.
            noted = json.loads(text_of(await client.call_tool("update_notes", {"notes": ["Buy flour"]})))
            assert noted["status"] == "ok"


@pytest.mark.not_quick
async def test_a_uuid_that_no_being_has_is_told_as_one_that_is_not_there(web_house: House) -> None:
    nobody = names.brain_uuid("nobody")
    async with web_house.served.over_http("modern", f"/being/mcp/{nobody}") as client:
        result = await client.call_tool("get_context", {}, raise_on_error=False)
    assert text_of(result).startswith("no_brain: There is no such being, or it is not yours.")


def test_an_id_that_is_a_uuid_stays_what_it_is() -> None:
    assert names.brain_uuid(OURS) == OURS
    assert names.brain_uuid("main") == names.brain_uuid("main") != names.brain_uuid("Main")
    assert uuid.UUID(names.brain_uuid("main")).version == 5
    assert not names.is_derived_uuid(OURS)
    assert not names.is_uuid("x" * 36)


def listing(*brains: JsonObject, code: str | None = None) -> Directory:
    async def list_(_call: Call, _args: Any) -> JsonObject:
        if code is not None:
            raise GatewayError(code)
        return {"items": list(brains)}

    return Directory(list_, guesses=False)


async def resolved(directory: Directory, ref: str) -> str:
    return await directory.resolve(Call(Caller(ceiling=ref, in_url=ref)), None)


async def test_a_uuid_names_the_being_that_it_is_derived_from_whatever_others_are_called() -> None:
    mine, being = {"id": "brn_1", "slug": "mine"}, names.brain_uuid("brn_1")
    for forged in ({"id": "brn_2", "slug": being}, {"id": being, "slug": "theirs"}, {"slug": being}):
        for brains in ([mine], [mine, forged], [forged, mine]):
            assert await resolved(listing(*brains), being) == "brn_1"


async def test_a_platform_that_lists_no_brains_is_asked_for_what_was_named() -> None:
    being = names.brain_uuid("brn_1")
    assert await resolved(listing(code="not_implemented"), being) == being
    with pytest.raises(GatewayError):
        await resolved(listing(code="upstream_unavailable"), being)
