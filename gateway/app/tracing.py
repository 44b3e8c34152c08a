"""Traces: a span for each call, for each chain that it runs, and for each request to the platform.

They are on if the standard variables of OpenTelemetry name a collector, or if somebody has set up OpenTelemetry before
us. No span has content in it, or the message of an exception.
"""

import hashlib
import threading
from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import Any, Final, NamedTuple

import structlog
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    ProxyTracerProvider,
    Span,
    SpanKind,
    StatusCode,
    Tracer,
    get_current_span,
    get_tracer_provider,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway import __version__
from gateway.app import otel
from gateway.mcp.request import INCOMING, TRACE_CONTEXT
from gateway.operations.caller import Call
from gateway.operations.chains import CHAINS, Chain, Step, serve
from gateway.operations.context import StepContext
from gateway.operations.errors import Absent, GatewayError
from gateway.operations.table import Args, JsonObject, Op
from gateway.upstream.dialects.dialect import Route

log = structlog.get_logger()

_W3C: Final = TraceContextTextMapPropagator()
_NAMES: Final = {id(chain): name for name, chain in CHAINS.items()}
_HASH_LENGTH: Final = 16
_CLOSE_SECONDS: Final = 3.0

# The header that tells the platform that a call is not sampled.
_UNSAMPLED: Final[ContextVar[Mapping[str, str] | None]] = ContextVar("unsampled", default=None)


class Unsampled(NamedTuple):
    """A call without a span."""

    token: Token[Mapping[str, str] | None]


class Begun(NamedTuple):
    """A span that is the current one, until it ends."""

    span: Span
    token: Token[Context]

    @property
    def trace(self) -> bytes | None:
        """The id of the trace that it belongs to, if that is collected."""
        known = self.span.get_span_context()
        return known.trace_id.to_bytes(16) if known.trace_flags.sampled else None


class Tracing:
    """Makes spans. Below a call that is not sampled none is made, but the platform is told that it is not."""

    def __init__(self, provider: Any, *, is_ours: bool) -> None:
        self._provider, self._is_ours = provider, is_ours
        self._tracer: Tracer = provider.get_tracer("brains-gateway", __version__)
        self._ids: Any = provider.id_generator if is_ours else None

    def close(self) -> None:
        """Send the remaining spans, as far as the collector takes them soon."""
        if self._is_ours:
            closing = threading.Thread(target=self._provider.shutdown, daemon=True)
            closing.start()
            closing.join(_CLOSE_SECONDS)

    def begin_call(self, name: str) -> Begun | Unsampled:
        told = _told_by_client()
        parent = None if told is None else _W3C.extract(told)
        if self._ids is not None and (dropped := self._dropped(name, parent)) is not None:
            return Unsampled(_UNSAMPLED.set(dropped))
        return self._begin(name, SpanKind.SERVER, parent)

    def _dropped(self, name: str, parent: Context | None) -> Mapping[str, str] | None:
        """The header for the platform if a call is not to be sampled; None if it is.

        The sampler is asked before a span is made, because most spans would be made in vain, and the library takes
        longer for one than all our other observation takes.
        """
        above = INVALID_SPAN_CONTEXT if parent is None else get_current_span(parent).get_span_context()
        trace_id = above.trace_id if above.is_valid else self._ids.choose()
        asked = self._provider.sampler.should_sample(parent, trace_id, name, SpanKind.SERVER)
        if asked.decision.is_sampled():
            return None
        told = {"traceparent": f"00-{trace_id:032x}-{self._ids.generate_span_id():016x}-00"}
        # Written anew from the parsed value, never as it came, because it is put into a header.
        return told if not above.trace_state else {**told, "tracestate": above.trace_state.to_header()}

    def end_call(self, begun: Begun | Unsampled, call: Call, surface: str, tool: str, outcome: str) -> bytes | None:
        """Ends the span of a call. Returns its trace, if that is collected."""
        if isinstance(begun, Unsampled):
            _UNSAMPLED.reset(begun.token)
            return None
        span = begun.span
        detach(begun.token)
        if not span.is_recording():
            return None
        span.set_attributes(
            {
                "mcp.method.name": "tools/call",
                "gen_ai.tool.name": tool,
                "brains.surface": surface,
                "brains.outcome": outcome,
                "brains.request_id": call.request_id,
                **({} if call.brain is None else {"brains.brain_hash": _hash(call.brain)}),
                **({} if call.route is None else {"brains.route": call.route}),
            }
        )
        _end(span, None if outcome in {"ok", "cancelled"} else outcome)
        return begun.trace

    async def serve(self, chain: Chain, args: Args, context: StepContext) -> tuple[JsonObject, Step]:
        """Runs a chain, with a span that names the step that served it."""
        if _UNSAMPLED.get() is not None or not get_current_span().is_recording():
            return await serve(chain, args, context)
        begun = self._begin(f"chain {_NAMES.get(id(chain), 'unnamed')}", SpanKind.INTERNAL)
        failure: str | None = "cancelled"
        try:
            answer, step = await serve(chain, args, context)
            begun.span.set_attributes({"brains.step": step.via.value, "brains.how": step.how})
            failure = None
            return answer, step
        except (GatewayError, Absent) as error:
            failure = error.code if isinstance(error, GatewayError) else "not_implemented"
            raise
        finally:
            detach(begun.token)
            begun.span.set_attribute("brains.outcome", failure or "ok")
            _end(begun.span, failure)

    def begin_request(self, op: Op, route: Route) -> Begun | None:
        """None if no span is to be made."""
        if _UNSAMPLED.get() is not None or not get_current_span().is_recording():
            return None
        begun = self._begin(route.name, SpanKind.CLIENT)
        begun.span.set_attributes(
            {"http.request.method": route.method, "url.template": route.path, "brains.operation": op.value}
        )
        return begun

    def answer_request(self, begun: Begun, outcome: str, status: int | None) -> None:
        """An answer came or has begun, or none came."""
        detach(begun.token)
        begun.span.set_attribute("brains.outcome", outcome)
        if status is not None:
            begun.span.set_attribute("http.response.status_code", status)

    def end_request(self, begun: Begun, outcome: str) -> None:
        _end(begun.span, None if outcome in {"2xx", "3xx"} else outcome)

    def headers(self) -> Mapping[str, str]:
        """The headers that tell the platform to which trace a request belongs."""
        if (told := _UNSAMPLED.get()) is not None:
            return told
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return carrier

    def _begin(self, name: str, kind: SpanKind, parent: Context | None = None) -> Begun:
        span = self._tracer.start_span(name, parent, kind, record_exception=False, set_status_on_exception=False)
        return Begun(span, attach(set_span_in_context(span, parent)))


