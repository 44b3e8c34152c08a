"""What a delete of `kv` leaves behind: the note with its stamps, once, wherever the call breaks off."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.operations import notes
from gateway.operations.notes import Note
from gateway.surfaces.kv import surface
from gateway.surfaces.kv.schema import PutInput
from tests.daemons.fake import FakeDaemon, T
from tests.gateway.conftest import structured
from tests.gateway.surfaces.shelf import Shelf, shelf_on
from tests.served import listening, serving

pytestmark = pytest.mark.not_quick

FOLDER = "memory/global/kv/default"
WRITE = "PUT /v1/brains/{brain}/documents"


@pytest.fixture(scope="module", params=["platform", "daemon"])
def shelf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    with shelf_on(request.param, tmp_path_factory.mktemp("deletes")) as made:
        yield made


def aside(shelf: Shelf, folder: str, key: str) -> dict[str, Note]:
    paths = [path for path in shelf.paths(f"{FOLDER}/{folder}") if path.rpartition("/")[2].startswith(f"{key}-")]
    return {path: notes.open_note(shelf.read(path).encode()) for path in paths}


async def test_a_deleted_note_is_stamped_and_otherwise_as_it_was(shelf: Shelf) -> None:
    async with shelf.client("kv") as agent:
        await agent.good("jettson_memory_put", key="a", value="Otters.", tags=["x"], importance=7)
        before = shelf.read(f"{FOLDER}/a.md")
        begun = datetime.now(UTC)
        assert await agent.good("jettson_memory_delete", key="a") == {"deleted": True}
        ((path, note),) = aside(shelf, "_deleted", "a").items()
        assert note.text("isLatestVersion") == "false"
        assert begun.replace(microsecond=0) <= datetime.fromisoformat(note.text("deletedAt") or "") <= datetime.now(UTC)
        kept = {name: value for name, value in note.front.items() if name not in {"deletedAt", "isLatestVersion"}}
        was = notes.open_note(before.encode()).front
        # What sets a note apart from others is for those that are searched.
        was.pop("brains_mark", None)
        assert (kept, note.content) == (was, "Otters.")
        body = shelf.read(path)
        assert await agent.good("jettson_memory_delete", key="a") == {"deleted": True}
        assert {path: shelf.read(path) for path in aside(shelf, "_deleted", "a")} == {path: body}


async def test_a_replaced_note_is_stamped_and_a_new_one_is_not(shelf: Shelf) -> None:
    async with shelf.client("kv") as agent:
        for value in ("one", "two"):
            await agent.good("jettson_memory_put", key="b", value=value, tags=["x"])
        (version,) = aside(shelf, "_versions", "b").values()
        assert (version.content, version.text("isLatestVersion"), version.tag_list) == ("one", "false", ["x"])
        assert version.text("deletedAt") is None
        assert "isLatestVersion" not in shelf.read(f"{FOLDER}/b.md")


async def test_nothing_finds_what_was_deleted_or_replaced(shelf: Shelf) -> None:
    async with shelf.client("kv") as agent, shelf.client("memory") as other:
        for value in ("walrusone", "walrustwo"):
            await agent.good("jettson_memory_put", key="c", value=value)
        await agent.good("jettson_memory_delete", key="c")
        for word in ("walrusone", "walrustwo", "isLatestVersion", "deletedAt"):
            assert (await agent.good("jettson_memory_search", query=word))["results"] == []
            assert (await other.good("memory_search", query=word))["hits"] == []
        assert await agent.good("jettson_memory_get", key="c") == {"found": False}


async def test_a_note_that_is_renamed_back_is_a_memory_again_and_a_put_takes_its_stamps_off(shelf: Shelf) -> None:
    async with shelf.client("kv") as agent:
        await agent.good("jettson_memory_put", key="d", value="Otters.")
        await agent.good("jettson_memory_delete", key="d")
        (path,) = aside(shelf, "_deleted", "d")
        shelf.put(f"{FOLDER}/d.md", shelf.read(path))
        assert (await agent.good("jettson_memory_get", key="d"))["value"] == "Otters."
        await agent.good("jettson_memory_put", key="d", value="Seals.")
        assert "deletedAt" not in shelf.read(f"{FOLDER}/d.md")
        await agent.good("jettson_memory_delete", key="d")
        deleted = aside(shelf, "_deleted", "d").values()
        assert {one.content for one in deleted} == {"Otters.", "Seals."}
        assert all(one.text("deletedAt") for one in deleted)


async def test_a_delete_that_breaks_off_before_its_stamps_is_ended_by_the_same_call_again(tmp_path: Path) -> None:
    fake = FakeDaemon(T)
    fake.brains["main"] = {f"{FOLDER}/k.md": (b"Otters.", 0.0)}
    with listening(fake.app()) as url, serving(tmp_path, None, upstream_url=url, read_seconds=1) as served:
        async with served.over_http("modern", "/kv/mcp/main") as client:

            async def call(tool: str) -> Any:
                return await client.call_tool(f"jettson_memory_{tool}", {"key": "k"}, raise_on_error=False)

            fake.fail[WRITE] = 500
            error = structured(await call("delete"))
            assert (error["code"], error["retryable"]) == ("outcome_unknown", True)
            # It is gone all the same, and nothing is lost.
            assert structured(await call("get")) == {"found": False}
            assert [body for body, _ in fake.brains["main"].values()] == [b"Otters."]
            del fake.fail[WRITE]
            for _ in range(2):
                assert structured(await call("delete")) == {"deleted": True}
    ((path, (body, _)),) = fake.brains["main"].items()
    assert path.startswith(f"{FOLDER}/_deleted/k-")
    note = notes.open_note(body)
    assert (note.content, note.text("isLatestVersion")) == ("Otters.", "false")


@pytest.mark.parametrize(
    "written",
    [
        b"by hand",
        b"---\ntitle: mine\n---\n\nwith front matter of its own",
        b"---\nvia: brains-gateway\ndigest: d\ncolor: [red, blue]\n# kept\n---\n\nby us, and edited",
    ],
    ids=["plain", "front", "ours"],
)
def test_stamps_leave_what_a_note_says(written: bytes) -> None:
    before = notes.open_note(written)
    draft = surface.stamp_deleted(before)
    assert draft is not None
    after = notes.open_note(draft.body)
    assert after.content == before.content
    assert before.front.items() <= after.front.items()
    assert set(after.front) - set(before.front) <= {"via", "deletedAt", "isLatestVersion"}
    assert surface.stamp_deleted(None) is None


def test_a_version_is_the_same_bytes_each_time() -> None:
    """A write that is sent again must be the same write."""
    args = PutInput(key="k", value="w")
    before = notes.open_note(b"---\nvia: brains-gateway\ndigest: d\nversion: '3'\n---\n\nv")
    first, second = (surface.putting(args, f"{FOLDER}/k.md")(before) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.aside == second.aside
