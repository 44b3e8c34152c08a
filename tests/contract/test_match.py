"""Patterns: what fits, what does not, and what is said of it."""

from typing import Any

import pytest

from contract.match import mismatches, problems

FITS: list[tuple[Any, Any]] = [
    (1, 1),
    (1, 1.0),
    ("tea", "tea"),
    (None, None),
    (True, True),
    ([], []),
    ([1, {"a": 2}], [1, {"a": 2, "b": 3}]),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a?": 1}, {}),
    ({"a?": 1}, {"a": 1}),
    ({"any": "string"}, ""),
    ({"any": "integer"}, 3),
    ({"any": "number"}, 3.5),
    ({"any": "boolean"}, False),
    ({"any": "null"}, None),
    ({"any": "value"}, None),
    ({"any": "time"}, "2026-04-18T08:12:00+00:00"),
    ({"any": "time"}, "2026-04-18T08:12:00.123Z"),
    ({"any": "hex"}, "00ff"),
    ({"any": "string", "match": "^a"}, "abc"),
    ({"contains": ["a", "c"]}, "abc"),
    ({"contains": [{"a": 1}]}, [{"a": 2}, {"a": 1, "b": 1}]),
    ({"lacks": ["x"]}, "abc"),
    ({"lacks": ["x"]}, {"a": 1}),
    ({"lacks": [{"a": 1}]}, [{"a": 2}]),
    ({"each": {"any": "integer"}}, [1, 2]),
    ({"least": 1, "most": 3}, 3),
    ({"length": 2}, "ab"),
    ({"length": {"least": 1}}, [1, 2]),
    ({"one_of": [1, "a"]}, "a"),
    ({"all_of": [{"a": 1}, {"lacks": ["b"]}]}, {"a": 1}),
    ({"not": {"match": "^b"}}, "abc"),
    ({"only": {"a": 1, "b?": 2}}, {"a": 1}),
    ({"equal": {"any": "string"}}, {"any": "string"}),
]
MISFITS: list[tuple[Any, Any, str]] = [
    (1, 2, "value should be 1, not 2"),
    (1, True, "value should be 1, not true"),
    (True, 1, "value should be true, not 1"),
    ("1", 1, 'value should be "1", not 1'),
    ([1], [1, 2], "value should have 1 items, not 2: [1, 2]"),
    ([1], {"a": 1}, 'value should be a list, not {"a": 1}'),
    ({"a": {"b": 1}}, {"a": {"b": 2}}, "value.a.b should be 1, not 2"),
    ({"a": 1}, {"b": 1}, "value.a is missing; there are b"),
    ({"a": 1}, [], "value should be an object, not []"),
    ({"a?": 1}, {"a": 2}, "value.a should be 1, not 2"),
    ({"any": "string"}, 1, "value should be a string, not 1"),
    ({"any": "integer"}, 1.5, "value should be a whole number, not 1.5"),
    ({"any": "integer"}, True, "value should be a whole number, not true"),
    ({"any": "time"}, "2026-04-18T08:12:00", "value should be a time with offset (RFC 3339)"),
    ({"any": "time"}, "yesterday", "value should be a time with offset (RFC 3339)"),
    ({"any": "hex"}, "00FF", "value should be lower-case hex digits"),
    ({"match": "^b"}, "abc", "value should match '^b', and is \"abc\""),
    ({"contains": ["x"]}, "abc", 'value should contain "x", and is "abc"'),
    ({"contains": [1]}, [2], "value should contain 1, and is [2]"),
    ({"contains": ["x"]}, None, 'value should contain "x", and is null'),
    ({"lacks": ["a"]}, {"a": 1}, 'value should not contain "a"'),
    ({"lacks": ["a"]}, None, "value should be a text, an object or a list, not null"),
    ({"each": 1}, [1, 2], "value[1] should be 1, not 2"),
    ({"each": 1}, {}, "value should be a list, not {}"),
    ({"least": 1}, 0, "value should be at least 1, not 0"),
    ({"most": 1}, "0", 'value should be at most 1, not "0"'),
    ({"length": 2}, "abc", "the length of value should be 2, not 3"),
    ({"length": 2}, 12, "value should be a text or a list, not 12"),
    ({"one_of": [1, 2]}, 3, "value should be one of 1, 2, not 3"),
    ({"not": 1}, 1, "value should not be 1, and is 1"),
    ({"only": {"a": 1}}, {"a": 1, "b": 2}, "value should have no other keys, and has b"),
    ({"equal": {"any": "string"}}, "x", 'value should be {"any": "string"}, not "x"'),
]
WRONG: list[tuple[Any, str]] = [
    ({"any": "banana"}, "pattern.any: there is no type"),
    ({"match": "("}, "pattern.match is not a regular expression"),
    ({"a": [{"contains": "x"}]}, "pattern.a[0].contains should be a list"),
    ({"only": []}, "pattern.only should be an object"),
    ({"least": "x"}, "pattern.least should be a number"),
    ({"each": {"any": "banana"}}, "pattern.each.any: there is no type"),
    ({"a": 1, "lacks": ["b"]}, "pattern mixes keys with lacks"),
]


@pytest.mark.parametrize(("pattern", "seen"), FITS)
def test_what_fits_is_silent(pattern: Any, seen: Any) -> None:
    assert mismatches(pattern, seen) == []
    assert list(problems(pattern)) == []


@pytest.mark.parametrize(("pattern", "seen", "sentence"), MISFITS)
def test_what_does_not_fit_is_told_in_a_sentence(pattern: Any, seen: Any, sentence: str) -> None:
    told = mismatches(pattern, seen)
    assert len(told) == 1
    assert told[0].startswith(sentence)


@pytest.mark.parametrize(("pattern", "sentence"), WRONG)
def test_a_pattern_that_makes_no_sense_is_told(pattern: Any, sentence: str) -> None:
    assert next(problems(pattern)).startswith(sentence)


def test_every_misfit_is_told() -> None:
    assert len(mismatches({"a": 1, "b": {"any": "string"}}, {"a": 2, "b": 3})) == 2


def test_what_is_long_is_cut_and_garbles_no_terminal() -> None:
    told = mismatches("a", "\x1b[31m" + "x" * 10_000)[0]
    assert len(told) < 400
    assert "\x1b" not in told
