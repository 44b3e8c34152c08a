"""A small model that embeds in the transaction of a write, and a better one that follows: what counts when."""

import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from contract.platform import purge
from contract.platform.library import Operation
from contract.platform.meaning import filling, sentence
from contract.platform.meaning.filling import Passed
from contract.platform.meaning.sentence import SentenceEmbedder
from contract.platform.store import Store
from gateway.app.diagnosis import problems_of_models
from tests.contract.platform.old_files import write_file_of_version
from tests.contract.platform.test_filling import is_ready, wait_for
from tests.contract.platform.test_meaning import paths, vectors_in
from tests.contract.platform.test_store import ROOT, assert_sound
from tests.embeddings import ConceptEmbedder

# What only the better model knows.
DEEPER = {"feline": "dog", "quadruped": "dog"}


class Deeper(ConceptEmbedder):
    """It knows some words more, and has vectors of another length."""

    def __init__(self, name: str = "deeper", gate: threading.Event | None = None) -> None:
        super().__init__(name, dimensions=256, gate=gate)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return super().embed([re.sub(r"\w+", lambda word: DEEPER.get(word[0], word[0]), text) for text in texts])


@pytest.fixture
def gate() -> threading.Event:
    """Until it is set, the better model embeds no note."""
    return threading.Event()


@pytest.fixture
def store(data_dir: Path, gate: threading.Event) -> Iterator[Store]:
    opened = Store.open(data_dir, ConceptEmbedder(), sentences=Deeper(gate=gate))
    yield opened
    gate.set()
    opened.close()


def count(data_dir: Path) -> dict[str, int]:
    """How many vectors there are of each model."""
    with closing(sqlite3.connect(data_dir / "brains.sqlite3")) as connection:
        counted = "SELECT m.name, count(*) FROM vectors AS v JOIN models AS m ON m.n = v.model GROUP BY m.name"
        return dict(connection.execute(counted).fetchall())


def test_a_note_is_found_by_the_small_model_at_once_and_by_the_better_one_soon(
    store: Store, gate: threading.Event
) -> None:
    brain = store.brain("main")
    store.documents.put(brain, "pets.md", b"A hound walks.")
    store.documents.put(brain, "garage.md", b"Automobile: garage.")
    found = store.search(brain, "my car?", 5)
    assert (found.method, paths(found)) == ("hybrid", ["garage.md"])
    assert paths(store.search(brain, "quadruped?", 5)) == []
    gate.set()
    wait_for(lambda: is_ready(store))
    assert paths(store.search(brain, "quadruped?", 5)) == ["pets.md"]
    assert paths(store.search(brain, "my car?", 5)) == ["garage.md"]


def test_progress_of_both_is_told(store: Store, gate: threading.Event) -> None:
    store.documents.put(store.brain("main"), "pets.md", b"A hound walks.")
    status = store.embedding()
    assert (status["name"], status["state"], status["embedded"], status["chunks"]) == ("deeper", "building", 0, 1)
    assert isinstance(status["meanwhile"], dict)
    assert (status["meanwhile"]["name"], status["meanwhile"]["state"]) == ("concepts", "ready")
    gate.set()
    wait_for(lambda: is_ready(store))


def test_each_note_is_compared_by_the_best_model_that_has_read_it(data_dir: Path, store: Store) -> None:
    brain = store.brain("main")
    ahead = Store.open(data_dir, ConceptEmbedder(), sentences=Deeper())
    ahead.documents.put(brain, "old.md", b"the hound")
    wait_for(lambda: is_ready(ahead))
    ahead.close()
    store.documents.put(brain, "new.md", b"the puppy")
    assert paths(store.search(brain, "quadruped?", 5)) == ["old.md"]
    assert paths(store.search(brain, "dog?", 5)) == ["new.md", "old.md"]


def test_where_the_better_model_has_read_all_the_other_is_not_asked(store: Store, gate: threading.Event) -> None:
    gate.set()
    brain = store.brain("main")
    store.documents.put(brain, "pets.md", b"A hound walks.")
    wait_for(lambda: is_ready(store))
    assert store._meaning is not None
    small = store._meaning._levels[-1].embedder
    assert isinstance(small, ConceptEmbedder)
    small.texts.clear()
    assert paths(store.search(brain, "quadruped?", 5)) == ["pets.md"]
    assert small.texts == []


