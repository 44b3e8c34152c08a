"""No regular expression takes more than linear time, whatever text it is given."""

import re

import pytest

from contract.platform import extract, stem
from tests import regexes
from tests.regexes import Found, Used

# The judge's own: what its cases look for, in answers of a platform that somebody has chosen to test.
OF_CASES = {
    "contract/call.py: re.compile(value)",
    "contract/match.py: re.compile(expression)",
    "contract/match.py: re.search(expression, seen)",
    "contract/mcp_player.py: re.search(expression, text)",
}


@pytest.fixture(scope="module")
def found() -> Found:
    return regexes.in_tree("gateway", "contract")


@pytest.mark.slow
def test_no_pattern_takes_more_than_linear_time(found: Found) -> None:
    assert set(found.unread) == OF_CASES, "a pattern that is made at run time cannot be looked at here"
    assert [slow for used in found.used if (slow := regexes.slowest(used)) is not None] == []


def test_patterns_are_found_wherever_they_stand(found: Found) -> None:
    by_place = {(used.place.partition(":")[0], used.pattern.pattern): used.methods for used in found.used}
    assert by_place["gateway/operations/names.py", "[^a-z0-9]+"] == {"sub"}
    assert by_place["gateway/operations/notes.py", r"\r?\n"] == {"match"}
    assert by_place["gateway/surfaces/being/schema.py", r"^\d{4}-\d{2}-\d{2}$"] == {"fullmatch"}
    # Those of a table, each by itself, and one that is put together.
    assert all(("contract/platform/extract.py", pattern) in by_place for pattern in extract.PATTERNS.values())
    assert by_place["contract/platform/stem.py", stem.VOWEL + stem.CONSONANT] == {"findall"}


@pytest.mark.parametrize(
    ("pattern", "flags", "method"),
    [
        pytest.param(r"(a+)+$", 0, "match", id="exponential"),
        pytest.param(r"(?:a|aa)+!", 0, "fullmatch", id="alternatives"),
        pytest.param(r"\s*x\s*\s*y", 0, "match", id="neighbours"),
        pytest.param(r"\s+$", 0, "search", id="every-start"),
        pytest.param(r"<meta\s[^>]*charset", re.IGNORECASE, "search", id="every-beginning"),
        pytest.param(r"(.*),(.*),(.*),x", 0, "match", id="cubic"),
        pytest.param(
            r"^[ \t#>*_\[-]*(user|human|assistant|system|tool)\b[ \t]*[*_\]]*[ \t]*(?:[:>-]+|$)[*_]*",
            re.IGNORECASE | re.MULTILINE,
            "finditer",
            id="speaker",
        ),
        pytest.param(r"^(name|description): ([^'\"|>\s].*?)[ \t]*\r?$", re.MULTILINE, "sub", id="unquoted"),
        pytest.param(r"^tags: \[([^'\"]*)\][ \t]*\r?$", re.MULTILINE, "sub", id="unquoted-tags"),
    ],
)
def test_a_slow_pattern_is_seen_and_named(pattern: str, flags: int, method: str) -> None:
    told = regexes.slowest(Used("somewhere.py:7", re.compile(pattern, flags), frozenset({method})))
    assert told is not None
    assert told.startswith(f"somewhere.py:7 {pattern!r}")


def test_a_slow_pattern_of_bytes_is_seen() -> None:
    assert regexes.slowest(Used("here", re.compile(rb"(?:a|b)*b(?:a|b)*c"), frozenset({"match"}))) is not None


@pytest.mark.parametrize(
    ("pattern", "method"),
    [(r"[^.!?\n]+[.!?]*", "finditer"), (r"\s+$", "match"), (r"[a-z]{0,20}-x", "search"), (r"(?:ab)*+c", "match")],
)
def test_a_linear_pattern_is_not_blamed(pattern: str, method: str) -> None:
    assert regexes.slowest(Used("here", re.compile(pattern), frozenset({method}))) is None
