"""The four tools beside the contract, as data. They have a pin of their own: the eleven stay as they are."""

from typing import Annotated

from pydantic import Field, StringConstraints

from gateway.mcp.shapes import BOOLEAN, INTEGER, READS, STRING, hints, object_of, result
from gateway.mcp.tool import NOT_BLANK, Input, ToolSpec
from gateway.operations import scopes
from gateway.operations.table import JsonObject
from gateway.surfaces.memory.schema import BrainRef, Tag

Path = Annotated[
    str,
    StringConstraints(min_length=1, max_length=1024),
    Field(description="path of a note, as memory_list and memory_search show it"),
]
Checksum = Annotated[
    str, StringConstraints(pattern=r"^[0-9a-f]{64}$"), Field(description="checksum_sha256 as memory_read gave it")
]


class ListInput(Input):
    folder: Annotated[
        Annotated[str, StringConstraints(max_length=1024)] | None,
        Field(description="only notes below this folder, for example memory/global"),
    ] = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    offset: Annotated[int, Field(ge=0, le=1_000_000, description="how many of the newest to leave out")] = 0
    brain: BrainRef = None


class ReadInput(Input):
    path: Path
    brain: BrainRef = None


class UpdateInput(Input):
    path: Path
    content: Annotated[
        str,
        StringConstraints(min_length=1, max_length=1_500_000),
        NOT_BLANK,
        Field(description="the whole new text of the note"),
    ]
    checksum_sha256: Checksum
    title: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=512)] | None, Field(description="kept if omitted")
    ] = None
    tags: Annotated[
        Annotated[list[Tag], Field(max_length=64)] | None, Field(description="all tags of the note; kept if omitted")
    ] = None
    brain: BrainRef = None


class ForgetInput(Input):
    path: Path
    brain: BrainRef = None


_ENTRY: JsonObject = object_of({"path": STRING, "bytes": INTEGER, "updated_at": STRING})
_OUTCOME: JsonObject = {"outcome": {"type": "string", "enum": ["stored"]}, "route": STRING}

LIST = ToolSpec(
    "memory_list",
    "List memories",
    "List the notes in a brain, newest first, with their paths. Use memory_search to find notes by what they say.",
    result({"items": {"type": "array", "items": _ENTRY}, "total": INTEGER}),
    READS,
    scopes.READ,
)
READ = ToolSpec(
    "memory_read",
    "Read a memory",
    "Read one note whole, by its path. Returns its content, title, tags, and the checksum that memory_update wants.",
    result(
        {
            "path": STRING,
            "title": STRING,
            "tags": {"type": "array", "items": STRING},
            "content": STRING,
        },
        # A note that was too long to be read whole has no checksum.
        checksum_sha256=STRING,
        truncated=BOOLEAN,
        updated_at=STRING,
    ),
    READS,
    scopes.READ,
)
UPDATE = ToolSpec(
    "memory_update",
    "Correct a memory",
    "Replace the text of a note that you have read with memory_read. It is refused as a conflict if the note was "
    "changed since. What the note said before is kept as a version, which the person can bring back.",
    result({"path": STRING, "checksum_sha256": STRING, "changed": BOOLEAN}, **_OUTCOME),
    hints(False, True, True, False),
)
FORGET = ToolSpec(
    "memory_forget",
    "Forget a memory",
    "Put a note away, so that no search and no answer finds it. The person can bring it back.",
    result({"path": STRING, "forgotten": BOOLEAN}, **_OUTCOME),
    hints(False, True, True, False),
)