def test_vectors_of_a_file_of_before_serve_until_the_better_ones_are_there(data_dir: Path) -> None:
    before = Store.open(data_dir, ConceptEmbedder())
    brain = before.brain("main")
    before.documents.batch(brain, [Operation("write", f"{n}.md", b"the hound") for n in range(30)])
    before.close()
    gate = threading.Event()
    store = Store.open(data_dir, ConceptEmbedder(), sentences=Deeper(gate=gate))
    assert len(paths(store.search(brain, "dog?", 30))) == 30
    assert store.embedding()["state"] == "building"
    gate.set()
    wait_for(lambda: is_ready(store))
    assert len(paths(store.search(brain, "quadruped?", 30))) == 30
    assert count(data_dir) == {"concepts": 30, "deeper": 30}
    store.close()
    assert_sound(data_dir)


def test_a_file_without_any_vectors_gets_those_of_both(data_dir: Path) -> None:
    write_file_of_version(3, data_dir, {f"{n}.md": "automobile" for n in range(20)})
    store = Store.open(data_dir, ConceptEmbedder(), sentences=Deeper())
    wait_for(lambda: count(data_dir) == {"concepts": 20, "deeper": 20})
    store.close()


def test_without_the_small_model_the_better_one_serves_alone(data_dir: Path) -> None:
    store = Store.open(data_dir, sentences=Deeper())
    brain = store.brain("main")
    store.documents.put(brain, "pets.md", b"A hound walks.")
    wait_for(lambda: is_ready(store))
    assert paths(store.search(brain, "quadruped?", 5)) == ["pets.md"]
    assert "meanwhile" not in store.embedding()
    store.close()


def test_writes_and_deletions_go_on_while_the_better_model_reads(
    data_dir: Path, store: Store, gate: threading.Event
) -> None:
    brain = store.brain("main")
    store.documents.batch(brain, [Operation("write", f"{n}.md", b"the hound") for n in range(60)])
    gate.set()
    for n in range(0, 60, 2):
        store.documents.put(brain, f"{n}.md", b"the vessel")
        store.documents.delete(brain, f"{n + 1}.md")
    wait_for(lambda: is_ready(store))
    assert count(data_dir) == {"concepts": 30, "deeper": 30}
    assert paths(store.search(brain, "quadruped", 60)) == []
    assert len(paths(store.search(brain, "ship", 60))) == 30
    assert_sound(data_dir)


def test_many_writes_do_not_keep_older_notes_waiting_for_ever() -> None:
    passed = Passed()
    looks = []
    for chunks in ([90, 80], [91, 92], [70, 60], [93, 95], [50, 40]):
        looks.append(passed.look())
        passed.note(chunks)
    assert looks == [
        (-1, filling.BEYOND),
        (90, filling.BEYOND),
        (-1, 80),
        (92, filling.BEYOND),
        (-1, 60),
    ]


FILLING = """
import sys, time
from pathlib import Path
from contract.platform.store import Store
from tests.contract.platform.test_two_models import Deeper
from tests.embeddings import ConceptEmbedder

class Slow(Deeper):
    def embed(self, texts):
        time.sleep(0.1)
        return super().embed(texts)

store = Store.open(Path(sys.argv[1]), ConceptEmbedder(), sentences=Slow())
while store.embedding()["state"] != "ready":
    print(store.embedding()["embedded"], flush=True)
    time.sleep(0.01)
store.close()
"""


