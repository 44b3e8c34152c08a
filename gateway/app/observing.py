"""Who is told what happens in this process, where the operator wants metrics."""

import time
from collections.abc import Mapping
from typing import Any

import httpx

from gateway.app.metrics.recorder import Recorder, ToolFigures
from gateway.operations.caller import Call
from gateway.operations.observer import Observer
from gateway.operations.table import Op
from gateway.upstream.dialects.dialect import Route
from gateway.upstream.exchange import Heard


class Observing:
    """Hands on what it is told to the metrics."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.observer: Observer = recorder

    def tool(self, surface: str, tool: str) -> "_Tool":
        return _Tool(ToolFigures(self._recorder, surface, tool))

    def begin(self, call: Call, op: Op, route: Route) -> "_Request":
        return _Request(self._recorder, op)

    def headers(self) -> Mapping[str, str]:
        return {}


class _Tool:
    """One tool."""

    def __init__(self, figures: ToolFigures) -> None:
        self._figures = figures

    def begin(self) -> Any:
        self._figures.begin()

    def end(self, begun: Any, call: Call, outcome: str, seconds: float) -> None:
        self._figures.end(outcome, seconds)


class _Request:
    """One request to the platform."""

    __slots__ = ("_has_begun", "_op", "_recorder", "_started")

    def __init__(self, recorder: Recorder, op: Op) -> None:
        self._recorder, self._op, self._started, self._has_begun = recorder, op, time.perf_counter(), False

    def answer(self, outcome: str, heard: Heard | None) -> None:
        seconds = time.perf_counter() - self._started
        sent, received = (0, 0) if heard is None else (_size_of(heard.response.request), len(heard.body))
        self._recorder.requested(self._op, outcome, seconds, sent, received)

    def receive(self, size: int) -> None:
        self._recorder.received(size)

    def say(self, pieces: int) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._recorder.begun(time.perf_counter() - self._started)
        self._recorder.pieces(pieces)

    def close(self) -> None:
        pass


def _size_of(request: httpx.Request) -> int:
    try:
        return len(request.content)
    except httpx.RequestNotRead:
        # A file is sent in parts.
        return int(request.headers.get("content-length", 0))
