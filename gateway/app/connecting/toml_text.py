"""Changes of a TOML file as a person wrote it: an entry is a table of its own, and the rest is not touched."""

import json
import tomllib
from collections.abc import Mapping
from typing import Any


def read(text: str) -> Any:
    """The value of a text.

    Raises:
        ValueError: it is not TOML.
    """
    return tomllib.loads(text.removeprefix("\ufeff"))


def put(text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
    """The text with an entry in a section. A new one comes at the end, where it disturbs nothing."""
    if name in read(text).get(section, {}):
        text = take(text, section, name)
    line = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{section}.{name}]", *(f"{key} = {_value(value)}" for key, value in entry.items())]
    blank = "" if not text.strip() or text.endswith(line * 2) else line if text.endswith("\n") else line * 2
    return text + blank + "".join(said + line for said in lines)


def take(text: str, section: str, name: str) -> str:
    """The text without the table of an entry and those below it, as far as they are there."""
    lines = text.splitlines(keepends=True)
    kept: list[str] = []
    place = 0
    while place < len(lines):
        end = _end_of_table(lines, place)
        if _header(lines, place)[:2] != [section, name]:
            kept += lines[place:end]
        elif end == len(lines) and kept and not kept[-1].strip():
            # The empty lines before it are removed too.
            kept.pop()
        place = end
    return "".join(kept)


def _end_of_table(lines: list[str], start: int) -> int:
    """The place of the next table, with the comments and empty lines before it."""
    after = next((n for n in range(start + 1, len(lines)) if _header(lines, n)), len(lines))
    while after > start + 1 and (not lines[after - 1].strip() or lines[after - 1].lstrip().startswith("#")):
        after -= 1
    return after


def _header(lines: list[str], place: int) -> list[str]:
    """The names in the head of a table; none for another line, also for one inside a text that looks like a head."""
    if not lines[place].lstrip().startswith("["):
        return []
    try:
        tomllib.loads("".join(lines[:place]).removeprefix("\ufeff"))
        said: Any = tomllib.loads(lines[place])
    except tomllib.TOMLDecodeError:
        return []
    names = []
    while isinstance(said, dict) and said:
        name, said = next(iter(said.items()))
        names.append(name)
    return names


def _value(value: Any) -> str:
    """A text in TOML is written as in JSON."""
    if isinstance(value, dict):
        said = ", ".join(f"{json.dumps(key)} = {_value(one)}" for key, one in value.items())
        return f"{{ {said} }}"
    return json.dumps(value, ensure_ascii=False)
