"""The context that steps get: one call's way to the platform, and to the gateway's own work, such as fetching."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from gateway.brain.background import Background
from gateway.brain.locks import Locks
from gateway.ingest.web_page import Fetch, Page, document_of, read_text
from gateway.operations import audit, names
from gateway.operations.caller import Call
from gateway.operations.chains import Serve, serve
from gateway.operations.context import StepContext
from gateway.operations.errors import Absent, GatewayError
from gateway.operations.table import OF_SESSIONS, Args, JsonObject, Op
from gateway.upstream.pipeline import AnswerStream, Upstream

Vet = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Services:
    """What all calls share: the way to the platform, and the gateway's own work, such as fetching."""

    upstream: Upstream
    fetch: Fetch | None = None
    vet: Vet | None = None
    shared: bool = False
    """Whether callers are different people, none of whom may learn of another."""
    read_only: bool = False
    """Whether no call may write anything."""
    serve: Serve = serve
    """Runs a chain. If calls are observed, it also tells the observer."""
    background: Background = field(default_factory=Background)
    locks: Locks = field(default_factory=Locks)


class CallContext(StepContext):
    """One call. Only this object knows whether the call may have written something."""

    def __init__(self, call: Call, services: Services) -> None:
        self.caller = names.caller_name(call.caller.partition)
        self._call = call
        self._services = services
        principal = call.caller.principal
        self.own_tree = names.private_tree(principal.issuer, principal.subject) if services.shared else None
        # No caller waits for another one whose brain happens to have the same name.
        self._tenant = call.caller.partition if services.shared else ""
        self._page: Args | None = None
        self._writing = 0
        self._has_written = False

    @property
    def may_have_written(self) -> bool:
        return self._has_written or self._writing > 0

    async def send(self, op: Op, args: Args) -> JsonObject:
        if op is Op.FETCH_PAGE:
            return dict(await self._fetch(str(args["url"])))
        if op.writes and self._services.read_only:
            # Tools and work after answers are refused earlier. This check also holds for new ones that forget it.
            raise GatewayError("forbidden", "This gateway is read-only.")
        session_id = args.get("session_id") if self._services.shared and op in OF_SESSIONS else None
        if session_id is not None:
            # A platform may keep sessions by their id alone. Another caller who knows the id must not find the session.
            args = {**args, "session_id": names.own_session(self.caller, str(session_id))}
        # While a write is under way, it may have been made. A refused write was not made.
        self._writing += op.writes
        outcome: str | None = "outcome_unknown"
        answer: JsonObject = {}
        try:
            reply = await self._services.upstream.send(self._call, op, args)
            outcome, answer = "ok", reply.answer
        except Absent:
            # No request was sent.
            outcome = None
            raise
        except GatewayError as error:
            outcome = error.code
            self._has_written |= op.writes and error.code == "outcome_unknown"
            raise
        finally:
            self._writing -= op.writes
            if op.writes and outcome is not None:
                audit.note_write(self._call, op, args, answer, outcome)
        self._has_written |= reply.may_have_written
        return reply.answer if session_id is None else _in_session(reply.answer, str(session_id))

    async def open(self, op: Op, args: Args) -> AnswerStream:
        return await self._services.upstream.open(self._call, op, args)

    async def has(self, op: Op) -> bool:
        if op is Op.FETCH_PAGE:
            return self._services.fetch is not None
        try:
            (await self._services.upstream.verdict(self._call)).route(op)
        except Absent:
            return False
        return True

    def project_of(self, actor: str | None) -> str | None:
        if not self._services.shared:
            return None if actor is None else names.actor_folder(actor)
        # Anybody may claim to be an actor, but the token says which projects are the caller's.
        caller = self._call.caller
        mine = caller.project if caller.project in caller.principal.projects else None
        return None if mine is None or not names.is_project(mine) else names.project_folder(mine, caller.principal.org)

    def finds(self, path: str) -> bool:
        return self._services.upstream.finds(path)

    def writes_index(self) -> bool:
        return self._services.upstream.writes_index()

    async def vet(self, url: str) -> None:
        if self._services.vet is not None:
            await self._services.vet(url)

    async def text_of(self, content_type: str, body: bytes) -> str:
        return await read_text(Page("", content_type, body))

    def alone(
        self, name: str, *, among_all: bool = False, among_replicas: bool = False
    ) -> AbstractAsyncContextManager[None]:
        name = f"{'' if among_all else self._tenant}:{name}"
        return self._services.locks.alone(name, among_replicas=among_replicas)

    def later(self, name: str, job: Callable[[StepContext], Awaitable[None]]) -> None:
        if self._services.read_only:
            return
        context = CallContext(self.call_afterwards(), self._services)
        self._services.background.start(f"{self._tenant}:{name}", lambda: job(context))

    def call_afterwards(self) -> Call:
        """A call for the work after this one is answered: with the same caller, brain and lent key."""
        caller = replace(self._call.caller, preferred=self._call.brain or self._call.caller.preferred)
        return replace(self._call, caller=caller, brain_note=None, routes={}, served_by=None, began=None)

    async def _fetch(self, url: str) -> Args:
        """The page, fetched once for all steps that might store it."""
        if self._services.fetch is None:
            raise Absent
        if self._page is None:
            self._page = await document_of(await self._services.fetch(url))
        return self._page


def _in_session(answer: JsonObject, session_id: str) -> JsonObject:
    """An answer with the session id that the caller uses."""
    named = {"session_id": session_id}
    return {
        key: session_id
        if key == "session_id"
        else [{**one, **named} if isinstance(one, dict) and "session_id" in one else one for one in value]
        if isinstance(value, list)
        else value
        for key, value in answer.items()
    }
