"""Everything in a brain as a person sees it: listed, read, corrected, put away and brought back, on any platform.

Replaced versions go to `_versions/` beside the note, and removed notes to `_deleted/`, where no search looks. `kv`
keeps its own there too.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Literal

from gateway.brain.brain import Brain
from gateway.brain.notebook import Entry, Notebook, hits_path
from gateway.operations import names, notes
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.notes import Note
from gateway.operations.table import JsonObject

VERSIONS, DELETED = "_versions", "_deleted"
# What follows a note's name where it is kept: the hash of what it held. Of a version a time stands before that, or the
# number that kv counts; there alone, because elsewhere it ends the name of another note.
_REMOVED: Final = re.compile(r"[0-9a-f]{12}\.txt")
_VERSION: Final = re.compile(r"(?:[0-9]{8}T[0-9]{6}Z-)?[0-9a-f]{12}\.txt")
_VERSION_OF_KV: Final = re.compile(r"(?:[0-9]{8}T[0-9]{6}Z|[0-9.e+]{1,24})-[0-9a-f]{12}\.txt")
_KV: Final = "memory/global/kv/"
# The fields of a note that only the gateway writes, from the token of the caller.
_VOUCHED: Final = ("via", "author", "client", "channel")


@dataclass(frozen=True, slots=True)
class Document:
    """One document, with what the platform knows of it."""

    path: str
    body: bytes
    record: JsonObject = field(default_factory=dict)
    """The platform's own record, where it keeps one."""
    changed: int = 0
    """Milliseconds since 1970."""

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @property
    def note(self) -> Note:
        return notes.open_note(self.body)

    @property
    def title(self) -> str:
        said = notes.parse(self.body).title or self.record.get("title")
        return str(said) if said else names.title_of(self.note.content)

    @property
    def tags(self) -> list[str]:
        if own := notes.parse(self.body).tag_list:
            return own
        joined = (self.record.get("metadata") or {}).get("tags")
        return [tag for tag in str(joined or "").split(",") if tag]

    @property
    def source(self) -> str:
        """The document as text with front matter, which also holds the fields that only the platform's record has."""
        text = self.body.decode("utf-8", "replace")
        if not self._has_more:
            return text
        metadata = {key: value for key, value in (self.record.get("metadata") or {}).items() if key != "tags"}
        own = {"name": self.record.get("title"), "tags": self.tags or None, **metadata}
        return notes.with_fields(text, {key: value for key, value in own.items() if value is not None})

    @property
    def _is_text(self) -> bool:
        try:
            self.body.decode()
        except UnicodeDecodeError:
            return False
        return True

    @property
    def _has_more(self) -> bool:
        """Whether the platform's record says something that the note itself does not."""
        if not self.record or not self.path.endswith(".md") or not self._is_text:
            return False
        front = notes.parse(self.body).front
        return not front or not set(self.record.get("metadata") or {}) <= set(front)

    @property
    def exported(self) -> bytes:
        """All that is known of the document, as bytes that say the same on any platform.

        Fields that only the platform's record has are added to the front matter. Without such fields, the bytes are
        taken as they are.
        """
        if not self._has_more:
            return self.body
        record, metadata = self.record, self.record.get("metadata") or {}
        times = {"created": record.get("created_at"), "modified": record.get("updated_at")}
        document = {
            "content": self.body.decode(),
            "title": self.title,
            "tags": self.tags,
            "metadata": {**{name: time for name, time in times.items() if time}, **metadata},
        }
        return notes.render(document, notes.now())


@dataclass(frozen=True, slots=True)
class Version:
    """An earlier version of a note, from before it was replaced or removed."""

    name: str
    path: str
    size: int
    changed: int
    was_removed: bool


