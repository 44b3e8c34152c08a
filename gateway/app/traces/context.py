"""The trace that a client names, as W3C's Trace Context spells it, and how the platform is told of it."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from opentelemetry.trace import TraceState

from gateway.mcp.request import INCOMING, TRACE_CONTEXT

SAMPLED, RANDOM = 1, 2
"""Flags: the trace is collected, and its id is a random number."""
# A later version may have more behind the flags.
_TRACEPARENT: Final = re.compile(r"[ \t]*([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*|[ \t]*)")
_LONGEST: Final = 512


class Above(NamedTuple):
    """The span of the client's, below which a call is."""

    trace: bytes
    span: bytes
    flags: int
    state: str
    """What tracing systems say of the trace, for a header. It was parsed and written anew."""


def told_by_client() -> Mapping[str, str] | None:
    """The trace that a client says its call belongs to: of the call, or else of the request that it came in."""
    incoming = INCOMING.get(None)
    if incoming is None:
        return None
    said = incoming.meta
    if not isinstance(said.get("traceparent"), str):
        if incoming.http is None or "traceparent" not in incoming.http.headers:
            return None
        said = incoming.http.headers
    return {name: value for name in TRACE_CONTEXT if isinstance(value := said.get(name), str)}


def parse(traceparent: str, tracestate: str | None = None) -> Above | None:
    """None if it names no trace."""
    found = _TRACEPARENT.fullmatch(traceparent) if len(traceparent) <= _LONGEST else None
    if found is None:
        return None
    version, *numbers, more = found.groups()
    trace, span, (flags,) = map(bytes.fromhex, numbers)
    if version == "ff" or (version == "00" and more.strip(" \t")) or not any(trace) or not any(span):
        return None
    return Above(trace, span, flags & (SAMPLED | RANDOM), _state(tracestate) if tracestate else "")


@lru_cache(maxsize=256)
def _state(said: str) -> str:
    return TraceState.from_header([said]).to_header() if len(said) <= _LONGEST else ""
