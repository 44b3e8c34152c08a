"""Notes: markdown with front matter, for platforms that keep bytes and no record of them."""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import yaml

from gateway.operations import names
from gateway.operations.table import Args, JsonObject, JsonValue

MARK: Final = "brains-gateway"
# This holds only in a block that the gateway wrote: anybody may write other front matter.
_VOUCHED: Final = frozenset({"author", "client", "channel", "via", "digest"})
_FENCE: Final = "---\n"
_OPENING: Final = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSING: Final = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_DESCRIPTION_LENGTH: Final = 200
# Longer front matter is not ours, and while it is read, no other call is served. The time depends on the number of
# values, not on their length: the longest that a surface writes are lists of names, and JSON, each on one line.
_FRONT_LENGTH: Final = 64 * 1024
_FRONT_VALUES: Final = 8 * 1024
_FRONT_DEPTH: Final = 32
# The same parser in C, where PyYAML was built with it, is ten times as fast.
_PARSER: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_LINE_END: Final = re.compile(r"\r?\n")
_LINE_BREAK: Final = re.compile(r"[\n\r\x85\u2028\u2029]")
# Every field of ours but `tags` is one line of text. A platform that tidies up writes it without quotes, even if YAML
# would then read something else. So a value of ours without quotes is taken letter for letter.
_OWN: Final = (
    *("name", "description", "created", "modified", "via", "digest"),
    *("key", "namespace", "importance", "expires", "days", "version", "type", "author", "client", "channel"),
    *("source", "metadata", "episode_type", "actors", "when", "setting", "feeling", "themes", "dead", "merged"),
    *(
        "entities",
        "sorted",
        "dead_nodes",
        "target",
        "location",
        "to",
        "entity",
        "relation",
        "deletedAt",
        "isLatestVersion",
        "brains_mark",
    ),
)
# Where a note says how its body ends.
_MARK_FIELD: Final = "brains_mark"
_UNQUOTED: Final = re.compile(rf"^({'|'.join(_OWN)}): ([^'\"|>\s].*)$", re.MULTILINE)
_UNQUOTED_TAGS: Final = re.compile(r"^tags: \[([^'\"\n]*)\][ \t]*\r?$", re.MULTILINE)
# Where a field of a block begins. Lines that are indented, in a list or a comment belong to the field before.
_FIELD: Final = re.compile(r"""^("[^"\n]*"|'[^'\n]*'|[^\s#&*!|>%@`"'\[\]{},?-][^:\n]*):(?=\s|$)""", re.MULTILINE)


