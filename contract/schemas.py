"""Judges the schema of a tool by what it accepts and refuses, and not by how it is written.

It makes arguments on both sides of each limit of the published schema. A server may write its own schema in any form:
with references, with null for optional arguments, with limits in another place.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]  # it ships no types
from jsonschema.validators import validator_for  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable

from contract.call import Definition
from contract.words import cut, shown

_MARKS: Final = re.compile(r"[`*_\"'“”‘’]")
_MOST_FAULTS: Final = 6


def faults(wanted: Definition, tools: Any) -> Iterator[str]:
    """A sentence for everything in which a listed tool differs from the published one."""
    listed = tools if isinstance(tools, list) else []
    tool = next((one for one in listed if isinstance(one, dict) and one.get("name") == wanted.tool), None)
    if tool is None:
        yield f"there should be a tool {wanted.tool}, and there is none"
        return
    if wanted.description is not None and _plain(wanted.description) != _plain(str(tool.get("description"))):
        yield f"the description should be {shown(wanted.description)}, not {shown(tool.get('description'))}"
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        yield f"the tool should have an inputSchema, not {shown(schema)}"
        return
    names = set(_named(schema, schema))
    yield from _names(wanted, names)
    try:
        found = list(_behaviour(wanted, schema, names))
    except (SchemaError, Unresolvable, RecursionError, re.error) as error:
        found = [f"the schema should be one, and cannot be read: {cut(str(error))}"]
    yield from found[:_MOST_FAULTS]


def _plain(text: str) -> str:
    """A text without marks and line breaks, because only the wording must be as published."""
    return " ".join(_MARKS.sub("", text).replace("≤", "<=").replace("–", "-").split())


def _names(wanted: Definition, names: set[str]) -> Iterator[str]:
    missing = [name for name in wanted.arguments if not name.endswith("?") and name not in names]
    if missing:
        yield f"the schema should show {', '.join(missing)}, and shows {', '.join(sorted(names)) or 'nothing'}"
    known = {name.removesuffix("?") for name in wanted.arguments}
    more = sorted((names - known) if wanted.alone else (names & set(wanted.lacks)))
    if more:
        yield f"the schema should not show {', '.join(more)}, which is no argument of this tool"


def _named(schema: Any, root: Any, depth: int = 0) -> Iterator[str]:
    """The arguments that a schema shows, also through references and parts."""
    if not isinstance(schema, dict) or depth > 8:
        return
    properties = schema.get("properties")
    yield from (properties if isinstance(properties, dict) else ())
    for part in ("allOf", "anyOf", "oneOf"):
        for one in schema.get(part) or ():
            yield from _named(one, root, depth + 1)
    yield from _named(_referred(schema.get("$ref"), root), root, depth + 1)


def _referred(reference: Any, root: Any) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    value = root
    for part in reference[2:].split("/"):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _behaviour(wanted: Definition, schema: dict[str, Any], names: set[str]) -> Iterator[str]:
    # Nothing is fetched for a reference that points elsewhere.
    kind: Any = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    judge: Any = kind(schema, registry=Registry())
    arguments = {name.removesuffix("?"): one for name, one in wanted.arguments.items()}
    base = {name: sample(arguments[name]) for name in wanted.required}
    if wanted.required or wanted.arguments:
        yield from _accepted(judge, base, "only what is required" if base else "no arguments")
    for name in wanted.required:
        yield from _refused(judge, {key: value for key, value in base.items() if key != name}, f"no {name}")
    for name, one in arguments.items():
        if name not in names:
            continue
        for value in valid(one):
            yield from _accepted(judge, {**base, name: value}, f"{name}: {_size(value)}")
        for value in invalid(one):
            yield from _refused(judge, {**base, name: value}, f"{name}: {_size(value)}")


def _accepted(judge: Any, value: Any, told: str) -> Iterator[str]:
    if not judge.is_valid(value):
        why = next(iter(judge.iter_errors(value))).message
        yield f"the schema should accept {told}, and refuses it: {cut(why, 120)}"


def _refused(judge: Any, value: Any, told: str) -> Iterator[str]:
    if judge.is_valid(value):
        yield f"the schema should refuse {told}, and accepts it"


def _size(value: Any) -> str:
    if isinstance(value, str) and len(value) > 40:
        return f"{len(value)} characters"
    if isinstance(value, list) and len(value) > 4:
        return f"{len(value)} items"
    return shown(value, 60)


def sample(schema: dict[str, Any]) -> Any:
    """A value that the schema accepts."""
    if schema.get("examples"):
        return schema["examples"][0]
    if schema.get("enum"):
        return schema["enum"][0]
    match schema.get("type"):
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            return [sample(schema.get("items", {}))] * max(1, schema.get("minItems", 0))
        case "object":
            return {name: sample(schema.get("properties", {}).get(name, {})) for name in schema.get("required", ())}
    return "x" * max(1, schema.get("minLength", 1))


def valid(schema: dict[str, Any]) -> Iterator[Any]:
    """Values within each limit, as near to it as can be."""
    if not (schema.keys() & {"type", "enum", "examples"}):
        return
    yield sample(schema)
    yield from schema.get("enum", ())
    yield from (schema[edge] for edge in ("minimum", "maximum") if edge in schema)
    if "maxLength" in schema:
        yield "x" * schema["maxLength"]
    if "maxItems" in schema:
        yield [sample(schema.get("items", {}))] * schema["maxItems"]
    for item in valid(schema["items"]) if "items" in schema else ():
        yield [item] * max(1, schema.get("minItems", 0))
    for name, one in schema.get("properties", {}).items():
        for value in valid(one):
            yield {**sample(schema), name: value}


def invalid(schema: dict[str, Any]) -> Iterator[Any]:
    """Values just beyond each limit, and of another type."""
    if "enum" in schema:
        yield "no-such-choice"
    if schema.get("type") == "string":
        yield 1
    elif "type" in schema:
        yield "x"
    if "minimum" in schema:
        yield schema["minimum"] - 1
    if "maximum" in schema:
        yield schema["maximum"] + 1
    if schema.get("type") == "integer":
        yield 1.5
    if schema.get("minLength", 0) > 0:
        yield "x" * (schema["minLength"] - 1)
    if "maxLength" in schema:
        yield "x" * (schema["maxLength"] + 1)
    if schema.get("minItems", 0) > 0:
        yield [sample(schema.get("items", {}))] * (schema["minItems"] - 1)
    if "maxItems" in schema:
        yield [sample(schema.get("items", {}))] * (schema["maxItems"] + 1)
    if "pattern" in schema:
        yield "-X /"
    for item in invalid(schema["items"]) if "items" in schema else ():
        yield [item] * max(1, schema.get("minItems", 0))
    for name in schema.get("required", ()):
        yield {key: value for key, value in sample(schema).items() if key != name}
    for name, one in schema.get("properties", {}).items():
        for value in invalid(one):
            yield {**sample(schema), name: value}
