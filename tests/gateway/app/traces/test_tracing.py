"""Spans of real calls, sent to a real collector: on by the standard variables alone, the same on both paths."""

import asyncio
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext
from structlog.testing import capture_logs

from gateway.app.observing import observing_of
from gateway.app.traces import choosing
from tests.collector import Span, collecting
from tests.daemons.fake import FakeDaemon, Y
from tests.gateway.app.metrics.scrape import OPEN, Scrape
from tests.gateway.test_processes import process, wait_until
from tests.served import OPERATOR, Served, listening, messages_of, raw_call, serving, stdio_client

HTTP = httpx.Client(trust_env=False, timeout=30)
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
SERVER, CLIENT, INTERNAL = 2, 3, 1


def called(
    served: Served, tool: str, *, era: Any = "modern", meta: Any = None, headers: Any = None, **arguments: Any
) -> Any:
    call = raw_call(era, tool, arguments)
    call["headers"] |= headers or {}
    call["json"]["params"]["_meta"] |= meta or {}
    (said,) = [message for message in messages_of(HTTP.post(f"{served.url}/mcp", **call)) if "result" in message]
    return said["result"]


def tree(spans: list[Span]) -> list[tuple[int, str]]:
    """Each span with how deep it lies, as they would be drawn."""
    drawn: list[tuple[int, str]] = []

    def draw(parent: str, depth: int) -> None:
        for span in spans:
            if span.parent == parent:
                drawn.append((depth, span.name))
                draw(span.id, depth + 1)

    ids = {span.id for span in spans}
    for root in dict.fromkeys(span.parent for span in spans if span.parent not in ids):
        draw(root, 0)
    return drawn


