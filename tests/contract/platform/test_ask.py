"""Ask: frames in order, deltas that are the answer, citations that point at it."""

import json
from collections.abc import Callable

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.platform import answer
from contract.platform.app import create_app
from contract.platform.search import Found, Hit
from contract.platform.store import Store
from tests.contract.platform.conftest import Json
from tests.contract.platform.serving import served
from tests.contract.platform.specification import Specification
from tests.tiers import by_tier

Write = Callable[[str, str | bytes], None]


def events(body: str) -> list[Json]:
    """The frames of a stream, each with its name checked against its type."""
    frames = []
    assert body.endswith("\n\n")
    for block in body[:-2].split("\n\n"):
        name, data = block.split("\n")
        frame = json.loads(data.removeprefix("data: "))
        assert name == f"event: {frame['type']}"
        frames.append(frame)
    return frames


def ask(client: httpx.Client, brain: str, query: str, **rest: object) -> list[Json]:
    response = client.post(f"{brain}/ask", json={"query": query, **rest})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    return events(response.text)


def check(frames: list[Json], texts: dict[str, str]) -> str:
    """The laws of a whole answer; `texts` holds the text of each retrieved chunk by its id."""
    kinds = [frame["type"] for frame in frames]
    assert kinds[0] == "retrieve"
    assert kinds[-1] == "done"
    assert set(kinds[1:-1]) <= {"answer_delta", "citation"}
    spoken = ""
    for frame in frames[1:-1]:
        if frame["type"] == "answer_delta":
            assert frame["delta"]
            spoken += frame["delta"]
            continue
        start, end = frame["answer_start"], frame["answer_end"]
        assert 0 <= start < end <= len(spoken)
        assert frame["quote"] in texts[frame["chunk_id"]]
        # Prose is told in one line; lists and code in the lines they have.
        assert spoken[start:end] in (frame["quote"], " ".join(frame["quote"].split()))
    assert frames[-1] == {"type": "done", "answer": spoken, "method": "extractive"}
    return spoken


def test_an_answer_is_made_of_the_sentences_that_cover_the_query(
    client: httpx.Client, brain: str, write: Write, specification: Specification
) -> None:
    write("run.md", "# Saturday\n\nIt rained. I finished the 10k route in under 55 minutes. The dog slept.\n")
    write("bike.md", "# Sunday\n\nThe bicycle has a flat tyre.\n")
    frames = ask(client, brain, "How fast was the 10k route, and what of the bicycle?")
    hits = client.get(f"{brain}/search", params={"q": "10k route bicycle"}).json()["hits"]
    for frame in frames:
        specification.validate_event(frame)
    spoken = check(frames, {hit["chunk_id"]: hit["content"] for hit in hits})
    assert spoken == "I finished the 10k route in under 55 minutes. The bicycle has a flat tyre."
    citations = [frame for frame in frames if frame["type"] == "citation"]
    assert [citation["quote"] for citation in citations] == [
        "I finished the 10k route in under 55 minutes.",
        "The bicycle has a flat tyre.",
    ]
    assert {citation["document_id"] for citation in citations} == {hit["document_id"] for hit in hits}


def test_retrieved_chunks_are_thin(client: httpx.Client, brain: str, write: Write) -> None:
    write("a.md", "tarpaulin " * 100)
    retrieved = ask(client, brain, "tarpaulin", top_k=1)[0]
    chunk = retrieved["chunks"][0]
    assert set(chunk) == {"chunk_id", "document_id", "score", "preview"}
    assert chunk["preview"] == ("tarpaulin " * 100)[:512]


def test_top_k_limits_what_is_retrieved(client: httpx.Client, brain: str, write: Write) -> None:
    for number in range(10):
        write(f"{number}.md", f"cobalt {number}\n")
    asked: list[dict[str, float]] = [{}, {"top_k": 3}, {"top_k": 3.0}]
    assert [len(ask(client, brain, "cobalt", **rest)[0]["chunks"]) for rest in asked] == [8, 3, 3]


def test_nothing_found_is_said_plainly_and_cites_nothing(client: httpx.Client, brain: str) -> None:
    frames = ask(client, brain, "What is the meaning of xylophones?")
    assert frames[0] == {
        "type": "retrieve",
        "chunks": [],
        "paths": [],
        "titles": [],
        "updated_at": [],
        "live": True,
    }
    assert check(frames, {}) == "This brain holds nothing on that."
    assert not [frame for frame in frames if frame["type"] == "citation"]