def reader(data_dir: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", FILLING, str(data_dir)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.not_quick
def test_what_was_killed_while_it_read_is_taken_up_where_it_ended(data_dir: Path) -> None:
    first = Store.open(data_dir, ConceptEmbedder())
    brain = first.brain("main")
    first.documents.batch(brain, [Operation("write", f"{n}.md", b"the hound") for n in range(200)])
    first.close()
    process = reader(data_dir)
    assert process.stdout is not None
    while not int(process.stdout.readline()):
        pass
    process.kill()
    process.communicate()
    kept = count(data_dir)["deeper"]
    assert 0 < kept < 200
    deeper = Deeper()
    store = Store.open(data_dir, ConceptEmbedder(), sentences=deeper)
    wait_for(lambda: is_ready(store))
    store.close()
    assert len([text for text in deeper.texts if text == "the hound"]) == 200 - kept
    assert count(data_dir) == {"concepts": 200, "deeper": 200}
    assert_sound(data_dir)


@pytest.mark.slow
def test_two_processes_that_read_one_file_make_no_vector_twice(data_dir: Path) -> None:
    first = Store.open(data_dir, ConceptEmbedder())
    first.documents.batch(first.brain("main"), [Operation("write", f"{n}.md", b"the hound") for n in range(100)])
    first.close()
    processes = [reader(data_dir) for _ in range(2)]
    assert [(process.communicate(timeout=60)[1], process.returncode) for process in processes] == [("", 0)] * 2
    assert count(data_dir) == {"concepts": 100, "deeper": 100}
    assert_sound(data_dir)


def test_another_better_model_takes_the_place_of_the_first_and_the_small_one_stays(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Store.open(data_dir, ConceptEmbedder(), sentences=Deeper("first"))
    brain = first.brain("main")
    first.documents.put(brain, "pets.md", b"A hound walks.")
    wait_for(lambda: is_ready(first))
    first.close()
    monkeypatch.setattr(filling, "UNUSED_SECONDS", -1.0)
    second = Store.open(data_dir, ConceptEmbedder(), sentences=Deeper("second"))
    wait_for(lambda: count(data_dir) == {"concepts": 1, "second": 1})
    assert paths(second.search(brain, "quadruped", 5)) == ["pets.md"]
    second.close()


def test_what_is_purged_leaves_no_vector_of_either_model_in_the_file(
    data_dir: Path, store: Store, gate: threading.Event
) -> None:
    gate.set()
    brain = store.brain("main")
    store.documents.put(brain, "secret.md", b"the hound")
    store.documents.put(brain, "other.md", b"the vessel")
    wait_for(lambda: is_ready(store))
    with closing(sqlite3.connect(data_dir / "brains.sqlite3")) as connection:
        asked = "SELECT v.vector FROM vectors v JOIN chunks c ON c.n = v.chunk JOIN documents d ON d.n = c.document"
        secret = [row[0] for row in connection.execute(f"{asked} WHERE d.path = 'secret.md'")]
    assert len(secret) == 2
    store.documents.delete(brain, "secret.md")
    store.close()
    purge.scrub(data_dir)
    data = b"".join(file.read_bytes() for file in data_dir.iterdir() if file.is_file())
    assert [vector for vector in secret if vector in data] == []
    assert len(vectors_in(data_dir)) == 2


def test_a_better_model_whose_files_are_damaged_costs_no_write_and_no_search_and_is_told(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "PATIENCE_SECONDS", 0.0)
    rows = tmp_path / "rows.npy"
    rows.write_bytes(sentence.ROWS.read_bytes()[:1000])
    monkeypatch.setattr(sentence, "ROWS", rows)
    store = Store.open(data_dir, ConceptEmbedder(), sentences=SentenceEmbedder())
    brain = store.brain("main")
    store.documents.put(brain, "garage.md", b"Automobile: garage.")
    wait_for(lambda: store.embedding()["state"] == "failing")
    found = store.search(brain, "my car?", 5)
    assert (found.method, paths(found)) == ("hybrid", ["garage.md"])
    (problem,) = problems_of_models({"embedding": store.embedding()})
    assert problem["message"] == (
        "The embedding model all-MiniLM-L6-v2-int8 cannot be loaded: its files are missing or damaged (ValueError); "
        "notes are found by their words and by a smaller model."
    )
    store.close()


def test_a_better_model_that_breaks_when_its_vectors_are_there_leaves_the_small_one(
    data_dir: Path, store: Store, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.set()
    brain = store.brain("main")
    store.documents.put(brain, "garage.md", b"Automobile: garage.")
    wait_for(lambda: is_ready(store))

    def fail(embedder: Deeper, texts: Sequence[str]) -> NDArray[np.float32]:
        raise OSError("the weights are gone")

    monkeypatch.setattr(Deeper, "embed", fail)
    found = store.search(brain, "my car?", 5)
    assert (found.method, paths(found)) == ("hybrid", ["garage.md"])


def test_the_models_that_come_with_the_platform_find_a_note_in_other_words(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "PATIENCE_SECONDS", 0.0)
    store = Store.open(data_dir, sentences=SentenceEmbedder())
    brain = store.brain("main")
    notes = ["The cobbler puts on new soles within a day.", "Revenue came to two million.", "Her violin lessons."]
    store.documents.batch(brain, [Operation("write", f"{n}.md", text.encode()) for n, text in enumerate(notes)])
    wait_for(lambda: is_ready(store))
    found = store.search(brain, "which shop mends shoes", 3)
    assert found.hits[0].path == "0.md"
    assert (found.hits[0].semantic or 0) > 0.3
    with store._database.reading() as connection:
        ((related,),) = connection.execute("SELECT related - unrelated FROM models").fetchall()
    assert related > 0.2
    store.close()
