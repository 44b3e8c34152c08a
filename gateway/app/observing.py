"""Puts observers together, if the operator wants metrics or traces."""

import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import httpx

from gateway.operations.caller import Call
from gateway.operations.chains import Serve, serve
from gateway.operations.observer import Observer, ToolObserver
from gateway.operations.table import Op
from gateway.upstream.dialects.dialect import Route
from gateway.upstream.exchange import Heard

if TYPE_CHECKING:
    from gateway.app.metrics.recorder import Recorder, ToolFigures
    from gateway.app.traces.attributes import RequestSpan
    from gateway.app.traces.provided import ProvidedTraces
    from gateway.app.traces.recorder import RecordedTraces

    Traces = RecordedTraces | ProvidedTraces

_NONE: Final[Mapping[str, str]] = {}


class Observing:
    """Passes events on to the metrics and to the traces, as far as there are any."""

    def __init__(self, recorder: "Recorder | None", traces: "Traces | None") -> None:
        self._recorder, self._traces = recorder, traces
        self.observer: Observer = recorder or Observer()
        self.serve: Serve = serve if traces is None else traces.serve

    def close(self) -> None:
        if self._traces is not None:
            self._traces.close()

    def tool(self, surface: str, tool: str) -> ToolObserver:
        figures = None if self._recorder is None else self._recorder.tool(surface, tool)
        if self._traces is not None:
            return _TracedTool(surface, tool, figures, self._traces)
        assert figures is not None
        return figures

    def begin(self, call: Call, op: Op, route: Route) -> "_Request":
        if self._traces is None:
            return _Request(self._recorder, None, op, _NONE)
        span = self._traces.begin_request(op, route)
        return _Request(self._recorder, span, op, self._traces.headers() if span is None else span.headers())

    def headers(self) -> Mapping[str, str]:
        return _NONE if self._traces is None else self._traces.headers()


def observing_of(recorder: "Recorder | None" = None) -> Observing | None:
    """The observers: metrics, traces if the environment asks for them, or none."""
    traces = None
    if "opentelemetry.sdk.trace" in sys.modules or any(name.startswith("OTEL_") for name in os.environ):
        # Imported when used: over stdio a client waits for whatever is imported.
        from gateway.app.traces.choosing import traces_of_environment

        traces = traces_of_environment((recorder or Observer()).spans)
    return None if recorder is None and traces is None else Observing(recorder, traces)


class _TracedTool:
    """One tool whose calls are traced, and perhaps counted."""

    def __init__(self, surface: str, tool: str, figures: "ToolFigures | None", traces: "Traces") -> None:
        self._surface, self._tool, self._figures, self._traces = surface, tool, figures, traces

    def begin(self) -> Any:
        if self._figures is not None:
            self._figures.begin()
        return self._traces.begin_call(self._tool)

    def end(self, begun: Any, call: Call, outcome: str, seconds: float) -> None:
        trace = self._traces.end_call(begun, call, self._surface, self._tool, outcome)
        if self._figures is not None:
            self._figures.end(trace, call, outcome, seconds)


class _Request:
    """One request to the platform."""

    __slots__ = ("_has_begun", "_op", "_recorder", "_span", "_started", "_trace", "headers")

    def __init__(
        self, recorder: "Recorder | None", span: "RequestSpan | None", op: Op, headers: Mapping[str, str]
    ) -> None:
        self._recorder, self._span, self._op, self.headers = recorder, span, op, headers
        self._has_begun = False
        self._trace = None if span is None else span.trace
        self._started = time.perf_counter()

    def answer(self, outcome: str, heard: Heard | None) -> None:
        if self._recorder is not None:
            seconds = time.perf_counter() - self._started
            sent, received = (0, 0) if heard is None else (_size_of(heard.response.request), len(heard.body))
            self._recorder.requested(self._op, outcome, seconds, sent, received, self._trace)
        if self._span is not None:
            self._span.answer(outcome, None if heard is None else heard.response.status_code)
            if heard is None or not heard.is_open:
                self.close()

    def receive(self, size: int) -> None:
        if self._recorder is not None:
            self._recorder.received(size)

    def say(self, pieces: int) -> None:
        if self._recorder is not None:
            if not self._has_begun:
                self._recorder.begun(time.perf_counter() - self._started, self._trace)
            self._recorder.pieces(pieces)
        if self._span is not None and not self._has_begun:
            self._span.say()
        self._has_begun = True

    def close(self) -> None:
        if self._span is not None:
            self._span.end()
            self._span = None


def _size_of(request: httpx.Request) -> int:
    try:
        return len(request.content)
    except httpx.RequestNotRead:
        # A file is sent in parts.
        return int(request.headers.get("content-length", 0))