def test_a_match_in_the_title_alone_is_answered_by_the_text(client: httpx.Client, brain: str, write: Write) -> None:
    write("a.md", "---\nname: Gearbox\n---\nOil it weekly. Wear gloves.\n")
    assert ask(client, brain, "gearbox")[-1]["answer"] == "Oil it weekly. Wear gloves."


def test_the_same_question_has_the_same_answer(client: httpx.Client, brain: str, write: Write) -> None:
    for number in range(5):
        write(f"{number}.md", f"The lantern number {number} is lit. So is another lantern.\n")
    assert ask(client, brain, "which lantern is lit") == ask(client, brain, "which lantern is lit")


def test_deltas_are_a_few_words_each(client: httpx.Client, brain: str, write: Write) -> None:
    write("a.md", "The caravan crossed the wide desert in seven long days without any water at all.\n")
    deltas = [frame["delta"] for frame in ask(client, brain, "caravan") if frame["type"] == "answer_delta"]
    assert len(deltas) > 3
    assert all(len(delta.split()) <= 3 for delta in deltas)


@pytest.mark.parametrize(
    "body", [{}, {"query": ""}, {"query": 7}, {"query": "x", "top_k": "8x"}, {"query": "x", "top_k": 1.5}]
)
def test_a_malformed_question_is_refused(client: httpx.Client, brain: str, body: Json) -> None:
    response = client.post(f"{brain}/ask", json=body)
    assert (response.status_code, response.json()["code"]) == (400, "validation_error")


async def test_each_frame_is_sent_by_itself(store: Store) -> None:
    """What a proxy may not merge: one ASGI message a frame."""
    brain = store.create_brain("Frames")
    store.documents.put(brain, "a.md", b"The ferry leaves at nine in the morning from the old pier.\n")
    sent: list[bytes] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b'{"query": "ferry"}', "more_body": False}

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.body" and message["body"]:
            body = message["body"]
            assert isinstance(body, bytes)
            sent.append(body)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/brains/frames/ask",
        "raw_path": b"/v1/brains/frames/ask",
        "query_string": b"",
        "headers": [],
    }
    await create_app(store, token=None)(scope, receive, send)  # type: ignore[arg-type]  # plain dicts are messages
    assert [events(piece.decode())[0]["type"] for piece in sent] == [
        "retrieve",
        *["answer_delta"] * (len(sent) - 3),
        "citation",
        "done",
    ]
    store.delete_brain(brain)


TRICKY = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *"aeiou .!?\n\r\t-#*>`|\"'",
                "keyword ",
                "\u2028",
                "\x85",
                "\u00a0",
                "e\u0301",
                "👩‍🔬",
                "日本。",
                "\ufeff",
                "keyword. ",
            ]
        ),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=120,
).map("".join)


@settings(max_examples=by_tier(30, 120, 1200), deadline=None)
@given(content=TRICKY)
def test_the_laws_hold_for_any_content(store: Store, content: str) -> None:
    brain = store.brain("main")
    store.documents.put(brain, "tricky.md", f"{content}\n\nkeyword {content}".encode())
    found = store.search(brain, "keyword 日本", 8)
    encoded = b"".join(answer.encoded(frame) for frame in answer.frames(found))
    assert encoded.isascii()
    spoken = check(events(encoded.decode()), {hit.chunk_id: hit.text for hit in found.hits})
    assert spoken


@given(piece=st.text(min_size=1))
def test_deltas_joined_are_the_piece(piece: str) -> None:
    assert "".join(answer.deltas(piece)) == piece


def test_an_endless_sentence_is_cut_at_a_word() -> None:
    text = "keyword " * 300
    hit = Hit(0.5, "a.md", "A", text, 0, "doc_1", "chk_1", {}, "2026-01-01T00:00:00+00:00")
    (quote,) = answer.choose(Found([hit], []))
    assert len(quote.text) <= 400
    assert quote.text.endswith("keyword")


def test_a_stream_can_be_read_frame_by_frame_over_the_wire(store: Store) -> None:
    brain = store.create_brain("Wire")
    store.documents.put(brain, "a.md", b"The ferry leaves at nine.\n")
    with (
        served(create_app(store, token=None)) as base,
        httpx.stream("POST", f"{base}/v1/brains/wire/ask", json={"query": "ferry"}) as response,
    ):
        names = [line for line in response.iter_lines() if line.startswith("event: ")]
    assert names[0] == "event: retrieve"
    assert names[-1] == "event: done"
    store.delete_brain(brain)
