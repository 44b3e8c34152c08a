"""What the tests of the `being` surface share: calls, what they answer, and notes as a person writes them."""

import json
import re
from typing import Any

import httpx
from fastmcp.client.client import CallToolResult

from tests.gateway.conftest import House, text_of

TREE = "memory/global/being"
BREAD = {
    "action": "Rin baked her first loaf of bread",
    "actors": ["Rin", "Ken"],
    "when": ["2026-04-14"],
    "setting": "the old kitchen",
    "feeling": "I was proud of her",
    "themes": ["Baking", "family"],
    "importance": 0.8,
}
IDS = re.compile(r"id=([0-9a-f-]{36})")


def scene(action: str, **fields: Any) -> dict[str, Any]:
    return {"action": action, "actors": ["Rin"], "when": ["2026-04-14"], **fields}


def said(content: str, role: str = "user") -> dict[str, str]:
    return {"role": role, "content": content}


async def told(house: House, tool: str, **arguments: Any) -> str:
    """The text of a call that must succeed: there is nothing else in its answer."""
    result = await house.good("being", tool, **arguments)
    assert result.structured_content is None
    return text_of(result)


async def answered(house: House, tool: str, **arguments: Any) -> dict[str, Any]:
    """The JSON that the text of a call is."""
    return dict(json.loads(await told(house, tool, **arguments)))


async def patrolled(house: House, *scenes: dict[str, Any]) -> list[str]:
    """Scenes told and made into nodes; the ids of both."""
    ids = (await answered(house, "update_notes", scenes=list(scenes)))["scene_ids"]
    await answered(house, "trigger_patrol", messages=[])
    return list(ids)


async def found(house: House, query: str, **arguments: Any) -> list[str]:
    """The ids of the nodes that a search finds."""
    return IDS.findall(await told(house, "search_memory", query=query, **arguments))


def refusal(result: CallToolResult) -> dict[str, Any]:
    """An error as this surface words it: text alone, its first line for people, its second JSON."""
    assert result.is_error
    assert result.structured_content is None
    line, _, body = text_of(result).partition("\n")
    error = dict(json.loads(body))
    assert set(error) >= {"code", "message", "retryable", "request_id"}
    assert line == f"{error['code']}: {error['message']}"
    return error


class Files:
    """The brain's own files, past the gateway: only where the platform has a port of its own."""

    def __init__(self, house: House) -> None:
        self._url = f"{house.served.upstream_url}/v1/brains/{house.brain}/documents"

    async def _sent(self, method: str, route: str = "", body: bytes | None = None, **params: str) -> httpx.Response:
        # None is kept open: nobody would close it.
        async with httpx.AsyncClient(trust_env=False, verify=False) as http:
            answer = await http.request(method, self._url + route, params=params, content=body)
        return answer.raise_for_status()

    async def write(self, path: str, body: bytes) -> None:
        await self._sent("PUT", body=body, path=path)

    async def read(self, path: str) -> bytes:
        return (await self._sent("GET", "/read", path=path)).content

    async def all(self) -> dict[str, bytes]:
        """Every file below the tree of the surface, also those that are kept beside notes."""
        listed = await self._sent("GET", dir=TREE, recursive="true", include_generated="true")
        items = listed.json()["items"]
        return {item["path"]: await self.read(item["path"]) for item in items if not item.get("is_dir")}

    async def names(self) -> set[str]:
        return {path.removeprefix(TREE + "/") for path in await self.all()}
