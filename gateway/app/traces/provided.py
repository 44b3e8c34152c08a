"""Spans by OpenTelemetry's own library, if somebody has set it up for this process before us."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway import __version__
from gateway.app.traces import attributes
from gateway.app.traces.context import told_by_client
from gateway.operations.caller import Call
from gateway.operations.chains import Chain, Step, serve
from gateway.operations.context import StepContext
from gateway.operations.table import Args, JsonObject, Op
from gateway.upstream.dialects.dialect import Route

_W3C: Final = TraceContextTextMapPropagator()


class Begun(NamedTuple):
    """A span that is the current one, until it ends."""

    span: Span
    token: Any


class ProvidedTraces:
    """Makes spans as the operator's provider wants them, and sends none: that is the provider's."""

    def __init__(self, provider: Any) -> None:
        self._tracer: Tracer = provider.get_tracer("brains-gateway", __version__)

    def close(self) -> None:
        """Nothing: whoever made the provider ends it."""

    def begin_call(self, tool: str) -> Begun:
        told = told_by_client()
        return self._begin(f"tools/call {tool}", SpanKind.SERVER, None if told is None else _W3C.extract(told))

    def end_call(self, begun: Begun, call: Call, surface: str, tool: str, outcome: str) -> bytes | None:
        """Ends the span of a call. Returns its trace, if that is collected."""
        detach(begun.token)
        if not begun.span.is_recording():
            return None
        begun.span.set_attribute(attributes.REQUEST_ID, call.request_id)
        _end(begun.span, attributes.of_call(surface, tool, outcome, call.brain, call.route))
        return _trace_of(begun.span)

    async def serve(self, chain: Chain, args: Args, context: StepContext) -> tuple[JsonObject, Step]:
        """Runs a chain, with a span that names the step that served it."""
        if not get_current_span().is_recording():
            return await serve(chain, args, context)
        begun = self._begin(attributes.name_of(chain), SpanKind.INTERNAL)
        served_by, outcome = None, "ok"
        try:
            answer, step = await serve(chain, args, context)
            served_by = step.via, step.how
            return answer, step
        except BaseException as error:
            outcome = attributes.outcome_of(error)
            raise
        finally:
            detach(begun.token)
            _end(begun.span, attributes.of_chain(served_by, outcome))

    def begin_request(self, op: Op, route: Route) -> "ProvidedRequest | None":
        """None if no span is to be made."""
        if not get_current_span().is_recording():
            return None
        return ProvidedRequest(self._begin(route.name, SpanKind.CLIENT), op, route)

    def headers(self) -> Mapping[str, str]:
        """The headers that tell the platform to which trace a request belongs."""
        return _headers_of_current()

    def _begin(self, name: str, kind: SpanKind, parent: Context | None = None) -> Begun:
        span = self._tracer.start_span(name, parent, kind, record_exception=False, set_status_on_exception=False)
        return Begun(span, attach(set_span_in_context(span, parent)))


class ProvidedRequest:
    """The span of a request. Until its answer comes, it is the current one."""

    def __init__(self, begun: Begun, op: Op, route: Route) -> None:
        self._begun, self._op, self._route = begun, op, route.name
        self.trace = _trace_of(begun.span)
        self._said: attributes.Attributes = {}

    def headers(self) -> Mapping[str, str]:
        return _headers_of_current()

    def answer(self, outcome: str, status: int | None) -> None:
        detach(self._begun.token)
        self._said = attributes.of_request(self._op, self._route, outcome, status)

    def say(self) -> None:
        self._begun.span.add_event(attributes.FIRST_PIECE)

    def end(self) -> None:
        _end(self._begun.span, self._said)


def _headers_of_current() -> Mapping[str, str]:
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return carrier


def _trace_of(span: Span) -> bytes | None:
    known = span.get_span_context()
    return known.trace_id.to_bytes(16, "big") if known.trace_flags.sampled else None


def _end(span: Span, said: attributes.Attributes) -> None:
    span.set_attributes(said)
    if attributes.FAILURE in said:
        span.set_status(StatusCode.ERROR)
    span.end()
