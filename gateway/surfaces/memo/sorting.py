"""After a memo is recorded, the platform's model finds its type of episode and the entities that it names."""

import re
from typing import Final

from gateway.brain.notebook import Notebook, draft_note
from gateway.operations import names
from gateway.operations.caller import Call
from gateway.operations.notes import Change, Draft, Note
from gateway.operations.table import JsonObject
from gateway.surfaces.memo.metadata import as_memo

UNSORTED: Final = "other"
_TYPE: Final = re.compile(r"[a-z][a-z_]{0,63}")
_ENTITIES: Final = 20
_ENTITY_LENGTH: Final = 128


async def sort(notes: Notebook, path: str, call: Call) -> None:
    """Add to a memo what the model finds. Without a model it stays as it is, until it is recorded again."""
    told = await notes.derive(call, "classify_episode", paths=[path])
    if not told:
        return
    named = await notes.derive(call, "entities", paths=[path])
    await notes.keep(call, path, sorting(episode_type_of(told[0]), entities_of(named[0]) if named else []))


def episode_type_of(result: JsonObject) -> str:
    found = result.get("episode_type")
    return found if isinstance(found, str) and _TYPE.fullmatch(found) else UNSORTED


def entities_of(result: JsonObject) -> list[str]:
    listed = result.get("entities")
    found = [one.get("name") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    # Commas stand between them.
    said = (" ".join(name.replace(",", " ").split()) for name in found if isinstance(name, str))
    return list(dict.fromkeys(name for name in said if name.isprintable() and 0 < len(name) <= _ENTITY_LENGTH))[
        :_ENTITIES
    ]


def sorting(episode_type: str, entities: list[str]) -> Change:
    """The change that sorting makes. If a person has changed the type, it stays."""

    def change(before: Note | None) -> Draft | None:
        if before is None or before.text("sorted"):
            return None
        memo = as_memo(before)
        known = memo.text("episode_type") or UNSORTED
        fields: JsonObject = {
            "digest": before.text("digest") or names.checksum(before.content),
            "episode_type": episode_type if known == UNSORTED else known,
            "entities": ", ".join(entities) or None,
            "sorted": "true",
        }
        return draft_note(before.title or names.title_of(before.content), before.content, fields, before)

    return change
