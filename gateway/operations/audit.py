"""The audit log: who wrote, deleted, exported, came in or was refused. Never what a note says.

Like the log of events, it is set up once for the process, by the code that starts it. Until then nothing is recorded.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal

from gateway.operations.caller import Call, HttpAnswer, Principal
from gateway.operations.table import Args, JsonObject, Op

Sink = Callable[[JsonObject], None]
Kind = Literal["write", "delete", "export", "login", "refused", "command"]

# The arguments that name the note, session or brain of an operation. The first one that is given is used.
_NAMES: Final = ("path", "session_id", "slug")
_DELETES: Final = frozenset({Op.DELETE_DOCUMENT, Op.DELETE_BRAIN})
_LONGEST: Final = 512
_sink: Sink | None = None
_user: str | None = None


def set_up(sink: Sink | None, user: str | None = None) -> None:
    """From now on lines go to this sink, or nowhere if it is None. `user` is the person who gave a command."""
    global _sink, _user
    _sink, _user = sink, user


def is_kept() -> bool:
    return _sink is not None


def note(kind: Kind, **facts: object) -> None:
    """A line, without the fields that are not known."""
    if _sink is not None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        known = {name: _short(value) for name, value in facts.items() if value is not None}
        _sink({"time": now, "audit": kind, **({} if _user is None else {"user": _user}), **known})


def note_write(call: Call, op: Op, args: Args, answer: Args, outcome: str) -> None:
    """A request to the platform that may have changed a brain, and its outcome."""
    if _sink is None:
        return
    named = [str(said[name]) for said in (args, answer) for name in _NAMES if said.get(name) is not None]
    paths = list(args["writes"]) if "writes" in args else None
    where = {"path": named[0] if named else None, "paths": paths, "to": args.get("to")}
    kind: Kind = "delete" if op in _DELETES or _puts_away(op, args) else "write"
    note(kind, **of_call(call), op=op.value, **where, outcome=outcome)


def of_call(call: Call) -> JsonObject:
    """Who calls, and what."""
    return {
        **of_caller(call.caller.principal, call.caller.http),
        "surface": call.surface,
        "tool": call.tool,
        "brain": call.brain_id or call.brain,
        "request_id": call.request_id,
    }


def of_caller(principal: Principal, http: HttpAnswer | None) -> JsonObject:
    """The caller, by the names that the log uses for them, and their address."""
    address = None if http is None else http.address
    return {"caller": principal.known_as, "client": principal.client or None, "address": address}


def _puts_away(op: Op, args: Args) -> bool:
    return op is Op.RENAME_DOCUMENT and "/_deleted/" in f"/{args.get('to', '')}"


def _short(value: object) -> object:
    return value[:_LONGEST] if isinstance(value, str) else value
