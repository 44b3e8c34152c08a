"""Notes: what is rendered is read again, whatever it holds, and after a platform has tidied up too."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gateway.operations import names, notes
from tests.growth import is_linear

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
MOMENT = "2026-02-03T04:05:06.789+00:00"

awkward = st.sampled_from(
    [
        *(
            "---",
            "---\n",
            "\n---\n",
            "---\nname: other\n---\n\nbody",
            "name: x\n",
            "\r\n",
            "\r\n---\r\n",
            "a: b",
            " #c",
        ),
        *(
            "# ",
            "- ",
            "[a, b]",
            "{",
            "'",
            '"',
            "|",
            ">",
            "&a",
            "*a",
            "!t",
            "%",
            "@",
            "`",
            "null",
            "yes",
            "1e3",
            "2026-01-01",
        ),
        *("\ufeff", "\x00", "\x1b", "\x85", "\u2028", "\u2029", "ä", "日本", "😀", "\t", " ", "...", "\\", ", "),
    ]
)
texts = st.lists(st.one_of(awkward, st.text(max_size=8)), max_size=6).map("".join)
documents = st.fixed_dictionaries(
    {
        "title": texts.filter(bool),
        "content": texts,
        "tags": st.lists(texts.filter(bool), max_size=4),
    }
)


def document(**other: Any) -> dict[str, Any]:
    return {"title": "Run", "content": "Ten miles.\n", "tags": ["sport"], **other}


@UNHURRIED
@given(documents)
@example({"title": "0\xa0", "content": "x", "tags": []})
@example({"title": "x", "content": "\n\n\nx\n\n", "tags": []})
@example({"title": "x", "content": "\r\n---\r\nx", "tags": []})
def test_what_is_rendered_is_read_again(wanted: dict[str, Any]) -> None:
    note = notes.parse(notes.render(wanted, MOMENT))
    assert note.holds(wanted)
    assert note.front["via"] == notes.MARK
    if (own := notes.parse(wanted["content"].encode())).front:
        # It came with front matter: that stays, and what it lacks is added.
        assert note.content == own.content
        assert own.front.items() <= note.front.items()
        return
    assert note.content == wanted["content"]
    assert (note.front["name"], note.front.get("tags", [])) == (wanted["title"], wanted["tags"])
    assert note.created == note.front["modified"] == MOMENT


@UNHURRIED
@given(documents)
def test_every_value_of_front_matter_is_on_a_line_of_its_own(wanted: dict[str, Any]) -> None:
    """Elsewhere it is read by the line, up to the first line of dashes."""
    text = notes.render(wanted, MOMENT).decode()
    head = text.split("\n---\n")[0].split("\n")
    assert head[0] == "---"
    keys = [line.partition(":")[0] for line in head[1:] if not line.startswith("- ")]
    if notes.parse(wanted["content"].encode()).front:
        assert keys
        return
    fields = ("name", "description", "tags", "created", "modified", "via", "digest")
    assert keys == [key for key in fields if key != "tags" or wanted["tags"]]
    assert len([line for line in head if line.startswith("- ")]) == len(wanted["tags"])
    assert yaml.safe_load("\n".join(head[1:]))["name"] == wanted["title"]


def tidied(body: bytes, *more: str) -> bytes:
    """As a platform writes it again: bare lines, its own tags added, the space around the content trimmed."""
    _, head, content = body.decode().split("---\n", 2)
    front = yaml.load(head, Loader=yaml.BaseLoader)
    tags = ", ".join(tag.strip() for tag in [*front.pop("tags", []), *more])
    lines = [f"{key}: {value}" for key, value in {**front, "tags": f"[{tags}]", "stale_since": MOMENT}.items()]
    return "\n".join(["---", *lines, "---", "", content.strip(), ""]).encode()


plain_line = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1, max_size=30)
# Where a line begins so, it is YAML of its own and not a text without quotes.
title = st.one_of(
    plain_line, st.sampled_from(["Issue #12", "Re: a", "[x] done", "- a", "2026", "yes", "&a", "C#", "{}"])
)
tag = plain_line.filter(lambda text: not set(text) & set("\"'"))


@UNHURRIED
@given(title.map(str.strip).filter(lambda text: text and text[0] not in "'\"|>"), st.text(max_size=40), st.lists(tag))
def test_a_document_is_still_itself_after_a_platform_added_tags(name: str, content: str, tags: list[str]) -> None:
    wanted = document(title=name, content=f"x{content}", tags=tags)
    note = notes.parse(tidied(notes.render(wanted, MOMENT), "stale"))
    assert note.holds(wanted)
    assert "stale" in note.tags


@pytest.mark.parametrize(
    "other",
    [
        {"title": "Walk"},
        {"content": "Ten kilometres.\n"},
        {"content": "Ten  miles.\n"},
        {"content": ""},
        {"tags": ["sport", "more"]},
        {"tags": ["spor"]},
    ],
)
@pytest.mark.parametrize("tidy", [False, True])
def test_another_document_is_not_held(other: dict[str, Any], tidy: bool) -> None:
    body = notes.render(document(), MOMENT)
    note = notes.parse(tidied(body, "stale") if tidy else body)
    assert note.holds(document())
    assert not note.holds(document(**other))


def test_a_title_that_a_platform_dropped_is_not_held_against_it() -> None:
    assert notes.parse(b"Ten miles.").holds(document(tags=[]))
    assert not notes.parse(b"Ten miles.").holds(document())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "---",
        "---\n",
        "---\nname: x",
        "---\n- a list\n---\nbody",
        "---\njust words\n---\nbody",
        "---\na: [b\n---\nbody",
        "---\na: \x07\n---\nbody",
        "---\n---\nbody",
        f"---\na: {'[' * 20_000}\n---\nbody",
        f"---\na: {'[' * 60_000}\n---\nbody",
        f"---\n{'- ' * 30_000}\n---\nbody",
        f"---\n{'? ' * 30_000}\n---\nbody",
        f"---\na: [{'b,' * 30_000}]\n---\nbody",
        "---\n? [a]\n: b\n---\nbody",
        "---\na: b\n--- c\n...\nd: e\n---\nbody",
        f"---\nname: {'x' * 70_000}\n---\nbody",
    ],
    ids=lambda text: ascii(text[:24]),
)
def test_without_front_matter_that_can_be_read_all_of_it_is_content(text: str) -> None:
    assert notes.parse(text.encode()) == notes.Note(text)


def test_bytes_that_are_no_text_are_a_note_all_the_same() -> None:
    assert notes.parse(b"\xff\xfea").content == "\ufffd\ufffda"


def test_what_looks_like_a_date_or_a_number_stays_text() -> None:
    note = notes.parse(b"---\nname: 2026\ncreated: 2026-01-02\nother: 1.50\n---\nx")
    assert (note.title, note.created, note.front["other"]) == ("2026", "2026-01-02", "1.50")


def test_front_matter_that_multiplies_itself_is_no_title_and_no_tag() -> None:
    """Each line names the one before nine times: written out it would fill any memory."""
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))]
    body = "\n".join(["---", *lines, "tags: *a29", "created: *a29", "---", "x"]).encode()
    note = notes.parse(body)
    assert note.content == "x"
    assert (note.title, note.tags, note.created) == (None, set(), "*a29")


# The parser in Python takes many times as long for the same text.
@pytest.mark.parametrize(("parser", "length"), [("CBaseLoader", 16_000), ("BaseLoader", 2_000)])
@pytest.mark.parametrize(
    ("begin", "piece", "end"),
    [
        ("name: a", " ", "x"),
        ("tags: [", "]\ntags: [", ""),
        ("tags: [", "a,", "]"),
        ("a: ", "[", ""),
        ("", "{a: ", ""),
        ("", "- ", ""),
        ("", "? ", ""),
        ("", "a:\n", ""),
        ("a: &a b\nc: [", "*a,", "]"),
        ("a: [", "&a b,", "]"),
        ('a: "', "\\x41", '"'),
        ("a: |\n", " b\n\n", ""),
    ],
)
def test_no_front_matter_is_read_slowly(
    monkeypatch: pytest.MonkeyPatch, parser: str, length: int, begin: str, piece: str, end: str
) -> None:
    """Whether or not PyYAML has a parser in C."""
    monkeypatch.setattr(notes, "_PARSER", getattr(yaml, parser))
    assert is_linear(lambda n: notes.parse(f"---\n{begin}{piece * (n // len(piece))}{end}\n---\nx".encode()), length)


def test_an_alias_is_the_text_that_it_is() -> None:
    note = notes.parse(b"---\nname: x\nlist: &l [a, b]\nagain: *l\n*l : [*l]\n---\nbody")
    assert note.front == {"name": "x", "list": ["a", "b"], "again": "*l", "*l": ["*l"]}


def test_tags_without_quotes_end_with_their_line() -> None:
    note = notes.parse(b"---\ntags: [a]b, c: d]\nother: [e]\n---\nbody")
    assert (note.tag_list, note.front["other"]) == (["a]b", "c: d"], ["e"])


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: x\n--- \nbody",
        "---\r\nname: x\r\n---\r\nbody",
        "---\r\nname: x \r\n---\r\n\r\nbody",
        "\ufeff---\nname: 'x'\n---\nbody",
        "---\nname: x\n---\n\nbody",
    ],
    ids=ascii,
)
def test_front_matter_is_read_whatever_editor_saved_it(text: str) -> None:
    note = notes.parse(text.encode())
    assert (note.title, note.content) == ("x", "body")


def test_front_matter_that_is_not_ours_is_content() -> None:
    body = b"---\nname: x\nvia: hand\n---\nbody"
    assert notes.open_note(body) == notes.Note(body.decode())
    assert notes.open_note(body.replace(b"hand", notes.MARK.encode())).content == "body"


OTHERS = """# a remark
color: red
weight: 007
list:
- a
- [b, c]
"two words": yes
long: >-
  name: not a field
  of ours