class Shelf:
    """The documents of the brain that a call means."""

    def __init__(self, brain: Brain) -> None:
        self._brain = brain
        self._notes = Notebook(brain)

    async def entries(self, call: Call, folder: str = "") -> list[Entry]:
        """All documents in a folder and below it, newest first, without the files that are kept beside notes.

        A name that begins with a dot is the platform's own: some list the file of their index.
        """
        listed = await self._notes.entries(call, folder.strip("/"), ending="")
        return [entry for entry in listed if not any(part.startswith(".") for part in entry.path.split("/"))]

    async def everything(self, call: Call) -> list[Entry]:
        """All files in the brain that the caller may see, also versions, notes put away, and counts of hits."""
        listed = await self._notes.everything(call)
        return [entry for entry in listed if not any(part.startswith(".") for part in entry.path.split("/"))]

    async def authors(self, call: Call, paths: Iterable[str]) -> dict[str, str]:
        """The authors of these notes, as far as the notes name them."""
        read = await self._notes.read_all(call, paths)
        return {path: author for path, note in read if (author := note.text("author"))}

    def seen_path(self, call: Call, path: str) -> str:
        """Check a path that a caller may read: it leads nowhere else, and is not that of a file kept beside notes.

        Raises: GatewayError: not_found.
        """
        if not names.is_plain_path(path):
            raise GatewayError("not_found", f"There is no note {path}.")
        return self._brain.view(call).place(path)

    def own_path(self, call: Call, path: str) -> str:
        """Check a path that the caller may change: it is theirs, and in no tree of a surface with rules of its own.

        Raises: GatewayError: forbidden, validation_error, not_found.
        """
        view = self._brain.view(call)
        placed = view.place(names.check_path(path))
        if not view.takes(placed):
            raise GatewayError("not_found", f"There is no note {path}.")
        return placed

    async def live(self, call: Call, entries: list[Entry]) -> list[Entry]:
        """Those of these documents that have not expired, nor been replaced by another."""
        mortal = {entry.path for entry in entries if names.may_end(names.fold_path(entry.path))}
        living = {path for path, note in await self._notes.read_all(call, mortal) if note.is_live}
        return [entry for entry in entries if entry.path not in mortal - living]

    async def read(self, call: Call, path: str) -> Document:
        """Raises: GatewayError: not_found."""
        body = (await self._brain.note(call, "read_note", {"path": path}))["body"]
        if body is None:
            raise GatewayError("not_found", f"There is no note {path}.")
        try:
            known = await self._brain.note(call, "stat_note", {"path": path})
        except GatewayError as error:
            if error.code != "not_implemented":
                raise
            known = {}
        record = known.get("document")
        changed = notes.milliseconds(known.get("mtime")) or 0
        return Document(path, body, record if isinstance(record, dict) else {}, changed)

    async def _find(self, call: Call, path: str) -> Document | None:
        try:
            return await self.read(call, path)
        except GatewayError as error:
            if error.code != "not_found":
                raise
        return None

    async def read_many(self, call: Call, folder: str = "") -> AsyncIterator[Document]:
        """All documents in a folder, one after the other. A document that is gone by then is left out."""
        for entry in sorted(await self.entries(call, folder), key=lambda entry: entry.path):
            if (document := await self._find(call, entry.path)) is not None:
                yield document

    async def replace(self, call: Call, path: str, text: str, expected: str) -> bool:
        """Replace the text that has this checksum. Returns whether that changed anything.

        Raises: GatewayError: conflict, if something else is there by now; forbidden, if it says who wrote it.
        """
        before = await self.read(call, path)
        _check_vouched(before, text)
        return await self._put(call, path, text.encode(), expected, before)

    async def rewrite(self, call: Call, before: Document, body: bytes) -> bool:
        """Replace the document that was read by bytes that we made. Returns whether that changed anything."""
        return await self._put(call, before.path, body, before.checksum, before)

    async def put(self, call: Call, path: str, body: bytes, expected: str | None) -> bool:
        """Write bytes to a free path, or in place of those that have this checksum. No version is kept."""
        return await self._put(call, path, body, expected, None)

    async def _put(self, call: Call, path: str, body: bytes, expected: str | None, before: Document | None) -> bool:
        """Write bytes, and keep `before` as a version. The version also holds the fields that only the platform's
        record has, because the next write removes them there."""
        aside = None if before is None else (_version_path(path, before.checksum), before.exported)
        # If other callers may write to the same brain, all of them use one name for its lock.
        brain_id = (await self._brain.known(call)).id if self._brain.view(call).is_limited else None
        args = {"path": path, "body": body, "expected": expected, "aside": aside, "brain_id": brain_id}
        return bool((await self._brain.note(call, "replace_note", args, stored=body))["changed"])

    async def restore(
        self, call: Call, path: str, exported: bytes, *, replaces: bool
    ) -> Literal["new", "same", "other"]:
        """Bring in what was exported. Returns what was there: nothing, the same, or something else.

        Something else is left alone, unless this `replaces` it; then it is kept as a version.
        """
        if (before := await self._find(call, path)) is None:
            await self.put(call, path, exported, None)
            return "new"
        if exported in (before.body, before.exported):
            return "same"
        if replaces:
            await self.rewrite(call, before, exported)
        return "other"

    async def remove(self, call: Call, path: str) -> str:
        """Put a note away. Returns its new path.

        Raises: GatewayError: not_found.
        """
        before = await self.read(call, path)
        to = _kept_path(path, DELETED, before.checksum[:12])
        if not await self._notes.move(call, path, to):
            raise GatewayError("not_found", f"There is no note {path}.")
        return to

    async def erase(self, call: Call, path: str) -> int:
        """Remove a note for good, as far as the platform does, with every version and the count of its hits.

        Returns how many copies there were.
        """
        copies = [path, *(version.path for version in await self.versions(call, path))]
        removed = sum([await self._notes.remove(call, copy) for copy in copies])
        await self._notes.remove(call, hits_path(path))
        return removed

    async def move(self, call: Call, path: str, to: str) -> None:
        """Raises: GatewayError: validation_error, not_found; conflict, if something is there."""
        if not names.is_plain_path(to):
            raise GatewayError(
                "validation_error", "TO must be a plain relative path, for example memory/global/running.md."
            )
        await self.read(call, path)
        if (await self._brain.note(call, "read_note", {"path": to}))["body"] is not None:
            raise GatewayError("conflict", f"There is a note {to} already.")
        await self._notes.move(call, path, to)

    async def versions(self, call: Call, path: str) -> list[Version]:
        """The earlier versions of a note, the newest first."""
        found = []
        folder, _, name = path.rpartition("/")
        beginning = f"{name.removesuffix('.md')}-"
        for kept in (VERSIONS, DELETED):
            entries = await self._notes.entries(call, f"{folder}/{kept}".strip("/"), ending=".txt")
            found += [
                Version(
                    entry.name.removeprefix(beginning).removesuffix(".txt"),
                    entry.path,
                    entry.size,
                    entry.changed,
                    kept == DELETED,
                )
                for entry in entries
                if is_version(entry.path, path)
            ]
        return sorted(found, key=lambda one: (one.changed, one.was_removed, one.name), reverse=True)

    async def bring_back(self, call: Call, path: str, name: str | None = None) -> Version:
        """Make a note what it was: in that version, or in the newest. What it is now becomes a version too.

        Raises: GatewayError: not_found.
        """
        versions = [one for one in await self.versions(call, path) if name is None or one.name == name]
        if not versions:
            raise GatewayError("not_found", f"There is no such version of {path}.")
        version = versions[0]
        now = await self._find(call, path)
        if now is None and version.was_removed:
            await self._notes.move(call, version.path, path)
            return version
        kept = await self.read(call, version.path)
        # A note that was put away was moved, and its record may say more than its bytes. A version holds everything.
        body = replace(kept, path=path).exported if version.was_removed else kept.body
        await self._put(call, path, body, None if now is None else now.checksum, now)
        return version


