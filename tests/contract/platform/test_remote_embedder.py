"""A service for embeddings: what it is asked, and that none of its faults costs a write or a search."""

import json
import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from contract.platform.meaning import filling, remote
from contract.platform.meaning.calibration import PAIRS, measured
from contract.platform.meaning.embedder import EmbeddingFailed
from contract.platform.meaning.remote import RemoteEmbedder, read_vectors
from contract.platform.models import ModelEndpoint
from contract.platform.store import Store
from tests.contract.platform.test_filling import is_ready, wait_for
from tests.contract.platform.test_meaning import paths, vectors_in
from tests.embeddings import (
    DIMENSIONS,
    Answer,
    ConceptEmbedder,
    EmbeddingServer,
    answer_never,
    answer_truly,
    answer_vectors,
    answer_with,
    embedding_server,
    hang_up,
    listed,
    vector_of,
)

KEY = "sk-a-secret-key"
QUESTIONS, ANSWERS = ([pair[side] for pair in PAIRS] for side in (0, 1))


@pytest.fixture
def service() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _is_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine even a service on loopback takes its time.
    monkeypatch.setattr(remote, "QUERY_SECONDS", 10.0)
    monkeypatch.setattr(remote, "PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(remote, "LONGEST_PAUSE_SECONDS", 0.05)


def open_store(data_dir: Path, service: EmbeddingServer, model: str = "small") -> Store:
    return Store.open(data_dir, RemoteEmbedder(ModelEndpoint(service.url, model, KEY)))


def test_what_is_written_is_embedded_by_the_service_and_found(data_dir: Path, service: EmbeddingServer) -> None:
    store = open_store(data_dir, service)
    brain = store.brain("main")
    store.documents.put(brain, "a.md", b"an automobile")
    wait_for(lambda: store.embedding()["embedded"] == 1)
    found = store.search(brain, "car", 5)
    assert (paths(found), found.method) == (["a.md"], "hybrid")
    assert store.embedding() == {
        "name": "small",
        "source": "endpoint",
        "dimensions": DIMENSIONS,
        "state": "ready",
        "embedded": 1,
        "chunks": 1,
    }
    store.close()
    assert set(service.paths) == {"/v1/embeddings"}
    assert {headers["authorization"] for headers in service.headers} == {f"Bearer {KEY}"}
    assert service.requests[:2] == [QUESTIONS, ANSWERS]


def test_a_note_is_found_in_another_language_by_a_model_that_knows_both(
    data_dir: Path, service: EmbeddingServer
) -> None:
    store = open_store(data_dir, service)
    brain = store.brain("main")
    store.documents.put(brain, "a.md", b"Hund")
    store.documents.put(brain, "b.md", b"Schiff")
    wait_for(lambda: store.embedding()["embedded"] == 2)
    assert paths(store.search(brain, "dog", 5)) == ["a.md"]
    store.close()


def test_texts_go_in_batches(data_dir: Path, service: EmbeddingServer) -> None:
    without = Store.open(data_dir)
    brain = without.brain("main")
    for n in range(70):
        without.documents.put(brain, f"{n}.md", f"automobile {n}".encode())
    without.close()
    store = open_store(data_dir, service)
    wait_for(lambda: is_ready(store))
    store.close()
    sizes = [len(texts) for texts in service.requests if texts not in (QUESTIONS, ANSWERS)]
    assert sum(sizes) == 70
    assert max(sizes) == filling.AT_ONCE


def test_a_query_that_is_asked_again_is_not_sent_again(data_dir: Path, service: EmbeddingServer) -> None:
    store = open_store(data_dir, service)
    brain = store.brain("main")
    store.documents.put(brain, "a.md", b"an automobile")
    wait_for(lambda: store.embedding()["embedded"] == 1)
    for _ in range(5):
        assert store.search(brain, "car", 5).method == "hybrid"
    assert service.requests.count(["car"]) == 1
    store.close()


FAULTS: dict[str, Answer] = {
    "500": answer_with(500),
    "503": answer_with(503),
    "401": answer_with(401, b'{"error": "wrong key"}'),
    "404": answer_with(404),
    "429 for ever": answer_with(429, retry_after="0"),
    "a redirect": answer_with(307, b"", location="http://127.0.0.1:9/elsewhere"),
    "no JSON": answer_with(200, b"<html>oops</html>"),
    "JSON of another kind": answer_with(200, b'{"data": [1, 2, 3]}'),
    "a list": answer_with(200, b"[]"),
    "nested too deeply": answer_with(200, b"[" * 200_000),
    "too few": answer_vectors(lambda texts: [vector_of(text) for text in texts][1:]),
    "too many": answer_vectors(lambda texts: [vector_of(text) for text in [*texts, "more"]]),
    "of many lengths": answer_vectors(lambda texts: [[1.0] * (n + 1) for n, _ in enumerate(texts)]),
    "empty": answer_vectors(lambda texts: [[] for _ in texts]),
    "words": answer_vectors(lambda texts: [["a", "b"] for _ in texts]),
    "NaN": answer_vectors(lambda texts: [[float("nan")] * DIMENSIONS for _ in texts]),
    "too large for a number": answer_vectors(lambda texts: [[1e308] * DIMENSIONS for _ in texts]),
    "an enormous integer": answer_vectors(lambda texts: [[10**400] * DIMENSIONS for _ in texts]),
    "compressed": answer_with(200, b"not gzip", content_encoding="gzip"),
    "a hundred megabytes": answer_with(200, b" " * 100_000_000),
    "no answer": answer_never,
    "a dropped connection": hang_up,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.sampled(3)
def test_a_fault_of_the_service_costs_no_write_and_no_search(
    data_dir: Path,
    service: EmbeddingServer,
    fault: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = open_store(data_dir, service)
    brain = store.brain("main")
    store.documents.put(brain, "before.md", b"an automobile")
    wait_for(lambda: store.embedding()["embedded"] == 1)
    service.answer = FAULTS[fault]
    if fault == "no answer":
        monkeypatch.setattr(remote, "QUERY_SECONDS", 0.3)
        monkeypatch.setattr(remote, "EMBED_SECONDS", 0.3)
    store.documents.put(brain, "during.md", b"an automobile, and a vessel")
    found = store.search(brain, "automobile please", 5)
    assert (set(paths(found)), found.method) == ({"before.md", "during.md"}, "keyword")
    wait_for(lambda: store.embedding()["state"] == "failing")
    assert store.embedding()["error"]
    service.answer = answer_truly
    monkeypatch.setattr(remote, "QUERY_SECONDS", 10.0)
    monkeypatch.setattr(remote, "EMBED_SECONDS", 10.0)
    wait_for(lambda: is_ready(store))
    assert set(paths(store.search(brain, "car", 5))) == {"before.md", "during.md"}
    store.close()
    assert len(vectors_in(data_dir)) == 2
    assert KEY not in caplog.text
    assert "vessel" not in caplog.text


def test_a_service_that_is_not_there_costs_no_write_and_no_search(data_dir: Path) -> None:
    with embedding_server() as gone:
        pass
    store = open_store(data_dir, gone)
    brain = store.brain("main")
    store.documents.put(brain, "a.md", b"an automobile")
    assert store.search(brain, "automobile", 5).method == "keyword"
    wait_for(lambda: store.embedding()["state"] == "failing")
    store.close()


def test_a_dead_service_is_not_asked_for_every_search(
    data_dir: Path, service: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(remote, "LONGEST_PAUSE_SECONDS", 3600.0)
    service.answer = answer_with(500)
    store = open_store(data_dir, service)
    wait_for(lambda: store.embedding()["state"] == "failing")
    asked = len(service.requests)
    for n in range(20):
        assert store.search(store.brain("main"), f"question {n}", 5).method == "keyword"
    assert len(service.requests) == asked
    store.close()


def test_a_service_that_asks_for_patience_gets_it(service: EmbeddingServer) -> None:
    service.answer = answer_with(429, retry_after="120")
    embedder = RemoteEmbedder(ModelEndpoint(service.url, "small"))
    with pytest.raises(EmbeddingFailed, match="answered 429"):
        embedder.embed(["a"])
    assert 100 < embedder.pause() <= 120
    with pytest.raises(EmbeddingFailed, match="answered 429"):
        embedder.embed_query("a")
    assert len(service.requests) == 1
    embedder.close()


@pytest.mark.parametrize("said", ["nan", "inf", "-5", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", "1e99"])
def test_an_odd_retry_after_is_no_reason_to_wait_for_ever(service: EmbeddingServer, said: str) -> None:
    service.answer = answer_with(429, retry_after=said)
    embedder = RemoteEmbedder(ModelEndpoint(service.url, "small"))
    with pytest.raises(EmbeddingFailed):
        embedder.embed(["a"])
    assert embedder.pause() <= remote.LONGEST_RETRY_AFTER
    embedder.close()


def test_texts_that_are_too_many_or_too_long_are_sent_in_smaller_parts(
    data_dir: Path, service: EmbeddingServer
) -> None:
    def strict(request: object, texts: list[str]) -> None:
        taken = texts in (QUESTIONS, ANSWERS) or (len(texts) <= 4 and max(map(len, texts)) <= 1000)
        (answer_truly if taken else answer_with(413))(request, texts)  # type: ignore[arg-type]

    without = Store.open(data_dir)
    brain = without.brain("main")
    for n in range(20):
        without.documents.put(brain, f"{n}.md", b"automobile")
    without.documents.put(brain, "long.md", b"vessel " * 240)
    without.close()
    service.answer = strict
    store = open_store(data_dir, service)
    wait_for(lambda: is_ready(store))
    assert len(vectors_in(data_dir)) == 21
    assert "long.md" in paths(store.search(brain, "ship", 5))
    store.close()


def test_a_text_that_is_always_refused_does_not_hold_up_the_others(data_dir: Path, service: EmbeddingServer) -> None:
    def picky(request: object, texts: list[str]) -> None:
        refused = any("forbidden" in text for text in texts)
        (answer_with(400) if refused else answer_truly)(request, texts)  # type: ignore[arg-type]

    service.answer = picky
    store = open_store(data_dir, service)
    brain = store.brain("main")
    for n in range(20):
        store.documents.put(brain, f"{n}.md", b"automobile")
    store.documents.put(brain, "no.md", b"forbidden words")
    wait_for(lambda: store.embedding()["embedded"] == 20)
    assert store.search(brain, "car", 5).method == "hybrid"
    assert paths(store.search(brain, "forbidden words?", 1)) == ["no.md"]
    # Nothing more is to come, and what is missing is told.
    wait_for(lambda: is_ready(store))
    assert (store.embedding()["refused"], store.embedding()["chunks"]) == (1, 21)
    store.close()


def test_a_service_that_refuses_all_texts_for_a_while_misses_none(data_dir: Path, service: EmbeddingServer) -> None:
    store = open_store(data_dir, service)
    brain = store.brain("main")
    store.documents.put(brain, "a.md", b"an automobile")
    wait_for(lambda: store.embedding()["embedded"] == 1)
    service.answer = answer_with(400)
    assert store.search(brain, "car?", 5).method == "keyword"
    assert (store.embedding()["state"], store.embedding()["error"]) == ("failing", "answered 400")
    service.requests.clear()
    store.documents.put(brain, "b.md", b"a hound")
    wait_for(lambda: [remote.PLAIN] in service.requests)
    service.answer = answer_truly
    wait_for(lambda: is_ready(store))
    assert (store.embedding()["embedded"], "refused" in store.embedding()) == (2, False)
    store.close()


def test_a_service_that_has_never_taken_a_text_is_left_alone(
    service: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PAUSE_SECONDS", 30.0)
    monkeypatch.setattr(remote, "LONGEST_PAUSE_SECONDS", 30.0)
    service.answer = answer_with(400)
    embedder = RemoteEmbedder(ModelEndpoint(service.url, "small", KEY))
    with pytest.raises(EmbeddingFailed, match="answered 400"):
        embedder.embed(["a text"])
    assert embedder.pause() > 0
    embedder.close()


def test_what_a_service_has_embedded_is_told_even_while_it_is_down(data_dir: Path, service: EmbeddingServer) -> None:
    store = open_store(data_dir, service)
    store.documents.put(store.brain("main"), "a.md", b"an automobile")
    wait_for(lambda: store.embedding()["embedded"] == 1)
    store.close()
    service.answer = answer_with(500)
    store = open_store(data_dir, service)
    wait_for(lambda: store.embedding()["state"] == "failing")
    assert (store.embedding()["embedded"], store.embedding()["chunks"]) == (1, 1)
    store.close()


def test_vectors_of_another_length_than_before_are_refused_until_the_next_start(
    data_dir: Path, service: EmbeddingServer
) -> None:
    store = open_store(data_dir, service)
    brain = store.brain("main")
    store.documents.put(brain, "a.md", b"an automobile")
    wait_for(lambda: store.embedding()["embedded"] == 1)
    service.answer = answer_vectors(lambda texts: [vector_of(text, 256) for text in texts])
    store.documents.put(brain, "b.md", b"an automobile")
    wait_for(lambda: store.embedding()["state"] == "failing")
    assert "256 numbers instead of 512" in str(store.embedding()["error"])
    assert store.search(brain, "automobile now", 5).method == "keyword"
    store.close()
    store = open_store(data_dir, service)
    wait_for(lambda: is_ready(store))
    assert (store.embedding()["dimensions"], store.embedding()["embedded"]) == (256, 2)
    assert len(paths(store.search(brain, "car", 5))) == 2
    store.close()


def test_a_service_is_not_asked_again_for_what_it_has_embedded_before(data_dir: Path, service: EmbeddingServer) -> None:
    store = open_store(data_dir, service)
    store.documents.put(store.brain("main"), "a.md", b"an automobile")
    wait_for(lambda: store.embedding()["embedded"] == 1)
    store.close()
    service.requests.clear()
    store = open_store(data_dir, service)
    wait_for(lambda: is_ready(store))
    store.close()
    assert service.requests == [QUESTIONS, ANSWERS]


def test_closing_does_not_wait_for_a_slow_service(data_dir: Path, service: EmbeddingServer) -> None:
    service.answer = answer_never
    store = open_store(data_dir, service)
    store.documents.put(store.brain("main"), "a.md", b"an automobile")
    wait_for(lambda: bool(service.requests))
    store.close()
    assert threading.active_count() < 50
    assert vectors_in(data_dir) == []


def test_the_key_is_in_no_log_and_no_text_of_the_embedder(
    service: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    service.answer = answer_with(401, f'{{"error": "{KEY} is wrong"}}'.encode())
    endpoint = ModelEndpoint(service.url, "small", KEY)
    embedder = RemoteEmbedder(endpoint)
    with pytest.raises(EmbeddingFailed) as raised:
        embedder.embed(["a"])
    embedder.close()
    assert KEY not in f"{endpoint!r} {raised.value!r} {embedder!r} {embedder.error} {caplog.text}"


def test_vectors_are_taken_by_their_index_and_made_of_length_one() -> None:
    body = json.dumps({"data": [{"index": 1, "embedding": [0, 3]}, {"index": 0, "embedding": [4.0, 0.0]}]}).encode()
    assert read_vectors(body, 2).tolist() == [[1, 0], [0, 1]]
    assert read_vectors(listed([[0, 0]]), 1).tolist() == [[0, 0]]
    assert read_vectors(json.dumps({"data": [{"embedding": [2, 0]}, {"embedding": [0, 2]}]}).encode(), 2).tolist() == [
        [1, 0],
        [0, 1],
    ]


def test_what_a_services_cosines_are_worth_is_measured_once_and_kept(data_dir: Path, service: EmbeddingServer) -> None:
    """Some models say 0.8 of texts that have nothing to do with each other."""
    store = open_store(data_dir, service)
    wait_for(lambda: is_ready(store))
    store.close()
    with closing(sqlite3.connect(data_dir / "brains.sqlite3")) as connection:
        (worth,) = connection.execute("SELECT unrelated, related FROM models").fetchall()
    expected = measured(ConceptEmbedder())
    assert worth == pytest.approx((expected.unrelated, expected.related), abs=1e-5)