def tracing_of_environment() -> Tracing | None:
    """The tracing that the standard variables ask for; None if they ask for none, or if it is impossible (logged)."""
    provider = get_tracer_provider()
    if not isinstance(provider, ProxyTracerProvider):
        return Tracing(provider, is_ours=False)
    if not otel.is_asked_for("traces"):
        return None
    if (trouble := otel.protocol_trouble("traces")) is not None:
        log.warning("traces.off", reason=trouble)
        return None
    try:
        return Tracing(_provider(), is_ours=True)
    except ImportError:
        log.warning("traces.off", reason=otel.NOT_INSTALLED.format(signal="traces"))
        return None


def _provider() -> Any:
    # Imported when used: few have it.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        """Gives a trace the id that the sampler was asked about."""

        chosen = 0

        def choose(self) -> int:
            self.chosen = super().generate_trace_id()
            return self.chosen

        def generate_trace_id(self) -> int:
            return self.chosen or super().generate_trace_id()

    # Uses the sampler that the environment asks for.
    provider = TracerProvider(resource=otel.resource(), shutdown_on_exit=False, id_generator=Ids())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _told_by_client() -> Mapping[str, str] | None:
    """The trace that a client says its call belongs to: of the call, or else of the request that it came in."""
    incoming = INCOMING.get(None)
    if incoming is None:
        return None
    for said in (incoming.meta, {} if incoming.http is None else incoming.http.headers):
        if isinstance(said.get("traceparent"), str):
            return {name: value for name in TRACE_CONTEXT if isinstance(value := said.get(name), str)}
    return None


def _end(span: Span, failure: str | None) -> None:
    if failure is not None:
        span.set_attribute("error.type", failure)
        span.set_status(StatusCode.ERROR)
    span.end()


def _hash(brain: str) -> str:
    return hashlib.sha256(brain.encode()).hexdigest()[:_HASH_LENGTH]
