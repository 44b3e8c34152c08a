"""Puts observers together, if the operator wants metrics or traces."""

import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx

from gateway.operations.caller import Call
from gateway.operations.chains import Serve, serve
from gateway.operations.observer import Observer
from gateway.operations.table import Op
from gateway.upstream.dialects.dialect import Route
from gateway.upstream.exchange import Heard

if TYPE_CHECKING:
    from gateway.app.metrics.recorder import Recorder, ToolFigures
    from gateway.app.tracing import Tracing


class Observing:
    """Passes events on to the metrics and to the traces, as far as there are any."""

    def __init__(self, recorder: "Recorder | None", tracing: "Tracing | None") -> None:
        self._recorder, self._tracing = recorder, tracing
        self.observer: Observer = recorder or Observer()
        self.serve: Serve = serve if tracing is None else tracing.serve

    def close(self) -> None:
        if self._tracing is not None:
            self._tracing.close()

    def tool(self, surface: str, tool: str) -> "_Tool":
        figures = None if self._recorder is None else self._recorder.tool(surface, tool)
        return _Tool(surface, tool, figures, self._tracing)

    def begin(self, call: Call, op: Op, route: Route) -> "_Request":
        return _Request(self._recorder, self._tracing, op, route)

    def headers(self) -> Mapping[str, str]:
        return {} if self._tracing is None else self._tracing.headers()


def observing_of(recorder: "Recorder | None" = None) -> Observing | None:
    """The observers: metrics, traces if the environment asks for them, or none."""
    tracing = None
    if "opentelemetry.sdk.trace" in sys.modules or any(name.startswith("OTEL_") for name in os.environ):
        # Imported when used: over stdio a client waits for whatever is imported.
        from gateway.app.tracing import tracing_of_environment

        tracing = tracing_of_environment()
    return None if recorder is None and tracing is None else Observing(recorder, tracing)


class _Tool:
    """One tool."""

    def __init__(self, surface: str, tool: str, figures: "ToolFigures | None", tracing: "Tracing | None") -> None:
        self._surface, self._tool, self._figures, self._tracing = surface, tool, figures, tracing
        self._span = f"tools/call {tool}"

    def begin(self) -> Any:
        if self._figures is not None:
            self._figures.begin()
        return None if self._tracing is None else self._tracing.begin_call(self._span)

    def end(self, begun: Any, call: Call, outcome: str, seconds: float) -> None:
        trace = None
        if self._tracing is not None:
            trace = self._tracing.end_call(begun, call, self._surface, self._tool, outcome)
        if self._figures is not None:
            self._figures.end(outcome, seconds, trace)


class _Request:
    """One request to the platform."""

    __slots__ = ("_begun", "_has_begun", "_op", "_outcome", "_recorder", "_started", "_trace", "_tracing")

    def __init__(self, recorder: "Recorder | None", tracing: "Tracing | None", op: Op, route: Route) -> None:
        self._recorder, self._tracing, self._op = recorder, tracing, op
        self._outcome, self._has_begun = "", False
        self._begun = None if tracing is None else tracing.begin_request(op, route)
        self._trace = None if self._begun is None else self._begun.trace
        self._started = time.perf_counter()

    def answer(self, outcome: str, heard: Heard | None) -> None:
        self._outcome = outcome
        if self._recorder is not None:
            seconds = time.perf_counter() - self._started
            sent, received = (0, 0) if heard is None else (_size_of(heard.response.request), len(heard.body))
            self._recorder.requested(self._op, outcome, seconds, sent, received, self._trace)
        if self._tracing is not None and self._begun is not None:
            self._tracing.answer_request(self._begun, outcome, None if heard is None else heard.response.status_code)
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
        if self._begun is not None and not self._has_begun:
            self._begun.span.add_event("first piece")
        self._has_begun = True

    def close(self) -> None:
        if self._tracing is not None and self._begun is not None:
            self._tracing.end_request(self._begun, self._outcome)
            self._begun = None


def _size_of(request: httpx.Request) -> int:
    try:
        return len(request.content)
    except httpx.RequestNotRead:
        # A file is sent in parts.
        return int(request.headers.get("content-length", 0))
