"""The tools of the `memo` surface as data. Names, parameters, limits and their words are the contract's."""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, StringConstraints

from gateway.mcp.shapes import ADDS, READS
from gateway.mcp.tool import NOT_BLANK, Input, ToolSpec
from gateway.operations import scopes
from gateway.operations.table import JsonObject
from gateway.surfaces.memo.metadata import as_json, one_line

LEAST, MOST, DEFAULT_LIMIT = 1, 100, 10
METADATA_LENGTH: Final = 16_000


def _storable(metadata: JsonObject | None) -> JsonObject | None:
    """Metadata go into front matter, of which only so much is read."""
    try:
        length = len(as_json(metadata or {}))
    except (ValueError, RecursionError):
        raise ValueError("metadata must be plain JSON") from None
    if length > METADATA_LENGTH or len(one_line(metadata or {})) > METADATA_LENGTH:
        raise ValueError(f"metadata must have at most {METADATA_LENGTH:,} characters as JSON")
    return metadata


class SearchInput(Input):
    query: Annotated[
        str, StringConstraints(min_length=1, max_length=4096), NOT_BLANK, Field(description="Search query")
    ]
    limit: Annotated[
        int, Field(ge=LEAST, le=MOST, description=f"Max results (default: {DEFAULT_LIMIT}, range: {LEAST}-{MOST})")
    ] = DEFAULT_LIMIT


class RecordInput(Input):
    content: Annotated[
        str,
        StringConstraints(min_length=1, max_length=2_000_000),
        Field(description="The memo content, best under 5000 characters"),
        NOT_BLANK,
    ]
    source: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=256)] | None,
        Field(description='Source identifier, e.g. "manual", "meeting", "code-review", "incident"'),
    ] = None
    metadata: Annotated[
        dict[str, Any] | None, Field(description="Additional key-value metadata"), AfterValidator(_storable)
    ] = None


SEARCH = ToolSpec(
    "memoai_memo_search",
    "Search memos",
    "Search through your memos using semantic search.",
    None,
    READS,
    scopes.READ,
)
RECORD = ToolSpec(
    "memoai_memo_record",
    "Record a memo",
    "Record a new memo in your knowledge base.",
    None,
    ADDS,
)
