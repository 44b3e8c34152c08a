"""The canonical tools as data: inputs, outputs, annotations. Descriptions are the contract's, word for word."""

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, model_validator

from gateway.mcp.shapes import ADDS, BOOLEAN, INTEGER, NUMBER, READS, STRING, hints, object_of, result
from gateway.mcp.tool import NOT_BLANK, Input, ToolSpec
from gateway.operations import scopes
from gateway.operations.table import JsonObject

# `| None` is for the body of the tool, not for the schema: an argument left out, or sent as null, is None.
NonEmpty = Annotated[str, StringConstraints(min_length=1)]
BrainRef = Annotated[str | None, Field(description="Brain id or slug; the default brain when omitted.")]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Query = Annotated[str, StringConstraints(min_length=1, max_length=4096), NOT_BLANK]
# The schema is the contract's and has no limit for these; no file system and hardly any server takes longer ones.
_PATH_LENGTH, _URL_LENGTH = 4096, 8192
Slug = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9-]*$")]


class SearchInput(Input):
    query: Query
    brain: BrainRef = None
    top_k: Annotated[int, Field(ge=1, le=100)] = 10
    scope: Literal["all", "global", "project", "agent"] | None = None
    sort: Literal["relevance", "recency", "relevance_then_recency"] | None = None


class RecallInput(Input):
    query: Query
    brain: BrainRef = None
    scope: Literal["global", "project", "agent"] | None = None
    session_id: str | None = None
    top_k: Annotated[int, Field(ge=1, le=50)] | None = None


class RememberInput(Input):
    content: Annotated[str, StringConstraints(min_length=1, max_length=5_000_000), NOT_BLANK]
    title: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=512)] | None,
        Field(description="derived from first heading if omitted"),
    ] = None
    brain: BrainRef = None
    tags: Annotated[list[Tag], Field(max_length=64)] | None = None
    path: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None


class IngestFileInput(Input):
    path: Annotated[str, Field(description="absolute or relative local path")]
    brain: BrainRef = None
    as_: Annotated[Literal["markdown", "text", "pdf", "json"] | None, Field(alias="as")] = None

    @model_validator(mode="after")
    def _is_short(self) -> Self:
        if len(self.path) > _PATH_LENGTH:
            raise ValueError(f"path must have at most {_PATH_LENGTH:,} characters")
        return self


class IngestUrlInput(Input):
    # Strict hosts refuse a whole request for a `format` in it, so it is checked here alone.
    url: str
    brain: BrainRef = None

    @model_validator(mode="after")
    def _is_url(self) -> Self:
        if len(self.url) > _URL_LENGTH:
            raise ValueError(f"url must have at most {_URL_LENGTH:,} characters")
        try:
            parts = urlsplit(self.url)
            valid = bool(parts.scheme and parts.hostname) and not any(c.isspace() for c in self.url)
        except ValueError:
            valid = False
        if not valid:
            raise ValueError("url must be a valid URL, for example https://example.com/page")
        return self


class Message(Input):
    role: Literal["system", "user", "assistant", "tool"]
    content: NonEmpty


class ExtractInput(Input):
    messages: Annotated[list[Message], Field(min_length=1, max_length=500)]
    brain: BrainRef = None
    actor_id: str | None = None
    session_id: str | None = None


class ReflectInput(Input):
    session_id: NonEmpty
    brain: BrainRef = None


class ConsolidateInput(Input):
    brain: BrainRef = None


class CreateBrainInput(Input):
    name: Annotated[str, StringConstraints(min_length=1, max_length=128), NOT_BLANK]
    slug: Slug | None = None
    visibility: Literal["private", "tenant", "public"] = "private"

    def needs(self) -> str | None:
        # A brain with any other visibility can be seen by others.
        return None if self.visibility == "private" else scopes.ADMIN


class ListBrainsInput(Input):
    pass


class AskInput(Input):
    query: Annotated[str, StringConstraints(min_length=1, max_length=8192), NOT_BLANK]
    brain: BrainRef = None
    top_k: Annotated[int, Field(ge=1, le=50)] | None = None


_OBJECTS: JsonObject = {"type": "array", "items": {"type": "object"}}
_RECEIPT: JsonObject = {"outcome": {"type": "string", "enum": ["stored", "queued"]}, "route": STRING}

