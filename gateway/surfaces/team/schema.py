"""The tools of the `team` surface as data. Names, parameters, limits and their words are the contract's."""

import re
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from gateway.mcp.shapes import ADDS, BOOLEAN, INTEGER, READS, STRING, hints, object_of
from gateway.mcp.tool import NOT_BLANK, Input, ToolSpec
from gateway.operations import scopes

TYPES: Final = ("decision", "convention", "constraint", "open_question", "glossary", "status")
_SCOPE = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
_KEY = r"^[a-z0-9]+([.-][a-z0-9]+)*$"
# The form of a name of an entry without a key. No key may look like it.
_WITHOUT_KEY: Final = re.compile(rf"({'|'.join(TYPES)})-[0-9a-f]{{32}}")

Type = Literal["decision", "convention", "constraint", "open_question", "glossary", "status"]
Scope = Annotated[str, StringConstraints(pattern=_SCOPE)]
Key = Annotated[str, StringConstraints(max_length=128, pattern=_KEY)]


def is_key(name: str) -> bool:
    return len(name) <= 128 and re.fullmatch(_KEY, name) is not None and not _WITHOUT_KEY.fullmatch(name)


class RememberInput(Input):
    content: Annotated[
        str,
        StringConstraints(min_length=1, max_length=1_000_000),
        NOT_BLANK,
        Field(description="The statement to remember (plain text)."),
    ]
    type: Annotated[Type, Field(description=f"One of {', '.join(TYPES)}.")]
    scope: Annotated[
        Scope | None,
        Field(description="Target scope slug. If omitted, the team's default write-scope policy decides."),
    ] = None
    key: Annotated[
        Key | None,
        Field(
            description="Lowercase, dot/kebab-namespaced address (e.g. db.system-of-record). When given, a matching "
            "entry is updated in place rather than duplicated."
        ),
    ] = None

    @field_validator("key")
    @classmethod
    def _is_a_key(cls, value: str | None) -> str | None:
        if value is not None and not is_key(value):
            raise ValueError("key must not look like the name of an entry without a key")
        return value


class RecallInput(Input):
    scope: Annotated[Scope | None, Field(description="Restrict to a scope slug.")] = None
    type: Annotated[Type | None, Field(description="Restrict to one entry type.")] = None
    query: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None,
        Field(description="Substring match over content."),
    ] = None
    include_global: Annotated[
        bool | None,
        Field(
            description="Whether to fold in the global baseline alongside the selected scope.",
            json_schema_extra={"default": True},
        ),
    ] = None


class ForgetInput(Input):
    as_sent = frozenset({"scope", "key", "id"})

    scope: Annotated[Scope | None, Field(description="The scope the entry lives in; needed with key.")] = None
    key: Annotated[Key | None, Field(description="The entry's key within the scope.")] = None
    id: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None,
        Field(description="The entry's id, instead of its key."),
    ] = None

    @model_validator(mode="after")
    def _names_one_entry(self) -> Self:
        if self.key is None and self.id is None:
            raise ValueError("Give either key or id")
        if self.key is not None and self.id is not None:
            raise ValueError("Give key or id, not both")
        if self.key is not None and self.scope is None:
            raise ValueError("scope is required with key")
        return self


class ScopesInput(Input):
    pass


class LoadContextInput(Input):
    scope: Annotated[
        Scope | None,
        Field(description="Optional scope to focus the digest on; otherwise the relevant baseline is used."),
    ] = None


_ENTRY = {
    "id": STRING,
    "scope": STRING,
    "type": STRING,
    "key": STRING,
    "content": STRING,
    "author": STRING,
    "created_at": STRING,
    "updated_at": STRING,
}
_ENTRIES = {"type": "array", "items": object_of(**_ENTRY)}
# How many of each scope's notes were not read, because newer ones were.
_LEFT_OUT = {"type": "array", "items": object_of(scope=STRING, notes=INTEGER)}
# Scopes that were named and have no entries: of a new project, or misspelt.
_EMPTY_SCOPES = {"type": "array", "items": STRING}

REMEMBER = ToolSpec(
    "memory_remember",
    "Remember",
    "Write a new entry, or upsert an existing one when a key is supplied. Authorship is recorded automatically from "
    "the write channel; a client cannot set it.",
    object_of(**_ENTRY, outcome=STRING, route=STRING, reused=BOOLEAN),
    ADDS,
)
RECALL = ToolSpec(
    "memory_recall",
    "Recall",
    "Read entries with filters. All parameters are optional; with none, it returns what the caller may see in "
    "context. Only ever returns entries the calling user is permitted to see.",
    object_of(entries=_ENTRIES, count=INTEGER, left_out=_LEFT_OUT, empty_scopes=_EMPTY_SCOPES),
    READS,
    scopes.READ,
)
FORGET = ToolSpec(
    "memory_forget",
    "Forget",
    "Remove an entry. Private entries are protected by the owner check: only the owner, over their own session, can "
    "forget their private entries.",
    object_of(forgotten=BOOLEAN, id=STRING, scope=STRING),
    hints(False, True, True, False),
)
SCOPES = ToolSpec(
    "memory_scopes",
    "List scopes",
    "List the scopes the caller may see: their own private scope plus every shared scope (global and the project "
    "scopes they have access to).",
    object_of(scopes={"type": "array", "items": object_of(scope=STRING, kind=STRING)}),
    READS,
    scopes.READ,
)
LOAD_CONTEXT = ToolSpec(
    "memory_load_context",
    "Load context",
    "Return a typed, ready-to-inject digest of the relevant rules, grouped by type (decision / convention / "
    "constraint / open_question / glossary / status) and capped per group. This is the tool to call at the start of a "
    "session so the assistant carries the team's steering knowledge from the first turn.",
    object_of(
        groups={"type": "array", "items": object_of(type=STRING, entries=_ENTRIES, omitted=INTEGER)},
        scopes={"type": "array", "items": STRING},
        left_out=_LEFT_OUT,
        empty_scopes=_EMPTY_SCOPES,
    ),
    READS,
    scopes.READ,
)
