"""The numbers of words are the same, however many words are asked for at once."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.platform.meaning import known
from contract.platform.meaning.known import KnownWords

# Around the lengths of what is read at once, and of what is kept.
LENGTHS = (1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 100)
WORDS = st.sampled_from("aé語").flatmap(
    lambda letter: st.sampled_from(LENGTHS).flatmap(
        lambda length: st.sampled_from(["", "b", "語"]).map(lambda end: (letter * length)[: length - len(end)] + end)
    )
)
MARKED = st.tuples(st.text(",.:", max_size=2), WORDS, st.text(",.:", max_size=3)).map("".join)
TEXTS = st.lists(
    st.lists(WORDS | MARKED, max_size=30).map(lambda words: "  ".join(words).encode()), min_size=1, max_size=6
)


class Teacher:
    """Learns any word: its letters, but nothing of some words."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def learn(self, words: Sequence[str]) -> list[bytes]:
        self.asked += words
        return [numbers(word) for word in words]


def numbers(word: str) -> bytes:
    return np.array([ord(letter) for letter in word if len(word) != 2], dtype=np.int64).tobytes()


def expected(texts: Sequence[bytes]) -> list[bytes]:
    return [b"".join(numbers(word) for word in without_ends(f"{text.decode()} ").split()) for text in texts]


def without_ends(text: str) -> str:
    for end in ",.:":
        text = text.replace(f"{end} ", "  ")
    return text


def found(words: KnownWords, texts: Sequence[bytes]) -> list[bytes]:
    return [array.tobytes() for array in words.numbers_of(texts)]


@pytest.mark.parametrize("many", [0, known.MANY])
@pytest.mark.parametrize("bits", [1, known.BITS])
@pytest.mark.parametrize(("most_words", "most_numbers"), [(3, 5), (known.KEPT_WORDS, known.MOST_NUMBERS)])
@given(calls=st.lists(TEXTS, min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_words_have_the_numbers_that_were_learned(
    many: int, bits: int, most_words: int, most_numbers: int, calls: list[list[bytes]]
) -> None:
    with pytest.MonkeyPatch.context() as sizes:
        for name, value in (("MANY", many), ("BITS", bits), ("KEPT_WORDS", most_words), ("MOST_NUMBERS", most_numbers)):
            sizes.setattr(known, name, value)
        words = KnownWords(Teacher().learn)
        for texts in calls:
            assert found(words, texts) == expected(texts)


@pytest.mark.parametrize("many", [0, known.MANY])
def test_a_word_is_learned_once_and_a_very_long_one_each_time(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MANY", many)
    teacher, long = Teacher(), "x" * (known.LONGEST_KEPT + 1)
    words, texts = KnownWords(teacher.learn), [f"soup {long} soup".encode(), f"bowl soup {long[:-1]}".encode()]
    assert found(words, texts) == expected(texts)
    first = len(teacher.asked)
    assert sorted(set(teacher.asked)) == sorted(["soup", "bowl", long, long[:-1]])
    assert found(words, texts) == expected(texts)
    assert set(teacher.asked[first:]) == {long}


@pytest.mark.parametrize("many", [0, known.MANY])
def test_a_word_at_the_end_of_a_sentence_is_the_same_word_and_a_number_stays_whole(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "MANY", many)
    teacher = Teacher()
    KnownWords(teacher.learn).numbers_of([b"soup, bowl. soup: 25,000 10:30 v1.2. bowl", b"soup."])
    assert teacher.asked == ["soup", "bowl", "25,000", "10:30", "v1.2"]


def test_two_words_that_share_a_place_are_both_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MANY", 0)
    monkeypatch.setattr(known, "BITS", 1)
    teacher = Teacher()
    words, text = KnownWords(teacher.learn), b"one two three four five six seven eight nine ten"
    for _ in range(3):
        assert found(words, [text]) == expected([text])
    assert sorted(teacher.asked) == sorted(text.decode().split())


def test_a_word_that_was_found_at_once_is_not_asked_for_again_whatever_stands_behind_it() -> None:
    asked: list[bytes] = []

    def find(words: Sequence[bytes]) -> list[bytes]:
        asked.extend(words)
        return [numbers(word.decode()) for word in words]

    at_once, texts = known.AtOnce(find), [b"one two-hundred sixteen-letters- one"]
    assert [array.tobytes() for array in at_once.numbers_of(texts)] == expected(texts)
    asked.clear()
    texts = [b"sixteen-letters- two-hundred", b"one"]
    assert [array.tobytes() for array in at_once.numbers_of(texts)] == expected(texts)
    assert asked == []
