"""One result holds a million characters: entries beyond that are left out whole, and the result says so."""

import json
from typing import Any

from gateway.mcp.bounds import RESULT_LENGTH, bounded, left_out_note, more


def entry(n: int, length: int, **others: Any) -> dict[str, Any]:
    return {"path": f"{n}.md", "content": "x" * length, **others}


def test_what_fits_is_as_it_was() -> None:
    entries = [entry(n, 9_000, metadata={"tags": ["a"], "n": None}) for n in range(100)]
    assert bounded(entries, "content") == (entries, 0)
    assert bounded([], "content") == ([], 0)


def test_the_last_entries_are_left_out_whole() -> None:
    entries = [entry(n, 300_000) for n in range(10)]
    kept, left_out = bounded(entries, "content")
    assert (kept, left_out) == (entries[:3], 7)


def test_a_text_that_would_fill_a_result_is_cut_and_says_so() -> None:
    (kept,), left_out = bounded([entry(1, 5_000_000), entry(2, 200_000)], "content")
    assert left_out == 1
    assert kept["content"] == "x" * 900_000 + " … (cut: 5,000,000 characters in all)"
    assert kept["path"] == "1.md"


def test_whatever_else_an_entry_holds_counts_too() -> None:
    wide = entry(1, 1, metadata={"a": {"b": ["y" * 600_000, {"y" * 600_000: 1}]}})
    assert bounded([wide, entry(2, 1)], "content") == ([], 2)
    deep: Any = "x"
    for _ in range(50_000):
        deep = [deep]
    assert bounded([entry(1, 1, metadata=deep)], "content")[1] == 0


def test_a_bound_is_about_the_length_of_the_json() -> None:
    entries = [entry(n, 10, tags=["a", "b"], score=0.5) for n in range(50_000)]
    kept, left_out = bounded(entries, "content")
    assert 0.7 * RESULT_LENGTH < len(json.dumps(kept)) < 1.1 * RESULT_LENGTH
    assert left_out == 50_000 - len(kept)


def test_it_is_said_only_where_it_is_so() -> None:
    assert (more(0), left_out_note(0)) == ({}, "")
    assert more(7) == {"left_out": 7}
    assert left_out_note(7) == "\n(7 more are left out: one result holds 1,000,000 characters)"
