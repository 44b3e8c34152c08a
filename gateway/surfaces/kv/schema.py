"""The tools of the `kv` surface as data. Names, parameters, limits and their words are the contract's."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from gateway.mcp.shapes import ADDS, BOOLEAN, INTEGER, NUMBER, READS, STRING, hints, object_of
from gateway.mcp.tool import NOT_BLANK, Input, ToolSpec
from gateway.operations import scopes

DEFAULT_NAMESPACE = "default"
VALUE_LENGTH = 5_000
_WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"

Word = Annotated[str, StringConstraints(pattern=_WORD)]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Namespace = Annotated[Word, Field(description="Namespace (default default).")]
OneNamespace = Annotated[Word | None, Field(description="Restrict to one namespace if set.")]
TagFilter = Annotated[list[Tag] | None, Field(max_length=20, description="AND-filter on these tags.")]


def _default_if_null(namespace: Any) -> Any:
    return DEFAULT_NAMESPACE if namespace is None else namespace


class PutInput(Input):
    as_sent = frozenset({"namespace"})

    key: Annotated[Word, Field(description="Short snake_case identifier, unique per namespace.")]
    value: Annotated[str, StringConstraints(min_length=1, max_length=VALUE_LENGTH)]
    namespace: Annotated[
        Word, BeforeValidator(_default_if_null), Field(description="Logical bucket (default default).")
    ] = DEFAULT_NAMESPACE
    tags: Annotated[list[Tag] | None, Field(max_length=20, description="Up to 20 tags.")] = None
    importance: Annotated[Number, Field(ge=1, le=10, description="Drives search ranking (default 5).")] = 5
    expires_in_days: Annotated[
        Annotated[Number, Field(gt=0, le=36_500)] | None,
        Field(description="If set, memory expires after this many days."),
    ] = None


class GetInput(Input):
    key: Annotated[Word, Field(description="The memory key.")]
    namespace: Namespace = DEFAULT_NAMESPACE


class SearchInput(Input):
    query: Annotated[
        str, StringConstraints(min_length=1, max_length=4096), NOT_BLANK, Field(description="Natural-language query.")
    ]
    namespace: OneNamespace = None
    tags: TagFilter = None
    limit: Annotated[int, Field(ge=1, le=50, description="Max results (default 10, cap 50).")] = 10
    mode: Annotated[Literal["hybrid", "semantic", "keyword"], Field(description="Ranker mode (default hybrid).")] = (
        "hybrid"
    )


class ListInput(Input):
    namespace: OneNamespace = None
    tags: TagFilter = None
    limit: Annotated[int, Field(ge=1, le=200, description="Max 200 (default 50).")] = 50


class DeleteInput(Input):
    as_sent = frozenset({"namespace"})

    key: Annotated[Word, Field(description="Memory key.")]
    namespace: Namespace = DEFAULT_NAMESPACE


_TAGS = {"type": "array", "items": STRING}
_MEMORY = {
    "key": STRING,
    "value": STRING,
    "namespace": STRING,
    "tags": _TAGS,
    "importance": NUMBER,
    "created_at": INTEGER,
    "updated_at": INTEGER,
    "access_count": INTEGER,
}
_HIT = {name: _MEMORY[name] for name in ("key", "value", "namespace", "tags", "importance", "created_at")}
_BREAKDOWN = object_of(semantic=NUMBER, keyword=NUMBER, importance=NUMBER, timeDecay=NUMBER)

PUT = ToolSpec(
    "jettson_memory_put",
    "Save to memory",
    "Save a value to memory under key. Versioning and quota enforcement work the same way the public API does.",
    object_of(memory_id=STRING, key=STRING, namespace=STRING),
    ADDS,
)
GET = ToolSpec(
    "jettson_memory_get",
    "Get from memory",
    "Fetch a specific memory by (namespace, key).",
    object_of(found=BOOLEAN, **_MEMORY),
    READS,
    scopes.READ,
)
SEARCH = ToolSpec(
    "jettson_memory_search",
    "Search memory",
    "Hybrid semantic+keyword search across the user's memory pool.",
    object_of(results={"type": "array", "items": object_of(**_HIT, score=NUMBER, breakdown=_BREAKDOWN)}),
    READS,
    scopes.READ,
)
LIST = ToolSpec(
    "jettson_memory_list",
    "List memory",
    "List live memories, optionally filtered. No relevance ranking — newest first.",
    object_of(memories={"type": "array", "items": object_of(**_MEMORY)}, count=INTEGER),
    READS,
    scopes.READ,
)
DELETE = ToolSpec(
    "jettson_memory_delete",
    "Delete from memory",
    "Soft delete a memory. The doc keeps existing with isLatestVersion=false and a deletedAt stamp; search and get "
    "won't surface it.",
    object_of(deleted=BOOLEAN),
    hints(False, True, True, False),
)
