"""Changes of a JSON file as a person wrote it: comments, trailing commas, order and indentation stay as they are."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_BLANK: Final = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\r\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*")
_STRING: Final = re.compile(r'"(?:[^"\\\r\n]|\\.)*"')
_WORD: Final = re.compile(r"[-+.\w]+")
# What may follow a value on its line.
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^*\r\n]*\*/[ \t]*(?=\r?\n))?")
_DEEPEST: Final = 200


class Value(NamedTuple):
    """A value, and its place in the text."""

    start: int
    end: int
    data: Any
    members: tuple["Member", ...] = ()


class Member(NamedTuple):
    """A key with its value."""

    start: int
    key: str
    value: Value


def read(text: str) -> Any:
    """The value of a text; nothing if it is empty.

    Raises:
        ValueError: it is not JSON, not even with comments.
    """
    return _parse(text).data if text.strip(" \t\r\n\ufeff") else {}


def put(text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
    """The text with an entry in a section. Both may be there already."""
    if not text.strip(" \t\r\n\ufeff"):
        return text.rstrip(" \t\r\n") + json.dumps({section: {name: entry}}, indent=2, ensure_ascii=False) + "\n"
    root = _parse(text)
    found = _member(root, section)
    if found is None:
        return _insert(text, root, section, {name: entry})
    there = _member(found.value, name)
    if there is None:
        return _insert(text, found.value, name, entry)
    is_in_one_line = not _begins_line(text, there.start)
    written = _in_one_line(entry) if is_in_one_line else _written(text, entry, _indent(text, there.start))
    return text[: there.value.start] + written + text[there.value.end :]


def take(text: str, section: str, name: str) -> str:
    """The text without an entry, if it is there."""
    found = _member(_parse(text), section)
    there = None if found is None else _member(found.value, name)
    return text if found is None or there is None else _remove(text, found.value, there)


def _member(value: Value, key: str) -> Member | None:
    # If a key is there twice, the last one counts.
    return next((member for member in reversed(value.members) if member.key == key), None)


def _insert(text: str, into: Value, key: str, data: Any) -> str:
    """A new member at the end of an object."""
    line = _line_end(text)
    if not into.members:
        base = _indent(text, into.start)
        indent = base + _unit(text)
        said = text[into.start + 1 : into.end - 1].rstrip()
        member = f"{line}{indent}{json.dumps(key)}: {_written(text, data, indent)}{line}{base}"
        return text[: into.start + 1] + said + member + text[into.end - 1 :]
    last = into.members[-1]
    comma = _comma_after(text, last.value.end)
    after = last.value.end if comma is None else comma + 1
    if not _begins_line(text, last.start):
        member = f"{json.dumps(key)}: {_in_one_line(data)}"
        return f"{text[:after]}{',' if comma is None else ''} {member}{',' if comma is not None else ''}{text[after:]}"
    rest = _REST_OF_LINE.match(text, after)
    end = after if rest is None else rest.end()
    indent = _indent(text, last.start)
    member = f"{line}{indent}{json.dumps(key)}: {_written(text, data, indent)}{'' if comma is None else ','}"
    return text[:after] + ("," if comma is None else "") + text[after:end] + member + text[end:]


def _remove(text: str, of: Value, member: Member) -> str:
    place = next(n for n, one in enumerate(of.members) if one.start == member.start)
    comma, end = _comma_after(text, member.value.end), member.value.end
    start = len(text[: member.start].rstrip(" \t"))
    begins_line = _begins_line(text, start)
    if begins_line:
        start -= 2 if text[:start].endswith("\r\n") else 1
    if comma is not None:
        after = text[comma + 1 :]
        # In one line, the space before the next member is removed too.
        kept = after if begins_line else after.lstrip(" \t")
        return text[: start if begins_line else member.start] + text[end:comma] + kept
    if place == 0:
        inside = text[of.start + 1 : start] + text[end : of.end - 1]
        return text[: of.start + 1] + (inside if inside.strip() else "") + text[of.end - 1 :]
    before = of.members[place - 1].value.end
    comma = _comma_after(text, before)
    assert comma is not None
    return text[:comma] + text[comma + 1 : start] + text[end:]


def _begins_line(text: str, place: int) -> bool:
    return text[:place].rstrip(" \t").endswith("\n")


def _in_one_line(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


def _written(text: str, data: Any, indent: str) -> str:
    made = json.dumps(data, indent=_unit(text), ensure_ascii=False)
    return made.replace("\n", _line_end(text) + indent)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str, place: int) -> str:
    """The indentation of the line of a place."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """The indentation of a level: that of the first indented line."""
    found = re.search(r"\n([ \t]+)[\"/]", text)
    return found[1] if found else "  "


def _comma_after(text: str, place: int) -> int | None:
    place = _blank(text, place)
    return place if text[place : place + 1] == "," else None


def _blank(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return place if found is None else found.end()


def _parse(text: str) -> Value:
    value = _value(text, _blank(text, 0), 0)
    if _blank(text, value.end) != len(text):
        raise ValueError("there is more after the end")
    return value


def _value(text: str, start: int, depth: int) -> Value:
    if depth > _DEEPEST:
        raise ValueError("it is too deep")
    if text[start : start + 1] == "{":
        return _object(text, start, depth)
    if text[start : start + 1] == "[":
        return _array(text, start, depth)
    found = _STRING.match(text, start) or _WORD.match(text, start)
    if found is None:
        raise ValueError("a value is missing")
    return Value(start, found.end(), json.loads(found[0], strict=False))


def _object(text: str, start: int, depth: int) -> Value:
    members: list[Member] = []
    place = _blank(text, start + 1)
    while text[place : place + 1] != "}":
        key = _STRING.match(text, place)
        colon = _blank(text, key.end()) if key else len(text)
        if key is None or text[colon : colon + 1] != ":":
            raise ValueError("a key is missing")
        value = _value(text, _blank(text, colon + 1), depth + 1)
        members.append(Member(place, json.loads(key[0], strict=False), value))
        place = _next(text, value.end, "}")
    data = {member.key: member.value.data for member in members}
    return Value(start, place + 1, data, tuple(members))


def _array(text: str, start: int, depth: int) -> Value:
    data: list[Any] = []
    place = _blank(text, start + 1)
    while text[place : place + 1] != "]":
        value = _value(text, place, depth + 1)
        data.append(value.data)
        place = _next(text, value.end, "]")
    return Value(start, place + 1, data)


def _next(text: str, end: int, close: str) -> int:
    """The place of the next member, or of the closing bracket."""
    place = _blank(text, end)
    if text[place : place + 1] == ",":
        return _blank(text, place + 1)
    if text[place : place + 1] != close:
        raise ValueError("a comma is missing")
    return place
