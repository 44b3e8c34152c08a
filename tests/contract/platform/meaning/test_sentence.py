"""Vectors of whole sentences, by the model whose files come with the platform."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from contract.platform.meaning import sentence
from contract.platform.meaning.embedder import EmbeddingFailed
from contract.platform.meaning.sentence import SentenceEmbedder

EMBEDDER = SentenceEmbedder()
TEXTS = ["The boiler was serviced in March.", "ERR_4012", "歯医者の予約", "tyres " * 400, "x"]


def cosine(one: str, other: str) -> float:
    first, second = EMBEDDER.embed([one, other])
    return float(first @ second)


def test_a_text_has_the_same_vector_alone_among_others_and_in_another_embedder() -> None:
    together = EMBEDDER.embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert np.array_equal(EMBEDDER.embed([text])[0], vector)
    assert np.array_equal(SentenceEmbedder().embed(TEXTS), together)


def test_vectors_are_rows_of_length_one() -> None:
    vectors = EMBEDDER.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), EMBEDDER.dimensions)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_no_texts_are_no_rows() -> None:
    assert EMBEDDER.embed([]).shape == (0, EMBEDDER.dimensions)


@pytest.mark.parametrize("text", ["", "   ", "\n\t\u2003", "\u0301", "xyzzyplugh"])
def test_a_text_with_nothing_in_it_is_a_row_of_zeros(text: str) -> None:
    assert not EMBEDDER.embed([text]).any()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("where can I leave the car", "Parking is free behind the town hall after six.", 0.358),
        ("what is the baby called", "They named their newborn Rafaela, after her great aunt.", 0.477),
        ("why is the room cold", "The cobbler on Station Road puts on new soles within a day.", 0.008),
    ],
)
def test_cosines_are_those_of_the_model_that_the_numbers_were_made_of(one: str, other: str, expected: float) -> None:
    assert cosine(one, other) == pytest.approx(expected, abs=0.02)


def test_the_order_of_words_counts() -> None:
    assert cosine("the dog bites the man", "the man bites the dog") < 0.999


@given(st.text(st.characters(), max_size=200))
@settings(max_examples=50, deadline=None)
def test_any_text_has_a_vector_of_length_one_or_zero(text: str) -> None:
    length = float(np.linalg.norm(EMBEDDER.embed([text])[0]))
    assert length == 0 or length == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("piece", ["x", "word ", "字", "\u0301", "\ud800"])
def test_of_a_huge_text_only_the_beginning_is_read(piece: str) -> None:
    beginning = piece * (sentence.LONGEST_TEXT // len(piece) + 1)
    assert np.array_equal(*EMBEDDER.embed([beginning + piece * 5_000_000, beginning]))


@pytest.mark.parametrize("mark", ["[CLS]", "[SEP]", "[PAD]", "[UNK]"])
def test_the_models_own_marks_are_text_like_any_other(mark: str) -> None:
    assert np.array_equal(*EMBEDDER.embed([f"soup {mark} bowl", f"soup [ {mark[1:-1]} ] bowl"]))


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def garbled(file: Path) -> None:
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\n" * 3)


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the model in a folder where they can be damaged."""
    for name in ("PIECES", "ROWS", "SCALES", "REST"):
        monkeypatch.setattr(sentence, name, Path(shutil.copy(getattr(sentence, name), tmp_path)))
    return tmp_path


def counted_loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has one entry more each time that the model is loaded."""
    loads: list[str] = []
    load = sentence._tokenizer

    def count() -> Tokenizer:
        loads.append("load")
        return load()

    monkeypatch.setattr(sentence, "_tokenizer", count)
    return loads


@pytest.mark.parametrize("damage", [Path.unlink, empty, cut, garbled])
@pytest.mark.parametrize("name", ["pieces.txt", "rows.npy", "scales.npy", "rest.npy"])
def test_without_a_sound_file_there_are_no_vectors_and_it_says_why(
    copied: Path, name: str, damage: Callable[[Path], None]
) -> None:
    assert SentenceEmbedder().embed(["soup"]).any()
    damage(copied / name)
    with pytest.raises(EmbeddingFailed, match="cannot be loaded: its files are missing or damaged"):
        SentenceEmbedder().embed(["soup"])


def test_files_that_are_damaged_are_not_read_by_every_search(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = counted_loads(monkeypatch)
    garbled(copied / "rest.npy")
    embedder = SentenceEmbedder()
    for _ in range(3):
        with pytest.raises(EmbeddingFailed):
            embedder.embed(["soup"])
    assert len(loads) == 1


def test_many_threads_that_begin_together_load_the_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = counted_loads(monkeypatch)
    embedder, threads = SentenceEmbedder(), 8
    barrier = Barrier(threads)

    def embed(text: str) -> bytes:
        barrier.wait()
        return embedder.embed([text]).tobytes()

    with ThreadPoolExecutor(threads) as pool:
        assert len({*pool.map(embed, ["soup"] * threads)}) == 1
    assert len(loads) == 1


def test_weights_that_nobody_uses_are_let_go_and_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = SentenceEmbedder()
    before = embedder.embed(["soup"])
    loads = counted_loads(monkeypatch)
    embedder.rest()
    embedder.embed(["soup"])
    assert loads == []
    monkeypatch.setattr(sentence, "UNUSED_SECONDS", -1.0)
    embedder.rest()
    assert np.array_equal(embedder.embed(["soup"]), before)
    assert loads == ["load"]
