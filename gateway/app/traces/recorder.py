"""Our own spans, if the standard variables name a collector and nobody has set up OpenTelemetry for this process.

They are made this way because a span of OpenTelemetry's library takes longer than everything else that we observe.
"""

import random
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from functools import lru_cache
from typing import Final

from opentelemetry.trace import SpanKind

from gateway.app.traces import attributes, encoding
from gateway.app.traces.context import RANDOM, SAMPLED, parse, told_by_client
from gateway.app.traces.encoding import Parts
from gateway.app.traces.sampling import Sampler
from gateway.operations.caller import Call
from gateway.operations.chains import Chain, Step, serve
from gateway.operations.context import StepContext
from gateway.operations.table import Args, JsonObject, Op
from gateway.upstream.dialects.dialect import Route

# The kinds of spans that are remembered in their encoded form. Brains and tools make many.
_KINDS_KEPT: Final = 4096
# The end of a header, for all flags that there are: to write a number takes longer than all the rest of it.
_FLAGS: Final = tuple(f"-{flags:02x}" for flags in range((SAMPLED | RANDOM) + 1))
# Ids tell spans apart and are not secret. Secure random numbers would take a system call for each. Zero is no id.
_BITS: Final = random.Random().getrandbits


class Span:
    """A span that has begun. If its trace is not sampled, it only tells the platform so."""

    __slots__ = ("began", "flags", "id", "is_recording", "parent", "state", "token", "trace")

    token: "Token[Span | None]"

    def __init__(self, trace: bytes, parent: bytes, flags: int, state: str) -> None:
        self.trace, self.parent, self.flags, self.state = trace, parent, flags, state
        self.id = _new_id(8)
        self.is_recording = bool(flags & SAMPLED)
        self.began = time.time_ns()

    def headers(self) -> Mapping[str, str]:
        told = {"traceparent": f"00-{self.trace.hex()}-{self.id.hex()}{_FLAGS[self.flags]}"}
        return {**told, "tracestate": self.state} if self.state else told


_CURRENT: Final[ContextVar[Span | None]] = ContextVar("span", default=None)


class RequestSpan(Span):
    """The span of one request to the platform."""

    __slots__ = ("_end", "_op", "_outcome", "_pieces", "_route", "_status")

    def __init__(self, above: Span, end: "Callable[[Span, bytes, bytes], None]", op: Op, route: Route) -> None:
        super().__init__(above.trace, above.id, above.flags, above.state)
        self._end, self._op, self._route = end, op, route.name
        self._outcome, self._pieces = "", b""
        self._status: int | None = None

    def answer(self, outcome: str, status: int | None) -> None:
        self._outcome, self._status = outcome, status

    def say(self) -> None:
        self._pieces = encoding.event(attributes.FIRST_PIECE, time.time_ns())

    def end(self) -> None:
        self._end(self, _rest_of_request(self._op, self._route, self._outcome, self._status), self._pieces)


class RecordedTraces:
    """Makes spans. Below a call that is not sampled none is made, but the platform is told that it is not."""

    def __init__(self, sampler: Sampler, add: Callable[[Parts], None], close: Callable[[], None]) -> None:
        """`add` takes spans that have ended, encoded."""
        self._sampler, self._add, self.close = sampler, add, close

    def begin_call(self, _tool: str) -> Span:
        told = told_by_client()
        above = None if told is None else parse(told["traceparent"], told.get("tracestate"))
        if above is None:
            trace, parent, flags, state = _new_id(16), b"", RANDOM, ""
        else:
            trace, parent, flags, state = above
        is_sampled = self._sampler.samples(trace, above)
        span = Span(trace, parent, flags | SAMPLED if is_sampled else flags & ~SAMPLED, state)
        span.token = _CURRENT.set(span)
        return span

    def end_call(self, span: Span, call: Call, surface: str, tool: str, outcome: str) -> bytes | None:
        """Ends the span of a call. Returns its trace, if that is collected."""
        _CURRENT.reset(span.token)
        if not span.is_recording:
            return None
        rest = _rest_of_call(surface, tool, outcome, call.brain, call.route, bool(span.parent))
        self._end(span, rest, encoding.request_id(call.request_id))
        return span.trace

    async def serve(self, chain: Chain, args: Args, context: StepContext) -> tuple[JsonObject, Step]:
        """Runs a chain, with a span that names the step that served it."""
        above = _CURRENT.get()
        if above is None or not above.is_recording:
            return await serve(chain, args, context)
        span = Span(above.trace, above.id, above.flags, above.state)
        span.token = _CURRENT.set(span)
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
            self._end(span, _rest_of_chain(attributes.name_of(chain), served_by, outcome))

    def begin_request(self, op: Op, route: Route) -> RequestSpan | None:
        """None if no span is to be made: below none, or below one that is not recorded, or has ended."""
        above = _CURRENT.get()
        return None if above is None or not above.is_recording else RequestSpan(above, self._end, op, route)

    def headers(self) -> Mapping[str, str]:
        """The headers that tell the platform to which trace a request belongs that has no span."""
        return {} if (span := _CURRENT.get()) is None else span.headers()

    def _end(self, span: Span, rest: bytes, more: bytes = b"") -> None:
        """`rest` is what many spans say, and `more` what this one alone says."""
        span.is_recording = False
        if span.state:
            more += encoding.trace_state(span.state)
        began = encoding.beginning_of(span.trace, span.id, span.parent, span.began, time.time_ns())
        self._add((began, rest, more))


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
    return (_BITS(8 * size) or 1).to_bytes(size, "big")
