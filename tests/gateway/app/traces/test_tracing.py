"""Spans of real calls, sent to a real collector: on by the standard variables alone, the same on both paths."""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import httpx
import pytest
from opentelemetry import trace
from structlog.testing import capture_logs

from gateway.app.observing import observing_of
from tests.collector import Span, collecting
from tests.daemons.fake import FakeDaemon, Y
from tests.gateway.app.metrics.scrape import OPEN, Scrape
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
