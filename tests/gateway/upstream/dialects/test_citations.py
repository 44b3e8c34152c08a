"""Where an answer uses the words of a source."""

from difflib import SequenceMatcher
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.upstream.dialects import citations
from gateway.upstream.dialects.citations import Span, find_span

# A busy machine is no failure.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
WORDS = st.sampled_from(["the", "Sky", "is", "BLUE", "straße", "ΣΟΦΟΣ", "don't", "3.14", "日本", "😀", "a"])
MARKS = st.sampled_from([" ", "  ", "\n", ", ", ". ", " - ", "**", "\u00a0", "; ", "! "])
TEXT = st.lists(st.tuples(WORDS, MARKS), max_size=25).map(lambda parts: "".join(word + mark for word, mark in parts))


def plain(text: str) -> str:
    """Without what a quote may differ in: case and spaces."""
    return "".join(text.split()).casefold()


def check(source: str, answer: str, span: Span) -> None:
    """What holds of every citation."""
    assert span.quote in source
    assert len(span.quote) <= 300
    assert 0 <= span.start <= span.end <= len(answer)
    if (span.start, span.end) != (0, 0):
        assert plain(answer[span.start : span.end]) == plain(span.quote) != ""


@pytest.mark.parametrize(
    ("source", "answer", "quote", "said"),
    [
        ("The sky is blue.", "Indeed the sky is blue, he said.", "The sky is blue", "the sky is blue"),
        ("The sky  is\nblue today.", "THE SKY IS BLUE", "The sky  is\nblue", "THE SKY IS BLUE"),
        ("Die Straße ist größer.", "So: die straße ist größer!", "Die Straße ist größer", "die straße ist größer"),
        ("日本 の 首都 は 東京", "はい、日本 の 首都 は 東京 です", "日本 の 首都 は 東京", "日本 の 首都 は 東京"),
        ("😀 one two three", "😀😀 one two three 😀", "one two three", "one two three"),
        ("Paris", "It is Paris.", "Paris", "Paris"),
        ("Don't panic, he says", "do not: Don't panic, he says", "Don't panic, he says", "Don't panic, he says"),
        ("a b **c** d e f", "a b c d e f", "d e f", "d e f"),
    ],
)
def test_the_words_both_share_are_the_quote_and_its_place(source: str, answer: str, quote: str, said: str) -> None:
    span = find_span(source, answer)
    assert (span.quote, answer[span.start : span.end]) == (quote, said)
    check(source, answer, span)


@pytest.mark.parametrize(
    ("source", "answer", "quote"),
    [
        ("Cats sleep. Dogs bark at night!", "They bark all night long", "Dogs bark at night!"),
        ("One sentence only", "nothing of it", "One sentence only"),
        ("the sky is green", "the sky was green", "the sky is green"),
        ("", "an answer", ""),
        ("A source.", "", "A source."),
        ("...\n\n", "an answer", ""),
        ("", "", ""),
    ],
)
def test_without_shared_words_the_nearest_sentence_is_quoted_and_has_no_place(
    source: str, answer: str, quote: str
) -> None:
    assert find_span(source, answer) == Span(quote, 0, 0)


@UNHURRIED
@given(TEXT, TEXT)
def test_offsets_are_true_for_texts_that_share_words(source: str, answer: str) -> None:
    check(source, answer, find_span(source, answer))


@UNHURRIED
@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=20), st.text(max_size=20))
def test_offsets_are_true_for_any_text(source: str, answer: str, before: str, after: str) -> None:
    check(source, answer, find_span(source, answer))
    check(source, before + source + after, find_span(source, before + source + after))


@UNHURRIED
@given(TEXT.filter(lambda text: text.count(" ") > 6), st.sampled_from(["", "He said: ", "«", "😀 "]))
def test_a_source_that_is_said_whole_has_a_place(source: str, before: str) -> None:
    span = find_span(source, before + source)
    assert span.end > span.start >= len(before) - 1
    check(source, before + source, span)


@pytest.mark.parametrize("length", [299, 300, 301, 5000])
def test_no_quote_is_longer_than_a_quote(length: int) -> None:
    word = "x" * length
    for source in (word, f"{word} one two three", f"one two {word} three", " ".join(["word"] * length)):
        span = find_span(source, f"so {source}")
        check(source, f"so {source}", span)
        assert span.quote


def test_a_long_run_is_quoted_by_its_beginning() -> None:
    source = " ".join(f"word{n}" for n in range(200))
    span = find_span(source, f"He said: {source}")
    check(source, f"He said: {source}", span)
    assert span.quote.startswith("word0 word1")
    assert 280 < len(span.quote) <= 300


class Counted(SequenceMatcher[str]):
    """Counts how many pairs of words a comparison may look at."""

    a: list[str]
    b: list[str]
    b2j: dict[str, list[int]]
    looked_at: ClassVar[list[int]] = []

    def find_longest_match(self, *args: Any, **kwargs: Any) -> Any:
        pairs = sum(len(self.b2j.get(word, ())) for word in self.a)
        self.looked_at.append(pairs + len(self.a) + len(self.b))
        return super().find_longest_match(*args, **kwargs)


@pytest.mark.parametrize(
    "unit", ["a ", "the cat sat on the mat. ", "a b c d e f g h i j k l m n o p ", "x" * 10_000 + " ", "a.\n", "!", " "]
)
@pytest.mark.not_quick
def test_the_work_of_a_citation_is_bounded_for_the_longest_texts(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million characters cost no more than the first few thousand do."""
    monkeypatch.setattr(citations, "SequenceMatcher", Counted)
    monkeypatch.setattr(Counted, "looked_at", [])
    long = (unit * (1_000_000 // len(unit) + 1))[:1_000_000]
    for source, answer in ((long, long), (long, "a cat " * 3000), (long[:150], long), (long, "")):
        check(source, answer, find_span(source, answer))
    assert max(Counted.looked_at) <= 3_000_000
    assert find_span(long, long) == find_span(long[:20_000], long[:20_000])
