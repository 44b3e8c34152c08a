"""What a being knows of its partner, by target: entries that are read, added to, replaced and removed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.brain.notebook import Entry, Notebook, draft_note
from gateway.mcp.bounds import bounded, more
from gateway.operations import names
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.notes import Change, Draft, Note
from gateway.operations.table import JsonObject
from gateway.surfaces.being import names as paths
from gateway.surfaces.being.schema import UpdateMemoryInput

# How many entries of a target are read for one call, the newest ones.
_READ: Final = 100
_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Place:
    """The path of an entry, whether it exists or not."""

    path: str
    key: str | None
    """The key of a new entry; None if its name follows from its content."""
    exists: bool

    @property
    def shown(self) -> str:
        return self.key or paths.name_of(self.path)


class Targets:
    """Entries by target, each of them a note."""

    def __init__(self, notes: Notebook) -> None:
        self._notes = notes

    async def get(self, call: Call, args: UpdateMemoryInput) -> JsonObject:
        listed = await self._notes.entries(call, folder_of(args.target))
        if (key := _key(args)) is not None:
            place = _by_key(args.target, key, listed)
            listed = [entry for entry in listed if entry.path == place.path]
        read = await self._notes.read_all(call, (entry.path for entry in listed[:_READ]))
        shown = [entry_of(path, note) for path, note in read]
        wanted = [entry for entry in shown if args.to is None or entry.get("to") == args.to]
        entries, left_out = bounded(wanted, "content")
        return {"entries": entries, "count": len(entries), **more(left_out + max(len(listed) - _READ, 0))}

    async def append(self, call: Call, args: UpdateMemoryInput) -> JsonObject:
        """A new entry; with the key of one that is there, more of it."""
        place = await self._place(call, args)
        return await self._keep(call, place, args, appending(args, place))

    async def update(self, call: Call, args: UpdateMemoryInput) -> JsonObject:
        """Replace an entry: the one with the key, or the only one."""
        place = await self._only(call, args) if _key(args) is None else await self._place(call, args)
        return await self._keep(call, place, args, updating(args, place))

    async def delete(self, call: Call, args: UpdateMemoryInput) -> JsonObject:
        if _key(args) is None:
            place = await self._only(call, args)
            if not place.exists:
                return {"deleted": False}
        else:
            place = await self._place(call, args)
        return {"key": place.shown, "deleted": await remove(self._notes, call, place.path)}

    async def _keep(self, call: Call, place: Place, args: UpdateMemoryInput, change: Change) -> JsonObject:
        note, changed = await self._notes.keep(call, place.path, change, stored=args.content or "")
        return {"key": entry_of(place.path, note)["key"], "changed": changed}

    async def _place(self, call: Call, args: UpdateMemoryInput) -> Place:
        if (key := _key(args)) is None:
            return Place(path_of(args.target, entry_id(args)), None, exists=False)
        return _by_key(args.target, key, await self._notes.entries(call, folder_of(args.target)))

    async def _only(self, call: Call, args: UpdateMemoryInput) -> Place:
        """The one entry of a target that is meant when no key is given.

        Raises:
            GatewayError: validation_error, with the keys to choose from.
        """
        listed = await self._notes.entries(call, folder_of(args.target))
        if len(listed) > 1:
            said = ", ".join(sorted(paths.name_of(entry.path) for entry in listed)[:_NAMED])
            more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
            message = f"{args.target} has {len(listed)} entries: name one by its key ({said}{more})."
            raise GatewayError("validation_error", message)
        path = listed[0].path if listed else path_of(args.target, entry_id(args))
        return Place(path, None, exists=bool(listed))


async def remove(notes: Notebook, call: Call, path: str) -> bool:
    """Move a note to where no tool finds it. Returns whether it is there, also if an earlier call moved it."""
    note = await notes.read(call, path)
    if note is not None:
        return await notes.move(call, path, paths.aside(path, "_deleted", note))
    gone = await notes.entries(call, f"{path.rpartition('/')[0]}/_deleted", ending=".txt")
    return any(paths.stem_of(entry.path).rpartition("-")[0] == paths.stem_of(path) for entry in gone)


def folder_of(target: str) -> str:
    return f"{paths.TREE}/{target}"


def path_of(target: str, key: str) -> str:
    return f"{folder_of(target)}/{paths.file_name(key)}.md"


def entry_id(args: UpdateMemoryInput) -> str:
    """The name of an entry without a key. It follows from the content."""
    return paths.derived_id("entry", args.target, args.content, args.location, args.to)


def entry_of(path: str, note: Note) -> JsonObject:
    """An entry as it is shown. Fields that are missing because a person wrote it get defaults."""
    known = {"location": note.text("location"), "to": note.text("to")}
    times = {"created_at": note.created, "updated_at": note.text("modified")}
    return {
        "key": paths.key_of(path, note) or paths.name_of(path),
        "content": note.content,
        **{name: value for name, value in {**known, **times}.items() if value},
    }


def appending(args: UpdateMemoryInput, place: Place) -> Change:
    def change(before: Note | None) -> Draft | None:
        added = (args.content or "").strip()
        if before is None:
            return _entry(args, place, args.content or "", None)
        content = before.content
        if added and not _ends_with(content, added):
            content = f"{content.rstrip()}\n\n{added}" if content.strip() else added
        return _entry(args, place, content, before)

    return change


def updating(args: UpdateMemoryInput, place: Place) -> Change:
    def change(before: Note | None) -> Draft | None:
        kept = before.content if before is not None else ""
        return _entry(args, place, kept if args.content is None else args.content, before)

    return change


def _entry(args: UpdateMemoryInput, place: Place, content: str, before: Note | None) -> Draft | None:
    """The entry with this content; None if it has it already. The old version is kept aside."""
    told = {"location": paths.one_line(args.location) or None, "to": paths.one_line(args.to) or None}
    said = {name: value for name, value in told.items() if value is not None}
    if before is not None and before.content.strip() == content.strip() and _tells(before, said):
        return None
    # An entry that is named after its content has no key; the key of one that a person made or copied is the file's
    # name.
    key = place.key
    if before is not None:
        own = paths.key_of(place.path, before)
        key = own if own is None or own == before.text("key") else place.shown
    fields = {
        "digest": names.checksum(content.strip()),
        "target": args.target,
        **({"key": paths.one_line(key)} if key else {}),
        **said,
    }
    is_replaced = before is not None and before.content.strip() not in content
    aside = {paths.aside(place.path, "_versions", before): before.content.encode()} if before and is_replaced else {}
    return draft_note(key or names.title_of(content), content, fields, before, aside=aside)


def _tells(note: Note, said: Mapping[str, str]) -> bool:
    return all(note.text(name) == value for name, value in said.items())


def _key(args: UpdateMemoryInput) -> str | None:
    """The key of an entry as it is stored; on the map, the key of a place is the place."""
    return paths.one_line(args.key if args.key is not None else args.location) or None


def _by_key(target: str, key: str, listed: list[Entry]) -> Place:
    """By the name that is made of the key, or by the file's own name, as a person may have named it."""
    path = path_of(target, key)
    known = {entry.path for entry in listed}
    if path in known:
        return Place(path, key, exists=True)
    by_hand = next((found for found in known if paths.stem_of(found) == key), None)
    return Place(by_hand or path, key, exists=by_hand is not None)


def _ends_with(content: str, added: str) -> bool:
    """Whether this text was added last: then a repeated call adds nothing. An older text may be added again."""
    return f"\n\n{content.strip()}".endswith(f"\n\n{added}")
