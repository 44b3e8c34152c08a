"""JSON schemas for the results of tools, and the hints of tools."""

from typing import Any

from mcp_types import ToolAnnotations

from gateway.operations.table import JsonObject


def object_of(required: dict[str, Any] | None = None, **others: Any) -> JsonObject:
    """An object schema that lets unknown fields through, because platforms add their own."""
    return {
        "type": "object",
        "properties": {**(required or {}), **others},
        **({"required": sorted(required)} if required else {}),
    }


STRING: JsonObject = {"type": "string"}
NUMBER: JsonObject = {"type": "number"}
INTEGER: JsonObject = {"type": "integer"}
BOOLEAN: JsonObject = {"type": "boolean"}
_ERROR: JsonObject = {"required": ["code", "message", "retryable"]}


def result(required: dict[str, Any] | None = None, **others: Any) -> JsonObject:
    """The schema of a tool's result: an object with these fields, or an error.

    Errors are part of it because widespread clients check error results against the schema too.
    """
    schema = object_of(required, **others)
    fields = schema.pop("required", [])
    return {**schema, "anyOf": [{"required": fields}, _ERROR]} if fields else schema


def hints(read_only: bool, destructive: bool, idempotent: bool, open_world: bool) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=read_only,
        destructive_hint=destructive,
        idempotent_hint=idempotent,
        open_world_hint=open_world,
    )


READS = hints(True, False, True, False)
ADDS = hints(False, False, True, False)
