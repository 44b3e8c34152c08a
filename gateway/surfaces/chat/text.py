"""What the `chat` surface says: JSON, because ChatGPT reads the text of a result as such. Pure functions."""

from datetime import UTC, datetime
from urllib.parse import quote

import orjson

from gateway.brain.shelf import Document
from gateway.mcp.bounds import RESULT_LENGTH, cut
from gateway.mcp.shown import line, visible
from gateway.operations.table import JsonObject

# A note is in its result twice: in the text, and as data.
_NOTE_LENGTH = RESULT_LENGTH // 2


def as_json(answer: JsonObject) -> str:
    return orjson.dumps(answer).decode()


def hit(brain: str, path: str, title: object) -> JsonObject:
    named = line(title) or path.rpartition("/")[2].removesuffix(".md")
    return {"id": path, "title": named, "url": address(brain, path)}


def document(brain: str, read: Document) -> JsonObject:
    """A note as a model gets it, without characters that are invisible to a person."""
    whole = read.note.content
    known = {
        "brain": brain,
        "tags": line(", ".join(read.tags)),
        "updated_at": _moment(read.changed),
        "truncated": "true" if len(whole) > _NOTE_LENGTH else "",
    }
    return {
        **hit(brain, read.path, read.title),
        "text": visible(cut(whole, _NOTE_LENGTH)),
        "metadata": {name: value for name, value in known.items() if value},
    }


def address(brain: str, path: str) -> str:
    """The URL of a note: ChatGPT makes no citation of a result without a URL."""
    return f"brains://{quote(brain, safe='')}/{quote(path)}"


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds") if milliseconds else ""
