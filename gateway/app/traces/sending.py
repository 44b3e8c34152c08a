"""Sends spans to a collector, in batches, from a thread of its own. A collector that is slow costs spans, not calls."""

import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from gateway import __version__
from gateway.app import otel
from gateway.app.traces.encoding import Envelope, Parts
from gateway.app.traces.plain_http import PlainTransport, is_plain

log = structlog.get_logger()

_CLOSE_SECONDS: Final = 3.0
Count = Callable[[str, int], None]


class Batching(NamedTuple):
    """How spans are collected into batches, by the standard variables and with their defaults."""

    queue: int
    batch: int
    seconds: float

    @classmethod
    def of_environment(cls) -> "Batching":
        queue = otel.whole_number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)
        batch = otel.whole_number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)
        return cls(queue, min(batch, queue), otel.whole_number("OTEL_BSP_SCHEDULE_DELAY", 5000) / 1000)


class Exporter(OTLPSpanExporter):
    """OpenTelemetry's own, with all its variables, for spans that are encoded already."""

    def __init__(self) -> None:
        super().__init__()
        if is_plain(self._endpoint):
            # Not public. This is why the version of the package has an upper bound.
            self._client._transport = PlainTransport(self._endpoint)

    def send(self, body: bytes) -> str | None:
        """Returns why the collector did not take them; None if it did."""
        result = self._client.export(body)
        if result.success:
            return None
        if result.status_code is not None:
            return f"it answered {result.status_code}"
        return "no answer came" if result.error is None else type(result.error).__name__

    def close(self) -> None:
        super().shutdown()  # type: ignore[no-untyped-call]


class Sender:
    """A queue of spans, and the thread that empties it."""

    def __init__(self, exporter: Exporter, batching: Batching, count: Count) -> None:
        """`count` is told how many spans were sent, dropped (the queue was full) or failed (nobody took them)."""
        self._exporter, self._batching, self._count = exporter, batching, count
        self._envelope = Envelope(otel.resource(), InstrumentationScope("brains-gateway", __version__))
        self._queue: list[Parts] = []
        self._dropped = self._dropped_told = 0
        self._awake, self._counting = threading.Event(), threading.Lock()
        self._is_closing = self._is_closed = self._is_failing = False
        # It logs every failure and every further attempt. We tell of the first.
        logging.getLogger(OTLPSpanExporter.__module__).setLevel(logging.CRITICAL)
        self._thread = threading.Thread(target=self._send_on, name="traces", daemon=True)
        self._thread.start()

    def add(self, span: Parts) -> None:
        waiting = len(self._queue)
        if waiting >= self._batching.queue:
            self._dropped += 1
            return
        self._queue.append(span)
        if waiting + 1 == self._batching.batch:
            self._awake.set()

    def close(self) -> None:
        """Send what is left, as far as the collector takes it soon."""
        self._is_closing = True
        self._awake.set()
        self._thread.join(_CLOSE_SECONDS)
        with self._counting:
            self._is_closed = True
        self._exporter.close()

    def _send_on(self) -> None:
        full = self._batching.batch
        while not self._is_closing:
            if not self._awake.wait(self._batching.seconds):
                self._send_batch()
            self._awake.clear()
            while len(self._queue) >= full and not self._is_closing:
                self._send_batch()
        while self._queue and not self._is_closed:
            self._send_batch()

    def _send_batch(self) -> None:
        """Send what waits, but no more than is sent at once."""
        if batch := self._queue[: self._batching.batch]:
            # Meanwhile calls only add spans, at the end.
            del self._queue[: len(batch)]
            self._note(self._exporter.send(self._envelope.around(batch)), len(batch))
        self._note_dropped()

    def _note(self, trouble: str | None, spans: int) -> None:
        self._tell("sent" if trouble is None else "failed", spans)
        if trouble is not None and not self._is_failing:
            log.warning("traces.failing", reason=f"The collector did not take spans: {trouble}.")
        elif trouble is None and self._is_failing:
            log.info("traces.sent_again")
        self._is_failing = trouble is not None

    def _note_dropped(self) -> None:
        if (dropped := self._dropped - self._dropped_told) == 0:
            return
        if not self._dropped_told:
            reason = "Spans came faster than the collector took them. The metric brains_spans_total counts them."
            log.warning("traces.dropped", reason=reason)
        self._dropped_told += dropped
        self._tell("dropped", dropped)

    def _tell(self, outcome: str, spans: int) -> None:
        with self._counting:
            # Afterwards there are no metrics any more.
            if not self._is_closed:
                self._count(outcome, spans)
