"""Where a sentence ends, and what else a note is made of."""

import pytest

from contract.platform import markdown
from contract.platform.passages import Passage, passages
from tests.growth import is_linear


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in markdown.sentences(text)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Ask Dr. Weiss and Mrs. Okafor.",
        "It is due on Friday, 5 p.m. at the latest.",
        "We open at 8 a.m. on Monday.",
        "Take fruit, e.g. apples, i.e. what is there.",
        "The U.S. team has the keys.",
        "It is at No. 5 Hafenstraße.",
        "Present were A. Keller and J. R. Lind.",
        "She read Ursula K. Le Guin.",
        "It needs version 3.11.2 or later.",
        "The lawyers (Hartmann et al.) had not finished.",
        "Wir sehen uns am 9. Mai in Bonn.",
        "See Fig. 3 and vol. 2 of it.",
        "Smith vs. Jones was dismissed.",
        "St. Gallen is in Switzerland.",
    ],
)
def test_a_sentence_is_not_cut_at_a_word_with_a_full_stop(sentence: str) -> None:
    assert sentences(f"It rained. {sentence} The dog slept.") == ["It rained.", sentence, "The dog slept."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We met at 5 p.m. The dog slept.", ["We met at 5 p.m.", "The dog slept."]),
        ("The answer is no. Really.", ["The answer is no.", "Really."]),
        ("Take vitamin C. Eat well.", ["Take vitamin C.", "Eat well."]),
        ("So did I. Then we left.", ["So did I.", "Then we left."]),
        ("i moved to porto. i like it.", ["i moved to porto.", "i like it."]),
        (
            "# Steps\nStop it first.\n1. Whisk it.\n2. Add milk. Stir.",
            ["Stop it first.", "Whisk it.", "Add milk.", "Stir."],
        ),
        ("Network: Kestrel\nPassword: tulip", ["Network: Kestrel", "Password: tulip"]),
        ("The boiler is\nin the cellar.", ["The boiler is\nin the cellar."]),
        (
            "This line is as long as lines of a wrapped text are, it ends in\nLisbon, and goes on.",
            ["This line is as long as lines of a wrapped text are, it ends in\nLisbon, and goes on."],
        ),
        ("Before.\n```py\nx = 1. \ny = 2\n```\nAfter.", ["Before.", "After."]),
        ("Before.\n~~~\n``` still. code.\n~~~\nAfter.", ["Before.", "After."]),
    ],
)
def test_a_sentence_ends_where_it_does(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize("piece", ["5. ", "Dr. ", "a\n", "A: b\n", "1. x\n", "```\n", "- a\n\n", "| a |\n", "# a\n"])
def test_no_text_makes_reading_slow(piece: str) -> None:
    assert is_linear(lambda n: sentences(piece * n), 2000)
    assert is_linear(lambda n: passages(piece * n), 2000)


def shown(text: str, passage: Passage) -> tuple[str, str, str, list[str]]:
    lead = text[slice(*passage.lead)] if passage.lead else ""
    return passage.kind, passage.heading, lead, [text[start:end] for start, end in passage.units]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two.", [("prose", "", "", ["One.", "Two."])]),
        (
            "# A\nOne.\n\n## B\n- x\n  more\n- y\n\n- z\n\nTwo.",
            [
                ("prose", "A", "", ["One."]),
                ("list", "A\nB", "", ["x\n  more", "y", "z"]),
                ("prose", "A\nB", "", ["Two."]),
            ],
        ),
        ("To buy\n- [ ] milk\n- [x] tea", [("list", "", "To buy", ["milk", "tea"])]),
        ("Undo it:\n\n```sh\ngit reset\n```\nDone.", [("code", "", "Undo it:", []), ("prose", "", "", ["Done."])]),
        ("Not a lead.\n\n- x", [("prose", "", "", ["Not a lead."]), ("list", "", "", ["x"])]),
        (
            "| Host | Runs |\n|---|---|\n| alder | Postgres |\n| birch | API |",
            [("table", "", "Host | Runs", ["alder | Postgres", "birch | API"])],
        ),
        ("Network: Kestrel\nPassword: tulip", [("list", "", "", ["Network: Kestrel", "Password: tulip"])]),
        ("## A\n### B\n## C\nText.", [("prose", "C", "", ["Text."])]),
        ("```\nnever closed", [("code", "", "", [])]),
        ("", []),
    ],
)
def test_a_note_is_read_in_passages(text: str, expected: list[tuple[str, str, str, list[str]]]) -> None:
    assert [shown(text, passage) for passage in passages(text)] == expected
