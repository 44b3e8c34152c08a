"""The notes of a brain, as surfaces that keep notes see them: read, listed, found, changed."""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from gateway.brain.brain import Brain
from gateway.brain.directory import Known
from gateway.operations import notes, scopes
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.notes import Change, Draft, Note
from gateway.operations.parallel import AT_ONCE, in_parallel
from gateway.operations.table import JsonObject, JsonValue

MOST_FOUND: Final = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A note in a listing."""

    path: str
    size: int = 0
    changed: int = 0
    """Milliseconds since 1970."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Notebook:
    """Notes of the brain that a call means."""

    def __init__(self, brain: Brain) -> None:
        self._brain = brain

    async def read(self, call: Call, path: str) -> Note | None:
        body = (await self._brain.note(call, "read_note", {"path": path}))["body"]
        return None if body is None else notes.open_note(body)

    async def text(self, call: Call, path: str) -> str | None:
        """A file that is no note, as it is."""
        body = (await self._brain.note(call, "read_note", {"path": path}))["body"]
        return None if body is None else str(body.decode("utf-8", "replace"))

    async def entries(self, call: Call, folder: str, *, ending: str = ".md") -> list[Entry]:
        """The notes in a folder and below it, newest first, without the files that are kept beside them."""
        # Some platforms list folders too.
        items = [item for item in await self._items(call, folder, recursive=True) if not item.get("is_dir")]
        found = [entry for entry in map(_entry, items) if entry.path.endswith(ending) and _is_note(entry, folder)]
        return sorted(found, key=lambda entry: (entry.changed, entry.path), reverse=True)

    async def everything(self, call: Call) -> list[Entry]:
        """All files, also those that are kept beside notes, by path."""
        items = await self._items(call, "", recursive=True, generated=True)
        return sorted((_entry(item) for item in items if not item.get("is_dir")), key=lambda entry: entry.path)

    async def folders(self, call: Call, folder: str) -> list[str]:
        """The names of the folders in a folder."""
        items = await self._items(call, folder, recursive=False)
        return sorted(str(item.get("path")).rpartition("/")[2] for item in items if item.get("is_dir"))

    async def _items(self, call: Call, folder: str, *, recursive: bool, generated: bool = False) -> list[JsonObject]:
        args = {"dir": folder, "recursive": recursive, "generated": generated}
        found = (await self._brain.note(call, "list_notes", args)).get("items")
        if not isinstance(found, list):
            raise GatewayError("upstream_error", "The platform's answer has no list of documents.")
        return [item for item in found if isinstance(item, dict)]

    async def entry(self, call: Call, path: str) -> Entry:
        """One note as a listing has it; empty if there is none."""
        found = await self._brain.note(call, "stat_note", {"path": path})
        return _entry({**found, "path": path})

    async def read_all(self, call: Call, paths: Iterable[str]) -> list[tuple[str, Note]]:
        """The notes at these paths, a few at once; one that is gone by now is left out."""
        wanted = list(paths)
        read = await in_parallel([self._reading(call, path) for path in wanted])
        return [(path, note) for path, note in zip(wanted, read, strict=True) if note is not None]

    def _reading(self, call: Call, path: str) -> Callable[[], Awaitable[Note | None]]:
        return lambda: self.read(call, path)

    async def newest(
        self, call: Call, entries: Sequence[Entry], wanted: int, kept: Callable[[Entry, Note], T | None]
    ) -> list[T]:
        """What `kept` makes of the newest notes, up to the wanted number. No more notes are read than necessary."""
        found: list[T] = []
        place = 0
        while len(found) < wanted and place < len(entries):
            batch = entries[place : place + max(wanted - len(found), AT_ONCE if place else 0)]
            place += len(batch)
            notes_ = dict(await self.read_all(call, (entry.path for entry in batch)))
            made = [kept(entry, notes_[entry.path]) for entry in batch if entry.path in notes_]
            found += [item for item in made if item is not None]
        return found[:wanted]

    async def find(self, call: Call, query: str, folder: str, wanted: int) -> list[JsonObject]:
        """Hits in a folder and below it, the best one of each note, best first; by one search."""
        return (await self.search(call, query, folder, wanted))[0]

    async def search(self, call: Call, query: str, folder: str, wanted: int) -> tuple[list[JsonObject], bool]:
        """The same, and whether there may be more: a note may have several hits, and some hits are in other folders."""
        scope = folder.split("/")[1] if folder.startswith(("memory/global/", "memory/project/")) else None
        tree = folder.rstrip("/") + "/"
        wanted = min(wanted, MOST_FOUND)
        args = {"query": query, "top_k": wanted, "scope": scope, "tree": tree}
        hits = (await self._brain.serve(call, None, "search", args)).get("hits")
        if not isinstance(hits, list):
            raise GatewayError("upstream_error", "The platform's answer has no list of results.")
        best: dict[str, JsonObject] = {}
        for hit in hits:
            if isinstance(hit, dict) and (path := str(hit.get("path", "")).removeprefix("/")).startswith(tree):
                best.setdefault(path, {**hit, "path": path})
        return [hit for path, hit in best.items() if _is_note(Entry(path), folder)], len(hits) >= wanted

    async def keep(self, call: Call, path: str, change: Change, *, stored: str = "") -> tuple[Note, bool]:
        """Change the note at a path, or create it. Returns the note as it is then, and whether it had to be written."""
        answer = await self._brain.note(call, "keep_note", {"path": path, "change": change}, stored=stored)
        body = answer["body"]
        return notes.open_note(body) if body is not None else Note(""), bool(answer["changed"])

    async def append(self, call: Call, path: str, body: bytes) -> None:
        await self._brain.note(call, "append_to_note", {"path": path, "body": body}, stored=body)

    async def move(self, call: Call, path: str, to: str, change: Change | None = None) -> bool:
        """Move a note, and then change it, if that is wanted. Returns whether it is now at the new path alone."""
        return bool((await self._brain.note(call, "move_note", {"path": path, "to": to, "change": change}))["moved"])

    async def remove(self, call: Call, path: str) -> bool:
        """Remove a note. Returns whether there was one."""
        return bool((await self._brain.note(call, "remove_note", {"path": path}))["removed"])

    async def count(self, call: Call, path: str) -> int:
        """How often a note was hit: the size of the file that is kept beside it."""
        return (await self.entry(call, hits_path(path))).size

    async def counts(self, call: Call, paths: Sequence[str]) -> dict[str, int]:
        """How often each of these notes was hit: one listing for each of their folders."""
        folders = sorted({path.rpartition("/")[0] for path in paths})
        listed = await in_parallel([self._listing_hits(call, folder) for folder in folders])
        sizes = {entry.path: entry.size for entries in listed for entry in entries}
        return {path: sizes.get(hits_path(path), 0) for path in paths}

    def _listing_hits(self, call: Call, folder: str) -> Callable[[], Awaitable[list[Entry]]]:
        return lambda: self.entries(call, f"{folder}/_hits", ending=".txt")

    def hit(self, call: Call, paths: Sequence[str], times: int = 1) -> None:
        """Count a hit on each of these notes once the call is answered; nothing waits for that, or fails with it.

        Does nothing for callers who may only read.
        """

        async def counted(after: Call) -> None:
            # The tool only reads, but counting is a write.
            after.scope = scopes.WRITE
            await in_parallel([self._counting(after, path, times) for path in paths])

        if paths and scopes.WRITE in call.caller.principal.scopes:
            self._brain.later(call, f"hits {secrets.token_hex(8)}", counted)

    def uncount(self, call: Call, path: str) -> None:
        """Reset the counter once the call is answered, because the next note at this path is another note."""

        async def removed(after: Call) -> None:
            await self.remove(after, hits_path(path))

        self._brain.later(call, f"count of {path}", removed)

    def _counting(self, call: Call, path: str, times: int) -> Callable[[], Awaitable[None]]:
        return lambda: self.append(call, hits_path(path), b"." * times)

    async def derive(
        self, call: Call, task: str, *, paths: Sequence[str] = (), messages: Sequence[JsonObject] = ()
    ) -> list[JsonObject]:
        """The result of the platform's language model for these; None if it has no model, or the model fails."""
        return await self._brain.derive(call, task, paths=paths, messages=messages)

    def later(self, call: Call, name: str, job: Callable[[Call], Awaitable[None]]) -> None:
        """Do this after the call was answered, for the same caller; once at a time for each name."""
        self._brain.later(call, name, job)

    async def brain(self, call: Call) -> Known:
        """The brain that a call means, however it was named."""
        return await self._brain.known(call)

    def private_folder(self, call: Call) -> str:
        return f"memory/agent/{self._brain.view(call).own}"

    def project_folder(self, call: Call, project: str) -> str:
        return self._brain.project_folder(call, project)


