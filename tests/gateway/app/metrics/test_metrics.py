"""What `/metrics` says of real calls, and to whom."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.app.gateway import Gateway
from gateway.app.metrics import families as of
from gateway.config.settings import load
from gateway.surfaces.catalog import SURFACES
from tests.daemons.fake import FakeDaemon, Y
from tests.daemons.real import free_port
from tests.gateway.app.metrics.scrape import OPEN, Scrape
from tests.gateway.http.auth.tokens import kept
from tests.served import OPERATOR, Served, listening, raw_call, serving

HTTP = httpx.Client(trust_env=False, timeout=30)


def called(served: Served, tool: str, token: str | None = None, surface: str = "memory", **arguments: Any) -> int:
    call = raw_call("modern", tool, arguments, "token")
    if token is not None:
        call["headers"] |= {"authorization": f"Bearer {token}"}
    return HTTP.post(f"{served.url}/{surface}/mcp", **call).status_code


def scraped(served: Served, accept: str = "text/plain") -> Scrape:
    return Scrape(served.url, accept, OPERATOR)


def test_calls_are_counted_by_surface_tool_and_outcome(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served:
        for _ in range(3):
            called(served, "memory_search", query="x")
        called(served, "memory_search", query="x", brain="nobody-has-this")
        called(served, "memory_search")
        called(served, "jettson_memory_list", surface="kv")
        seen = scraped(served)
    for outcome, times in (("ok", 3), ("no_brain", 1), ("validation_error", 1)):
        of_outcome = {"surface": "memory", "tool": "memory_search", "outcome": outcome}
        assert seen.sum("brains_calls_total", **of_outcome) == times, outcome
    assert seen.sum("brains_calls_total", surface="kv", tool="jettson_memory_list") == 1
    assert seen.sum("brains_call_seconds_count", tool="memory_search") == 5
    assert seen.sum("brains_calls_in_flight") == 0
    assert seen.sum("brains_upstream_requests_total", operation="search", outcome="2xx") == 3
    assert seen.sum("brains_upstream_request_seconds_count", operation="search") >= 3


def test_a_name_that_a_caller_makes_up_becomes_no_label(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served:
        for n in range(4):
            called(served, f"made_up_{n}", query="x")
        called(served, "memory_search", query="x", brain="made-up-brain")
        HTTP.get(f"{served.url}/made-up-path")
        seen = scraped(served)
    assert seen.sum("brains_calls_total", tool="unknown") == 4
    assert "made" not in seen.text


def test_every_label_has_one_of_the_values_that_were_foreseen(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served:
        called(served, "memory_search", query="x")
        seen = scraped(served)
    foreseen = {
        f"{family.name}{'_total' if family.kind == 'counter' else ''}": {
            tuple(zip(family.labels, row, strict=True)) for row in family.rows
        }
        for family in of.FAMILIES
        if family.kind != "histogram"
    }
    unforeseen = [
        sample
        for sample in seen.samples
        if sample.name in foreseen and not any(dict(row) == sample.labels for row in foreseen[sample.name])
    ]
    assert unforeseen == []
    assert {"surface", "tool", "outcome", "operation", "kind", "dialect", "limit", "status", "state"} >= {
        label for family in of.FAMILIES for label in family.labels
    }


def test_requests_are_counted_by_status_and_bytes_both_ways(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served:
        before = scraped(served)
        call = raw_call("modern", "memory_search", {"query": "x" * 1000})
        answer = HTTP.post(f"{served.url}/mcp", **call)
        HTTP.get(f"{served.url}/nothing-here")
        after = scraped(served)
    received, sent = (
        after.sum(f"brains_http_{way}_bytes_total") - before.sum(f"brains_http_{way}_bytes_total")
        for way in ("received", "sent")
    )
    assert received == len(answer.request.content)
    assert sent > len(answer.content)
    assert after.sum("brains_http_requests_total", status="404") == 1
    assert after.sum("brains_http_requests_total", status="200") == 2
    assert after.sum("brains_upstream_received_bytes_total") > 0


def test_the_embedded_brain_is_measured_when_somebody_looks(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served:
        assert "brains_embedded_file_bytes" not in scraped(served).families
        called(served, "memory_remember", content="The boat has a blue sail.")
        seen = scraped(served)
    for what in ("file_bytes", "notes", "chunks"):
        assert seen.sum(f"brains_embedded_{what}") > 0, what
    assert {"brains_embedded_wal_bytes", "brains_embedded_vectors"} <= seen.families.keys()


def test_pieces_of_an_answer_and_its_first_one_are_counted(tmp_path: Path) -> None:
    with listening(FakeDaemon(Y).app()) as url, serving(tmp_path, None, upstream_url=url) as served:
        called(served, "memory_create_brain", name="b")
        called(served, "memory_remember", content="The boat has a blue sail.", brain="b")
        called(served, "memory_ask", query="What colour is the sail?", brain="b")
        seen = scraped(served)
    assert seen.sum("brains_answer_pieces_total") > 0
    assert seen.sum("brains_answer_first_piece_seconds_count") == 1
    # Which dialect a platform speaks was found out, and what it lacks.
    assert seen.sum("brains_detections_total", dialect="daemon") == 1
    assert seen.sum("brains_upstream_routes_absent") > 0


def test_a_platform_that_is_gone_is_told_by_retries_and_the_breaker(tmp_path: Path) -> None:
    gone = {"upstream_url": f"http://127.0.0.1:{free_port()}", "dialect": "platform"}
    with serving(tmp_path, None, **gone) as served:
        for _ in range(24):
            called(served, "memory_list_brains")
        seen = scraped(served)
    assert seen.sum("brains_calls_total", outcome="upstream_unavailable") == 24
    assert seen.sum("brains_upstream_requests_total", outcome="unreachable") >= 20
    assert seen.sum("brains_upstream_retries_total", kind="read") >= 3
    assert seen.sum("brains_upstream_retries_denied_total", kind="read") > 0
    assert seen.sum("brains_upstream_left_alone", kind="read") == 1


def test_a_limit_that_is_reached_is_told_by_its_name(tmp_path: Path) -> None:
    token = kept(tmp_path / "tokens.json")
    limited = {"auth": "tokens", "tokens_file": tmp_path / "tokens.json", "calls_per_second": 0.05}
    with serving(tmp_path / "data", None, **limited) as served:
        statuses = [called(served, "memory_list_brains", token) for _ in range(5)]
        seen = scraped(served)
    assert statuses.count(429) == 4
    assert seen.sum("brains_limits_reached_total", limit="calls") == 4
    assert seen.sum("brains_http_requests_total", status="429") == 4


def test_work_after_an_answer_is_counted(tmp_path: Path) -> None:
    with listening(FakeDaemon(Y).app()) as url, serving(tmp_path, None, upstream_url=url) as served:
        called(served, "memory_create_brain", name="b")
        messages = [{"role": "user", "content": "I live in Lyon."}]
        called(served, "memory_extract", messages=messages, session_id="s1", brain="b")
        for _ in range(400):
            if (seen := scraped(served)).sum("brains_background_jobs_ended_total"):
                break
    assert seen.sum("brains_background_jobs_ended_total") == 1
    assert seen.sum("brains_background_jobs") == 0


def test_every_metric_is_there_from_the_start(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served:
        called(served, "memory_search", query="x")
        seen = scraped(served)
    named = {line.split()[2] for line in seen.text.splitlines() if line.startswith("# TYPE")}
    counters = {f"{family.name}_total" for family in of.FAMILIES if family.kind == "counter"}
    others = {family.name for family in of.FAMILIES if family.kind != "counter"}
    assert named == counters | others | of.AT_SCRAPE.keys()
    assert {sample.name for sample in seen.samples} <= of.sample_names()


def test_metrics_come_in_two_formats(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served:
        called(served, "memory_search", query="x")
        plain, modern = scraped(served), scraped(served, OPEN)
    assert plain.media_type.startswith("text/plain; version=0.0.4")
    assert modern.media_type.startswith("application/openmetrics-text; version=1.0.0")
    assert modern.text.endswith("# EOF\n")
    assert plain.sum("brains_calls_total") == modern.sum("brains_calls_total") == 1


def test_metrics_are_for_the_operator_alone(tmp_path: Path) -> None:
    with serving(tmp_path, None, token="fedcba9876543210") as served:
        for headers in ({}, {"authorization": "Bearer fedcba9876543210"}, {"authorization": "0123456789abcdef"}):
            answer = HTTP.get(f"{served.url}/metrics", headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
            assert "BRAINS_METRICS_TOKEN" in answer.json()["message"]
        assert scraped(served).sum("brains_processes") == 1


def test_without_a_setting_for_it_there_are_no_metrics(tmp_path: Path) -> None:
    with serving(tmp_path, None, metrics_token=None) as served:
        assert HTTP.get(f"{served.url}/metrics").status_code == 404


@pytest.mark.parametrize("surface", SURFACES)
def test_every_tool_that_is_served_can_be_counted(tmp_path: Path, surface: str) -> None:
    gateway = Gateway(load(data_dir=tmp_path, extra_tools="on"), roots=(tmp_path,))
    served = {body.spec.name for body in gateway.surface(surface).bodies()}
    assert served == set(of.tool_names()[surface])
