"""Four tools beside the contract: notes are listed, read, corrected and forgotten. A person can undo the last two."""

from datetime import UTC, datetime

from gateway.brain.brain import Brain
from gateway.brain.shelf import Document, Shelf
from gateway.mcp.bounds import RESULT_LENGTH, cut
from gateway.mcp.result import Result
from gateway.mcp.shown import line, visible
from gateway.mcp.surface import Options, Surface
from gateway.mcp.tool import Use, tool
from gateway.operations import names, notes
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject
from gateway.surfaces.memory import extra_schema as schema

_SHOWN = 50
_READ_LENGTH = RESULT_LENGTH * 9 // 10
# Fields of a note that describe its old text.
_OF_BEFORE = ("via", "digest", "description", "brains_mark")


class Extras(Surface):
    """Not a surface of its own: `memory` serves these tools if the operator wants them."""

    name = "memory"
    instructions = ""

    def __init__(self, brain: Brain, options: Options) -> None:
        super().__init__(brain, options)
        self._shelf = Shelf(brain)

    @tool(schema.LIST, Use("list_notes"))
    async def list_(self, args: schema.ListInput, call: Call) -> Result:
        await self._brain.settle(call, args.brain)
        folder = (args.folder or "").strip("/")
        entries = await self._shelf.entries(call, self._shelf.seen_path(call, folder) if folder else "")
        # Only expired notes of this page are left out: `offset` and `total` count them.
        shown = await self._shelf.live(call, entries[args.offset : args.offset + args.limit])
        items = [{"path": e.path, "bytes": e.size, "updated_at": _moment(e.changed)} for e in shown]
        told = [f"{line(item['path'])}  {item['updated_at']}" for item in items[:_SHOWN]]
        rest = f"\n({len(items) - _SHOWN} more in the structured result)" if len(items) > _SHOWN else ""
        said = "\n".join([f"{len(items)} of {len(entries)} notes, newest first:", *told]) + rest
        return Result(said if entries else "There are no notes.", {"items": items, "total": len(entries)})

    @tool(schema.READ, Use("read_note"))
    async def read(self, args: schema.ReadInput, call: Call) -> Result:
        await self._brain.settle(call, args.brain)
        document = await self._shelf.read(call, self._shelf.seen_path(call, args.path.removeprefix("/")))
        if names.may_end(names.fold_path(document.path)) and not document.note.is_live:
            raise GatewayError("not_found", f"There is no note {document.path}.")
        whole = document.note.content
        content = cut(whole, _READ_LENGTH)
        # A caller who has read only a part of a note gets no checksum, because with it they could replace the whole
        # note.
        known = {"truncated": True} if len(whole) > _READ_LENGTH else {"checksum_sha256": document.checksum}
        found: JsonObject = {
            "path": document.path,
            "title": document.title,
            "tags": document.tags,
            "content": content,
            **known,
            "updated_at": _moment(document.changed),
        }
        tags = f" (tags: {line(', '.join(document.tags))})" if document.tags else ""
        return Result(f"{line(document.title)}{tags}\n{line(document.path)}\n\n{visible(content)}", found)

    @tool(schema.UPDATE, Use("replace_note"))
    async def update(self, args: schema.UpdateInput, call: Call) -> Result:
        await self._brain.settle(call, args.brain)
        path = self._shelf.own_path(call, args.path)
        before = await self._shelf.read(call, path)
        body = _updated(before, args)
        if before.checksum != args.checksum_sha256 and not _says(before, args):
            raise GatewayError("conflict", "It was changed since you have read it. Read it again, and then change it.")
        changed = not _says(before, args) and await self._shelf.rewrite(call, before, body)
        now = names.checksum(body.decode()) if changed else before.checksum
        told = f"Changed {line(path)}." if changed else f"{line(path)} says that already."
        stored = {"path": path, "checksum_sha256": now, "changed": changed, "outcome": "stored", "route": call.route}
        return Result(told, stored)

    @tool(schema.FORGET, Use("move_note"))
    async def forget(self, args: schema.ForgetInput, call: Call) -> Result:
        await self._brain.settle(call, args.brain)
        path = self._shelf.own_path(call, args.path)
        try:
            await self._shelf.remove(call, path)
        except GatewayError as error:
            # Perhaps this very call has moved it before, and the answer was lost.
            gone = error.code == "not_found" and any(v.was_removed for v in await self._shelf.versions(call, path))
            if not gone:
                raise
        answer: JsonObject = {"path": path, "forgotten": True, "outcome": "stored", "route": call.route}
        return Result(f"Forgot {line(path)}. The person can bring it back: brains-gateway undo {line(path)}", answer)


def _updated(before: Document, args: schema.UpdateInput) -> bytes:
    """The note with another text. Its other fields stay, also the time of its creation."""
    known = dict(before.note.front) if before.note.front else {**(before.record.get("metadata") or {})}
    if not before.note.front and before.record.get("created_at"):
        known.setdefault("created", before.record["created_at"])
    for name in (*_OF_BEFORE, "name", "tags", "modified"):
        known.pop(name, None)
    document: JsonObject = {
        "content": args.content,
        "title": args.title or before.title,
        "tags": before.tags if args.tags is None else args.tags,
        "metadata": known,
    }
    body = notes.render(document, notes.now())
    return notes.set_apart(body, before.path) if "brains_mark" in before.note.front else body


def _says(before: Document, args: schema.UpdateInput) -> bool:
    """Whether the note already is as wanted, as after an earlier copy of this call."""
    is_titled = args.title in (None, before.title)
    is_tagged = args.tags is None or args.tags == before.tags
    return is_titled and is_tagged and before.note.content.strip() == args.content.strip()


def _moment(milliseconds: int) -> str:
    if not milliseconds:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
