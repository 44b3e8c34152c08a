"""Brings the answer of a platform to the fields that the contract promises."""

from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject


def fill(found: JsonObject, fields: JsonObject) -> JsonObject:
    """With every field of the contract: a missing field is empty, and an invalid one is an error of the platform."""
    missing = {}
    for name, empty in fields.items():
        value = found.get(name)
        if type(value) is type(empty) and value is not None:
            continue
        kinds = (int, float) if isinstance(empty, float) else type(empty)
        if value is None:
            missing[name] = empty
        elif not isinstance(value, kinds) or isinstance(value, bool):
            raise GatewayError("upstream_error", f"The platform's answer holds something else where {name} belongs.")
    return {**found, **missing} if missing else found


def only(fields: JsonObject, found: JsonObject) -> JsonObject:
    complete = fill(found, fields)
    return {name: complete[name] for name in fields}