@pytest.mark.parametrize("direct", ["on", "off"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_call_is_a_span_with_its_chain_and_the_requests_of_it(
    tmp_path: Path, direct: Literal["on", "off"], era: str
) -> None:
    with collecting() as collector, serving(tmp_path, None, direct=direct) as served:
        for query in ("x", "y"):
            called(served, "memory_search", era=era, query=query)
    first, second = sorted({span.trace for span in collector.spans}, key=[s.trace for s in collector.spans].index)
    of_second = [span for span in collector.spans if span.trace == second]
    assert tree(of_second) == [
        (0, "tools/call memory_search"),
        (1, "chain search"),
        (2, "GET /v1/brains/{brain}/search"),
    ]
    request, chain, call = (next(s for s in of_second if s.name.startswith(n)) for n in ("GET", "chain", "tools"))
    assert [span.kind for span in (call, chain, request)] == [SERVER, INTERNAL, CLIENT]
    about = call.attributes
    assert len(about.pop("brains.brain_hash")) == 16
    assert len(about.pop("brains.request_id")) >= 16
    assert about == {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "memory_search",
        "brains.surface": "memory",
        "brains.outcome": "ok",
        "brains.route": "GET /v1/brains/{brain}/search",
    }
    assert (chain.attributes["brains.step"], chain.attributes["brains.outcome"]) == ("search", "ok")
    assert request.attributes == {
        "http.request.method": "GET",
        "url.template": "/v1/brains/{brain}/search",
        "http.response.status_code": 200,
        "brains.operation": "search",
        "brains.outcome": "2xx",
    }
    assert first != second
    assert {resource["service.name"] for resource in collector.resources} == {"brains-gateway"}


@pytest.mark.parametrize("direct", ["on", "off"])
@pytest.mark.parametrize("where", ["meta", "headers"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_trace_that_the_client_names_goes_on_to_the_platform(
    tmp_path: Path, direct: str, where: str, era: str
) -> None:
    heard = Heard()
    context = {"traceparent": SAMPLED, "tracestate": "vendor=1"}
    with collecting() as collector, listening(heard) as url:
        settings = {"upstream_url": url, "dialect": "platform", "direct": direct}
        with serving(tmp_path, None, **settings) as served:
            called(served, "memory_list_brains", era=era, **{where: context})
    assert {span.trace for span in collector.spans} == {TRACE}
    (call,) = [span for span in collector.spans if span.kind == SERVER]
    assert call.parent == PARENT
    (request,) = [span for span in collector.spans if span.kind == CLIENT]
    assert heard.headers[-1][b"traceparent"].decode() == f"00-{TRACE}-{request.id}-01"
    assert heard.headers[-1][b"tracestate"] == b"vendor=1"


def test_a_trace_that_is_not_sampled_costs_no_span_and_the_platform_is_told_so(tmp_path: Path) -> None:
    heard = Heard()
    with (
        collecting() as collector,
        listening(heard) as url,
        serving(tmp_path, None, upstream_url=url, dialect="platform") as served,
    ):
        called(served, "memory_list_brains", meta={"traceparent": UNSAMPLED})
    assert collector.spans == []
    version, trace_id, _, flags = heard.headers[-1][b"traceparent"].decode().split("-")
    assert (version, trace_id, flags) == ("00", TRACE, "00")


@pytest.mark.parametrize("traceparent", [SAMPLED, UNSAMPLED])
@pytest.mark.parametrize("direct", ["on", "off"])
def test_what_a_client_says_of_its_trace_gets_no_header_in(tmp_path: Path, traceparent: str, direct: str) -> None:
    heard = Heard()
    states = ["a=1\r\nx-internal-key: stolen", "a=é", "x" * 5000, 7, {"a": 1}, "good=1"]
    with (
        collecting(),
        listening(heard) as url,
        serving(tmp_path, None, upstream_url=url, dialect="platform", direct=direct) as served,
    ):
        for state in states:
            called(served, "memory_list_brains", meta={"traceparent": traceparent, "tracestate": state})
        called(served, "memory_list_brains", meta={"traceparent": "00-1\r\nx-internal-key: stolen-01"})
    assert len(heard.headers) == len(states) + 1
    assert not any(b"x-internal-key" in headers for headers in heard.headers)
    assert [headers.get(b"tracestate") for headers in heard.headers] == [None] * 5 + [b"good=1", None]


def test_the_sampler_is_the_one_that_the_environment_asks_for(tmp_path: Path) -> None:
    never = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.0"}
    with collecting(**never) as collector, serving(tmp_path, None) as served:
        called(served, "memory_list_brains")
        called(served, "memory_list_brains", meta={"traceparent": SAMPLED})
    assert {span.trace for span in collector.spans} == {TRACE}


def test_what_failed_says_how_and_no_span_has_content(tmp_path: Path) -> None:
    with collecting() as collector, serving(tmp_path, None) as served:
        called(served, "memory_remember", content="A secret about Zanzibar.", title="Zanzibar")
        called(served, "memory_search", query="Zanzibar", brain="brain-of-zanzibar")
        called(served, "memory_search", brain=3)
    failed = [(s.name, s.attributes["error.type"]) for s in collector.spans if s.failed and s.kind == SERVER]
    assert failed == [("tools/call memory_search", "no_brain"), ("tools/call memory_search", "validation_error")]
    assert b"anzibar" not in collector.raw
    assert hashlib.sha256(b"brain-of-zanzibar").hexdigest()[:16].encode() in collector.raw


def test_an_answer_that_streams_is_one_request_to_its_end(tmp_path: Path) -> None:
    with (
        listening(FakeDaemon(Y).app()) as url,
        collecting() as collector,
        serving(tmp_path, None, upstream_url=url) as served,
    ):
        called(served, "memory_create_brain", name="b")
        called(served, "memory_remember", content="The boat has a blue sail.", brain="b")
        called(served, "memory_ask", query="What colour is the sail?", brain="b")
    (asked,) = [span for span in collector.spans if span.attributes.get("brains.operation") == "ask"]
    assert asked.events == ("first piece",)
    assert asked.attributes["http.response.status_code"] == 200


def test_metrics_name_traces_as_examples(tmp_path: Path) -> None:
    with collecting(), serving(tmp_path, None) as served:
        called(served, "memory_search", query="x", meta={"traceparent": SAMPLED})
        seen = Scrape(served.url, OPEN, OPERATOR)
    named = {sample.name: sample.exemplar.labels for sample in seen.samples if sample.exemplar}
    assert named["brains_call_seconds_bucket"] == {"trace_id": TRACE}
    assert named["brains_upstream_request_seconds_bucket"] == {"trace_id": TRACE}


async def test_over_stdio_calls_are_traced_too(tmp_path: Path) -> None:
    with collecting() as collector:
        named = {name: value for name, value in os.environ.items() if name.startswith("OTEL_")}
        async with stdio_client("modern", tmp_path, BRAINS_DATA_DIR=str(tmp_path / "data"), **named) as client:
            await client.call_tool("memory_list_brains", {})
    assert "tools/call memory_list_brains" in {span.name for span in collector.spans}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_SERVICE_NAME": "x"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_without_a_collector_nobody_observes(variables: dict[str, str]) -> None:
    with mock.patch.dict(os.environ, variables):
        assert observing_of() is None


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf alone"),
        ({}, "pip install 'brains-gateway[otel]'"),
    ],
)
def test_traces_that_cannot_be_sent_are_told_and_the_gateway_serves(variables: dict[str, str], said: str) -> None:
    missing = {} if variables else {"opentelemetry.exporter.otlp.proto.http.trace_exporter": None}
    named = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", **variables}
    with mock.patch.dict(os.environ, named), mock.patch.dict(sys.modules, missing), capture_logs() as lines:
        # Another test may have imported it.
        for ours in ("recorder", "sending"):
            sys.modules.pop(f"gateway.app.traces.{ours}", None)
        assert observing_of() is None
    (line,) = lines
    assert line["event"] == "traces.off"
    assert said in line["reason"]


def test_nothing_is_set_up_for_the_whole_process(tmp_path: Path) -> None:
    with collecting(), serving(tmp_path, None) as served:
        called(served, "memory_list_brains")
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


class Heard:
    """A platform with one brain, which keeps the headers that it was sent."""

    def __init__(self) -> None:
        self.headers: list[dict[bytes, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (told := (await receive())["type"]) != "lifespan.shutdown":
                await send({"type": f"{told}.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.headers.append(dict(scope["headers"]))
        body = b'{"items": [{"id": "b", "slug": "b", "name": "B", "visibility": "private"}]}'
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Meeting(Heard):
    """A platform that answers nobody before all have come."""

    def __init__(self, people: int) -> None:
        super().__init__()
        self._missing, self._all_are_here = people, asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self._missing -= 1
            if self._missing <= 0:
                self._all_are_here.set()
            await self._all_are_here.wait()
        await super().__call__(scope, receive, send)


@pytest.mark.parametrize("direct", ["on", "off"])
async def test_spans_of_calls_at_the_same_time_keep_their_own_parents(tmp_path: Path, direct: str) -> None:
    people = 20
    meeting = Meeting(people)
    contexts = {f"{n + 1:032x}": f"{n + 1:016x}" for n in range(people)}
    with collecting() as collector, listening(meeting) as url:
        settings = {"upstream_url": url, "dialect": "platform", "direct": direct}
        with serving(tmp_path, None, **settings) as served:
            async with httpx.AsyncClient(trust_env=False, timeout=60) as http:

                async def call(trace: str, parent: str) -> None:
                    body = raw_call("modern", "memory_list_brains", {})
                    body["json"]["params"]["_meta"]["traceparent"] = f"00-{trace}-{parent}-01"
                    assert (await http.post(f"{served.url}/mcp", **body)).status_code == 200

                await asyncio.gather(*(call(*context) for context in contexts.items()))
    assert len(collector.spans) == 3 * people
    assert len({span.id for span in collector.spans}) == 3 * people
    for trace_id, parent in contexts.items():
        of_call = {span.kind: span for span in collector.spans if span.trace == trace_id}
        assert of_call[SERVER].parent == parent
        assert of_call[INTERNAL].parent == of_call[SERVER].id
        assert of_call[CLIENT].parent == of_call[INTERNAL].id
    told = {headers[b"traceparent"].decode() for headers in meeting.headers}
    assert told == {f"00-{span.trace}-{span.id}-01" for span in collector.spans if span.kind == CLIENT}


def test_how_many_spans_were_sent_is_a_metric(tmp_path: Path) -> None:
    with collecting(OTEL_BSP_SCHEDULE_DELAY="10") as collector, serving(tmp_path, None) as served:
        called(served, "memory_list_brains")
        wait_until(lambda: "brains_spans_total" in Scrape(served.url, headers=OPERATOR).text, "no span was counted")
        wait_until(lambda: len(collector.spans) >= 3, "not all spans came")
        sent = Scrape(served.url, headers=OPERATOR)
        wait_until(lambda: sent.sum("brains_spans_total") == len(collector.spans), "not all that came are counted")
        assert sent.sum("brains_spans_total", outcome="failed") == 0


@pytest.mark.slow
def test_the_spans_of_all_workers_are_there_when_they_have_ended(tmp_path: Path) -> None:
    with collecting(OTEL_BSP_SCHEDULE_DELAY="600000") as collector:
        with process(tmp_path, "--workers", "2", BRAINS_DIRECT="on") as served:
            for _ in range(20):
                # Each call has a connection of its own, so that both workers get some.
                call = raw_call("modern", "memory_list_brains", {})
                assert httpx.post(served.url, **call, trust_env=False).status_code == 200
            assert collector.spans == []
        calls = [span.name for span in collector.spans if span.kind == SERVER]
    assert calls == ["tools/call memory_list_brains"] * 20


def id_of(span: SpanContext | None) -> str:
    return "" if span is None else f"{span.span_id:016x}"


def test_with_a_provider_of_the_operators_spans_go_there(tmp_path: Path) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    heard = Heard()
    with (
        mock.patch.object(choosing, "get_tracer_provider", return_value=provider),
        collecting() as collector,
        listening(heard) as url,
        serving(tmp_path, None, upstream_url=url, dialect="platform") as served,
    ):
        called(served, "memory_list_brains", meta={"traceparent": SAMPLED, "tracestate": "vendor=1"})
        called(served, "memory_list_brains", brain=3)
    assert collector.spans == []
    request, chain, call, refused = kept.get_finished_spans()
    assert [span.name for span in (call, chain, request)] == [
        "tools/call memory_list_brains",
        "chain list_brains",
        "GET /v1/brains",
    ]
    assert [id_of(span.parent) for span in (call, chain, request, refused)] == [
        PARENT,
        id_of(call.context),
        id_of(chain.context),
        "",
    ]
    assert call.attributes is not None
    assert call.attributes["brains.outcome"] == "ok"
    assert len(str(call.attributes["brains.request_id"])) >= 16
    assert request.attributes == {
        "http.request.method": "GET",
        "url.template": "/v1/brains",
        "http.response.status_code": 200,
        "brains.operation": "list_named_brains",
        "brains.outcome": "2xx",
    }
    assert refused.attributes is not None
    assert (refused.attributes["error.type"], refused.status.is_ok) == ("validation_error", False)
    made = f"00-{TRACE}-{id_of(request.context)}-01"
    assert (heard.headers[-1][b"traceparent"].decode(), heard.headers[-1][b"tracestate"]) == (made, b"vendor=1")


def test_without_traces_nothing_of_them_is_imported(tmp_path: Path) -> None:
    program = """
import sys
from gateway.app.http_app import http_app
from gateway.config.settings import load
http_app(load())
library = ("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.proto", "google", "requests")
print([name for name in sys.modules if name.startswith((*library, "gateway.app.traces"))])
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "BRAINS_DATA_DIR": str(tmp_path), "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert told.stdout.strip() == "[]"
