"""The relations of a being: one note for each entity, in a folder for each kind."""

from gateway.brain.notebook import Notebook, draft_note
from gateway.operations import names
from gateway.operations.caller import Call
from gateway.operations.notes import Change, Draft, Note
from gateway.operations.table import JsonObject
from gateway.surfaces.being import names as paths
from gateway.surfaces.being.schema import UpdateRelationInput
from gateway.surfaces.being.targets import remove


class Relations:
    """Relations by kind and name."""

    def __init__(self, notes: Notebook) -> None:
        self._notes = notes

    async def upsert(self, call: Call, args: UpdateRelationInput) -> JsonObject:
        change = relating(args)
        _note, changed = await self._notes.keep(call, path_of(args), change, stored=args.content or "")
        return {"changed": changed}

    async def delete(self, call: Call, args: UpdateRelationInput) -> JsonObject:
        return {"deleted": await remove(self._notes, call, path_of(args))}


def path_of(args: UpdateRelationInput) -> str:
    return f"{paths.RELATIONS}/{paths.file_name(args.relation_type)}/{paths.file_name(args.entity_name)}.md"


def relating(args: UpdateRelationInput) -> Change:
    content = args.content or ""

    def change(before: Note | None) -> Draft | None:
        if before is not None and before.content.strip() == content.strip():
            return None
        fields = {
            "digest": names.checksum(content.strip()),
            "entity": paths.one_line(args.entity_name),
            "relation": paths.one_line(args.relation_type),
        }
        aside = {} if before is None else {paths.aside(path_of(args), "_versions", before): before.content.encode()}
        return draft_note(paths.one_line(args.entity_name), content, fields, before, aside=aside)

    return change
