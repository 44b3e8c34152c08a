"""Vectors that are made later: of files of before, of another model, by a service, and after a stop."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from contract.platform.database import Database
from contract.platform.library import Operation
from contract.platform.meaning import filling
from contract.platform.meaning.embedder import Embedder
from contract.platform.meaning.filling import BUSY_SHARE, PATIENCE_SECONDS, WRITING_SHARE, Filler
from contract.platform.meaning.sentence import SentenceEmbedder
from contract.platform.store import Store
from tests.contract.platform.old_files import write_file_of_version
from tests.contract.platform.test_meaning import paths, vectors_in
from tests.contract.platform.test_store import ROOT, assert_sound
from tests.embeddings import ConceptEmbedder

NOTES = {f"{n}.md": f"automobile {n}" for n in range(100)}


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def is_ready(store: Store) -> bool:
    return store.embedding()["state"] == "ready"


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_file_of_before_gets_its_vectors_in_the_background(data_dir: Path, version: int) -> None:
    write_file_of_version(version, data_dir, NOTES)
    store = Store.open(data_dir, ConceptEmbedder())
    wait_for(lambda: is_ready(store))
    brain = store.brain("main")
    assert len(vectors_in(data_dir)) == 100
    assert len(store.search(brain, "car", 100).hits) == 100
    store.close()
    assert_sound(data_dir)


def test_meanwhile_words_decide_alone_and_progress_is_told(data_dir: Path) -> None:
    write_file_of_version(3, data_dir, NOTES)
    gate = threading.Event()
    store = Store.open(data_dir, ConceptEmbedder(gate=gate))
    brain = store.brain("main")
    assert store.search(brain, "car?", 5).hits == []
    found = store.search(brain, "automobile?", 5)
    assert (found.method, len(found.hits), found.hits[0].semantic) == ("keyword", 5, None)
    status = store.embedding()
    assert (status["state"], status["embedded"], status["chunks"]) == ("building", 0, 100)
    gate.set()
    wait_for(lambda: is_ready(store))
    found = store.search(brain, "car?", 5)
    assert (found.method, len(found.hits)) == ("hybrid", 5)
    store.close()


def test_a_few_chunks_without_a_vector_are_found_by_their_words_and_many_let_words_decide_alone(data_dir: Path) -> None:
    with_vectors, without = Store.open(data_dir, ConceptEmbedder()), Store.open(data_dir)
    brain = without.brain("main")
    for n in range(18):
        with_vectors.documents.put(brain, f"{n}.md", b"an automobile")
    with_vectors.close()
    for n in range(2):
        without.documents.put(brain, f"new-{n}.md", b"a vessel")
    gate = threading.Event()
    store = Store.open(data_dir, ConceptEmbedder(gate=gate))
    found = store.search(brain, "vessel or car?", 20)
    assert found.method == "hybrid"
    assert {hit.semantic is None for hit in found.hits if hit.path.startswith("new")} == {True}
    assert len(found.hits) == 20
    without.documents.put(brain, "one-more.md", b"a vessel")
    assert store.search(brain, "vessel or car?", 20).method == "keyword"
    gate.set()
    wait_for(lambda: is_ready(store))
    assert len(paths(store.search(brain, "ship?", 20))) == 3
    store.close()
    without.close()


def test_writes_go_on_while_vectors_are_filled_in(data_dir: Path) -> None:
    write_file_of_version(3, data_dir, NOTES)
    store = Store.open(data_dir, ConceptEmbedder())
    brain = store.brain("main")
    for n in range(50):
        store.documents.put(brain, f"{2 * n}.md", b"a vessel")
        store.documents.delete(brain, f"{2 * n + 1}.md")
    wait_for(lambda: is_ready(store))
    assert len(vectors_in(data_dir)) == 50
    assert paths(store.search(brain, "car", 10)) == []
    assert len(store.search(brain, "ship", 100).hits) == 50
    store.close()
    assert_sound(data_dir)


def test_a_chunk_whose_number_went_to_another_meanwhile_gets_no_vector_of_it(data_dir: Path) -> None:
    write_file_of_version(3, data_dir, {"a.md": "an automobile"})
    asked, gate = threading.Event(), threading.Event()

    class Asked(ConceptEmbedder):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            asked.set()
            return super().embed(texts)

    embedder = Asked(gate=gate)
    store, other = Store.open(data_dir, embedder), Store.open(data_dir)
    brain = store.brain("main")
    assert asked.wait(30)
    other.documents.put(brain, "a.md", b"a vessel")
    gate.set()
    wait_for(lambda: is_ready(store))
    assert embedder.texts[0] == "an automobile"
    assert paths(store.search(brain, "ship?", 5)) == ["a.md"]
    assert paths(store.search(brain, "car?", 5)) == []
    store.close()
    other.close()


FILLING = """
import sys, time
from pathlib import Path
from contract.platform.store import Store
from tests.embeddings import ConceptEmbedder

class Slow(ConceptEmbedder):
    def embed(self, texts):
        time.sleep(float(sys.argv[2]))
        return super().embed(texts)

