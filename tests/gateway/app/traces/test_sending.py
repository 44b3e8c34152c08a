"""Spans are sent in batches. A collector that is slow or gone costs spans, which are counted and told."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.trace import SpanKind
from structlog.testing import capture_logs

from gateway.app import otel
from gateway.app.traces import encoding, sending
from gateway.app.traces.encoding import Parts
from gateway.app.traces.sending import Batching, Exporter, Sender
from tests.collector import Collector, collecting
from tests.gateway.test_processes import wait_until
from tests.served import listening

LONG = 3600.0
AT_ONCE = Batching(queue=1000, batch=1, seconds=LONG)


def span(number: int) -> Parts:
    rest = encoding.rest_of(str(number), SpanKind.INTERNAL, {})
    return encoding.beginning_of(bytes(16), bytes(8), b"", 1, 2), rest


@contextmanager
def sending_to_it(batching: Batching) -> Iterator[tuple[Sender, Counter[str]]]:
    counted: Counter[str] = Counter()
    sender = Sender(Exporter(), batching, lambda outcome, count: counted.update({outcome: count}))
    try:
        yield sender, counted
    finally:
        sender.close()


def names(collector: Collector) -> list[str]:
    return [one.name for one in collector.spans]


def test_all_are_sent_in_batches_and_the_rest_at_the_end() -> None:
    with collecting() as collector, sending_to_it(Batching(1000, 3, LONG)) as (sender, counted):
        for number in range(8):
            sender.add(span(number))
        wait_until(lambda: len(collector.spans) >= 6, "two batches are full")
        sender.close()
        assert names(collector) == [str(number) for number in range(8)]
        assert collector.batches == [3, 3, 2]
    assert counted == {"sent": 8}


def test_what_waits_is_sent_after_some_time_though_no_batch_is_full() -> None:
    with collecting() as collector, sending_to_it(Batching(1000, 1000, 0.01)) as (sender, _):
        for number in range(2):
            sender.add(span(number))
            wait_until(lambda number=number: len(collector.spans) > number, "it was not sent")


class Holding:
    """A collector that answers when it is told to."""

    def __init__(self) -> None:
        self.came, self.go_on, self.collector = threading.Event(), threading.Event(), Collector()

    async def __call__(self, scope: object, receive: object, send: object) -> None:
        if isinstance(scope, dict) and scope["type"] == "http":
            self.came.set()
            await asyncio.to_thread(self.go_on.wait)
        await self.collector(scope, receive, send)  # type: ignore[arg-type]


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> Iterator[Holding]:
    made = Holding()
    with listening(made) as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        yield made
        made.go_on.set()


def test_a_full_queue_drops_what_comes_counts_it_and_tells_once(holding: Holding) -> None:
    with capture_logs() as lines, sending_to_it(Batching(queue=5, batch=1, seconds=LONG)) as (sender, counted):
        sender.add(span(0))
        # Taken from the queue, and not answered.
        assert holding.came.wait(60)
        for number in range(1, 100):
            sender.add(span(number))
        assert len(sender._queue) == 5
        holding.go_on.set()
        sender.close()
    assert counted == {"sent": 6, "dropped": 94}
    assert names(holding.collector) == [str(number) for number in range(6)]
    assert [line["event"] for line in lines] == ["traces.dropped"]
    assert "brains_spans_total" in lines[0]["reason"]


def test_the_end_does_not_wait_for_a_collector_that_does_not_answer(
    holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_CLOSE_SECONDS", 0.05)
    with sending_to_it(AT_ONCE) as (sender, counted):
        sender.add(span(0))
        assert holding.came.wait(60)
        sender.close()
        assert sender._thread.is_alive()
        holding.go_on.set()
        sender._thread.join(60)
        assert not sender._thread.is_alive()
    # There are no metrics any more.
    assert counted == {}


class Failing:
    """A collector that refuses spans until it is told to take them."""

    def __init__(self, status: int) -> None:
        self.status, self.fails, self.collector = status, True, Collector()

    async def __call__(self, scope: object, receive: object, send: object) -> None:
        if isinstance(scope, dict) and scope["type"] == "http" and self.fails:
            await send({"type": "http.response.start", "status": self.status, "headers": []})  # type: ignore[operator]
            await send({"type": "http.response.body", "body": b"a secret of the collector's"})  # type: ignore[operator]
        else:
            await self.collector(scope, receive, send)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_collector_that_refuses_is_told_once_and_again_when_it_takes_spans(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Failing(status)
    with listening(failing) as url, capture_logs() as lines:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        with sending_to_it(AT_ONCE) as (sender, counted):
            for number in range(3):
                sender.add(span(number))
                wait_until(lambda number=number: counted["failed"] > number, "it was not refused")
            failing.fails = False
            for number in range(2):
                sender.add(span(number))
                wait_until(lambda number=number: counted["sent"] > number, "it was not sent")
    assert counted == {"failed": 3, "sent": 2}
    assert [line["event"] for line in lines] == ["traces.failing", "traces.sent_again"]
    assert lines[0]["reason"] == f"The collector did not take spans: it answered {status}."


def test_a_collector_that_is_not_there_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody listens there. Without time for it, no further attempt is made.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.01")
    with capture_logs() as lines, sending_to_it(AT_ONCE) as (sender, counted):
        for number in range(3):
            sender.add(span(number))
            wait_until(lambda number=number: counted["failed"] > number, "nothing failed")
    assert counted == {"failed": 3}
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("traces.failing", "warning")


def test_the_variables_of_batches_hold() -> None:
    assert Batching.of_environment() == Batching(2048, 512, 5.0)


def test_the_variables_of_batches_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
    # No batch is larger than the queue.
    assert Batching.of_environment() == Batching(100, 100, 0.2)
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    assert Batching.of_environment() == Batching(100, 10, 0.2)


@pytest.mark.parametrize("said", ["many", "0", "-5", "1.5", "٣", "9" * 5000])
def test_a_number_that_makes_no_sense_is_told_and_counts_as_not_set(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", said)
    with capture_logs() as lines:
        assert otel.whole_number("OTEL_BSP_MAX_QUEUE_SIZE", 2048) == 2048
    (line,) = lines
    told = f"OTEL_BSP_MAX_QUEUE_SIZE is {said[:40]!r}, which is no whole number above 0. 2048 is used instead."
    assert (line["event"], line["reason"]) == ("otel.doubtful", told)


def test_the_variables_of_the_exporter_hold() -> None:
    secret = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=secret%20key", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
    with (
        collecting(**secret, OTEL_RESOURCE_ATTRIBUTES="service.name=ours,region=x") as collector,
        sending_to_it(AT_ONCE) as (sender, _),
    ):
        sender.add(span(1))
        sender.close()
    assert names(collector) == ["1"]
    (headers,) = collector.headers
    assert (headers[b"x-key"], headers[b"content-encoding"]) == (b"secret key", b"gzip")
    assert collector.resources[0].items() >= {"service.name": "ours", "region": "x"}.items()
