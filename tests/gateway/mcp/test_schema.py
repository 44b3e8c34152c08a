"""From an input model to the schema on the wire."""

import inspect
import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from gateway.mcp.schema import input_schema
from gateway.mcp.tool import Input
from gateway.surfaces.memory import schema

INPUTS = [
    model for _, model in inspect.getmembers(schema, inspect.isclass) if issubclass(model, Input) and model is not Input
]


class Part(BaseModel):
    """For us, not for the wire."""

    title: str
    note: str | None = None


class Whole(BaseModel):
    """For us, not for the wire."""

    model_config = ConfigDict(extra="forbid")

    title: Annotated[str, Field(min_length=1, description="its title")]
    properties: list[str] = Field(default_factory=list)
    count: Annotated[int, Field(ge=1, le=9)] = 5
    flag: bool = False
    kind: Literal["a", "b"] | None = None
    limit: Annotated[Annotated[int, Field(ge=1)] | None, Field(description="at most so many")] = None
    parts: list[Part] = Field(min_length=1)
    part: Annotated[Part | None, Field(description="one more")] = None
    as_: Annotated[str | None, Field(alias="as")] = None


PART: dict[str, Any] = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "note": {"type": "string"}},
    "required": ["title"],
}


def test_a_model_becomes_one_flat_schema() -> None:
    assert input_schema(Whole) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["title", "parts"],
        "properties": {
            "title": {"type": "string", "minLength": 1, "description": "its title"},
            "properties": {"type": "array", "items": {"type": "string"}},
            "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 5},
            "flag": {"type": "boolean", "default": False},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "limit": {"type": "integer", "minimum": 1, "description": "at most so many"},
            "parts": {"type": "array", "minItems": 1, "items": PART},
            "part": {**PART, "description": "one more"},
            "as": {"type": "string"},
        },
    }


def test_a_model_without_fields_is_an_object_without_properties() -> None:
    class Nothing(BaseModel):
        pass

    assert input_schema(Nothing) == {"type": "object", "properties": {}}


def test_an_object_of_any_fields_says_nothing_of_them() -> None:
    class Open(BaseModel):
        metadata: dict[str, Any] | None = None

    assert input_schema(Open)["properties"] == {"metadata": {"type": "object", "additionalProperties": True}}


def test_a_choice_between_two_types_has_no_flat_form_and_is_refused() -> None:
    class Either(BaseModel):
        value: int | str

    with pytest.raises(ValueError, match="too many values"):
        input_schema(Either)


def nodes(node: Any) -> list[dict[str, Any]]:
    """Every schema inside a schema; the names of properties are not schemas."""
    if isinstance(node, list):
        return [found for item in node for found in nodes(item)]
    if not isinstance(node, dict):
        return []
    inner = [*node.get("properties", {}).values(), *[value for key, value in node.items() if key != "properties"]]
    return [node, *nodes(inner)]


@pytest.mark.parametrize("model", INPUTS, ids=lambda model: model.__name__)
def test_no_input_of_a_tool_needs_resolving(model: type[BaseModel]) -> None:
    schema = input_schema(model)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    for node in nodes(schema):
        assert not {"$ref", "$defs", "anyOf", "oneOf", "allOf", "title"} & set(node)
        assert node.get("default", "") is not None
    json.dumps(schema, allow_nan=False)


def test_the_inputs_of_the_tools_are_found() -> None:
    assert len(INPUTS) >= 12
