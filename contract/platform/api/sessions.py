"""Sessions over HTTP: messages, closing, recall."""

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.platform import names
from contract.platform.api import body
from contract.platform.api.body import MIB
from contract.platform.api.call import NO_STORE, caller_of, in_thread, lent_key, platform_of
from contract.platform.api.fields import Fields
from contract.platform.api.search import QUERY_LIMIT, folders_of
from contract.platform.brains import Brain
from contract.platform.llm import reflecting
from contract.platform.llm.backlog import ForModel
from contract.platform.llm.outcome import Failed
from contract.platform.refusal import invalid
from contract.platform.sessions import ROLES, Message

MESSAGE_LIMIT: Final = 1_000_000
# The actor is kept with every fact that is found in a message.
ACTOR_LIMIT: Final = 512
KEY_LIMIT: Final = 128
# A million characters are at most four million bytes, or twelve of escapes.
MESSAGE_JSON_LIMIT: Final = 16 * MIB


def _session_id(request: Request) -> str:
    return names.session_id(request.path_params["session"])


async def add_message(request: Request, brain: Brain) -> Response:
    session_id = _session_id(request)
    message = _message(await body.fields(request, MESSAGE_JSON_LIMIT))
    platform = platform_of(request)
    tree = names.own_tree(caller_of(request).owner)
    key = lent_key(request)
    for_model = None if platform.work is None else ForModel()
    add, threads = platform.store.sessions.add, platform.writes_of(len(message.content))
    record = await in_thread(threads, add, brain, session_id, message, tree, for_model)
    if platform.work is not None and for_model is not None:
        platform.work.begin(for_model, key)
    return JSONResponse(record, status_code=201)


def _message(fields: Fields) -> Message:
    role = fields.text("role", 1, 16)
    if role not in ROLES:
        raise invalid(f"role must be one of {', '.join(ROLES)}")
    content, name = fields.text("content", 1, MESSAGE_LIMIT), fields.optional_text("name", 1, 128)
    metadata = _metadata(fields)
    key = Fields(metadata).optional_text("idempotency_key", 1, KEY_LIMIT)
    return Message(role, content, name, metadata, key)


def _metadata(fields: Fields) -> dict[str, object]:
    """The metadata of a message: any fields, but three of them are checked because they have an effect."""
    metadata = fields.mapping("metadata")
    if not isinstance(metadata.get("skip_extract"), bool | None):
        raise invalid("metadata.skip_extract must be true or false")
    actor = metadata.get("actor_id")
    if not isinstance(actor, str | None) or len(actor or "") > ACTOR_LIMIT:
        raise invalid(f"metadata.actor_id must be a string of at most {ACTOR_LIMIT} characters")
    return metadata


async def list_messages(request: Request, brain: Brain) -> Response:
    session_id = _session_id(request)
    limit = Fields.of_query(request).integer("limit", 1, 1000, default=200)
    platform = platform_of(request)

    def listing() -> Response:
        items = platform.store.sessions.messages(brain, session_id, limit)
        return JSONResponse({"items": items}, headers=NO_STORE)

    return await in_thread(platform.lookups, listing)


async def get_session(request: Request, brain: Brain) -> Response:
    session_id = _session_id(request)
    platform = platform_of(request)
    return JSONResponse(
        await in_thread(platform.lookups, platform.store.sessions.get, brain, session_id), headers=NO_STORE
    )


async def close_session(request: Request, brain: Brain) -> Response:
    session_id = _session_id(request)
    await body.fields(request)
    platform, key = platform_of(request), lent_key(request)
    sessions = platform.store.sessions
    by_model, note = None, {}
    if platform.chat is not None:
        turns = await in_thread(platform.lookups, sessions.unreflected, brain, session_id)
        told = await reflecting.reflect(platform.chat, turns, key) if turns else None
        if isinstance(told, Failed):
            note = {"note": f"By rule, because {told.message}."}
        else:
            by_model = told
    closed = await in_thread(platform.writes, sessions.close, brain, session_id, by_model)
    return JSONResponse({**closed, **note})


async def recall(request: Request, brain: Brain) -> Response:
    return await _recalled(request, brain, await body.fields(request), _session_id(request))


async def recall_anywhere(request: Request, brain: Brain) -> Response:
    """The same for clients that name the session in the body, or none, because some know no other route."""
    fields = await body.fields(request)
    session = fields.optional_text("session_id", 0, 256)
    return await _recalled(request, brain, fields, names.session_id(session) if session else None)


async def _recalled(request: Request, brain: Brain, fields: Fields, session_id: str | None) -> Response:
    query = fields.text("query", 1, QUERY_LIMIT)
    top_k = fields.integer("top_k", 1, 50, default=10)
    folders = folders_of(fields)
    platform = platform_of(request)

    def answered() -> Response:
        if session_id is None:
            found = platform.store.search(brain, query, top_k, folders=folders)
        else:
            found = platform.store.sessions.recall(brain, session_id, query, top_k, folders)
        answer = {"chunks": found.records(brain), "method": found.method, "session_id": session_id}
        return JSONResponse({**answer, "brain_id": brain.id, "live": True})

    return await in_thread(platform.searches, answered)
