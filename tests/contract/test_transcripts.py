"""The recorded streams are what their names say."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource

from tests.contract.platform.specification import Specification

TRANSCRIPTS = Path(__file__).parents[2] / "contract" / "transcripts"
NAMES = {"plain", "citations", "error-midway", "cut-off", "malformed"}


def frames(name: str) -> list[tuple[str, str]]:
    """Name and data of every whole event, as a client reads them."""
    body = (TRANSCRIPTS / f"{name}.sse").read_bytes()
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    return [(event.event, event.data) for event in EventSource(response).iter_sse()]


def decoded(name: str) -> list[dict[str, Any]]:
    read = [(kind, json.loads(data)) for kind, data in frames(name)]
    assert all(frame["type"] == kind for kind, frame in read)
    return [frame for _, frame in read]


def spoken(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "answer_delta")


def test_there_is_one_of_each_kind_and_the_readme_explains_them() -> None:
    assert {file.stem for file in TRANSCRIPTS.iterdir()} == NAMES
    readme = (TRANSCRIPTS.parent / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}.sse`" in readme for name in NAMES)


@pytest.mark.parametrize("name", ["plain", "citations"])
def test_a_whole_stream_is_retrieve_answer_done(name: str, specification: Specification) -> None:
    events = decoded(name)
    for event in events:
        specification.validate_event(event)
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1], kinds.count("retrieve"), kinds.count("done")) == ("retrieve", "done", 1, 1)
    assert events[-1]["answer"] == spoken(events)


def test_citations_point_at_the_answer_and_quote_the_chunk() -> None:
    events = decoded("citations")
    previews = {chunk["chunk_id"]: chunk["preview"] for chunk in events[0]["chunks"]}
    citations = [event for event in events if event["type"] == "citation"]
    answer = events[-1]["answer"]
    assert len(citations) == 2
    for citation in citations:
        assert citation["quote"] in previews[citation["chunk_id"]]
        assert " ".join(citation["quote"].split()) == answer[citation["answer_start"] : citation["answer_end"]]


def test_an_error_midway_is_the_last_event(specification: Specification) -> None:
    events = decoded("error-midway")
    specification.validate_event(events[-1])
    assert [event["type"] for event in events] == ["retrieve", "answer_delta", "answer_delta", "error"]


def test_a_stream_cut_off_has_no_end() -> None:
    assert not (TRANSCRIPTS / "cut-off.sse").read_bytes().endswith(b"\n")
    assert [kind for kind, _ in frames("cut-off")][:3] == ["retrieve", "answer_delta", "answer_delta"]
    assert "done" not in dict(frames("cut-off"))


def test_a_malformed_stream_has_one_event_that_is_no_json() -> None:
    def is_json(data: str) -> bool:
        try:
            json.loads(data)
        except ValueError:
            return False
        return True

    assert [is_json(data) for _, data in frames("malformed")] == [True, True, False, True, True]
