"""The neutral vocabulary: what a surface may ask of a brain, and the JSON that travels."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

# A JSON tree. Recursive aliases buy nothing here: responses pass through unread.
JsonValue = Any
JsonObject = dict[str, JsonValue]
Args = Mapping[str, Any]


class Op(StrEnum):
    """One thing a platform may be able to do. A dialect says how; a chain says what to do when it cannot."""

    LIST_BRAINS = "list_brains"
    CREATE_BRAIN = "create_brain"
    SEARCH = "search"
    SESSION_RECALL = "session_recall"
    CREATE_DOCUMENT = "create_document"
    STAT_DOCUMENT = "stat_document"
    READ_DOCUMENT = "read_document"
    INGEST_FILE = "ingest_file"
    INGEST_URL = "ingest_url"
    APPEND_MESSAGE = "append_message"
    CLOSE_SESSION = "close_session"
    CONSOLIDATE = "consolidate"
    COMPILE = "compile"
    ASK = "ask"


# Asking again changes nothing: these may be repeated when an answer was lost.
READS = frozenset({Op.LIST_BRAINS, Op.SEARCH, Op.SESSION_RECALL, Op.STAT_DOCUMENT, Op.READ_DOCUMENT})
