"""The tools of the `being` surface as data. Names, parameters, limits and their words are the contract's."""

import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from gateway.mcp.shapes import ADDS, READS, hints
from gateway.mcp.tool import NOT_BLANK, Input, ToolSpec
from gateway.operations import scopes

TEXT_LENGTH = 100_000
_LIST = 100
_IDS = 50

_DAY = r"^\d{4}-\d{2}-\d{2}$"


def _date(day: str) -> str:
    try:
        date.fromisoformat(day if re.fullmatch(_DAY, day, re.ASCII) else "")
    except ValueError:
        raise PydanticCustomError("day", "must be a date as in 2026-04-14") from None
    return day


Text = Annotated[str, StringConstraints(min_length=1, max_length=TEXT_LENGTH), NOT_BLANK]
Line = Annotated[str, StringConstraints(min_length=1, max_length=2_000), NOT_BLANK]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), NOT_BLANK]
Names = Annotated[list[Name], Field(max_length=_LIST)]
# The pattern is only for clients: our own check has its own message, and not every match is a date.
Day = Annotated[str, AfterValidator(_date), Field(json_schema_extra={"pattern": _DAY})]
Days = Annotated[list[Day], Field(max_length=_LIST)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Target = Literal[
    "preferences",
    "knowledge",
    "relationship",
    "partner_tools",
    "partner_map",
    "diary",
    "notes",
    "party_message",
    "partner_rules",
    "souls",
]


class RecallInput(Input):
    user_message: Annotated[Text, Field(description="The current user message to search against")]


class ContextInput(Input):
    """No arguments."""


class RecallMemoryInput(Input):
    cluster_id: Annotated[Name | None, Field(description="UUID. Omit to list all clusters")] = None
    node_id: Annotated[Name | None, Field(description="UUID of a single node to get")] = None
    limit: Annotated[int, Field(ge=1, le=50, description="Max nodes to return")] = 5
    query: Annotated[Line | None, Field(description="Keyword filter on the nodes' action")] = None
    no_nodes: Annotated[bool, Field(description="Return digest only, no nodes")] = False


class SearchMemoryInput(Input):
    query: Annotated[Text, Field(description="Search query")]
    limit: Annotated[int, Field(ge=1, le=30, description="Max results")] = 10
    mode: Annotated[Literal["or", "and"], Field(description="Applies to keyword search only")] = "or"


class MergeNodesInput(Input):
    node_ids: Annotated[Text, Field(description="Comma-separated node UUIDs to merge")]
    summary: Annotated[Text, Field(description="The merged node's action text")]
    feeling: Annotated[Line | None, Field(description="Feeling/emotion for the merged node")] = None

    @property
    def ids(self) -> list[str]:
        return list(dict.fromkeys(part.strip() for part in self.node_ids.split(",") if part.strip()))

    @model_validator(mode="after")
    def _are_several(self) -> Self:
        if not 2 <= len(self.ids) <= _IDS:
            raise ValueError(f"node_ids must name 2 to {_IDS} different nodes, separated by commas")
        return self


class UpdateMemoryInput(Input):
    as_sent = frozenset({"key"})

    target: Target
    action: Literal["get", "append", "update", "delete"]
    content: Annotated[Text | None, Field(description="Content for append/update")] = None
    key: Annotated[Name | None, Field(description="Narrows update/delete/get to a specific entry")] = None
    location: Annotated[Line | None, Field(description="Location, for partner_map")] = None
    to: Annotated[Name | None, Field(description="Recipient partner name, for party_message")] = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.location is not None and self.target != "partner_map":
            raise ValueError("location goes with target partner_map alone")
        if self.to is not None and self.target != "party_message":
            raise ValueError("to goes with target party_message alone")
        if self.action in {"append", "update"} and self.content is None and self.location is None:
            raise ValueError(f"content is required for {self.action}")
        return self


class Scene(Input):
    action: Annotated[Text, Field(description="What happened")]
    actors: Annotated[Names, Field(description="Who was involved")]
    when: Annotated[Days, Field(description="Date(s), YYYY-MM-DD")]
    setting: Annotated[Line | None, Field(description="Where / context")] = None
    feeling: Annotated[Line | None, Field(description="Subjective first-person impression")] = None
    themes: Annotated[Names | None, Field(description="Theme tags")] = None
    importance: Annotated[Number, Field(ge=0, le=1)] = 0.5


class UpdateNotesInput(Input):
    as_sent = frozenset({"scene_ids"})

    action: Annotated[
        Literal["append", "update"],
        Field(description="update deletes scene_ids first, then inserts new scenes"),
    ] = "append"
    scenes: Annotated[list[Scene] | None, Field(max_length=_LIST)] = None
    notes: Annotated[
        list[Text] | None,
        Field(max_length=_LIST, description="Free-form memos (TODOs, reminders). Not consumed by patrol"),
    ] = None
    scene_ids: Annotated[
        Names | None,
        Field(description="Existing scenes to delete when action=update"),
    ] = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.scenes and not self.notes:
            raise ValueError("at least one of scenes or notes is required")
        if self.scene_ids and self.action != "update":
            raise ValueError("scene_ids goes with action update alone")
        return self


class SearchHistoryInput(Input):
    query: Annotated[Line | None, Field(description="Partial-match keyword")] = None
    date_from: Annotated[Day | None, Field(description="Start date YYYY-MM-DD (inclusive, UTC)")] = None
    date_to: Annotated[Day | None, Field(description="End date YYYY-MM-DD (inclusive, UTC)")] = None
    limit: Annotated[int, Field(ge=1, le=50, description="Max results")] = 10

    @model_validator(mode="after")
    def _are_in_order(self) -> Self:
        if self.date_from and self.date_to and self.date_from > self.date_to:
            raise ValueError("date_from must not be after date_to")
        return self


class UpdateRelationInput(Input):
    entity_name: Annotated[Name, Field(description="Name/identifier of the related entity")]
    relation_type: Annotated[Name, Field(description="Entity category: person, device, ai, organization, etc.")]
    action: Annotated[Literal["upsert", "delete"], Field(description="Create/overwrite or remove")]
    content: Annotated[Text | None, Field(description="Description of the relationship (required for upsert)")] = None

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if self.action == "upsert" and self.content is None:
            raise ValueError("content is required for upsert")
        return self


class Message(BaseModel):
    """One message. Clients send more fields with it, and some fields are empty."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    role: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    content: Annotated[str, StringConstraints(max_length=1_000_000)]
    # Some clients send a time. Others send numbers or other values, which is no reason to refuse a message.
    said_at: Annotated[SkipJsonSchema[Any], Field(validation_alias=AliasChoices("timestamp", "created_at"))] = None

    @property
    def day(self) -> str | None:
        """The day of the message, in UTC, if the client sends it as ISO 8601."""
        try:
            moment = datetime.fromisoformat(self.said_at if isinstance(self.said_at, str) else "")
            return (moment.astimezone(UTC) if moment.tzinfo else moment).date().isoformat()
        except (ValueError, OverflowError):
            return None


class TriggerPatrolInput(Input):
    messages: Annotated[
        list[Message],
        Field(max_length=5_000, description="Messages to process ([] to process existing scene notes only)"),
    ]
    marker_id: Annotated[Name | None, Field(description="Previous patrol marker ID")] = None


class CurrentTimeInput(Input):
    timezone: Annotated[Name, Field(description="IANA timezone identifier, e.g. Asia/Tokyo")] = "UTC"


_REPLACES = hints(False, True, True, False)

RECALL = ToolSpec(
    "recall",
    "Recall",
    "Call at the start of every turn. Searches memory to surface relevant past memories for the current user message.",
    None,
    READS,
    scopes.READ,
)
GET_CONTEXT = ToolSpec(
    "get_context",
    "Get context",
    "Call once at session start. Returns the Being's persona definition and memory snapshot.",
    None,
    READS,
    scopes.READ,
)
RECALL_MEMORY = ToolSpec(
    "recall_memory",
    "Explore memory",
    "Explore memory clusters or individual nodes. Without cluster_id, returns the cluster list. With cluster_id, "
    "returns the cluster digest and its top nodes. With node_id, returns the details of a single node.",
    None,
    READS,
    scopes.READ,
)
SEARCH_MEMORY = ToolSpec(
    "search_memory",
    "Search memory",
    "Search across memory nodes without needing a cluster ID.",
    None,
    READS,
    scopes.READ,
)
MERGE_NODES = ToolSpec("merge_nodes", "Merge nodes", "Merge multiple similar memory nodes into one.", None, _REPLACES)
UPDATE_MEMORY = ToolSpec(
    "update_memory",
    "Update memory",
    "Read and write structured partner memory (preferences, knowledge, relationships, notes, etc.).",
    None,
    _REPLACES,
)
UPDATE_NOTES = ToolSpec(
    "update_notes",
    "Update notes",
    "Record conversation scenes and free-form notes. Scenes are converted to memory nodes during patrol; notes "
    "persist as-is. At least one of scenes or notes is required.",
    None,
    _REPLACES,
)
SEARCH_HISTORY = ToolSpec(
    "search_history",
    "Search history",
    "Search past conversation messages by keyword and/or date range.",
    None,
    READS,
    scopes.READ,
)
UPDATE_RELATION = ToolSpec(
    "update_relation", "Update relation", "Manage the Being's entity relationships table.", None, _REPLACES
)
TRIGGER_PATROL = ToolSpec(
    "trigger_patrol", "Trigger patrol", "Manually invoke the patrol pipeline from a message history.", None, ADDS
)
GET_CURRENT_TIME = ToolSpec(
    "get_current_time",
    "Current time",
    "Returns the current datetime in the specified timezone.",
    None,
    READS,
    scopes.READ,
)
