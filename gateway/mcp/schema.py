"""Turns an input model into the flat JSON schema that goes on the wire."""

from functools import cache
from typing import Any

from pydantic import BaseModel

from gateway.operations.table import JsonObject

# Pydantic's titles repeat the names, and its null defaults say only that an argument may be left out.
_DROPPED = frozenset({"title"})


@cache
def input_schema(model: type[BaseModel]) -> JsonObject:
    """No `$ref`, no `anyOf` with null, no titles: several clients reject or waste tokens on them."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    flat: JsonObject = _flat(schema, definitions)
    flat.pop("description", None)
    flat.setdefault("properties", {})
    return flat


def _flat(node: Any, definitions: JsonObject) -> Any:
    if isinstance(node, list):
        return [_flat(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "anyOf" in node:
        (only,) = (option for option in node["anyOf"] if option != {"type": "null"})
        node = {**only, **{key: value for key, value in node.items() if key != "anyOf"}}
    if "$ref" in node:
        # The description of the field stays; the docstring of the model is only for us.
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        model = _without_description(definitions[node["$ref"].rsplit("/", 1)[-1]])
        return _flat({**model, **siblings}, definitions)
    properties = {name: _flat(value, definitions) for name, value in node.get("properties", {}).items()}
    rest = {
        key: _flat(value, definitions)
        for key, value in node.items()
        if key not in _DROPPED and key != "properties" and not (key == "default" and value is None)
    }
    # An object with any fields has no `properties`: with an empty one, clients would allow no fields at all.
    return {**rest, "properties": properties} if properties else rest


def _without_description(node: JsonObject) -> JsonObject:
    return {key: value for key, value in node.items() if key != "description"}
