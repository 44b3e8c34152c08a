"""What spans say: their names and attributes. None of it is content, or a caller's own words."""

import hashlib
from collections.abc import Mapping
from typing import Final, Protocol

from gateway.operations.chains import CHAINS, Chain
from gateway.operations.errors import Absent, GatewayError
from gateway.operations.table import Op

Attributes = dict[str, str | int]
ServedBy = tuple[Op, str]
"""The operation of a step, and how it serves."""

REQUEST_ID: Final = "brains.request_id"
FAILURE: Final = "error.type"
"""The attribute that only spans of failures have."""
FIRST_PIECE: Final = "first piece"
CANCELLED: Final = "cancelled"
_NAMES: Final = {id(chain): f"chain {name}" for name, chain in CHAINS.items()}
_HASH_LENGTH: Final = 16


class RequestSpan(Protocol):
    """The span of one request to the platform."""

    @property
    def trace(self) -> bytes | None:
        """The id of the trace that it belongs to, if that is collected."""

    def headers(self) -> Mapping[str, str]:
        """The headers that tell the platform of it."""

    def answer(self, outcome: str, status: int | None) -> None:
        """An answer came or has begun, or none came."""

    def say(self) -> None:
        """The first piece of an answer came."""

    def end(self) -> None:
        """The answer was read to its end."""


def of_call(surface: str, tool: str, outcome: str, brain: str | None, route: str | None) -> Attributes:
    """Those of a call, without the id of its request."""
    return {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": tool,
        "brains.surface": surface,
        **({} if brain is None else {"brains.brain_hash": _hash(brain)}),
        **({} if route is None else {"brains.route": route}),
        **_ended(outcome, is_failure=outcome not in {"ok", CANCELLED}),
    }


def name_of(chain: Chain) -> str:
    return _NAMES.get(id(chain), "chain unnamed")


def of_chain(served_by: ServedBy | None, outcome: str) -> Attributes:
    """`served_by` is None if no step served it."""
    served = {} if served_by is None else {"brains.step": served_by[0].value, "brains.how": served_by[1]}
    return {**served, **_ended(outcome, is_failure=served_by is None)}


def outcome_of(error: BaseException) -> str:
    """How a chain ended that served nothing."""
    if isinstance(error, GatewayError):
        return error.code
    return "not_implemented" if isinstance(error, Absent) else CANCELLED


def of_request(op: Op, route: str, outcome: str, status: int | None) -> Attributes:
    """`route` is its name."""
    method, _, path = route.partition(" ")
    return {
        "http.request.method": method,
        "url.template": path,
        "brains.operation": op.value,
        **({} if status is None else {"http.response.status_code": status}),
        **_ended(outcome, is_failure=outcome not in {"2xx", "3xx"}),
    }


def _ended(outcome: str, *, is_failure: bool) -> Attributes:
    return {"brains.outcome": outcome, **({FAILURE: outcome} if is_failure else {})}


def _hash(brain: str) -> str:
    return hashlib.sha256(brain.encode("utf-8", "replace")).hexdigest()[:_HASH_LENGTH]
