"""The two tools of `chat`, by real clients: what ChatGPT reads of them, on every platform and by every way in."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.gateway.conftest import House, code_of, structured, text_of, texts_of
from tests.gateway.surfaces.memory.test_shapes import called, says
from tests.gateway.surfaces.shelf import shelf_on

B = "/v1/brains/b"


async def said(house: House, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured result, which is what its one text says."""
    result = await house.good("chat", tool, **arguments)
    (text,) = texts_of(result)
    assert json.loads(text) == structured(result)
    return structured(result)


async def test_what_was_remembered_is_found_and_fetched(house: House) -> None:
    note = {"content": "# Tea\n\nGyokuro wants sixty degrees.", "tags": ["drinks", "heat"]}
    stored = structured(await house.good("memory", "memory_remember", **note))
    (found,) = [one for one in (await said(house, "search", query="gyokuro"))["results"] if one["title"] == "Tea"]
    assert set(found) == {"id", "title", "url"}
    read = await said(house, "fetch", id=found["id"])
    assert {name: read[name] for name in found} == found
    assert read["text"].strip() == note["content"]
    assert read["metadata"]["tags"] == "drinks, heat"
    assert all(isinstance(value, str) and value for value in read["metadata"].values())
    address = urlsplit(found["url"])
    assert (address.scheme, unquote(address.path)) == ("brains", f"/{stored['path']}")
    assert address.netloc == read["metadata"]["brain"]


async def test_a_note_of_many_parts_is_one_result(web_house: House) -> None:
    for n in range(3):
        content = f"# Otters {n}\n\n" + "\n\n".join(f"## Part {k}\n\nThe otter sleeps. {k} " * 20 for k in range(30))
        await web_house.good("memory", "memory_remember", content=content)
    results = (await said(web_house, "search", query="otter"))["results"]
    assert sorted(one["title"] for one in results) == ["Otters 0", "Otters 1", "Otters 2"]


async def test_what_other_surfaces_keep_is_found_and_what_is_over_is_not(web_house: House) -> None:
    await web_house.good("kv", "jettson_memory_put", key="otter", value="The otter holds hands.")
    (found,) = (await said(web_house, "search", query="otter hands"))["results"]
    assert "holds hands" in (await said(web_house, "fetch", id=found["id"]))["text"]
    await web_house.good("kv", "jettson_memory_delete", key="otter")
    assert (await said(web_house, "search", query="otter hands"))["results"] == []
    assert code_of(await web_house("chat", "fetch", id=found["id"])) == "not_found"


@pytest.mark.parametrize(
    "id_",
    [
        "memory/global/never.md",
        "../../etc/passwd",
        "/etc/passwd",
        "memory/global/../../../etc/passwd",
        "memory/global/%2e%2e/secret.md",
        "memory/global/kv/default/_deleted/otter-0123456789ab.txt",
        "memory/global/_hits/otter.txt",
    ],
)
async def test_an_id_that_no_search_returned_is_not_found(web_house: House, id_: str) -> None:
    assert code_of(await web_house("chat", "fetch", id=id_)) == "not_found"


async def test_what_expired_or_was_put_away_is_not_fetched_by_its_path(tmp_path: Path) -> None:
    with shelf_on("platform", tmp_path) as shelf:
        over = "---\nvia: brains-gateway\nkey: tea\nexpires: 2020-01-01T00:00:00+00:00\n---\n\nGone."
        shelf.put("memory/global/kv/default/tea.md", over)
        shelf.put("memory/global/kv/default/_deleted/tea-0123456789ab.txt", "Put away.")
        shelf.put("memory/agent/u-somebodyelse/secret.txt", "Not yours.")
        async with shelf.client("chat") as chat:
            for path in (
                "memory/global/kv/default/tea.md",
                "memory/global/kv/default/_deleted/tea-0123456789ab.txt",
                "memory/agent/u-somebodyelse/secret.txt",
            ):
                result = await chat.client.call_tool("fetch", {"id": path}, raise_on_error=False)
                assert code_of(result) == "not_found"
                assert "Gone" not in text_of(result)


async def test_what_was_said_in_a_session_is_found_and_fetched_whatever_its_id(web_house: House) -> None:
    messages = [{"role": "user", "content": "Shall we look for the bluebird otter tomorrow?"}]
    await web_house.good("memory", "memory_extract", session_id="talk:of.otters-1", messages=messages)
    results = (await said(web_house, "search", query="bluebird otter"))["results"]
    # A daemon's search does not look there.
    assert [one for one in results if one["id"].startswith("sessions/")] or web_house.platform != "embedded"
    for one in results:
        assert "otter" in (await said(web_house, "fetch", id=one["id"]))["text"]


async def test_a_long_note_is_cut_and_says_so(web_house: House) -> None:
    path = "memory/global/long.md"
    await web_house.good("memory", "memory_remember", content="The otter sleeps. " * 40_000, path=path)
    read = await said(web_house, "fetch", id=path)
    assert read["metadata"]["truncated"] == "true"
    assert read["text"].endswith("characters in all)")
    assert len(read["text"]) < 520_000


async def test_nothing_invisible_is_told(tmp_path: Path) -> None:
    hidden = "Otters\u200b\U000e0041 sleep."
    answers = {f"GET {B}/search": says({"hits": [{"path": "a.md", "title": hidden, "score": 1.0}, {"score": 0.5}]})}
    result = await called(tmp_path, answers, "search", {"query": "x"}, path="/chat/mcp/b")
    assert structured(result) == {"results": [{"id": "a.md", "title": "Otters sleep.", "url": "brains://b/a.md"}]}