map: {a: 1}
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_others_wrote_in_front_matter_survives_to_the_letter(end: str) -> None:
    first = notes.write("one", {"name": "N", "digest": "d1", "key": "k"}).decode()
    edited = first.replace("key: k\n", f"key: k\n{OTHERS}").replace("\n", end)
    before = notes.open_note(edited.encode())
    assert (before.content, before.text("key"), before.front["weight"]) == ("one", "k", "007")
    after = notes.open_note(notes.write("two", {"name": "N", "digest": "d2", "key": None}, before))
    assert after.content == "two"
    assert after.text("key") is None
    assert after.front["digest"] == "d2"
    kept = OTHERS.partition("\n")[2].replace("\n", end)
    assert kept in after.head
    assert {k: v for k, v in after.front.items() if k not in {"name", "digest", "via"}} == {
        k: v for k, v in before.front.items() if k not in {"name", "digest", "via", "key"}
    }


@UNHURRIED
@given(texts, st.dictionaries(st.sampled_from(["key", "metadata", "author", "type"]), texts), st.lists(texts))
def test_a_field_of_ours_is_read_again_also_after_a_platform_tidied_up(
    content: str, fields: dict[str, str], items: list[str]
) -> None:
    one_line = {key: json.dumps(value) for key, value in fields.items()}
    body = notes.write(content, {**one_line, "themes": json.dumps(items), "digest": "d"})
    note = notes.open_note(body)
    assert note.content == content
    assert {key: note.text(key) for key in fields} == one_line
    assert note.listed("themes") == [item for item in items if item]


