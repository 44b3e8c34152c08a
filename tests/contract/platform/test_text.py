"""Stems, chunks and sentences."""

import sqlite3
import tracemalloc
from contextlib import closing

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contract.platform import extract, markdown, names, query, words
from contract.platform.stem import porter
from tests.growth import is_linear
from tests.tiers import by_tier

LETTERS = st.text("aeiouybdlmnrstxz", min_size=1, max_size=6)
SUFFIXES = [
    "",
    "s",
    "es",
    "ies",
    "ed",
    "eed",
    "ing",
    "ational",
    "izer",
    "fulness",
    "biliti",
    "ement",
    "tion",
    "e",
    "ll",
    "y",
]


def stems_by_sqlite(tokens: list[str]) -> list[str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize = 'porter unicode61 remove_diacritics 2')")
        connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, instance)")
        for number, token in enumerate(tokens):
            connection.execute("INSERT INTO t (rowid, x) VALUES (?, ?)", (number, token))
        return [term for (term,) in connection.execute("SELECT term FROM v ORDER BY doc")]


@settings(max_examples=by_tier(30, 150, 1500), deadline=None)
@given(st.lists(st.tuples(LETTERS, st.sampled_from(SUFFIXES), st.sampled_from(SUFFIXES)).map("".join), min_size=1))
@example(["byyes", "yyed", "byying", "eed", "eeds", "ies", "sses"])
def test_stems_are_those_of_the_index(tokens: list[str]) -> None:
    assert [porter(token) for token in tokens] == stems_by_sqlite(tokens)


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        ("Relational", "relat"),
        ("PONIES", "poni"),
        ("hopping", "hop"),
        ("crème", "creme"),
        ("is", "is"),
        ("Ünïcode", "unicod"),
    ],
)
def test_words_are_folded_and_stemmed(word: str, stem: str) -> None:
    assert words.stem_of(word) == stem


@settings(max_examples=by_tier(30, 150, 1500), deadline=None)
@given(st.text(st.one_of(st.sampled_from("a b.\n#-`"), st.characters(exclude_categories=["Cs"])), max_size=400))
def test_chunks_hold_every_word_in_order(body: str) -> None:
    pieces = markdown.chunks(body)
    assert pieces
    joined, place = "".join(body.split()), 0
    for piece in pieces:
        assert piece in body
        squeezed = "".join(piece.split())
        place = joined.index(squeezed, place) + len(squeezed)
    assert "".join("".join(piece.split()) for piece in pieces) == joined


@pytest.mark.parametrize(
    "body",
    [
        "word " * 5000,
        "A sentence of five words. " * 1000,
        "x" * 50_000,
        "日本語" * 5000,
        "日本語。" * 5000,
        "日本語" * 300 + "\n\nnext paragraph\n\n" + "word " * 300 + "\n\nlast",
        "\n\n".join(["short paragraph here"] * 2000),
        "- item of a list\n" * 2000,
    ],
)
def test_no_chunk_is_too_long_and_few_are_short(body: str) -> None:
    pieces = markdown.chunks(body)
    sizes = [words.count(piece) for piece in pieces]
    assert max(sizes) <= markdown.LONGEST
    assert max(len(piece) for piece in pieces) <= markdown.LONGEST_CHARACTERS
    if body.isascii() and " " in body:
        assert min(sizes[:-1]) >= 100
    assert "".join("".join(piece.split()) for piece in pieces) == "".join(body.split())


def test_an_enormous_paragraph_is_cut_between_sentences() -> None:
    pieces = markdown.chunks("Here are five whole words. " * 200)
    assert all(piece.endswith("words.") for piece in pieces)


def test_headings_begin_chunks_but_outlines_stay_together() -> None:
    section = "text " * 60
    assert [piece.split("\n")[0] for piece in markdown.chunks(f"# One\n\n{section}\n\n# Two\n\n{section}")] == [
        "# One",
        "# Two",
    ]
    assert len(markdown.chunks("# One\n\n## Two\n\nshort\n\n## Three\n\nshort")) == 1


