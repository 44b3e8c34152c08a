"""The operations: everything a platform may be asked to do, one row each; and the types of JSON values.

A row says whether the operation reads or writes, when it is sent again, how large its answer may be, how a platform is
probed for it, and in which words a platform lacks it. A dialect says how it is spelled, a chain what is done where it
is absent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final, Self

# A JSON tree. A recursive type would be of no use here, because answers pass through unread.
JsonValue = Any
JsonObject = dict[str, JsonValue]
Args = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Upload:
    """A file, as it is sent to a platform."""

    name: str
    content_type: str
    body: bytes


class Effect(Enum):
    """What an operation does to a brain."""

    READ = "read"
    """It changes nothing, so it can be sent again."""
    FIND = "find"
    """It changes nothing either. Its answer holds lists of results, which are cut to the length that was asked for."""
    STORE = "store"
    """It stores something of a caller. Without a clear answer it may be stored all the same, so a step looks."""
    CHANGE = "change"
    """It works on what is there already."""
    ANSWER = "answer"
    """A language model answers, in a stream."""


class Kind(StrEnum):
    """Groups of operations that fail together: a platform whose model is down still answers searches.

    A platform whose model is down may still answer questions, in the words of its notes. What is derived, only the
    model can do, so that this is a group of its own.
    """

    READ = "read"
    WRITE = "write"
    ASK = "ask"
    DERIVE = "derive"


class Probe(Enum):
    """How the gateway finds out whether a platform has a route, without a side effect."""

    EMPTY = "empty"
    """On any brain: with nothing in it, the request changes nothing."""
    GHOST = "ghost"
    """On a brain that cannot exist, and on no other."""
    NEVER = "never"
    """Not at all: it is learned on use."""


@dataclass(frozen=True, slots=True)
class Policy:
    """When an operation is sent again, and how long it may take."""

    kind: Kind
    repeats: bool
    """Whether it is sent again when it may have arrived."""
    deadline: str = "read"
    """Which of the deadlines holds for all attempts together."""
    attempts: int = 3


_READ: Final = Policy(Kind.READ, repeats=True)
# The name is derived from the content, so a repeat finds or writes the very same document.
_SAME: Final = Policy(Kind.WRITE, repeats=True)
# A repeat would append twice, or find nothing left to move, so a step looks first.
_ONCE: Final = Policy(Kind.WRITE, repeats=False)
# Named by the platform: a step sends it again, once, if the answer says whether it was there before.
_INGEST: Final = Policy(Kind.WRITE, repeats=False, deadline="ingest")
_INGEST_SAME: Final = Policy(Kind.WRITE, repeats=True, deadline="ingest", attempts=2)
_STAGE: Final = Policy(Kind.WRITE, repeats=False, deadline="stage")
_EXTRACT: Final = Policy(Kind.READ, repeats=True, deadline="stage", attempts=2)
_ASK: Final = Policy(Kind.ASK, repeats=False, deadline="first_event", attempts=2)
# Each answer of a model costs money, so a request is sent again only if it never arrived.
_DERIVE: Final = Policy(Kind.DERIVE, repeats=False, deadline="stage", attempts=2)

# How many bytes an answer may have. A larger one is an error, and is not read to its end.
_RECEIPT: Final = 1024 * 1024
_RESULT: Final = 4 * 1024 * 1024
# Some platforms send the whole text of every note they found, or of the one they stored; and a list may be long.
_NOTES: Final = 16 * 1024 * 1024
# The largest file that is ingested has 25 MiB.
_DOCUMENT: Final = 32 * 1024 * 1024


class Op(StrEnum):
    """One thing a platform may be able to do."""

    effect: Effect
    policy: Policy
    answer_bytes: int
    probe: Probe
    lacked: str
    """What a platform without it lacks, in words; empty if its absence is not reported."""
    reads: bool
    stores: bool
    writes: bool
    """Whether it may change the brain."""

    def __new__(
        cls, name: str, effect: Effect, policy: Policy, answer_bytes: int, lacked: str, probe: Probe = Probe.GHOST
    ) -> Self:
        op = str.__new__(cls, name)
        op._value_ = name
        op.effect, op.policy, op.answer_bytes, op.lacked, op.probe = effect, policy, answer_bytes, lacked, probe
        op.reads, op.stores = effect in {Effect.READ, Effect.FIND}, effect is Effect.STORE
        op.writes = effect in {Effect.STORE, Effect.CHANGE}
        return op

    # A row: name, effect, policy, bytes of an answer, what a platform lacks without it, how it is probed.
    LIST_BRAINS = "list_brains", Effect.READ, _READ, _RESULT, "list brains"
    # A list with names and visibility, which not every platform keeps.
    LIST_NAMED_BRAINS = "list_named_brains", Effect.READ, _READ, _RESULT, "names of brains"
    CREATE_BRAIN = "create_brain", Effect.STORE, _SAME, _RECEIPT, "names of brains"
    # A brain that keeps its id, and neither name nor visibility.
    CREATE_BARE_BRAIN = "create_bare_brain", Effect.STORE, _SAME, _RECEIPT, "create bare brain"
    # Never probed, because the probe would delete a brain if it existed.
    DELETE_BRAIN = "delete_brain", Effect.STORE, _ONCE, _RECEIPT, "deleting brains", Probe.NEVER
    SEARCH = "search", Effect.FIND, _READ, _NOTES, "search", Probe.EMPTY
    SORTED_SEARCH = "sorted_search", Effect.FIND, _READ, _NOTES, "sorted search"
    # A search that finds notes of the agent namespace: not every index holds them.
    AGENT_SEARCH = "agent_search", Effect.FIND, _READ, _NOTES, "agent search"
    SESSION_RECALL = "session_recall", Effect.FIND, _READ, _NOTES, "recall in a session"
    RECALL = "recall", Effect.FIND, _READ, _NOTES, "recall that knows sessions"
    CREATE_DOCUMENT = "create_document", Effect.STORE, _SAME, _NOTES, "documents by record", Probe.EMPTY
    WRITE_DOCUMENT = "write_document", Effect.STORE, _SAME, _RECEIPT, "documents by path"
    BATCH_WRITE = "batch_write", Effect.STORE, _SAME, _RECEIPT, "writes in a batch"
    APPEND_DOCUMENT = "append_document", Effect.STORE, _ONCE, _RECEIPT, "appending to documents"
    STAT_DOCUMENT = "stat_document", Effect.READ, _READ, _RECEIPT, "sizes of documents"
    READ_DOCUMENT = "read_document", Effect.READ, _READ, _DOCUMENT, "documents by path"
    LIST_DOCUMENTS = "list_documents", Effect.READ, _READ, _NOTES, "lists of documents"
    # A platform has the next two if it has the routes beside them, which are probed, and LIST_MESSAGES if it has
    # APPEND_MESSAGE.
    RENAME_DOCUMENT = "rename_document", Effect.STORE, _ONCE, _RECEIPT, "renaming documents", Probe.NEVER
    DELETE_DOCUMENT = "delete_document", Effect.STORE, _ONCE, _RECEIPT, "deleting documents", Probe.NEVER
    ASK = "ask", Effect.ANSWER, _ASK, _NOTES, "ask", Probe.EMPTY
    INGEST_FILE = "ingest_file", Effect.STORE, _INGEST, _RESULT, "files as they are", Probe.EMPTY
    # Ingests text under a name of our choice: such a platform reads no PDF, and overwrites equal names.
    INGEST_TEXT = "ingest_text", Effect.STORE, _INGEST_SAME, _RESULT, "files as text", Probe.EMPTY
    # By a platform that keeps every page. One that names pages by their headings would overwrite, so it is not asked.
    INGEST_URL = "ingest_url", Effect.STORE, _INGEST, _RESULT, "ingest by URL that keeps every page", Probe.EMPTY
    APPEND_MESSAGE = "append_message", Effect.STORE, _ONCE, _NOTES, "sessions"
    LIST_MESSAGES = "list_messages", Effect.READ, _READ, _DOCUMENT, "list messages", Probe.NEVER
    CLOSE_SESSION = "close_session", Effect.CHANGE, _STAGE, _RESULT, "sessions"
    EXTRACT = "extract", Effect.FIND, _EXTRACT, _RESULT, "extraction", Probe.EMPTY
    REFLECT = "reflect", Effect.CHANGE, _STAGE, _RESULT, "reflection", Probe.EMPTY
    CONSOLIDATE = "consolidate", Effect.CHANGE, _STAGE, _RESULT, "consolidate"
    COMPILE = "compile", Effect.CHANGE, _STAGE, _RESULT, "compile"
    # Work of a language model on notes or messages. It is not reported as missing, because rules do the work instead.
    DERIVE = "derive", Effect.READ, _DERIVE, _RESULT, "", Probe.NEVER
    # Memos that a platform keeps itself. They are not reported as missing, because elsewhere memos are notes.
    FIND_MEMOS = "find_memos", Effect.READ, _READ, _NOTES, "", Probe.EMPTY
    RECORD_MEMO = "record_memo", Effect.STORE, _ONCE, _RECEIPT, "", Probe.NEVER
    # Done by the gateway and not by the platform: a page of the public web, as a document.
    FETCH_PAGE = "fetch_page", Effect.READ, _READ, _DOCUMENT, "the gateway's own fetch", Probe.NEVER


# Operations on a session that the platform keeps by its id.
OF_SESSIONS: Final = frozenset({Op.APPEND_MESSAGE, Op.LIST_MESSAGES, Op.CLOSE_SESSION, Op.SESSION_RECALL, Op.RECALL})