def test_a_json_value_stays_the_same_text_when_its_quotes_are_taken_away() -> None:
    told = json.dumps({"file": "src/a.py", "n": 1, "ok": True}, ensure_ascii=False)
    body = notes.write("x", {"metadata": told, "digest": "d"})
    bare = body.decode().replace(f"metadata: '{told}'", f"metadata: {told}")
    assert f"metadata: {told}" in bare
    assert notes.open_note(bare.encode()).text("metadata") == told


@pytest.mark.parametrize(
    ("value", "items"),
    [('["a", "b"]', ["a", "b"]), ("[a, b]", ["a", "b"]), ("a, b", ["a", "b"]), ("", []), ("7", []), ("[[]]", [])],
)
def test_several_in_one_field_are_read_as_we_or_a_person_would_write_them(value: str, items: list[str]) -> None:
    assert notes.Note("", {"themes": value}).listed("themes") == items


@pytest.mark.parametrize(
    ("moment", "since"),
    [("1970-01-01T00:00:01.500+00:00", 1500), ("1970-01-01T00:00:01Z", 1000), ("1970-01-01T00:00:02", 2000)],
)
def test_times_are_read_as_milliseconds(moment: str, since: int) -> None:
    assert notes.milliseconds(moment) == since
    assert notes.milliseconds("soon") is None
    assert notes.milliseconds(None) is None


