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
    LIST_NAMED_BRAINS = "list_named_brains"
    """A list that tells names and visibility: not every platform keeps them."""
    CREATE_BRAIN = "create_brain"
    CREATE_BARE_BRAIN = "create_bare_brain"
    """A brain that keeps its id, and neither name nor visibility."""
    SEARCH = "search"
    SORTED_SEARCH = "sorted_search"
    AGENT_SEARCH = "agent_search"
    """A search that finds notes of the agent namespace: not every index holds them."""
    SESSION_RECALL = "session_recall"
    RECALL = "recall"
    ASK = "ask"
    CREATE_DOCUMENT = "create_document"
    WRITE_DOCUMENT = "write_document"
    BATCH_WRITE = "batch_write"
    APPEND_DOCUMENT = "append_document"
    STAT_DOCUMENT = "stat_document"
    READ_DOCUMENT = "read_document"
    LIST_DOCUMENTS = "list_documents"
    RENAME_DOCUMENT = "rename_document"
    DELETE_DOCUMENT = "delete_document"
    INGEST_FILE = "ingest_file"
    INGEST_TEXT = "ingest_text"
    """Ingest what is text already, under a name of our choice: such a platform reads no PDF and overwrites."""
    INGEST_URL = "ingest_url"
    APPEND_MESSAGE = "append_message"
    LIST_MESSAGES = "list_messages"
    CLOSE_SESSION = "close_session"
    EXTRACT = "extract"
    REFLECT = "reflect"
    CONSOLIDATE = "consolidate"
    COMPILE = "compile"
    FETCH_PAGE = "fetch_page"
    """Not the platform's but ours: a page of the public web, as a document."""


# Asking again changes nothing.
READS = frozenset(
    {
        Op.LIST_BRAINS,
        Op.LIST_NAMED_BRAINS,
        Op.SEARCH,
        Op.SORTED_SEARCH,
        Op.AGENT_SEARCH,
        Op.SESSION_RECALL,
        Op.RECALL,
        Op.LIST_MESSAGES,
        Op.STAT_DOCUMENT,
        Op.READ_DOCUMENT,
        Op.LIST_DOCUMENTS,
        Op.EXTRACT,
    }
)

# What a caller gave to keep. When no telling answer comes it may be stored all the same, and that is looked into.
STORES = frozenset(
    {
        Op.CREATE_BRAIN,
        Op.CREATE_BARE_BRAIN,
        Op.CREATE_DOCUMENT,
        Op.WRITE_DOCUMENT,
        Op.BATCH_WRITE,
        Op.APPEND_DOCUMENT,
        Op.RENAME_DOCUMENT,
        Op.DELETE_DOCUMENT,
        Op.INGEST_FILE,
        Op.INGEST_TEXT,
        Op.INGEST_URL,
        Op.APPEND_MESSAGE,
    }
)
