"""The pair of tools that ChatGPT's connectors and deep research want, as data."""

from typing import Annotated

from pydantic import Field, StringConstraints

from gateway.mcp.shapes import READS, STRING, object_of, result
from gateway.mcp.tool import NOT_BLANK, Input, ToolSpec
from gateway.operations import scopes
from gateway.operations.table import JsonObject

_HIT: JsonObject = object_of({"id": STRING, "title": STRING, "url": STRING})


class SearchInput(Input):
    query: Annotated[
        str,
        StringConstraints(min_length=1, max_length=4096),
        NOT_BLANK,
        Field(description="What to look for, in plain words."),
    ]


class FetchInput(Input):
    id: Annotated[
        str, StringConstraints(min_length=1, max_length=1024), Field(description="The id of a result of search.")
    ]


SEARCH = ToolSpec(
    "search",
    "Search notes",
    "Find notes in the person's long-term memory. Returns id, title and url of each, the best first. Call fetch with "
    "an id to read a note.",
    result({"results": {"type": "array", "items": _HIT}}),
    READS,
    scopes.READ,
)
FETCH = ToolSpec(
    "fetch",
    "Read a note",
    "Read one note whole, by an id that search returned. Its url is what to cite.",
    result(
        {"id": STRING, "title": STRING, "text": STRING, "url": STRING},
        metadata={"type": "object", "additionalProperties": STRING},
    ),
    READS,
    scopes.READ,
)
