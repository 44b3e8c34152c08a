"""The resource `memory://{scope}`, by real clients: listed as a template, read, and completed."""

import json
from typing import Any

import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference, TextResourceContents

from tests.gateway.conftest import House, structured

pytestmark = pytest.mark.not_quick

TEMPLATE = ResourceTemplateReference(type="ref/resource", uri="memory://{scope}")


async def remembered(house: House, content: str, scope: str) -> dict[str, Any]:
    kept = await house.good("team", "memory_remember", content=content, type="glossary", scope=scope)
    return {name: value for name, value in structured(kept).items() if name not in {"outcome", "route", "reused"}}


async def read(client: Client[Any], uri: str) -> Any:
    (content,) = await client.read_resource(uri)
    assert isinstance(content, TextResourceContents)
    return json.loads(content.text)


async def test_a_scope_is_listed_as_a_resource_and_its_name_completed(house: House) -> None:
    kept = {scope: await remembered(house, f"In {scope}.", scope) for scope in ("global", "private", "Apollo", "ares")}
    client = await house.client("team")
    (template,) = await client.list_resource_templates()
    assert (template.uri_template, template.mime_type) == ("memory://{scope}", "application/json")
    for scope, entry in kept.items():
        assert await read(client, f"memory://{scope}") == {"scope": scope, "entries": [entry], "left_out": []}
    for value, names in (("", ["private", "global", "Apollo", "ares"]), ("a", ["ares"]), ("x", [])):
        assert (await client.complete(TEMPLATE, {"name": "scope", "value": value})).values == names
    assert (await client.complete(TEMPLATE, {"name": "other", "value": ""})).values == []
    elsewhere = ResourceTemplateReference(type="ref/resource", uri="brains://{scope}")
    assert (await client.complete(elsewhere, {"name": "scope", "value": ""})).values == []


@pytest.mark.parametrize("scope", ["Global", "a%20b", "..", "%2e%2e%2fglobal", "a/b", "_x"])
async def test_what_is_no_scope_is_not_found(web_house: House, scope: str) -> None:
    client = await web_house.client("team")
    with pytest.raises(MCPError) as refused:
        await client.read_resource(f"memory://{scope}")
    assert refused.value.error.code == -32602


async def test_capabilities_of_the_surface_are_still_there(web_house: House) -> None:
    client = await web_house.client("team")
    report = await read(client, "brains://capabilities")
    assert {row["tool"] for row in report["tools"]} == {
        "memory_remember",
        "memory_recall",
        "memory_forget",
        "memory_scopes",
        "memory_load_context",
    }
    assert all(row["served"] for row in report["tools"])