def test_a_comment_in_a_code_fence_is_no_heading() -> None:
    body = "intro " * 60 + "\n\n```sh\n\n# not a heading\n\nmake\n\n```\n"
    assert len(markdown.chunks(body)) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("# Heading\n\nBody text.", ["Body text."]),
        ("# Heading\nBody text.", ["Body text."]),
        ("Before.\n# One\n## Dr. Two\nBelow. Last", ["Before.", "Below.", "Last"]),
        ("```sh\n# a comment\nmake it\n```\n\nAfter.", ["After."]),
        ("- first item\n- second item", ["first item", "second item"]),
        ("今日は雨。明日は晴れ。", ["今日は雨。", "明日は晴れ。"]),
        ("Version 3.11 is out. Good.", ["Version 3.11 is out.", "Good."]),
        ("Broken\nacross lines. End", ["Broken\nacross lines.", "End"]),
        ('He said "no." Then left.', ['He said "no."', "Then left."]),
        ("", []),
    ],
)
def test_sentences_are_found(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in markdown.sentences(text)] == expected


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("plain", markdown.Note(None, "", "plain")),
        ("---\nname: N\n---\nbody", markdown.Note("N", "", "body")),
        ("---\r\ntitle: T\r\ntags: [a, 'b c']\r\n---\r\nbody", markdown.Note("T", "a b c", "body")),
        ("---\ntags:\n- x\n- y\n---\n", markdown.Note(None, "x y", "")),
        ("---\nname: never closed", markdown.Note(None, "", "---\nname: never closed")),
        ("\ufeff---\nname: N\n---\nbody", markdown.Note("N", "", "body")),
        ('---\nname: "broken \\q"\n---\nbody', markdown.Note("broken \\q", "", "body")),
        ("text\n---\nname: N\n---\n", markdown.Note(None, "", "text\n---\nname: N\n---\n")),
    ],
)
def test_front_matter_is_read_and_never_breaks(text: str, note: markdown.Note) -> None:
    assert markdown.read(text) == note


@pytest.mark.parametrize(
    "text",
    [
        "# " + " " * 200_000 + "x",
        "# x" + "#" * 200_000 + "x",
        "#" * 200_000 + "x",
        "\n" * 200_000 + "x",
        "- " * 100_000,
        "---\n" + "a:\n " * 60_000,
        " \n" * 100_000,
        "[" * 200_000,
        "." + '"' * 200_000 + "x",
        "1" * 200_000,
        "a\u0301" * 100_000,
        "user" + " " * 200_000 + "x",
        "0" * 200_000 + "x",
        "Remember: " + "\u0301" * 100_000 + "\u0316" * 100_000,
    ],
)
def test_no_text_makes_reading_slow(text: str) -> None:
    """Each of these takes minutes with an expression that backtracks; the limit of the test run is what fails."""
    assert markdown.title_of(text, otherwise="other")
    assert markdown.chunks(markdown.read(text).body)
    assert list(extract.facts(extract.said_by_users(text))) == []
    assert words.grams(text) == ""
    assert words.stems(text) is not None


@pytest.mark.parametrize("line", ["a\n", "a\n\n", " a:\n"])
def test_many_lines_are_read_in_little_memory(line: str) -> None:
    text = "---\n" + line * by_tier(30_000, 100_000)
    tracemalloc.start()
    try:
        assert len(markdown.chunks(markdown.read(text).body)) > 100
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 12 * len(text)


def test_front_matter_that_is_too_long_is_text() -> None:
    text = f"---\nname: x\n{'a: b' * 20_000}\n---\nbody"
    assert markdown.read(text) == markdown.Note(None, "", text)


def test_no_row_of_accents_is_read_slowly() -> None:
    def read(n: int) -> None:
        text = "a" + "\u0301" * n + "\u0316" * n
        assert words.folded(text) == "a"
        assert names.slug(text, "other") == "a"
        assert len(query.lookups(text)) == 1

    assert is_linear(read, 4_000)


@given(st.lists(st.builds("".join, st.lists(st.sampled_from([*"aeiouyAYbst", "é", "字", "eyed", "ing", *SUFFIXES])))))
@example(["eyed", "Eying", "eys", "oing", "AED", "yyed", "y", "né", "NÉES"])
def test_every_word_is_counted_by_its_stem(tokens: list[str]) -> None:
    text = "; ".join(tokens)
    stems = [words.stem_of(word) for word in words.WORD.findall(text)]
    keys = frozenset(stems[::2])
    counted, length = words.tally(text, keys)
    assert (counted, length) == ({key: stems.count(key) for key in keys}, len(stems))
    assert len(words.places(text, keys)) == sum(stem in keys for stem in stems)


@given(st.text())
@example("a_b-c\x1fd\x00e\x7ff 'g' 1.5")
def test_words_in_ascii_are_those_that_the_expression_finds(text: str) -> None:
    assert words.every(text) == words.WORD.findall(text)
    assert words.count(text) == len(words.UNIT.findall(text))