def is_version(path: str, of: str) -> bool:
    """Whether this is the path of an earlier version of a note, by its name alone."""
    folder, _, name = of.rpartition("/")
    beginning = f"{name.removesuffix('.md')}-"
    where, _, own = path.rpartition("/")
    of_version = _VERSION_OF_KV if of.lstrip("/").startswith(_KV) else _VERSION
    names_kept = {f"{folder}/{VERSIONS}".strip("/"): of_version, f"{folder}/{DELETED}".strip("/"): _REMOVED}
    if where not in names_kept or not own.startswith(beginning):
        return False
    return names_kept[where].fullmatch(own.removeprefix(beginning)) is not None


def _version_path(path: str, checksum: str) -> str:
    return _kept_path(path, VERSIONS, f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{checksum[:12]}")


def _kept_path(path: str, kept: str, name: str) -> str:
    folder, _, own = path.rpartition("/")
    return f"{folder}/{kept}/{own.removesuffix('.md')}-{name}.txt".lstrip("/")


def _check_vouched(before: Document, text: str) -> None:
    """Refuse an edit of a note's author, which comes from the token of the caller who wrote it."""
    ours, now = before.note, notes.parse(text.encode())
    is_kept = (
        all(ours.text(name) == now.text(name) for name in _VOUCHED) if ours.front else now.text("via") != notes.MARK
    )
    if not is_kept:
        raise GatewayError("forbidden", f"These fields of the front matter cannot be edited: {', '.join(_VOUCHED)}.")
