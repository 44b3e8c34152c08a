"""From the spellings platforms use to the canonical one: snake_case keys, and lists that are lists."""

import re

from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject, JsonValue

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake(key: str) -> str:
    """`chunkId`, `DocumentID` and `TookMs` as `chunk_id`, `document_id` and `took_ms`."""
    return _WORD_START.sub("_", key).lower()


def snake_keys(answer: JsonValue) -> JsonObject:
    """An object's own keys in snake_case. Their values stay as they are, because they may be a caller's.

    If a key comes in two spellings, the canonical one is used.

    Raises:
        GatewayError: upstream_error, when it is not an object.
    """
    if not isinstance(answer, dict):
        raise GatewayError("upstream_error", "The platform's answer is not a JSON object.")
    return {snake(key): value for key, value in answer.items()} | {k: v for k, v in answer.items() if k == snake(k)}


def objects(answer: JsonObject, key: str) -> list[JsonObject]:
    """A list of objects, their keys in snake_case. Some platforms say null for an empty list.

    Raises:
        GatewayError: upstream_error, when it is missing or something else.
    """
    found = answer.get(key, False)
    if found is None:
        return []
    if not isinstance(found, list):
        raise GatewayError("upstream_error", "The platform's answer has no list of results.")
    return [snake_keys(item) for item in found]


def text(answer: JsonObject, key: str) -> str | None:
    """A text; None where there is none.

    Raises:
        GatewayError: upstream_error, when it is something else.
    """
    found = answer.get(key)
    if found is None or isinstance(found, str):
        return found
    raise GatewayError("upstream_error", "The platform's answer holds something else where a text belongs.")


def number(answer: JsonObject, key: str) -> int | float:
    """A number; 0 where there is none.

    Raises:
        GatewayError: upstream_error, when it is something else.
    """
    found = answer.get(key)
    if found is None:
        return 0
    if isinstance(found, int | float) and not isinstance(found, bool):
        return found
    raise GatewayError("upstream_error", "The platform's answer holds something else where a number belongs.")
