"""Notes: markdown with front matter, for platforms that keep bytes and no record of them."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import yaml

from gateway import names
from gateway.operations import Args, JsonObject, JsonValue

_FENCE: Final = "---\n"
_DESCRIPTION_LENGTH: Final = 200
# More front matter than this is not ours, and reading it would keep everyone waiting.
_FRONT_LENGTH: Final = 64 * 1024
_LINE_BREAK: Final = re.compile(r"[\n\r\x85\u2028\u2029]")
# A platform that tidies up writes these without quotes, whatever they hold.
_UNQUOTED: Final = re.compile(r"^(name|description): ([^'\"|>\s].*)$", re.MULTILINE)
_UNQUOTED_TAGS: Final = re.compile(r"^tags: \[([^'\"]*)\]$", re.MULTILINE)


class _OneLine(yaml.SafeDumper):
    """Every text on a line of its own: the parsers that read this elsewhere know no other."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if _LINE_BREAK.search(data) else None)


_OneLine.add_representer(str, _OneLine.represent_str)


@dataclass(frozen=True, slots=True)
class Note:
    """What a document says, and what its front matter says of it."""

    content: str
    front: JsonObject = field(default_factory=dict)

    @property
    def title(self) -> str | None:
        return _text(self.front.get("name"))

    @property
    def tags(self) -> set[str]:
        tags = self.front.get("tags")
        return _parts(tag for tag in (tags if isinstance(tags, list) else ()) if isinstance(tag, str))

    @property
    def created(self) -> str | None:
        return _text(self.front.get("created"))

    def holds(self, document: Args) -> bool:
        """Whether this is that document. Platforms that tidy up add tags, and trim the space around the content."""
        return (
            self.content.strip() == str(document["content"]).strip()
            and self.title in (None, str(document["title"]).strip())
            and _parts(document.get("tags") or ()) <= self.tags
        )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def rendered(document: Args, moment: str) -> bytes:
    """A document as a note. The title is called `name`, which is where these platforms look for it."""
    content, title = str(document["content"]), str(document["title"])
    front: JsonObject = {"name": title, "description": _description(content, title)}
    if document.get("tags"):
        front["tags"] = list(document["tags"])
    # Tags are there as a list; the rest of what is known of the document is known nowhere else.
    known = {key: value for key, value in (document.get("metadata") or {}).items() if key != "tags"}
    front |= {"created": moment, "modified": moment, **known, **(document.get("front") or {})}
    text = yaml.dump(front, Dumper=_OneLine, allow_unicode=True, sort_keys=False, width=float("inf"))
    return f"{_FENCE}{text}{_FENCE}\n{content}".encode()


def parsed(body: bytes) -> Note:
    """A note from its bytes; without front matter that can be read, all of it is content."""
    text = body.decode("utf-8", "replace")
    if not text.startswith(_FENCE):
        return Note(text)
    head, fence, content = text[len(_FENCE) :].partition("\n" + _FENCE)
    front = _front(head) if fence and len(head) <= _FRONT_LENGTH else None
    return Note(text) if front is None else Note(content.removeprefix("\n"), front)


def _front(head: str) -> JsonObject | None:
    """Front matter, every value the text that it is: what looks like a date or a number stays as it was written."""
    quoted = _UNQUOTED.sub(lambda line: f"{line[1]}: {_quoted(line[2])}", head)
    quoted = _UNQUOTED_TAGS.sub(lambda line: f"tags: [{', '.join(map(_quoted, line[1].split(',')))}]", quoted)
    try:
        front = yaml.load(quoted, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return front if isinstance(front, dict) else None


def _quoted(text: str) -> str:
    return json.dumps(text.strip(), ensure_ascii=False)


def _text(value: JsonValue) -> str | None:
    return value.strip() if isinstance(value, str) else None


def _parts(tags: Iterable[str]) -> set[str]:
    """Tags as sets of words compare: where they are joined with commas, one that holds a comma becomes two."""
    return {part.strip() for tag in tags for part in tag.split(",")} - {""}


def record(document: Args, moment: str) -> JsonObject:
    """The record of a document that the platform keeps none of; derived, so that it is always the same."""
    content = str(document["content"])
    checksum = names.checksum(content)
    return {
        "id": names.document_id(str(document["brain"]), str(document["path"])),
        "brain_id": document["brain"],
        "title": document["title"],
        "path": document["path"],
        "source": document["source"],
        "content_type": "text/markdown",
        "byte_size": len(content.encode()),
        "checksum_sha256": checksum,
        "metadata": dict(document["metadata"]),
        "commit_sha": checksum[:40],
        "created_at": moment,
        "updated_at": moment,
        "deleted_at": None,
    }


def _description(content: str, title: str) -> str:
    """The first words that are not the title again."""
    said = " ".join(line.strip("# ") for line in content[: 4 * _DESCRIPTION_LENGTH].splitlines())
    words = "".join(c if c.isprintable() else " " for c in said.removeprefix(title)).split()
    return " ".join(words)[:_DESCRIPTION_LENGTH] or title
