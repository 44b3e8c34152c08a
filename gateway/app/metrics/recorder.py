"""Counts what happens in this process, in its file of figures."""

from collections.abc import Awaitable
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.app.metrics import families as of
from gateway.app.metrics.figures import Figures, Layout
from gateway.operations.caller import Call
from gateway.operations.observer import Observer
from gateway.operations.table import Op


class Recorder(Observer):
    """Everything that is counted, by name. Rare events are looked up; frequent ones know their place."""

    def __init__(self, directory: Path) -> None:
        self.figures = Figures(directory, Layout(of.FAMILIES))
        self._values = self.figures.values
        place = self.figures.layout.place
        self._sent, self._received = place(of.SENT_THERE), place(of.RECEIVED_THERE)
        self._first_piece, self._pieces = place(of.FIRST_PIECE), place(of.PIECES)
        self._answers: dict[Op, tuple[int, dict[str, int]]] = {
            op: (place(of.REQUEST_SECONDS, op.value), {said: place(of.REQUESTS, op.value, said) for said in of.ANSWERS})
            for op in Op
            if op is not Op.FETCH_PAGE
        }

    def tool(self, surface: str, tool: str) -> "ToolFigures":
        return ToolFigures(self, surface, tool)

    def close(self) -> None:
        self.figures.close()

    def count(self, name: str, *labels: str) -> None:
        self._values[self.figures.layout.place(name, *labels)] += 1

    def measure(self, value: float, name: str, *labels: str) -> None:
        self._values[self.figures.layout.place(name, *labels)] = value

    def unknown_tool(self, surface: str) -> None:
        self.count(of.CALLS, surface, of.UNKNOWN, of.UNKNOWN_OUTCOME)

    def repeated(self, kind: str, *, is_allowed: bool) -> None:
        self.count(of.RETRIES if is_allowed else of.NO_BUDGET, kind)

    def left_alone(self, kind: str, is_so: bool) -> None:
        self.measure(float(is_so), of.LEFT_ALONE, kind)

    def detected(self, dialect: str | None) -> None:
        self.count(of.DETECTIONS, dialect or of.NO_DIALECT)

    def lacks(self, routes: int) -> None:
        self.measure(routes, of.ABSENT)

    def limit_reached(self, limit: str) -> None:
        self.count(of.REACHED, limit)

    def works_on(self, running: int, waiting: int) -> None:
        self.measure(running, of.JOBS, "running")
        self.measure(waiting, of.JOBS, "waiting")

    def job_ended(self, outcome: str) -> None:
        self.count(of.JOBS_ENDED, outcome)

    def spans(self, outcome: str, count: int) -> None:
        self._values[self.figures.layout.place(of.SPANS, outcome)] += count

    def requested(self, op: Op, outcome: str, seconds: float, sent: int, received: int, trace: bytes | None) -> None:
        """A request to the platform has ended; of an answer that streams, its beginning."""
        values, (histogram, answers) = self._values, self._answers[op]
        values[answers[outcome]] += 1
        values[self._sent] += sent
        values[self._received] += received
        self.figures.observe(histogram, of.SECONDS, seconds, trace)

    def received(self, size: int) -> None:
        """More of an answer that streams came from the platform."""
        self._values[self._received] += size

    def begun(self, seconds: float, trace: bytes | None) -> None:
        """The first piece of an answer came."""
        self.figures.observe(self._first_piece, of.SECONDS, seconds, trace)

    def pieces(self, count: int) -> None:
        self._values[self._pieces] += count


class ToolFigures:
    """Those of one tool."""

    def __init__(self, recorder: Recorder, surface: str, tool: str) -> None:
        self._figures, self._values = recorder.figures, recorder.figures.values
        place = recorder.figures.layout.place
        self._in_flight, self._seconds = place(of.IN_FLIGHT, surface), place(of.CALL_SECONDS, surface, tool)
        self._outcomes = {outcome: place(of.CALLS, surface, tool, outcome) for outcome in of.OUTCOMES}

    def begin(self) -> None:
        self._values[self._in_flight] += 1

    def end(self, trace: bytes | None, _call: Call, outcome: str, seconds: float) -> None:
        """`trace` is that of the call, if it is collected."""
        values = self._values
        values[self._in_flight] -= 1
        values[self._outcomes[outcome]] += 1
        self._figures.observe(self._seconds, of.SECONDS, seconds, trace)


class Counted:
    """An application whose requests and answers are counted, by status and in bytes."""

    def __init__(self, app: ASGIApp, recorder: Recorder) -> None:
        self._app, self._values = app, recorder.figures.values
        place = recorder.figures.layout.place
        self._statuses = {int(status): place(of.HTTP_REQUESTS, status) for status in of.STATUSES}
        self._other = place(of.HTTP_REQUESTS, of.OTHER)
        self._in, self._out = place(of.RECEIVED), place(of.SENT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        values = self._values

        async def count_received() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                values[self._in] += len(message.get("body", b""))
            return message

        # Returns the server's coroutine instead of being one itself, which saves time.
        def count_sent(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                values[self._statuses.get(message["status"], self._other)] += 1
            else:
                values[self._out] += len(message.get("body", b""))
            return send(message)

        await self._app(scope, count_received, count_sent)
