"""Vectors that are made here, without a network."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from contract.platform.meaning import known, offline, table
from contract.platform.meaning.offline import Lexicon, OfflineEmbedder
from contract.platform.meaning.table import Table

pytestmark = pytest.mark.needs_offline_model

EMBEDDER = OfflineEmbedder()


def cosine(one: str, other: str) -> float:
    first, second = EMBEDDER.embed([one, other])
    return float(first @ second)


def test_a_text_has_the_same_vector_alone_among_others_and_in_another_embedder() -> None:
    texts = ["The boiler was serviced in March.", "ERR_4012", "歯医者の予約"]
    together = EMBEDDER.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        assert np.array_equal(EMBEDDER.embed([text])[0], vector)
    assert np.array_equal(OfflineEmbedder().embed(texts), together)


def test_vectors_are_rows_of_length_one() -> None:
    vectors = EMBEDDER.embed(["a bowl of soup", "x"])
    assert vectors.shape == (2, EMBEDDER.dimensions)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)


def test_no_texts_are_no_rows() -> None:
    assert EMBEDDER.embed([]).shape == (0, EMBEDDER.dimensions)


@pytest.mark.parametrize("text", ["", "   ", "\n\t\u2003"])
def test_a_text_with_nothing_in_it_is_a_row_of_zeros(text: str) -> None:
    assert not EMBEDDER.embed([text]).any()


def test_white_space_does_not_count() -> None:
    assert np.array_equal(*EMBEDDER.embed(["new  tyres\n for the car", "new tyres for the car"]))


def test_texts_that_mean_the_same_are_nearer_than_those_that_do_not() -> None:
    question = "I need to see the dentist"
    assert cosine(question, "teeth doctor visit") > cosine(question, "the server ran out of memory") + 0.2


@given(st.text(st.characters(), max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_text_has_a_vector_of_length_one_or_zero(text: str) -> None:
    length = float(np.linalg.norm(EMBEDDER.embed([text])[0]))
    assert length == 0 or length == pytest.approx(1)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\x00", "<s> </s> <unk>", "👩🏽‍🚀" * 50])
def test_odd_characters_are_no_error(text: str) -> None:
    assert np.isfinite(EMBEDDER.embed([text])).all()


@pytest.mark.parametrize("piece", ["x", " ", "word ", "字", "\u0301", "\n"])
def test_of_a_huge_text_only_the_beginning_is_read(piece: str) -> None:
    beginning = piece * (offline.LONGEST // len(piece) + 1)
    assert np.array_equal(*EMBEDDER.embed([beginning + piece * 5_000_000, beginning]))


def test_words_that_are_no_longer_kept_have_the_same_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["new tyres for the car", "the dentist", "new tyres for the car"]
    expected = EMBEDDER.embed(texts)
    monkeypatch.setattr(known, "KEPT_WORDS", 3)
    embedder = OfflineEmbedder()
    assert np.array_equal(np.concatenate([embedder.embed([text]) for text in texts]), expected)
    assert np.array_equal(embedder.embed(texts), expected)
    assert embedder._loaded is not None
    assert len(embedder._loaded._known._kept) <= 5


def test_a_word_too_long_to_be_kept_counts_each_time() -> None:
    embedder, long = OfflineEmbedder(), "donaudampfschiffahrtsgesellschaft" * 2
    first = embedder.embed([f"the {long}"])
    assert np.array_equal(embedder.embed([f"the {long}"]), first)
    assert not np.array_equal(embedder.embed(["the"]), first)
    assert embedder._loaded is not None
    assert embedder._loaded._known._kept.keys() == {b"the"}


@pytest.mark.parametrize("mark", ["<s>", "</s>", "<unk>"])
def test_the_tokenizers_own_marks_are_text_like_any_other(mark: str) -> None:
    assert cosine(f"soup {mark} bowl", f"{mark} soup bowl") == pytest.approx(1)


def test_the_tokenizers_sign_for_a_space_is_a_space() -> None:
    assert np.array_equal(*EMBEDDER.embed([f"{offline.SPACE}soup{offline.SPACE * 2}bowl", "soup bowl"]))


@pytest.mark.parametrize("unknown", ["😀", "\U00020000", "\u0f40"])
def test_letters_that_the_model_does_not_know_do_not_count(unknown: str) -> None:
    assert not EMBEDDER.embed([f"{unknown} {unknown}{unknown}"]).any()
    assert np.array_equal(*EMBEDDER.embed([f"{unknown} soup{unknown} bowl", "soup bowl"]))


def test_the_tokenizer_which_keeps_others_waiting_is_given_few_new_words_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offline, "CUT_AT_ONCE", 4)
    given: list[str] = []
    loaded = offline._tokenizer()

    def tokenize(text: str) -> object:
        given.append(text)
        return loaded.model.tokenize(text)

    tokenizer = SimpleNamespace(model=SimpleNamespace(tokenize=tokenize), get_vocab=loaded.get_vocab)
    words = ["zzyzxq", "n4", "réunion", "語言本", "aé😀", "soup_2"]
    lexicon = Lexicon(Table.load(), cast(Tokenizer, tokenizer), offline._weights())
    once, twice = lexicon.numbers_of([" ".join(some).encode() for some in (words, words * 2)])
    assert np.array_equal(twice, np.tile(once, 2))
    new = [offline.SPACE + lexicon._readable(word) for word in words]
    assert given == ["".join(new[:4]), "".join(new[4:])]


@given(st.lists(st.text(st.characters(exclude_characters=offline.SPACE), min_size=1, max_size=40), max_size=40))
@settings(max_examples=100, deadline=None)
def test_words_are_cut_together_as_each_by_itself(texts: list[str]) -> None:
    lexicon = EMBEDDER._lexicon()
    words = [cut for text in texts for word in text.split() if (cut := lexicon._readable(word))]
    alone = [[piece.id for piece in lexicon._model.tokenize(offline.SPACE + word)] for word in words]
    assert list(lexicon._cut(words)) == alone


def test_a_word_of_the_table_is_the_same_however_it_is_written() -> None:
    assert np.array_equal(*EMBEDDER.embed(["Dentist, (soup)", "dentist soup"]))


def test_a_name_is_the_same_beside_brackets_quotes_and_marks() -> None:
    alone, *beside = EMBEDDER.embed(["Zworkin Rafaela", '"Zworkin", Rafaela!', "`Zworkin`: (Rafaela)."])
    assert alone.any()
    assert all(np.array_equal(alone, other) for other in beside)


@pytest.mark.parametrize("token", ["zzyzxq", "soup_2", "n4", "soup-zzyzxq", "réunion"])
def test_what_is_not_wholly_in_the_table_is_cut_into_pieces(token: str) -> None:
    assert Table.load().places("soup-bowl,") is not None
    assert Table.load().places(token) is None


def test_a_token_without_letters_or_digits_means_nothing() -> None:
    assert np.array_equal(*EMBEDDER.embed(["soup -- bowl ...", "soup bowl"]))


def test_the_table_has_a_row_for_each_word_and_no_word_twice() -> None:
    words = table.WORDS.read_text(encoding="utf-8").split()
    assert len(words) == len(set(words)) == len(np.load(table.ROWS)) == len(np.load(table.SCALES))
    assert all(table.words_of(word) == [word] for word in words)


def test_many_threads_that_begin_together_load_the_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    locate = offline._file

    def count(name: str) -> Path:
        loads.append(name)
        return locate(name)

    monkeypatch.setattr(offline, "_file", count)
    embedder, threads = OfflineEmbedder(), 8
    barrier = Barrier(threads)

    def embed(text: str) -> bytes:
        barrier.wait()
        return embedder.embed([text]).tobytes()

    with ThreadPoolExecutor(threads) as pool:
        vectors = list(pool.map(embed, ["the same text"] * threads))
    assert sorted(loads) == sorted([offline.TOKENIZER, offline.WEIGHTS])
    assert vectors == [vectors[0]] * threads


@pytest.mark.not_quick
def test_nothing_heavy_is_imported_before_the_first_text() -> None:
    program = """
import sys
from contract.platform.meaning import calibration, embedder, fusion, offline
offline.OfflineEmbedder()
assert not {"numpy", "tokenizers", "wordllama"} & sys.modules.keys(), sys.modules.keys()
offline.OfflineEmbedder().embed(["a text"])
assert not {"wordllama", "huggingface_hub", "safetensors"} & sys.modules.keys(), sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
