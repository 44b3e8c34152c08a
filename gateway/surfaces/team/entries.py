"""Entries of the `team` surface: reads a note as an entry, and makes the change of a note for `memory_remember`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gateway.brain.notebook import Entry, draft_note
from gateway.mcp.bounds import RESULT_LENGTH, bounded
from gateway.operations import names
from gateway.operations.notes import Change, Draft, Note, milliseconds, understood
from gateway.operations.table import JsonObject
from gateway.surfaces.team.schema import TYPES, RememberInput, is_key
from gateway.surfaces.team.scopes import Place

# The type of a note that a person wrote without a type.
_OTHER_TYPE: Final = "status"


@dataclass(frozen=True, slots=True)
class Origin:
    """Author, client and channel of a write: as the gateway knows them, never from an argument."""

    author: str
    client: str | None
    channel: str

    def fields(self) -> JsonObject:
        return {"author": self.author, "client": self.client, "channel": self.channel}


def name_of(key: str | None, type_: str, content: str) -> str:
    """The name of an entry in its scope: the same statement without a key is always the same entry."""
    return key or f"{type_}-{names.digest([type_, content])[:32]}"


def remembering(args: RememberInput, place: Place, origin: Origin) -> Change:
    """The change that a statement makes; none if the entry already says this."""
    digest = names.digest([args.type, args.content])

    def change(before: Note | None) -> Draft | None:
        if before is not None and _says(before, args, digest):
            return None
        fields = {"digest": digest, "type": args.type, "key": args.key, **origin.fields()}
        title = args.key or names.title_of(args.content)
        aside = {} if before is None or args.key is not None else _displaced(before, args, place)
        return draft_note(title, args.content, fields, before, aside=aside)

    return change


def _says(note: Note, args: RememberInput, digest: str) -> bool:
    is_same = (note.text("digest"), note.text("type")) == (digest, args.type)
    return is_same and _plain(note.content) == _plain(args.content)


def _plain(content: str) -> str:
    """The text for a comparison: editors change the ends of lines, and platforms trim the space around."""
    return content.replace("\r\n", "\n").strip()


def _displaced(note: Note, args: RememberInput, place: Place) -> Mapping[str, bytes]:
    """A note that somebody edited at the place of this statement. It moves to the place of its own words."""
    type_ = type_of(note, args.type)
    path = place.path(name_of(None, type_, note.content))
    known = {field: note.text(field) for field in ("author", "client", "channel")}
    fields = {"digest": names.digest([type_, note.content]), "type": type_, **known}
    return {path: draft_note(names.title_of(note.content), note.content, fields, note).body}


def type_of(note: Note, otherwise: str) -> str:
    said = note.text("type")
    return said if said in TYPES else otherwise


def _has_type(note: Note) -> bool:
    return note.text("type") in TYPES


def entry_of(place: Place, listed: Entry, note: Note) -> JsonObject:
    """A note as its surface shows it. Fields that are missing because a person wrote it get defaults."""
    note = understood(note, _has_type)
    name = place.name(listed.path)
    in_name = next((type_ for type_ in TYPES if name.startswith(f"{type_}-")), _OTHER_TYPE)
    created = _moment(note.created) or _of(listed.changed)
    return {
        "id": place.id(listed.path),
        "scope": place.scope,
        "type": type_of(note, in_name),
        **({"key": name} if is_key(name) else {}),
        "content": note.content,
        "author": note.text("author") or "unknown",
        "created_at": created,
        "updated_at": _moment(note.text("modified")) or created,
    }


def newest_first(entries: list[JsonObject]) -> list[JsonObject]:
    return sorted(entries, key=lambda entry: (milliseconds(entry["updated_at"]) or 0, entry["id"]), reverse=True)


def grouped(entries: list[JsonObject], cap: int) -> list[JsonObject]:
    """The entries by type, in the order of the contract, up to the cap and share of each, and how many more exist."""
    by_type = {type_: [entry for entry in entries if entry["type"] == type_] for type_ in TYPES}
    shown = {type_: bounded(found[:cap], "content", RESULT_LENGTH // len(TYPES))[0] for type_, found in by_type.items()}
    return [
        {"type": type_, "entries": shown[type_], "omitted": len(found) - len(shown[type_])}
        for type_, found in by_type.items()
    ]


def _moment(said: str | None) -> str | None:
    """A time of front matter, if it is one."""
    return said if milliseconds(said) is not None else None


def _of(changed: int) -> str:
    return datetime.fromtimestamp(changed / 1000, UTC).isoformat(timespec="milliseconds")
