"""Our own spans, if the standard variables name a collector and nobody has set up OpenTelemetry for this process.

They are made this way because a span of OpenTelemetry's library takes longer than everything else that we observe.
"""

import random
import time
from collections.abc import Mapping
from contextvars import ContextVar, Token
from functools import lru_cache
from typing import Final

from opentelemetry.trace import SpanKind

from gateway.app.traces import attributes, encoding
from gateway.app.traces.context import RANDOM, SAMPLED, above_of_client, traceparent
from gateway.app.traces.sampling import Sampler
from gateway.app.traces.sending import Sender
from gateway.operations.caller import Call
from gateway.operations.chains import Chain, Step, serve
from gateway.operations.context import StepContext
from gateway.operations.table import Args, JsonObject, Op
from gateway.upstream.dialects.dialect import Route

# The kinds of spans that are remembered in their encoded form. Brains and tools make many.
_KINDS_KEPT: Final = 4096
# Ids tell spans apart and are not secret. Secure random numbers would take a system call for each.
_BITS: Final = random.Random().getrandbits


class OpenSpan:
    """A span that has begun. If its trace is not sampled, it only tells the platform so."""

    __slots__ = ("began", "flags", "id", "is_recording", "parent", "state", "token", "trace")

    token: "Token[OpenSpan | None]"

    def __init__(self, trace: bytes, parent: bytes, flags: int, state: str) -> None:
        self.trace, self.parent, self.flags, self.state = trace, parent, flags, state
        self.id = _new_id(8)
        self.is_recording = bool(flags & SAMPLED)
        self.began = time.time_ns() if self.is_recording else 0


_CURRENT: Final[ContextVar[OpenSpan | None]] = ContextVar("span", default=None)


class RecordedTraces:
    """Makes spans. Below a call that is not sampled none is made, but the platform is told that it is not."""

    def __init__(self, sampler: Sampler, sender: Sender) -> None:
        self._sampler, self._sender = sampler, sender

    def close(self) -> None:
        self._sender.close()

    def begin_call(self, tool: str) -> OpenSpan:
        above = above_of_client()
        if above is None:
            above_id, state, flags = b"", "", RANDOM
            trace = _new_id(16)
        else:
            trace, above_id, flags, state = above
        is_sampled = self._sampler.samples(int.from_bytes(trace, "big"), above)
        span = OpenSpan(trace, above_id, flags & RANDOM | is_sampled * SAMPLED, state)
        span.token = _CURRENT.set(span)
        return span

    def end_call(self, span: OpenSpan, call: Call, surface: str, tool: str, outcome: str) -> bytes | None:
        """Ends the span of a call. Returns its trace, if that is collected."""
        _CURRENT.reset(span.token)
        if not span.is_recording:
            return None
        rest = _rest_of_call(surface, tool, outcome, call.brain, call.route, bool(span.parent))
        self.end(span, rest + encoding.request_id(call.request_id))
        return span.trace

    async def serve(self, chain: Chain, args: Args, context: StepContext) -> tuple[JsonObject, Step]:
        """Runs a chain, with a span that names the step that served it."""
        if (span := self._begin()) is None:
            return await serve(chain, args, context)
        served_by, outcome = None, "ok"
        try:
            answer, step = await serve(chain, args, context)
            served_by = step.via, step.how
            return answer, step
        except BaseException as error:
            outcome = attributes.outcome_of(error)
            raise
        finally:
            _CURRENT.reset(span.token)
            self.end(span, _rest_of_chain(attributes.name_of(chain), served_by, outcome))

    def begin_request(self, op: Op, route: Route) -> "RecordedRequest | None":
        """None if no span is to be made."""
        return None if (span := self._begin()) is None else RecordedRequest(self, span, op, route)

    def headers(self) -> Mapping[str, str]:
        """The headers that tell the platform to which trace a request belongs."""
        if (span := _CURRENT.get()) is None:
            return {}
        told = {"traceparent": traceparent(span.trace, span.id, span.flags)}
        return {**told, "tracestate": span.state} if span.state else told

    def _begin(self) -> OpenSpan | None:
        """A span below the current one; None below none, or if that is not recorded or has ended."""
        above = _CURRENT.get()
        if above is None or not above.is_recording:
            return None
        span = OpenSpan(above.trace, above.id, above.flags, above.state)
        span.token = _CURRENT.set(span)
        return span

    def end(self, span: OpenSpan, rest: bytes) -> None:
        """`rest` is what the span says, encoded."""
        span.is_recording = False
        if span.state:
            rest += encoding.trace_state(span.state)
        self._sender.add(encoding.span_of(span.trace, span.id, span.parent, span.began, time.time_ns(), rest))


class RecordedRequest:
    """The span of a request. Until its answer comes, it is the current one."""

    __slots__ = ("_op", "_outcome", "_pieces", "_route", "_span", "_status", "_traces")

    def __init__(self, traces: RecordedTraces, span: OpenSpan, op: Op, route: Route) -> None:
        self._traces, self._span, self._op, self._route = traces, span, op, route.name
        self._outcome, self._pieces = "", b""
        self._status: int | None = None

    @property
    def trace(self) -> bytes | None:
        return self._span.trace

    def answer(self, outcome: str, status: int | None) -> None:
        _CURRENT.reset(self._span.token)
        self._outcome, self._status = outcome, status

    def say(self) -> None:
        self._pieces = encoding.event(attributes.FIRST_PIECE, time.time_ns())

    def end(self) -> None:
        rest = _rest_of_request(self._op, self._route, self._outcome, self._status)
        self._traces.end(self._span, rest + self._pieces)


@lru_cache(_KINDS_KEPT)
def _rest_of_call(
    surface: str, tool: str, outcome: str, brain: str | None, route: str | None, is_below_client: bool
) -> bytes:
    said = attributes.of_call(surface, tool, outcome, brain, route)
    return encoding.rest_of(f"tools/call {tool}", SpanKind.SERVER, said, is_below_client=is_below_client)


@lru_cache(_KINDS_KEPT)
def _rest_of_chain(name: str, served_by: attributes.ServedBy | None, outcome: str) -> bytes:
    return encoding.rest_of(name, SpanKind.INTERNAL, attributes.of_chain(served_by, outcome))


@lru_cache(_KINDS_KEPT)
def _rest_of_request(op: Op, route: str, outcome: str, status: int | None) -> bytes:
    return encoding.rest_of(route, SpanKind.CLIENT, attributes.of_request(op, route, outcome, status))


def _new_id(size: int) -> bytes:
    """A random number of so many bytes; not zero, which means that there is none."""
    return (_BITS(8 * size) or 1).to_bytes(size, "big")
