"""Turns a platform's refusal into ours: finds the code, and never uses the platform's own words."""

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from gateway.operations.errors import Doubt, GatewayError, Unsure
from gateway.operations.json_text import parse_json
from gateway.operations.table import JsonObject, Op
from gateway.upstream.dialects.dialect import json_object

_CODE_BY_STATUS = {
    400: "validation_error",
    401: "unauthorized",
    403: "forbidden",
    404: "no_brain",
    408: "timeout",
    409: "conflict",
    413: "payload_too_large",
    415: "validation_error",
    422: "validation_error",
    429: "rate_limited",
    501: "not_implemented",
    502: "upstream_unavailable",
    503: "upstream_unavailable",
    504: "timeout",
    507: "payload_too_large",
}
# Codes a platform may send that mean the same here. The rest of its vocabulary is read by status.
_TRUSTED_CODES = frozenset({"fetch_blocked", "fetch_failed", "payload_too_large", "conflict", "rate_limited"})
# Nothing was stored, whatever the status.
_PLAIN_CODES = _TRUSTED_CODES | {"not_implemented"}
# How daemons word a page that they could not, or would not, fetch.
_FETCH_FAILURE = re.compile(r"(?P<blocked>private network blocked)|\bfetch\b", re.IGNORECASE)
_LISTS = frozenset({Op.LIST_BRAINS, Op.LIST_NAMED_BRAINS})
_NOT_EVEN_A_LIST = (
    "The platform does not let the gateway list brains: the token is wrong, or may not. Check BRAINS_UPSTREAM_TOKEN."
)
# A proxy says with these that it passed the request on and got no good answer, so a write may have been made.
_LOST_ON_THE_WAY = frozenset({502, 504})
READS_A_DOCUMENT = frozenset({Op.STAT_DOCUMENT, Op.READ_DOCUMENT})
_MISSES_MORE_THAN_A_BRAIN = READS_A_DOCUMENT | {
    Op.LIST_MESSAGES,
    Op.RENAME_DOCUMENT,
    Op.DELETE_DOCUMENT,
    # For memos it is the project that is missing.
    Op.FIND_MEMOS,
    Op.RECORD_MEMO,
}
# The code of a platform that accepts no more from this tenant.
_NO_ROOM = frozenset({"quota_exceeded", "insufficient_storage"})
_FULL = "The platform's disk or quota is full. Nothing was stored. Delete something, or have more room made."
_QUOTA = "The quota of this brain is used up. Nothing was stored. Delete something, or have the quota raised."
_READS_A_FILE = frozenset({Op.INGEST_FILE, Op.INGEST_URL})
_UNREADABLE = "The platform cannot read this as what it is said to be: markdown, text, JSON or PDF."
_NO_ROUTE = re.compile(r"no route for ", re.IGNORECASE)
# Go's daemon says it with 400 where the others say 413.
_TOO_LARGE = re.compile(r"body exceeds \d+ bytes", re.IGNORECASE)


def problem_of(response: httpx.Response, body: bytes) -> JsonObject | None:
    """The JSON object a refusal explains itself with, if it does."""
    if "json" not in response.headers.get("content-type", ""):
        return None
    try:
        return json_object(parse_json(body))
    except ValueError:
        return None


def is_own_answer(response: httpx.Response, body: bytes) -> bool:
    """Whether a platform says with a code that we share what is wrong: then the request arrived, and was refused."""
    said = (problem_of(response, body) or {}).get("code")
    return isinstance(said, str) and said in _TRUSTED_CODES


def is_collision(op: Op, response: httpx.Response, body: bytes) -> bool:
    """Whether a write lost a race for a temporary file, as on one make of the daemon: it may be made again."""
    if op is not Op.WRITE_DOCUMENT or response.status_code not in {400, 500}:
        return False
    detail = str((problem_of(response, body) or {}).get("detail"))
    return ".tmp" in detail and "no such file" in detail


def says_no_such_route(response: httpx.Response, problem: JsonObject | None) -> bool:
    """Absence of a route, as opposed to absence of a brain or a document.

    A 404 that a handler wrote carries a problem; a router's own 404 does not, or says "no route for".
    """
    if response.status_code in {405, 501}:
        return True
    return response.status_code == 404 and (
        problem is None or _NO_ROUTE.match(str(problem.get("detail", ""))) is not None
    )


def from_refusal(op: Op, response: httpx.Response, problem: JsonObject | None) -> GatewayError:
    status = response.status_code
    code = _CODE_BY_STATUS.get(status, "upstream_error")
    said, detail = (problem or {}).get("code"), str((problem or {}).get("detail"))
    if status == 400 and _TOO_LARGE.search(detail):
        code = "payload_too_large"
    elif isinstance(said, str) and said in _TRUSTED_CODES:
        code = said
    elif status == 507 or (isinstance(said, str) and said in _NO_ROOM):
        return GatewayError("payload_too_large", _QUOTA if said == "quota_exceeded" else _FULL)
    elif status == 404 and op in _MISSES_MORE_THAN_A_BRAIN and "brain not found" not in detail:
        code = "not_found"
    elif status == 500 and op is Op.INGEST_URL and (said_of_it := _FETCH_FAILURE.search(detail)):
        code = "fetch_blocked" if said_of_it["blocked"] else "fetch_failed"
    message = _UNREADABLE if op in _READS_A_FILE and code == "validation_error" else None
    if code == "forbidden" and op in _LISTS:
        message = _NOT_EVEN_A_LIST
    failure = GatewayError(code, message, retry_after_seconds=retry_after(response.headers.get("retry-after")))
    return failure if (doubt := _doubt(op, status, failure)) is None else Unsure(failure, doubt)


def _doubt(op: Op, status: int, failure: GatewayError) -> Doubt | None:
    """Why a write may have been made in spite of a failure; None if it was not made."""
    if not op.writes or status < 500 or failure.code in _PLAIN_CODES:
        return None
    if status in _LOST_ON_THE_WAY:
        return Doubt.LATE if status == 504 else Doubt.LOST
    is_told_to_wait = status == 503 and failure.retry_after_seconds is not None
    return Doubt.ANSWERED if op.stores and not is_told_to_wait else None


def retry_after(header: str | None) -> int | None:
    """Seconds to wait, from either form of Retry-After; None when absent, past or unreadable."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return math.ceil(seconds) if 0 <= seconds < 86_400 else None
