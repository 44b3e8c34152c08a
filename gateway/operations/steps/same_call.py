"""Whether messages were sent before: a repeated call is the same call, and continues where the first broke off.

Where the platform keeps sessions, its last messages are compared with the call's first. Where the gateway keeps a log,
every line says to which call it belongs, so that no other line can be taken for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.operations import names, notes
from gateway.operations.context import StepContext
from gateway.operations.errors import GatewayError
from gateway.operations.steps.session_log import are_one_call
from gateway.operations.table import Args, JsonObject, JsonValue, Op

# A line of a log has more fields than the record of a message.
_RECORD = ("id", "session_id", "role", "content", "created_at")


async def tail_of(context: StepContext, session: Args, count: int) -> list[JsonObject]:
    """The last messages of a platform's session, oldest first.

    Raises:
        Absent: the platform does not tell.
        GatewayError: it could not be asked.
    """
    try:
        answer = await context.send(Op.LIST_MESSAGES, {**session, "limit": count})
    except GatewayError as error:
        if error.code == "not_found":
            return []
        raise
    items = answer.get("items")
    found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    is_newest_first = len(found) > 1 and str(found[0].get("created_at")) > str(found[-1].get("created_at"))
    return found[::-1] if is_newest_first else found


def beginning(tail: Sequence[JsonObject], messages: Sequence[JsonObject]) -> list[JsonObject]:
    """The records of the call's first messages, if they are the last of the session and recent."""
    if not tail or not are_one_call(tail[-1].get("created_at"), notes.now()):
        return []
    for count in range(min(len(tail), len(messages)), 0, -1):
        if all(_are_equal(*pair) for pair in zip(tail[-count:], messages[:count], strict=True)):
            return list(tail[-count:])
    return []


def message_key(
    message: JsonObject, call_key: str | None, n: int, last: JsonObject | None, *, is_first: bool
) -> str | None:
    """Names a message, so that a platform that knows such names adds it once, whichever gateways send it.

    It is the message at this place of the call with this key; or without a key, the one after the `last` message. If
    there is none, it is only known to be the first where `is_first`. None: it has no name.
    """
    if call_key is not None:
        place: list[JsonValue] = [call_key, n]
    elif last is not None or is_first:
        place = [None if last is None else last.get("id")]
        if last is not None and not place[0]:
            return None
    else:
        return None
    return names.digest([place, message["role"], message["content"]])[:32]


def said_since(tail: Sequence[JsonObject], last: JsonObject | None, message: JsonObject) -> JsonObject | None:
    """The record of a message, if it was said after the last one that is known.

    Raises:
        GatewayError: upstream_error, when that one cannot be found.
    """
    if last is not None:
        places = [n for n, record in enumerate(tail) if record.get("id") == last.get("id") is not None]
        if not places:
            raise GatewayError("upstream_error")
        tail = tail[places[-1] + 1 :]
    return next((record for record in tail if _are_equal(record, message)), None)


def _are_equal(one: JsonObject, other: JsonObject) -> bool:
    return bool(one.get("role") == other.get("role") and one.get("content") == other.get("content"))


@dataclass(frozen=True, slots=True)
class SameCall:
    """A call to a session that is kept as a log."""

    session_id: str
    messages: Sequence[JsonObject]
    actor_id: str | None
    key: str | None

    @property
    def digest(self) -> str:
        return names.digest([self.session_id, self.key, list(self.messages), self.actor_id])[:24]

    def there(self, log: Sequence[JsonObject]) -> list[JsonObject]:
        """The lines of this call that the log has: with a key anywhere; without a key, at the end and recent."""
        mine = self.digest
        if self.key is not None:
            return [entry for entry in log if entry.get("call") == mine]
        if not log or not are_one_call(log[-1].get("created_at"), notes.now()):
            return []
        last = [entry for entry in log[-len(self.messages) :] if entry.get("call") == mine]
        places = [entry.get("n") for entry in last]
        is_unbroken = places == list(range(len(places))) and log[-len(last) :] == last if last else False
        return last if is_unbroken else []

    def entries(self) -> list[JsonObject]:
        """A line for each message. With a key its id is always the same."""
        moment, mine = notes.now(), self.digest
        known: JsonObject = {"actor_id": self.actor_id} if self.actor_id is not None else {}
        known |= {"keyed": True} if self.key is not None else {}
        return [
            {
                "kind": "message",
                "id": self._id(n, message, self.key or moment),
                "session_id": self.session_id,
                **message,
                "created_at": moment,
                "call": mine,
                "n": n,
                **known,
            }
            for n, message in enumerate(self.messages)
        ]

    def _id(self, n: int, message: JsonObject, told_apart_by: str) -> str:
        parts = [self.session_id, told_apart_by, n, message["role"], message["content"]]
        return f"msg_{names.digest(parts)[:24]}"


def record_of(entry: JsonObject) -> JsonObject:
    return {key: entry[key] for key in _RECORD if key in entry}
