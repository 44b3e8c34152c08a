"""Search by meaning: what is found, what is left out, and how the vectors keep in step with the file."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from contract.platform.brains import Brain
from contract.platform.convert import Converted
from contract.platform.documents import Draft
from contract.platform.ingest import Original
from contract.platform.library import Operation
from contract.platform.meaning import fusion, matrix, nearest, vectors
from contract.platform.search import Folders, Found
from contract.platform.sessions import Message
from contract.platform.store import Store
from tests.contract.platform.test_store import ROOT, assert_sound
from tests.embeddings import DIMENSIONS, ConceptEmbedder

NOTES = {
    "garage.md": b"Automobile: garage.",
    "pets.md": b"A hound walks.",
    "tea.md": b"Green tea is hot.",
}


@pytest.fixture
def store(data_dir: Path) -> Iterator[Store]:
    opened = Store.open(data_dir, ConceptEmbedder())
    yield opened
    opened.close()


@pytest.fixture
def brain(store: Store) -> Brain:
    brain = store.brain("main")
    for path, content in NOTES.items():
        store.documents.put(brain, path, content)
    return brain


# What a hit that has nothing to do with the query is worth at most.
LOW = 0.1


def paths(found: Found) -> list[str]:
    """Of those that have to do with the query. What is far from it comes last, with next to no score."""
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    return [hit.path for hit in found.hits if hit.score >= LOW]


def vectors_in(data_dir: Path) -> list[tuple[int, int]]:
    """Chunk and model of each vector."""
    with closing(sqlite3.connect(data_dir / "brains.sqlite3")) as connection:
        return connection.execute("SELECT chunk, model FROM vectors ORDER BY n").fetchall()


def test_a_note_is_found_that_has_no_word_of_the_query(store: Store, brain: Brain) -> None:
    found = store.search(brain, "my car", 5)
    assert paths(found)[0] == "garage.md"
    assert found.method == "hybrid"
    best = found.hits[0]
    assert best.keyword == 0.0
    assert best.semantic is not None
    assert 0 < best.semantic <= 1
    assert 0 < best.score < 1


def test_a_hit_tells_how_near_it_is_by_words_and_by_meaning(store: Store, brain: Brain) -> None:
    hit = store.search(brain, "green tea", 5).records(brain)[0]
    scores = hit["component_scores"]
    assert isinstance(scores, dict)
    assert {*scores} == {"keyword", "semantic"}
    assert all(0 < score <= 1 for score in scores.values())


def test_what_has_nothing_to_do_with_the_query_has_a_low_score(store: Store, brain: Brain) -> None:
    found = store.search(brain, "zebra crossing", 5)
    assert [hit.path for hit in found.hits if hit.score >= LOW] == []
    found = store.search(brain, "car", 5)
    assert [hit.path for hit in found.hits if hit.score >= LOW] == ["garage.md"]
    assert store.search(brain, "!?", 5).hits == []


def test_the_newest_are_taken_from_what_has_to_do_with_the_query(store: Store, brain: Brain) -> None:
    found = store.search(brain, "car", 5, sort="recency")
    assert [hit.path for hit in found.hits] == ["garage.md"]
    assert store.search(brain, "zebra crossing", 5, sort="recency").hits == []


def test_of_a_large_brain_of_which_little_may_be_shown_only_what_is_related_is_looked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nearest, "FEW", 3)
    monkeypatch.setattr(nearest, "MORE", 2)
    near = np.asarray([0.9, 0.8, 0.7, 0.6, 0.58, 0.55, 0.2, 0.1], dtype=np.float32)
    assert [places.tolist() for places in nearest._by_nearness(near, 1, 0.0, 0.5)] == [[0, 1], [2], [3, 4], [5]]
    assert [places.tolist() for places in nearest._by_nearness(near[5:], 1, 0.0, 0.5)] == [[0, 1], [2]]


def test_what_is_far_from_the_query_is_left_out_where_a_note_has_its_words(store: Store, brain: Brain) -> None:
    assert len(store.search(brain, "zebra crossing", 5).hits) > 1
    assert [hit.path for hit in store.search(brain, "automobile garage", 5).hits] == ["garage.md"]


def test_the_best_by_words_is_one_of_ten_even_if_ten_others_are_nearer(store: Store, brain: Brain) -> None:
    for number in range(12):
        store.documents.put(brain, f"car-{number}.md", b"an automobile")
    text = "The contoso file is in the upper left drawer of the old cupboard behind the door of the office upstairs."
    store.documents.put(brain, "contoso.md", text.encode())
    query = "wer nimmt jetzt car contoso bitte mit nach hause"
    found = store.search(brain, query, 10)
    scores = [hit.score for hit in found.hits]
    assert [hit.path for hit in found.hits if hit.keyword] == ["contoso.md"]
    assert (len(scores), scores) == (10, sorted(scores, reverse=True))
    # Where fewer are wanted, they are those with the best scores.
    assert not any(hit.keyword for hit in store.search(brain, query, 5).hits)


def test_a_note_that_is_hardly_near_is_found_where_nothing_is_nearer(store: Store, brain: Brain) -> None:
    store.documents.put(
        brain, "long.md", b"Keys, papers and spare bulbs of the automobile lie in the upper left drawer."
    )
    store.documents.delete(brain, "garage.md")
    hit = store.search(brain, "what may our old car need one day", 5).hits[0]
    assert (hit.path, hit.keyword) == ("long.md", 0.0)
    assert hit.semantic is not None
    assert fusion.LEAST_SEMANTIC < hit.semantic < fusion.RELATED


def test_an_answer_without_an_embedder_is_from_words_alone(data_dir: Path, store: Store, brain: Brain) -> None:
    without = Store.open(data_dir)
    assert paths(without.search(brain, "car", 5)) == []
    found = without.search(brain, "automobile", 5)
    assert (found.method, found.hits[0].semantic) == ("keyword", None)
    assert without.embedding()["state"] == "off"
    without.close()


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        (Folders(inside=("a/",)), ["a/car.md", "a/secret/car.md"]),
        (Folders(exclude=("a/",)), ["b/car.md"]),
        (Folders(exclude=("a/",), include=("a/secret/",)), ["a/secret/car.md", "b/car.md"]),
    ],
)
def test_folders_that_are_left_out_are_left_out(store: Store, folders: Folders, expected: list[str]) -> None:
    brain = store.brain("main")
    for path in ("a/car.md", "a/secret/car.md", "b/car.md"):
        store.documents.put(brain, path, b"the automobile")
    assert sorted(paths(store.search(brain, "car", 5, folders=folders))) == expected


def test_scores_tell_nothing_of_what_is_left_out(store: Store) -> None:
    brain = store.brain("main")
    store.documents.put(brain, "open/car.md", b"the automobile is red")
    open_only = Folders(exclude=("closed/",))
    before = store.search(brain, "which car", 5, folders=open_only)
    for number in range(20):
        store.documents.put(brain, f"closed/{number}.md", b"the automobile is blue")
    assert store.search(brain, "which car", 5, folders=open_only) == before


def test_what_has_expired_is_not_found_by_what_it_means(store: Store) -> None:
    brain = store.brain("main")
    store.documents.put(brain, "old.md", b"---\nexpires: 2020-01-01\n---\nthe automobile\n")
    store.documents.put(brain, "new.md", b"---\nexpires: 2999-01-01\n---\nthe automobile\n")
    assert paths(store.search(brain, "car", 5)) == ["new.md"]


def test_enough_is_found_behind_many_that_are_left_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "FEW", 50)
    monkeypatch.setattr(nearest, "MORE", 8)
    brain = store.brain("main")
    nearer = [Operation("write", f"closed/{n}.md", b"car") for n in range(80)]
    store.documents.batch(
        brain, [*nearer, *(Operation("write", f"open/{n}.md", b"a red automobile") for n in range(9))]
    )
    found = store.search(brain, "car", 10, folders=Folders(exclude=("closed/",)))
    assert sorted(paths(found)) == [f"open/{n}.md" for n in range(9)]


def test_every_way_of_writing_makes_vectors_in_the_same_transaction(store: Store, data_dir: Path) -> None:
    brain = store.brain("main")
    store.documents.create(brain, Draft("created.md", b"a vessel"))
    store.documents.put(brain, "put.md", b"a vessel")
    store.documents.append(brain, "appended.md", b"a vessel")
    store.documents.append(brain, "appended.md", b" at sea")
    store.documents.batch(brain, [Operation("write", "batch.md", b"a vessel")])
    store.documents.put(brain, "hidden.txt", b"a vessel")
    store.documents.rename(brain, "hidden.txt", "shown.md")
    answer = store.intake.store(
        brain, Original("a.txt", "text/plain", b"a vessel"), Converted("a vessel", None), "text"
    )
    assert answer["embedded_count"] == answer["chunk_count"] == 1
    store.sessions.add(brain, "s", Message("user", "Remember that I like the vessel."))
    store.sessions.close(brain, "s")
    status = store.embedding()
    assert (status["state"], status["embedded"]) == ("ready", status["chunks"])
    assert {"created.md", "put.md", "appended.md", "batch.md", "shown.md"} < set(paths(store.search(brain, "ship", 20)))
    assert_sound(data_dir)


def test_what_is_gone_or_changed_is_not_found_by_what_it_meant(store: Store, brain: Brain) -> None:
    assert paths(store.search(brain, "car", 5)) == ["garage.md"]
    store.documents.put(brain, "garage.md", b"Physician: garage.")
    assert paths(store.search(brain, "car", 5)) == []
    assert paths(store.search(brain, "doctor", 5)) == ["garage.md"]
    store.documents.delete(brain, "garage.md")
    assert paths(store.search(brain, "doctor", 5)) == []


def test_a_chunk_that_gets_the_number_of_another_is_not_taken_for_it(store: Store, brain: Brain) -> None:
    """SQLite gives the greatest number again once its row is gone."""
    store.documents.put(brain, "last.md", b"a puppy")
    assert set(paths(store.search(brain, "dog", 5))) == {"pets.md", "last.md"}
    store.documents.delete(brain, "last.md")
    store.documents.put(brain, "other.md", b"a lease")
    assert paths(store.search(brain, "dog", 5)) == ["pets.md"]
    assert paths(store.search(brain, "rent", 5)) == ["other.md"]


def test_brains_know_nothing_of_each_other(store: Store, brain: Brain) -> None:
    other = store.create_brain("Other")
    store.documents.put(other, "car.md", b"an automobile")
    assert paths(store.search(other, "car", 5)) == ["car.md"]
    assert paths(store.search(brain, "car", 5)) == ["garage.md"]
    store.delete_brain(other)
    again = store.create_brain("Other")
    assert paths(store.search(again, "car", 5)) == []
    assert store.embedding()["embedded"] == len(NOTES)


def test_a_matrix_is_made_anew_when_much_of_it_is_gone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "STALE_ROWS", 10)
    brain = store.brain("main")
    for _ in range(30):
        store.documents.put(brain, "a.md", b"an automobile")
        assert paths(store.search(brain, "car", 5)) == ["a.md"]
    assert store._meaning is not None
    assert store._meaning._matrices is not None
    (held,) = store._meaning._matrices._held.values()
    assert held._count <= 12


def test_only_so_much_memory_is_held_for_all_brains(store: Store) -> None:
    brains = [store.create_brain(f"Brain {n}") for n in range(4)]
    for brain in brains:
        store.documents.put(brain, "a.md", b"an automobile")
        store.search(brain, "car", 5)
    assert store._meaning is not None
    matrices = store._meaning._matrices
    assert matrices is not None
    matrices.budget = 2 * (DIMENSIONS * 4 + 8)
    assert all(paths(store.search(brain, "car", 5)) == ["a.md"] for brain in brains)
    assert [brain for brain, _ in matrices._held] == [brain.n for brain in brains[-2:]]


def test_a_matrix_holds_more_than_one_reading_brings(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "READ_AT_ONCE", 3)
    brain = store.brain("main")
    store.documents.batch(brain, [Operation("write", f"{n}.md", b"an automobile") for n in range(10)])
    assert len(store.search(brain, "car", 20).hits) == 10
    store.documents.batch(brain, [Operation("write", f"more/{n}.md", b"an automobile") for n in range(10)])
    assert len(store.search(brain, "car", 30).hits) == 20


def test_words_decide_alone_while_the_vectors_of_a_large_brain_are_read(
    store: Store, brain: Brain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "READ_IN_SEARCH", 2)
    read, gate = matrix.Matrix.view, threading.Event()

    def read_late(held: matrix.Matrix, connection: sqlite3.Connection, live: int) -> matrix.View:
        gate.wait()
        return read(held, connection, live)

    monkeypatch.setattr(matrix.Matrix, "view", read_late)
    assert store.search(brain, "my car", 5).method == "keyword"
    assert store.search(brain, "my car", 5).method == "keyword"
    assert store._meaning is not None
    assert store._meaning._matrices is not None
    (maker,) = store._meaning._matrices._makers.values()
    gate.set()
    maker.join()
    found = store.search(brain, "my car", 5)
    assert (found.method, paths(found)) == ("hybrid", ["garage.md"])


def test_a_large_brain_whose_vectors_cannot_be_read_is_searched_by_words(
    store: Store, brain: Brain, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(matrix, "READ_IN_SEARCH", 2)

    def fail(held: matrix.Matrix, connection: sqlite3.Connection, live: int) -> matrix.View:
        raise MemoryError

    with monkeypatch.context() as failing:
        failing.setattr(matrix.Matrix, "view", fail)
        assert paths(store.search(brain, "hound", 5)) == ["pets.md"]
        assert store._meaning is not None
        assert store._meaning._matrices is not None
        store._meaning._matrices.close()
    assert "vectors could not be read" in caplog.text
    assert "hound" not in caplog.text
    assert store.search(brain, "hound", 5).method == "keyword"
    store._meaning._matrices.close()
    assert store.search(brain, "hound", 5).method == "hybrid"


def test_numbers_of_two_bytes_are_widened_as_numpy_does() -> None:
    every = np.arange(2**16, dtype="<u2").view("<f2")
    finite = every[np.isfinite(every)]
    widened = vectors.decoded(finite.tobytes())
    assert np.array_equal(widened, finite.astype(np.float32))
    assert np.array_equal(np.signbit(widened), np.signbit(finite))


def test_what_another_process_writes_is_found_at_once(store: Store, brain: Brain, data_dir: Path) -> None:
    assert paths(store.search(brain, "ship", 5)) == []
    program = (
        "import sys; from pathlib import Path\n"
        "from contract.platform.store import Store; from tests.embeddings import ConceptEmbedder\n"
        "store = Store.open(Path(sys.argv[1]), ConceptEmbedder()); brain = store.brain('main')\n"
        "store.documents.put(brain, 'sea.md', b'a vessel'); store.documents.delete(brain, 'garage.md'); store.close()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(data_dir)], cwd=ROOT, check=True, timeout=60)
    assert paths(store.search(brain, "ship", 5)) == ["sea.md"]
    assert paths(store.search(brain, "car", 5)) == []


def test_a_reader_of_an_earlier_moment_is_not_confused_by_a_newer_matrix(store: Store, brain: Brain) -> None:
    assert store._meaning is not None
    sought = store._meaning.seek("dog")
    assert sought is not None
    with store._database.reading() as connection:
        connection.execute("SELECT count(*) FROM vectors").fetchone()
        (chunk,) = connection.execute(
            "SELECT c.n FROM chunks c JOIN documents d ON d.n = document WHERE path = 'pets.md'"
        ).fetchone()
        store.documents.delete(brain, "pets.md")
        store.documents.put(brain, "new.md", b"a puppy")
        assert paths(store.search(brain, "dog", 5)) == ["new.md"]
        comparison = sought.compare(connection, brain.n)
        assert comparison is not None
        near = comparison.near(connection, [chunk], 5, ("", []))
        assert max(near.values(), default=0.0) < 0.1


class Broken(ConceptEmbedder):
    def embed(self, texts: object) -> object:  # type: ignore[override]
        raise OSError("the weights are gone")


def test_a_broken_model_costs_neither_a_write_nor_a_search(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store.open(data_dir, Broken())  # type: ignore[arg-type]
    brain = store.brain("main")
    store.documents.put(brain, "a.md", b"an automobile")
    found = store.search(brain, "automobile", 5)
    assert (paths(found), found.method) == (["a.md"], "keyword")
    store.close()
    assert "automobile" not in caplog.text


def test_nothing_of_numpy_is_loaded_before_it_is_needed(data_dir: Path) -> None:
    program = (
        "import sys; from pathlib import Path; import contract.platform.app\n"
        "from contract.platform.store import Store\n"
        "store = Store.open(Path(sys.argv[1])); store.brains(); print('numpy' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(data_dir)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert run.stdout.strip() == "False"
