"""Ids, paths and derived names."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gateway.operations import names
from gateway.operations.errors import GatewayError
from tests.growth import is_linear

# A busy machine is no failure.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

BAD_IDS: list[str] = json.loads((Path(__file__).parents[2] / "vectors" / "bad-ids.json").read_text(encoding="utf-8"))
# Names that only a Windows file system minds; as one segment of a URL they are letters and a dot.
FINE_IDS = {"con", "nul.md"}
# As a folder these are odd but plain: a sub-folder, a space, letters outside ASCII.
FINE_FOLDERS = {"a/b", "a b", "ä", "a" * 129, "😀"}


def code_of(check: object, *arguments: str) -> str:
    assert callable(check)
    with pytest.raises(GatewayError) as caught:
        check(*arguments)
    return caught.value.code


@pytest.mark.parametrize("bad", [value for value in BAD_IDS if value not in FINE_IDS], ids=ascii)
def test_an_id_that_could_leave_its_segment_is_refused(bad: str) -> None:
    assert code_of(names.check_id, bad, "brain") == "validation_error"


@pytest.mark.parametrize("fine", [*sorted(FINE_IDS), "main", "a", "0", "a" * 128, "brn_01H", "A.b-c_d:e"])
def test_a_plain_id_passes_unchanged(fine: str) -> None:
    assert names.check_id(fine, "brain") == fine


@pytest.mark.parametrize(
    "bad", ["a\n", "main\r", "ａ", "a\u0301", "_a", ":a", "a@b", "a,b", "a+b", "\ud800"], ids=ascii
)
def test_an_id_has_no_other_characters(bad: str) -> None:
    assert code_of(names.check_id, bad, "brain") == "validation_error"


def test_a_refused_id_is_named_by_its_field_and_never_quoted() -> None:
    with pytest.raises(GatewayError) as caught:
        names.check_id("hunter2 secret", "session_id")
    assert caught.value.message.startswith("session_id must be ")
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("bad", BAD_IDS, ids=ascii)
def test_no_bad_id_is_a_path(bad: str) -> None:
    assert code_of(names.check_path, bad) == "validation_error"


@pytest.mark.parametrize("bad", [value for value in BAD_IDS if value not in FINE_FOLDERS], ids=ascii)
def test_no_bad_id_is_a_folder_of_a_path(bad: str) -> None:
    assert code_of(names.check_path, f"memory/global/{bad}/note.md") == "validation_error"


@pytest.mark.parametrize("folder", sorted(FINE_FOLDERS), ids=ascii)
def test_an_odd_but_plain_folder_is_kept(folder: str) -> None:
    assert names.check_path(f"memory/global/{folder}/note.md") == f"memory/global/{folder}/note.md"


@pytest.mark.parametrize(
    ("given_path", "kept"),
    [
        ("memory/global/running.md", "memory/global/running.md"),
        ("/memory/global/running.md", "memory/global/running.md"),
        ("a.md", "a.md"),
        ("Notes/READ ME.md", "Notes/READ ME.md"),
        ("memory/agent/coder/x.md", "memory/agent/coder/x.md"),
        ("memory/project/site/x.md", "memory/project/site/x.md"),
        ("何？：答え.md", "何？：答え.md"),
        ("memory/global/kvetch/x.md", "memory/global/kvetch/x.md"),
        ("my/sessions/x.md", "my/sessions/x.md"),
        ("a..b.md", "a..b.md"),
        (f"{'a' * 252}.md", f"{'a' * 252}.md"),
    ],
)
def test_a_plain_path_loses_its_leading_slash_and_nothing_else(given_path: str, kept: str) -> None:
    assert names.check_path(given_path) == kept


@pytest.mark.parametrize(
    "path",
    [
        "notes.txt",
        "notes",
        "notes.MD",
        "notes.md/",
        "//a.md",
        "a//b.md",
        "a/../b.md",
        "a/./b.md",
        "../b.md",
        "a/%2e%2e/b.md",
        "a/%252e%252e/b.md",
        "a/%25252e/b.md",
        "a/％2e/b.md",
        "a/．．/b.md",
        "a／b.md",
        "a＼b.md",
        "..∕x.md",
        "a⁄b.md",
        "C:/x.md",
        "a\\b.md",
        "a?b.md",
        "a#b.md",
        "a*b.md",
        "a|b.md",
        "a<b.md",
        "a\nb.md",
        "a\x7fb.md",
        "a\x85b.md",
        "a\u2028b.md",
        "a\u202egpj.md",
        "a\u2066b.md",
        "a\ud800b.md",
        " a.md",
        "a /b.md",
        "~/b.md",
        "-rf/b.md",
        "con.md",
        "CON .md",
        "a/NUL.x.md",
        "a/com¹.md",
        "lpt9/b.md",
        "a./b.md",
        f"{'a' * 253}.md",
        f"{'ä' * 127}.md",
    ],
    ids=ascii,
)
def test_a_path_that_two_systems_could_read_differently_is_refused(path: str) -> None:
    assert code_of(names.check_path, path) == "validation_error"


@pytest.mark.parametrize(
    "path",
    [
        "sessions/x.md",
        "/sessions/x.md",
        "SESSIONS/x.md",
        "ſessions/x.md",
        "ｓｅｓｓｉｏｎｓ/x.md",
        "memory/agent/u-abc/x.md",
        "memory/global/kv/ns/x.md",
        "memory/global/\u212av/x.md",
        "memory/global/team/x.md",
        "Memory/Global/Being/x.md",
        "memory/project/site/team/x.md",
        "memory/project/site/memo/x.md",
        "_x.md",
        "memory/global/_digest.md",
        "memory/_hits/x.md",
        "memory/＿hits/x.md",
    ],
    ids=ascii,
)
def test_the_gateways_own_trees_are_reserved_however_they_are_spelled(path: str) -> None:
    assert code_of(names.check_path, path) == "forbidden"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Saturday run notes", "saturday-run-notes"),
        ("  Crème brûlée!  ", "creme-brulee"),
        ("a--b__c", "a-b-c"),
        ("日本語", "fallback"),
        ("", "fallback"),
        ("x" * 100, "x" * 64),
        (f"{'x' * 63} y", "x" * 63),
    ],
)
def test_a_slug_is_lower_case_words_and_dashes(text: str, expected: str) -> None:
    assert names.slug(text, empty="fallback") == expected


@UNHURRIED
@given(st.text())
def test_a_slug_always_fits_a_brain_and_a_file_name(text: str) -> None:
    made = names.brain_slug(text) if text.isprintable() else names.slug(text, empty="note")
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?", made)
    assert names.check_id(made, "brain") == made


def test_brains_whose_names_have_no_letters_get_slugs_that_differ() -> None:
    assert names.brain_slug("日本") != names.brain_slug("中国")
    assert names.brain_slug("日本") == names.brain_slug("日本")


def test_equal_values_have_equal_digests_whatever_the_order_of_their_keys() -> None:
    assert names.digest({"a": 1, "b": ["ä"]}) == names.digest({"b": ["ä"], "a": 1})
    assert names.digest(["a", "b"]) != names.digest(["b", "a"])
    assert names.digest(["ab", ""]) != names.digest(["a", "b"])


def test_a_digest_stays_what_it_was_in_earlier_releases() -> None:
    """Stored notes are named by it: another digest would store every memory again."""
    canonical = '["# Run\\nTen miles.","Run",["a","b"]]'
    assert names.digest(["# Run\nTen miles.", "Run", ["a", "b"]]) == names.checksum(canonical)
    assert names.checksum("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("# Saturday run", "Saturday run"),
        ("intro\n\n## Second level ##\n", "Second level"),
        ("# C#", "C#"),
        ("# Closed #", "Closed"),
        ("# ###\n# Real", "Real"),
        ("#\tTab", "Tab"),
        ("# Windows\r\nline", "Windows"),
        ("#hashtag is no heading\nrest", "#hashtag is no heading"),
        ("\n\n  first words  \nmore", "first words"),
        ("", "Untitled"),
        (" \n\t\n", "Untitled"),
        ("# \u202e\u200b\n", "Untitled"),
        ("# a\x00b\x1b[31m", "a b [31m"),
        ("# many   spaces\there", "many spaces here"),
        (f"# {'x' * 600}", "x" * 512),
    ],
    ids=ascii,
)
def test_a_title_is_the_first_heading_else_the_first_words(content: str, title: str) -> None:
    assert names.title_of(content) == title


@pytest.mark.timeout(10)
@pytest.mark.parametrize("line", ["# a" + "#" * 65_000 + "x", "# a" + " #" * 32_000 + "x", "#" + " " * 65_000 + "x"])
def test_a_heading_made_to_be_slow_is_read_like_any_other(line: str) -> None:
    assert names.title_of(line) == " ".join(line[1:].split())[:512].strip()


@UNHURRIED
@given(st.text())
def test_a_title_is_always_one_short_printable_line(content: str) -> None:
    title = names.title_of(content)
    assert 1 <= len(title) <= 512
    assert title.isprintable()
    assert title == title.strip()


@UNHURRIED
@given(st.text(), st.text())
def test_derived_paths_are_paths_a_caller_could_have_given(title: str, content: str) -> None:
    digest = names.checksum(content)
    for path in (
        names.memory_path(title, digest),
        names.page_path(title, digest),
        names.transcript_path(digest),
    ):
        assert names.check_path(path) == path
        assert path.endswith(f"-{digest[:12]}.md")


@UNHURRIED
@given(st.text(), st.text(min_size=1), st.one_of(st.none(), st.text()))
@example("x", "x", "COM1")
@example("con", "x", None)
def test_a_name_that_a_model_chose_is_a_path_a_caller_could_have_given(
    name: str, content: str, actor: str | None
) -> None:
    tree = "global" if actor is None else f"project/{names.actor_folder(actor)}"
    path = names.extracted_path(name, content, tree)
    assert names.check_path(path) == path
    assert path.startswith(f"memory/{tree}/extracted-")
    assert path.endswith(f"-{names.checksum(content)[:12]}.md")
    assert path == names.extracted_path(name, content, tree)


session_ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", fullmatch=True)


@UNHURRIED
@given(session_ids, session_ids, st.text(), st.text())
def test_sessions_of_any_name_and_caller_are_kept_apart(one: str, other: str, caller: str, another: str) -> None:
    """By names that are apart on file systems that know no capitals too."""
    callers = {names.caller_name(caller), names.caller_name(another)}
    for path_of in (names.session_log_path, names.reflection_path):
        paths = {path_of(who, session).lower() for who in callers for session in (one, other)}
        assert len(paths) == len(callers) * len({one, other})
    assert len(callers) == len({caller, another})


@pytest.mark.parametrize(("one", "other"), [("Talk", "talk"), ("a.b", "a-b"), ("a:b", "a_b"), ("x" * 70, "x" * 71)])
def test_sessions_whose_slugs_are_the_same_have_names_that_differ(one: str, other: str) -> None:
    assert names.session_name(one).lower() != names.session_name(other).lower()


@UNHURRIED
@given(st.text(), session_ids)
def test_a_log_of_a_session_is_where_no_caller_may_write_and_says_nothing_of_who_speaks(
    subject: str, session: str
) -> None:
    path = names.session_log_path(names.caller_name(subject), session)
    assert re.fullmatch(r"sessions/[0-9a-f]{16}/[a-z0-9-]+-[0-9a-f]{12}\.jsonl", path)
    assert code_of(names.check_path, path.replace(".jsonl", ".md")) == "forbidden"
    assert len(path.rpartition("/")[2]) <= 255


def test_a_caller_is_always_called_the_same_and_never_by_name() -> None:
    assert names.caller_name("ada@example.com") == names.caller_name("ada@example.com")
    assert "ada" not in names.caller_name("ada@example.com")


@UNHURRIED
@given(st.text(), st.binary())
def test_a_file_is_called_by_its_name_and_what_is_in_it(stem: str, body: bytes) -> None:
    name = names.file_name(stem, body)
    assert names.check_path(f"raw/documents/{name}.md")
    assert name != names.file_name(stem, body + b"x")
    assert names.slug(name, empty="", length=100) == name, "a platform that makes a slug of it changes nothing"


def test_a_document_has_one_id_in_each_brain() -> None:
    ids = [
        names.document_id(brain, path) for brain, path in [("b", "a.md"), ("b", "c.md"), ("d", "a.md"), ("ba", ".md")]
    ]
    assert len(set(ids)) == 4
    assert names.document_id("b", "a.md") == ids[0]
    assert all(re.fullmatch(r"doc_[0-9a-f]{24}", made) for made in ids)


@pytest.mark.parametrize("read", [partial(names.slug, empty=""), names.title_of])
def test_no_row_of_accents_is_read_slowly(read: Callable[[str], object]) -> None:
    assert is_linear(lambda n: read("a" + "\u0301" * n + "\u0316" * n), 4_000)