class _OneLine(yaml.SafeDumper):
    """Every text on a line of its own: the parsers that read this elsewhere know no other."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if _LINE_BREAK.search(data) else None)


_OneLine.add_representer(str, _OneLine.represent_str)


@dataclass(frozen=True, slots=True)
class Note:
    """The text of a document, and its front matter."""

    content: str
    front: JsonObject = field(default_factory=dict)
    head: str = field(default="", compare=False, repr=False)
    """The front matter as text, so that fields of others stay letter for letter."""

    @property
    def title(self) -> str | None:
        return _text(self.front.get("name"))

    @property
    def tags(self) -> set[str]:
        return _parts(self.tag_list)

    @property
    def tag_list(self) -> list[str]:
        tags = self.front.get("tags")
        return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []

    @property
    def created(self) -> str | None:
        return _text(self.front.get("created"))

    @property
    def is_live(self) -> bool:
        """Whether it has neither expired nor been replaced by another."""
        expires = milliseconds(self.text("expires"))
        return self.text("dead") != "true" and (expires is None or expires > time.time() * 1000)

    def text(self, name: str) -> str | None:
        """A field of ours, if it is there and is text."""
        return _text(self.front.get(name))

    def listed(self, name: str) -> list[str]:
        """A field with several values, as we write it or as a person would."""
        value = self.front.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = [part.strip() for part in str(value).strip("[]").split(",")]
        return [item for item in value if isinstance(item, str) and item] if isinstance(value, list) else []

    def holds(self, document: Args) -> bool:
        """Whether both are the same document. Platforms that tidy up add tags, and trim space around the content."""
        wanted = _own_front(str(document["content"]))
        content = str(document["content"]) if wanted is None else wanted.content
        if self.content.strip() != content.strip():
            return False
        if self.front.get("digest") == digest(document):
            return True
        is_titled = self.title in (None, str(document["title"]).strip())
        return wanted is None and is_titled and _parts(document.get("tags") or ()) <= self.tags


@dataclass(frozen=True, slots=True)
class Draft:
    """A note as it should be stored."""

    body: bytes
    title: str
    metadata: JsonObject = field(default_factory=dict)
    aside: Mapping[str, bytes] = field(default_factory=dict)
    """Files to write before the change, by path, because their content would be lost otherwise."""


Change = Callable[[Note | None], Draft | None]
"""Takes the note as it is and returns the note as it should be; None if nothing has to be done."""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def milliseconds(moment: str | None) -> int | None:
    """A time of front matter or of a listing, since 1970; None where it is none."""
    try:
        read = datetime.fromisoformat(str(moment))
    except ValueError:
        return None
    return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)


def digest(document: Args) -> str:
    """What tells this write from another one to the same path."""
    return names.digest([document["content"], document["title"], list(document.get("tags") or ())])


def render(document: Args, moment: str) -> bytes:
    """A document as a note. The title is called `name`, which is where these platforms look for it."""
    content, title = str(document["content"]), str(document["title"])
    fields: JsonObject = {"name": title, "description": described(content, title)}
    if document.get("tags"):
        fields["tags"] = list(document["tags"])
    # Tags are a list of their own; the other fields of the document are kept nowhere else.
    known = {key: value for key, value in (document.get("metadata") or {}).items() if key != "tags"}
    fields |= {"created": moment, "modified": moment, "via": MARK, "digest": digest(document)}
    fields |= {**known, **(document.get("front") or {})}
    return with_fields(content, fields).encode()


def with_fields(text: str, fields: Mapping[str, JsonValue]) -> str:
    """The text, with those of these fields added to its front matter that it does not have yet."""
    own = _own_front(text) or Note(text)
    missing = {key: value for key, value in fields.items() if key not in own.front}
    return _with_front(_ended(own.head) + _dump(missing), own.content).decode() if missing else text


def write(content: str, fields: Mapping[str, JsonValue], before: Note | None = None) -> bytes:
    """A note of ours with these fields; None leaves one out. Fields that others wrote in the old front matter stay."""
    ours = {"via": MARK, **{key: value for key, value in fields.items() if value is not None}}
    kept = "" if before is None else "".join(_others(before.head, {"via", _MARK_FIELD, *fields}))
    body = _with_front(_dump(ours) + kept, content)
    # The fields of others may be valid only in the block that they were written for.
    return (
        body
        if not kept or open_note(body).front.get("digest") == ours.get("digest")
        else _with_front(_dump(ours), content)
    )


def set_apart(body: bytes, path: str) -> bytes:
    """A note of ours with an end of its own, because some platforms find only one of several notes with equal bodies.

    The end is a comment, which a reader of markdown does not see, and which `parse` takes off again.
    """
    if not path.endswith(".md") or not body.startswith(_FENCE.encode()):
        return body
    before = parse(body)
    if _MARK_FIELD in before.front:
        # The mark of another note, so this one is a copy of it.
        body = _with_front("".join(_others(before.head, {_MARK_FIELD})), before.content)
    mark = names.mark(path)
    return f"{_FENCE}{_dump({_MARK_FIELD: mark})}".encode() + body[len(_FENCE) :] + f"\n\n{_ending(mark)}\n".encode()


def without_mark(text: str, path: str) -> str:
    """The body of the note at a path, as a platform shows it, without the end that sets it apart."""
    return _unmarked(text, names.mark(path)) if text.rstrip().endswith("-->") else text


def parse(body: bytes) -> Note:
    """A note from its bytes; without front matter that can be read, all of it is content."""
    text = body.decode("utf-8", "replace")
    return _own_front(text) or Note(text)


def open_note(body: bytes) -> Note:
    """A note of ours from its bytes; front matter that is not ours is content."""
    note = parse(body)
    return note if note.front.get("via") == MARK else Note(body.decode("utf-8", "replace"))


def understood(note: Note, is_known: Callable[[Note], bool]) -> Note:
    """A note as its surface shows it. A person's own front matter counts if it has a field that the surface knows.

    It never says who wrote the note.
    """
    own = Note("") if note.front else parse(note.content.encode())
    if not own.front or not is_known(own):
        return note
    return Note(own.content, {name: value for name, value in own.front.items() if name not in _VOUCHED}, own.head)


def _own_front(text: str) -> Note | None:
    """The note that a text is, if it begins with front matter."""
    if (opening := _OPENING.match(text)) is None:
        return None
    closing = _CLOSING.search(text, opening.end(), opening.end() + _FRONT_LENGTH + len(_FENCE))
    head = text[opening.end() : closing.start()] if closing else ""
    if closing is None or len(head) > _FRONT_LENGTH or (front := _front(head)) is None:
        return None
    gap = _LINE_END.match(text, closing.end())
    content = text[gap.end() if gap else closing.end() :]
    mark = _text(front.get(_MARK_FIELD))
    return Note(content if mark is None else _unmarked(content, mark), front, head)


def _unmarked(content: str, mark: str) -> str:
    """Content without its mark, to the letter; platforms that tidy up trim the space around both."""
    trimmed = content.rstrip()
    return trimmed.removesuffix(_ending(mark)).removesuffix("\n\n") if trimmed.endswith(_ending(mark)) else content


def _ending(mark: str) -> str:
    return f"<!-- {mark} -->"


def _front(head: str) -> JsonObject | None:
    """Front matter, every value the text that it is: what looks like a date or a number stays as it was written."""
    quoted = _UNQUOTED.sub(lambda line: f"{line[1]}: {_quoted(line[2])}", head)
    quoted = _UNQUOTED_TAGS.sub(lambda line: f"tags: [{', '.join(map(_quoted, line[1].split(',')))}]", quoted)
    try:
        front = _said_in(yaml.parse(quoted, Loader=_PARSER))
    except (yaml.YAMLError, ValueError):
        return None
    return front if isinstance(front, dict) else None


def _said_in(events: Iterable[yaml.Event]) -> JsonValue:
    """The values of a block, every scalar as text. We build it ourselves, as PyYAML recurses, in C without a limit.

    Raises:
        ValueError: it holds more than any block of ours.
    """
    under_way: list[list[JsonValue]] = [[]]
    for count, event in enumerate(events):
        if count > _FRONT_VALUES or len(under_way) > _FRONT_DEPTH:
            raise ValueError("no front matter of ours")
        if isinstance(event, yaml.ScalarEvent):
            under_way[-1].append(event.value)
        elif isinstance(event, yaml.AliasEvent):
            # An alias becomes its name, not its value: the values could need more memory than there is.
            under_way[-1].append(f"*{event.anchor}")
        elif isinstance(event, yaml.CollectionStartEvent):
            under_way.append([])
        elif isinstance(event, yaml.CollectionEndEvent):
            held = under_way.pop()
            under_way[-1].append(_mapping(held) if isinstance(event, yaml.MappingEndEvent) else held)
    documents = under_way[0]
    return documents[0] if len(documents) == 1 else None


def _mapping(held: list[JsonValue]) -> JsonObject:
    """An object from a list of keys and values in turns."""
    names_ = held[::2]
    if not all(isinstance(name, str) for name in names_):
        raise ValueError("a key is not text")
    return dict(zip(names_, held[1::2], strict=True))


def _others(head: str, ours: Iterable[str]) -> Iterable[str]:
    """The fields of a block that are not ours, each as it stands."""
    begins = list(_FIELD.finditer(head))
    for place, begin in enumerate(begins):
        end = begins[place + 1].start() if place + 1 < len(begins) else len(head)
        if begin[1].strip("'\"") not in ours:
            yield _ended(head[begin.start() : end])


def _with_front(head: str, content: str) -> bytes:
    return f"{_FENCE}{head}{_FENCE}\n{content}".encode()


def _dump(fields: Mapping[str, JsonValue]) -> str:
    if not fields:
        return ""
    return str(yaml.dump(dict(fields), Dumper=_OneLine, allow_unicode=True, sort_keys=False, width=float("inf")))


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text.strip(" \t\r"), ensure_ascii=False)


def _text(value: JsonValue) -> str | None:
    return value.strip() if isinstance(value, str) else None


def _parts(tags: Iterable[str]) -> set[str]:
    """Tags as a set that can be compared. Platforms join them with commas, so a tag with a comma becomes two."""
    return {part.strip() for tag in tags for part in tag.split(",")} - {""}


def record(document: Args, moment: str) -> JsonObject:
    """A record for a document on a platform that keeps no records. It is derived, so that it is always the same."""
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


def described(content: str, title: str) -> str:
    """The first words of the text, without the title if the text repeats it."""
    said = " ".join(line.strip("# ") for line in content[: 4 * _DESCRIPTION_LENGTH].splitlines())
    words = "".join(c if c.isprintable() else " " for c in said.removeprefix(title)).split()
    return " ".join(words)[:_DESCRIPTION_LENGTH] or title