def test_the_longest_front_matter_there_can_be_is_read_again() -> None:
    wanted = document(title="\ufeff" * 512, tags=[f"{n:02}" + "\ufeff" * 62 for n in range(64)], content="x" * 4000)
    body = notes.render(wanted, MOMENT)
    assert len(body) - 4000 < 64 * 1024
    assert notes.parse(body).holds(wanted)


def test_what_is_known_of_a_document_is_kept_beside_it() -> None:
    wanted = document(metadata={"tags": "sport", "source_url": "https://a.example/"}, front={"type": "page"})
    front = notes.parse(notes.render(wanted, MOMENT)).front
    assert (front["source_url"], front["type"], front["tags"]) == ("https://a.example/", "page", ["sport"])


@pytest.mark.parametrize(
    ("content", "title", "description"),
    [
        ("# Run\n\nTen miles.", "Run", "Ten miles."),
        ("Ten miles.\nMore.", "Run", "Ten miles. More."),
        ("# Run", "Run", "Run"),
        ("", "Run", "Run"),
        ("x" * 5000, "Run", "x" * 200),
        ("a\x7f\x00b\u2028c", "Run", "a b c"),
    ],
)
def test_a_description_is_the_first_words_that_are_not_the_title(content: str, title: str, description: str) -> None:
    body = notes.render({"title": title, "content": content}, MOMENT)
    assert notes.parse(body).front["description"] == description


def test_a_record_is_derived_and_always_the_same() -> None:
    wanted = document(brain="b", path="memory/global/run.md", source="ingest", metadata={"tags": "sport"})
    record = notes.record(wanted, MOMENT)
    checksum = names.checksum("Ten miles.\n")
    assert record == {
        "id": names.document_id("b", "memory/global/run.md"),
        "brain_id": "b",
        "title": "Run",
        "path": "memory/global/run.md",
        "source": "ingest",
        "content_type": "text/markdown",
        "byte_size": 11,
        "checksum_sha256": checksum,
        "metadata": {"tags": "sport"},
        "commit_sha": checksum[:40],
        "created_at": MOMENT,
        "updated_at": MOMENT,
        "deleted_at": None,
    }
    assert json.loads(json.dumps(record)) == record


# Notes that say the same, each with an end of its own.

PATH, OTHER = "memory/global/kv/a.md", "memory/global/kv/b.md"


@UNHURRIED
@given(texts)
@example("")
@example("\n\n")
@example("x\n\n<!-- 0123456789ab -->\n")
@example(f"x\n\n<!-- {names.mark(PATH)} -->\n")
def test_a_note_that_is_set_apart_says_the_same_to_the_letter(content: str) -> None:
    body = notes.set_apart(notes.write(content, {"digest": "d"}), PATH)
    assert notes.open_note(body).content == content
    other = notes.set_apart(notes.write(content, {"digest": "d"}), OTHER)
    assert body.partition(b"---\n\n")[2] != other.partition(b"---\n\n")[2]
    # What changes it later, and what copies it, sets it apart anew.
    again = notes.set_apart(notes.write(content + "!", {"digest": "e"}, notes.open_note(body)), OTHER)
    assert (notes.open_note(again).content, again.count(b"brains_mark")) == (content + "!", 1)
    assert notes.set_apart(body, PATH) == body


@UNHURRIED
@given(documents)
def test_a_document_that_is_set_apart_is_known_again(document: dict[str, Any]) -> None:
    whole = {**document, "metadata": {}}
    stored = notes.set_apart(notes.render(whole, MOMENT), PATH)
    assert notes.parse(stored).holds(whole)


def test_a_platform_that_tidies_up_leaves_the_end_where_it_is_known() -> None:
    for content in ("Tea\n", ""):
        body = notes.set_apart(notes.write(content, {}), PATH).decode()
        head, _, told = body.partition("---\n\n")
        assert notes.parse(f"{head}---\n\n{told.strip()}\n".encode()).content.strip() == content.strip()


def test_what_no_search_finds_is_left_as_it_is() -> None:
    body = notes.write("Tea", {})
    assert notes.set_apart(body, "memory/agent/u-1/a.txt") == body
    assert notes.set_apart(b"no note", PATH) == b"no note"


def test_taking_a_mark_off_takes_linear_time() -> None:
    assert is_linear(lambda size: notes.without_mark("<!-- " * size + "-->", PATH), 100_000)
