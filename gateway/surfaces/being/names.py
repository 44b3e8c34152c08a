"""The paths and names of the notes of the `being` surface."""

import json
import uuid
from collections.abc import Sequence
from typing import Final

from gateway.operations import names
from gateway.operations.notes import Note
from gateway.operations.table import JsonValue

TREE: Final = "memory/global/being"
NODES: Final = f"{TREE}/nodes"
SCENES: Final = f"{TREE}/scenes"
NOTES: Final = f"{TREE}/notes"
RELATIONS: Final = f"{TREE}/relations"
HISTORY: Final = f"{TREE}/history"
CAPABILITIES: Final = f"{TREE}/capabilities"
# Beside the nodes: how often dead ones were opened since they died.
OPENED: Final = f"{NODES}/_opened"
DIGEST: Final = "_digest.md"
# The theme of a scene without one.
GENERAL: Final = "general"
_SPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "being.brains-gateway")


def derived_id(*parts: JsonValue) -> str:
    """The id that is made from these parts, always the same."""
    return str(uuid.uuid5(_SPACE, names.digest(list(parts))))


def cluster_of(themes: Sequence[str]) -> str:
    """The cluster of a node: that of its first theme, however it is written."""
    return derived_id("cluster", theme_of(themes).casefold())


def theme_of(themes: Sequence[str]) -> str:
    return next((one_line(theme) for theme in themes if one_line(theme)), GENERAL)


def node_path(cluster: str, node_id: str) -> str:
    return f"{NODES}/{cluster}/{node_id}.md"


def stem_of(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0]


def file_name(name: str) -> str:
    """Any words as a file's name. A name that is not one plain word gets a hash."""
    if names.is_word(name):
        return names.escape(name)
    return f"{names.slug(name, empty='name')}!!{names.digest(name)[:32]}"


def name_of(path: str) -> str:
    """What an entry is called by its file."""
    stem = stem_of(path)
    return names.unescape(stem) or stem


def key_of(path: str, note: Note) -> str | None:
    """The key of an entry; None if its name follows from its content.

    If a person made the file, or copied another one with the key in it, the key is the file's own name.
    """
    key = note.text("key")
    if key and path.rpartition("/")[2] == f"{file_name(key)}.md":
        return key
    return name_of(path) if key or not note.text("target") else None


def aside(path: str, place: str, note: Note | None = None) -> str:
    """The path for a note that is finished: beside its place, where no search looks."""
    folder, _, _name = path.rpartition("/")
    told_apart = "" if note is None else f"-{names.checksum(note.content)[:12]}"
    return f"{folder}/{place}/{stem_of(path)}{told_apart}.txt"


def one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def printable(text: str) -> str:
    """Words on one line, without characters that a note cannot hold."""
    return one_line("".join(c if c.isprintable() else " " for c in text))


def listed(values: Sequence[str]) -> str | None:
    """Several values as one field of front matter; None if there are none."""
    found = [one_line(value) for value in values if one_line(value)]
    return json.dumps(found, ensure_ascii=False) if found else None
