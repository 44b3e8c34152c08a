"""Metadata of a memo: as one line of its front matter, and as words that a search finds. Pure functions."""

import json
import re
from collections.abc import Iterator
from typing import Final

from gateway.operations.notes import Note, understood
from gateway.operations.table import JsonObject, JsonValue

# Characters in tags that no platform takes for a separator, a quote or a list.
_WORD: Final = re.compile(r"[\w./@+-]+")
_TAG_LENGTH: Final = 64
_TAGS_LENGTH: Final = 4_000


def one_line(metadata: JsonObject) -> str:
    """As JSON on one line, without characters that change if a platform adds or removes quotes.

    Raises:
        ValueError, RecursionError: it cannot be said in JSON.
    """
    return "".join(c if c.isprintable() and c != "'" else _escaped(c) for c in as_json(metadata))


def as_json(metadata: JsonObject) -> str:
    """Metadata as JSON: never longer than the line that is made from it, and made faster.

    Raises:
        ValueError, RecursionError: it cannot be said in JSON.
    """
    text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    text.encode()
    return text


def _escaped(character: str) -> str:
    return "\\u0027" if character == "'" else json.dumps(character)[1:-1]


def as_memo(note: Note) -> Note:
    """A note that a person wrote, with the fields of a memo from their own front matter."""
    return understood(note, lambda own: bool(own.text("episode_type") or own.tag_list))


def metadata_of(note: Note) -> JsonObject:
    """As they were stored, or as a person has written them."""
    found = note.front.get("metadata")
    if isinstance(found, dict):
        return found
    text = note.text("metadata")
    if not text:
        return {}
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    return read if isinstance(read, dict) else {"metadata": text}


def tags_in(metadata: JsonObject) -> list[str]:
    """The tags that were sent: a field of that name with a list of words."""
    tags = metadata.get("tags")
    return [tag for tag in tags if isinstance(tag, str) and tag.strip()] if isinstance(tags, list) else []


def search_tags(metadata: JsonObject) -> list[str]:
    """The other metadata as further tags, because platforms index tags and no other field of ours."""
    rest = {name: value for name, value in metadata.items() if name != "tags" or not tags_in(metadata)}
    said = dict.fromkeys(tag for text in _said(rest) for tag in _tags(text))
    tags, left = [], _TAGS_LENGTH
    for tag in said:
        left -= len(tag) + 1
        if left < 0:
            break
        tags.append(tag)
    return tags


def shown_tags(note: Note) -> list[str]:
    """The tags of a memo without those that were made from its metadata."""
    metadata = metadata_of(note)
    own = set(search_tags(metadata)) - set(tags_in(metadata))
    return [tag for tag in note.tag_list if tag not in own]


def _said(metadata: JsonObject) -> Iterator[str]:
    """Every value, in order; not by recursion, because it may go deep."""
    left: list[tuple[str, JsonValue]] = [("", metadata)]
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += reversed([(str(key), inner) for key, inner in value.items()])
        elif isinstance(value, list):
            left += reversed([(name, inner) for inner in value])
        elif value is True:
            yield name
        elif value is not None and value is not False:
            yield str(value)


def _tags(text: str) -> Iterator[str]:
    """The words of a text, as few tags as hold them."""
    tag = ""
    for word in _WORD.findall(text):
        joined = f"{tag}-{word}" if tag else word
        if len(joined) > _TAG_LENGTH and tag:
            yield tag
            joined = word
        tag = joined
    if tag:
        yield tag