store = Store.open(Path(sys.argv[1]), Slow())
while True:
    status = store.embedding()
    print(status["embedded"], status["state"], flush=True)
    if status["state"] == "ready":
        break
    time.sleep(0.01)
store.close()
"""


def filler(data_dir: Path, seconds: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", FILLING, str(data_dir), str(seconds)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.not_quick
def test_filling_that_was_killed_is_taken_up_where_it_ended(data_dir: Path) -> None:
    write_file_of_version(3, data_dir, NOTES)
    process = filler(data_dir, 0.2)
    assert process.stdout is not None
    while not int(process.stdout.readline().split()[0]):
        pass
    process.kill()
    process.communicate()
    kept = len(vectors_in(data_dir))
    assert 0 < kept < 100
    embedder = ConceptEmbedder()
    store = Store.open(data_dir, embedder)
    wait_for(lambda: is_ready(store))
    store.close()
    assert len(embedder.texts) == 100 - kept
    assert len(vectors_in(data_dir)) == 100
    assert_sound(data_dir)


@pytest.mark.slow
def test_two_processes_that_fill_one_file_make_no_vector_twice(data_dir: Path) -> None:
    write_file_of_version(3, data_dir, NOTES)
    processes = [filler(data_dir, 0.01) for _ in range(2)]
    outcomes = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
    assert outcomes == [("", 0)] * 2
    assert len(vectors_in(data_dir)) == 100
    store = Store.open(data_dir, ConceptEmbedder())
    assert store.embedding()["embedded"] == 100
    store.close()
    assert_sound(data_dir)


def test_another_model_makes_its_own_vectors_and_those_of_before_go(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Store.open(data_dir, ConceptEmbedder("first"))
    brain = first.brain("main")
    first.documents.batch(brain, [Operation("write", path, text.encode()) for path, text in NOTES.items()])
    first.close()
    gate = threading.Event()
    second = Store.open(data_dir, ConceptEmbedder("second", dimensions=256, gate=gate))
    assert second.embedding()["embedded"] == 0
    assert second.search(brain, "car?", 5).method == "keyword"
    gate.set()
    wait_for(lambda: is_ready(second))
    assert second.search(brain, "car", 5).method == "hybrid"
    # Whoever uses the first model at the same time is not robbed of it.
    assert len(vectors_in(data_dir)) == 200
    second.close()
    monkeypatch.setattr(filling, "UNUSED_SECONDS", -1.0)
    monkeypatch.setattr(filling, "FORGOTTEN_AT_ONCE", 30)
    third = Store.open(data_dir, ConceptEmbedder("second", dimensions=256))
    third.search(brain, "car", 5)
    wait_for(lambda: len(vectors_in(data_dir)) == 100)
    assert {model for _, model in vectors_in(data_dir)} == {2}
    assert third.search(brain, "car", 5).method == "hybrid"
    third.close()
    assert_sound(data_dir)


def test_two_models_on_one_file_do_not_rob_each_other(data_dir: Path) -> None:
    left, right = Store.open(data_dir, ConceptEmbedder("left")), Store.open(data_dir, ConceptEmbedder("right"))
    brain = left.brain("main")
    left.documents.put(brain, "a.md", b"an automobile")
    right.documents.put(brain, "b.md", b"an automobile")
    for store in (left, right):
        store.search(brain, "car", 5)
        wait_for(partial(is_ready, store))
        assert set(paths(store.search(brain, "car", 5))) == {"a.md", "b.md"}
    left.close()
    right.close()


def test_closing_ends_filling_at_once(data_dir: Path) -> None:
    write_file_of_version(3, data_dir, NOTES)
    embedder = ConceptEmbedder()
    store = Store.open(data_dir, embedder)
    store.close()
    assert store._meaning is not None
    (level,) = store._meaning._levels
    thread = level.filler._thread
    assert thread is not None
    thread.join(5)
    assert not thread.is_alive()
    made = len(vectors_in(data_dir))
    store.embedding()
    assert len(vectors_in(data_dir)) == made


def shares(data_dir: Path, embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The share of the time that filling takes before a write, right after one, and some time later."""
    filler, pauses, moment = Filler(Database(data_dir / "brains.sqlite3"), embedder, list), list[float](), 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: moment)
    monkeypatch.setattr(filler, "nudge", lambda: None)
    monkeypatch.setattr(filler._stopping, "wait", pauses.append)
    filler._pause_after(1.0)
    filler.note_write()
    filler._pause_after(1.0)
    moment += PATIENCE_SECONDS
    filler._pause_after(1.0)
    return [1 / (1 + pause) for pause in pauses]


def test_the_sentence_model_leaves_most_of_the_time_to_writes_while_there_are_any(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shares(data_dir, SentenceEmbedder(), monkeypatch) == pytest.approx([BUSY_SHARE, WRITING_SHARE, BUSY_SHARE])


def test_a_quick_model_fills_in_at_the_same_pace_while_notes_are_written(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shares(data_dir, ConceptEmbedder(), monkeypatch) == pytest.approx([BUSY_SHARE] * 3)