_HITS: JsonObject = {
    "type": "array",
    "items": object_of({"score": NUMBER, "path": STRING, "content": STRING}),
}
_DOCUMENT: JsonObject = {"id": STRING, "path": STRING, "byte_size": NUMBER}
_BRAIN: JsonObject = {"id": STRING, "slug": STRING, "name": STRING, "visibility": STRING}
_CITATION = object_of(
    {
        "type": {"type": "string", "const": "citation"},
        "chunk_id": STRING,
        "document_id": STRING,
        "answer_start": INTEGER,
        "answer_end": INTEGER,
        "quote": STRING,
    }
)
_RETRIEVED = object_of({"chunk_id": STRING, "document_id": STRING, "score": NUMBER, "preview": STRING})

SEARCH = ToolSpec(
    "memory_search",
    "Search memory",
    "Search memory notes in a brain and return matching note content with citations. scope selects the memory "
    "namespace, and sort controls whether relevance or recency wins.",
    result({"query": STRING, "brain_id": STRING, "hits": _HITS, "took_ms": NUMBER}),
    READS,
    scopes.READ,
)
RECALL = ToolSpec(
    "memory_recall",
    "Recall memories",
    "Recall memories for a query. Pass session_id to weight recent session context; otherwise uses the dedicated "
    "memory-search surface. scope selects the memory namespace rather than a generic metadata filter.",
    result(chunks=_OBJECTS, query=STRING, brain_id=STRING, hits=_HITS, took_ms=NUMBER),
    READS,
    scopes.READ,
)
REMEMBER = ToolSpec(
    "memory_remember",
    "Remember",
    "Store a new memory (markdown document) in the brain. Returns the created document id and path.",
    result(_DOCUMENT, **_RECEIPT),
    ADDS,
)
INGEST_FILE = ToolSpec(
    "memory_ingest_file",
    "Ingest a file",
    "Ingest a local file (<= 25 MB) into the brain. Returns the ingest result.",
    result({"status": STRING, "path": STRING}, job_id=STRING, chunk_count=NUMBER, reused=BOOLEAN, **_RECEIPT),
    ADDS,
)
INGEST_URL = ToolSpec(
    "memory_ingest_url",
    "Ingest a URL",
    "Fetch a URL and ingest its contents into the brain. Uses the server-side /ingest/url endpoint when available; "
    "otherwise fetches locally and creates a document.",
    result(
        {"path": {"type": "string", "enum": ["server", "fallback"]}},
        result={"type": "object"},
        document={"type": "object"},
        **_RECEIPT,
    ),
    hints(False, False, True, True),
)
EXTRACT = ToolSpec(
    "memory_extract",
    "Extract memories",
    "Submit a conversation transcript so the server can asynchronously extract memorable facts. If session_id is "
    "provided the messages are appended to that session; otherwise a transcript document is created.",
    result(
        {"mode": {"type": "string", "enum": ["session", "transcript"]}},
        messages=_OBJECTS,
        document={"type": "object"},
        **_RECEIPT,
    ),
    hints(False, False, False, False),
)
REFLECT = ToolSpec(
    "memory_reflect",
    "Reflect on a session",
    "Close a session and trigger server-side reflection over its messages.",
    result(
        {"reflection_status": STRING, "reflection_attempted": BOOLEAN},
        reflection={"type": "object"},
        ended_at=STRING,
        **_RECEIPT,
    ),
    hints(False, True, True, False),
)
CONSOLIDATE = ToolSpec(
    "memory_consolidate",
    "Consolidate memory",
    "Trigger a consolidation pass on the brain (compile summaries, promote stable notes, prune stale episodic memory).",
    result({"result": {"type": "object"}}, **_RECEIPT),
    hints(False, True, False, False),
    scopes.ADMIN,
)
CREATE_BRAIN = ToolSpec(
    "memory_create_brain",
    "Create a brain",
    "Create a new brain. Generates a slug from the name if one is not provided.",
    result(_BRAIN, **_RECEIPT),
    ADDS,
)
LIST_BRAINS = ToolSpec(
    "memory_list_brains",
    "List brains",
    "List all brains the caller has access to.",
    result({"items": {"type": "array", "items": object_of(_BRAIN)}}),
    READS,
    scopes.READ,
)
ASK = ToolSpec(
    "memory_ask",
    "Ask",
    "Ask a question grounded in the brain. Streams answer tokens as MCP progress notifications and returns the final "
    "answer with citations.",
    result(
        {
            "answer": STRING,
            "citations": {"type": "array", "items": _CITATION},
            "retrieved": {"type": "array", "items": _RETRIEVED},
        }
    ),
    READS,
    scopes.READ,
)
