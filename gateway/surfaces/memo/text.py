"""What the `memo` surface says: results and errors as the contract words them. Pure functions."""

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gateway.mcp.bounds import RESULT_LENGTH, cut, json_length
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject, JsonValue
from gateway.surfaces.memo.schema import LEAST, MOST

PROJECT_WANTED: Final = (
    "MEMOAI_PROJECT header is required. Please configure the MEMOAI_PROJECT environment variable in your MCP client "
    "settings."
)
_NO_BRAIN: Final = "Brain not found or access denied. Name yours in the URL: /memo/mcp/{brain}"
_INTERNAL: Final = "An internal error occurred. Please try again."
_PERHAPS_RECORDED: Final = (
    "An internal error occurred. The memo may have been recorded. Search for it before you try again."
)
_SHOWN: Final = 128
_INDENT: Final = 2
_MARKS_LENGTH: Final = 200
# Shown in place of a field of a memo that is too long.
_EMPTY: Final[JsonObject] = {
    "id": "",
    "episode_type": "",
    "created_at": "",
    "source": "",
    "similarity": 0,
    "tags": [],
    "extra_metadata": {},
}
# Code of ours -> type of the contract. All other codes are internal errors.
TYPES: Final[Mapping[str, str]] = {
    "no_brain": "not_found",
    "not_found": "not_found",
    "validation_error": "invalid_request",
    "payload_too_large": "invalid_request",
    "file_too_large": "invalid_request",
    "file_not_allowed": "invalid_request",
    "fetch_blocked": "invalid_request",
    "unauthorized": "authentication_error",
    "forbidden": "authentication_error",
    "insufficient_scope": "authentication_error",
    "not_implemented": "configuration_error",
}
# pydantic's kind of error -> the contract's words for it. `{…}` are the limits the error carries.
_RULES: Final[Mapping[str, str]] = {
    "missing": "Missing required parameter: {name}",
    "extra_forbidden": "Unknown parameter: {name}",
    "string_type": "Parameter '{name}' must be a string",
    "string_unicode": "Parameter '{name}' must be valid Unicode text",
    "string_too_long": "Parameter '{name}' must have at most {max_length:,} characters",
    "blank": "Parameter '{name}' must not be empty",
    "int_type": "Parameter '{name}' must be a number",
    "greater_than_equal": f"Parameter '{{name}}' must be between {LEAST} and {MOST}",
    "less_than_equal": f"Parameter '{{name}}' must be between {LEAST} and {MOST}",
    "dict_type": "Parameter '{name}' must be an object",
}


def recorded(memo_id: str) -> str:
    return f"Memo recorded successfully: {memo_id}"


def searched(memos: Sequence[JsonObject]) -> str:
    """All memos, because the contract has no place to say that some are missing; if they are too long, they are cut."""
    if _fits(memos, RESULT_LENGTH):
        return _as_json(memos)
    return _as_json([_shorten(memo, RESULT_LENGTH // len(memos)) for memo in memos])


def _shorten(memo: JsonObject, length: int) -> JsonObject:
    """A memo in so many characters: fields that do not fit in half of them are emptied, then its content is cut.

    The content says so, because there is no other place for it. Fields that the contract does not know are left out.
    """
    if _fits([memo], length):
        return memo
    shown: JsonObject = {}
    for name in (name for name in _EMPTY if name in memo):
        shown[name] = memo[name] if _fits([{**shown, name: memo[name]}], length // 2) else _EMPTY[name]
    emptied = [name for name in shown if shown[name] != memo[name]]
    mark = f" … (left out as too long: {', '.join(emptied)})" if emptied else ""
    room = length - len(_as_json([shown])) - _MARKS_LENGTH
    return {**shown, "content": _cut_to_fit(memo["content"], room) + mark}


def _cut_to_fit(content: str, room: int) -> str:
    """The part of a content that fits into so much JSON, in which some characters take six."""
    lengths = range(1, min(len(content), room) + 1)
    return cut(content, bisect_right(lengths, room, key=lambda length: len(_as_json(content[:length]))))


def _fits(value: Sequence[JsonObject], length: int) -> bool:
    # Indented JSON that is nested deeply may be a hundred times as long, so it is not written just to be measured.
    return json_length(value, length, indent=_INDENT) <= length and len(_as_json(value)) <= length


def _as_json(value: JsonValue | Sequence[JsonObject]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=_INDENT)


def moment(milliseconds: int) -> str:
    """A time as the contract writes it."""
    when = datetime.fromtimestamp(milliseconds / 1000, UTC)
    text = when.isoformat(timespec="milliseconds" if milliseconds % 1000 else "seconds")
    return text.removesuffix("+00:00") + "Z"


def project_not_found(project: str) -> str:
    return f"Project '{_printable(project)}' not found or access denied"


def invalid(problem: Mapping[str, Any]) -> str:
    """What is wrong with an argument; never the argument itself, which may be a secret."""
    if problem["type"] == "value_error":
        name, _, rule = str(problem["msg"]).removeprefix("Value error, ").partition(" ")
        return f"Parameter '{name}' {rule}"
    name = _printable(problem["loc"][0]) if problem["loc"] else "arguments"
    # A null counts as left out.
    kind = "missing" if problem["type"] == "string_type" and problem.get("input") is None else problem["type"]
    return _RULES.get(kind, "Parameter '{name}' is not valid").format(name=name, **problem.get("ctx", {}))


def failed(error: GatewayError, request_id: str) -> str:
    kind = str(error.extra.get("type") or TYPES.get(error.code, "internal_error"))
    said: JsonObject = {"type": kind, "message": _NO_BRAIN if error.code == "no_brain" else error.message}
    if kind == "internal_error":
        details: JsonObject = {"request_id": request_id, "code": error.code, "reason": error.message}
        if error.retry_after_seconds is not None:
            details["retry_after_seconds"] = error.retry_after_seconds
        # A repeat would be another memo, unless it is said to be the same.
        is_perhaps_recorded = error.code == "outcome_unknown" and not error.retryable
        said = {"type": kind, "message": _PERHAPS_RECORDED if is_perhaps_recorded else _INTERNAL, "details": details}
    return json.dumps({"error": said}, ensure_ascii=False, indent=2)


def _printable(name: object) -> str:
    text = "".join(c if c.isprintable() else "?" for c in str(name)[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