def draft_note(
    title: str,
    content: str,
    fields: Mapping[str, JsonValue],
    before: Note | None = None,
    *,
    aside: Mapping[str, bytes] | None = None,
) -> Draft:
    """A note with these fields of ours, and the fields of every note. The time of its creation stays."""
    moment = notes.now()
    # Front matter that is not ours is shown as content. Its fields stay all the same if the content changes.
    kept = before if before is None or before.front else notes.parse(before.content.encode())
    common: JsonObject = {
        "name": title,
        # Not the first words of the note: daemons copy descriptions to an index, where they would outlive the note.
        "description": title,
        "created": (kept.created if kept is not None else None) or moment,
        "modified": moment,
    }
    own = {**common, **fields}
    return Draft(notes.write(content, own, kept), title, _metadata(own), aside or {})


def _metadata(fields: Mapping[str, JsonValue]) -> JsonObject:
    """The fields as a platform takes them: scalars as they are, lists joined by commas."""
    known = {key: value for key, value in fields.items() if value is not None and key != "description"}
    return {key: ",".join(map(str, value)) if isinstance(value, list) else value for key, value in known.items()}


def hits_path(path: str) -> str:
    """The path of a note's counter of hits: beside the note, where no search looks."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/_hits/{name.rpartition('.')[0]}.txt"


def _entry(item: JsonObject) -> Entry:
    size, changed = item.get("size"), notes.milliseconds(item.get("mtime"))
    return Entry(str(item.get("path", "")).removeprefix("/"), size if isinstance(size, int) else 0, changed or 0)


def _is_note(entry: Entry, folder: str) -> bool:
    """Whether it is a note, and not a file that is kept beside notes, below a name that begins with an underscore."""
    inside = entry.path.removeprefix(folder.rstrip("/") + "/")
    return not any(part.startswith("_") for part in inside.split("/"))
