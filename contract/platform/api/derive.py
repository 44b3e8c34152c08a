"""Derived work over HTTP: a task of a fixed list, from documents or messages. Nothing is written."""

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.platform import markdown, names
from contract.platform.api import body
from contract.platform.api.body import MIB
from contract.platform.api.call import NO_STORE, in_thread, lent_key, platform_of, while_connected
from contract.platform.api.fields import Fields
from contract.platform.brains import Brain
from contract.platform.llm.client import Chat
from contract.platform.llm.deriving import derive as derived
from contract.platform.llm.outcome import Failed
from contract.platform.llm.prompt import Source
from contract.platform.llm.tasks import TASKS
from contract.platform.refusal import Refused, invalid
from contract.platform.sessions import ROLES
from contract.platform.store import Store
from contract.platform.wire import JsonObject

NO_MODEL: Final = "this platform has no language model: what it derives it derives by rule"
MESSAGES: Final = 200
MESSAGE_LENGTH: Final = 100_000
JSON_LIMIT: Final = 16 * MIB
DATE_LENGTH: Final = 64


async def derive(request: Request, brain: Brain) -> Response:
    platform = platform_of(request)
    key = lent_key(request)
    fields = await body.fields(request, JSON_LIMIT)
    name = fields.choice("task", tuple(TASKS), "")
    if not name:
        raise invalid("task is required")
    paths, messages = _paths(fields, name), _messages(fields, name)
    if not paths and not messages:
        raise invalid(f"{name} needs {_needs(name)}")
    if platform.chat is None:
        raise Refused("not_implemented", NO_MODEL)
    documents = await in_thread(platform.lookups, _read, platform.store, brain, paths)
    sources = [*documents, *messages]
    results = await while_connected(request, _results(platform.chat, name, sources, paths, key))
    return JSONResponse(
        {"task": name, "method": "model", "model": platform.chat.endpoint.model, **results}, headers=NO_STORE
    )


def _needs(name: str) -> str:
    task = TASKS[name]
    ways = [*(["paths"] if task.paths else []), *(["messages"] if task.messages else [])]
    return " or ".join(ways)


def _paths(fields: Fields, name: str) -> list[str]:
    """The documents to derive from. They are of one tree, because everybody who sees the tree may see the result.

    Raises: Refused.
    """
    most = TASKS[name].paths
    listed = fields.texts("paths", max(most, 1), 1, names.PATH_LIMIT + 1)
    if listed and not most:
        raise invalid(f"{name} takes messages, not paths")
    paths = list(dict.fromkeys(map(names.path, listed)))
    if not TASKS[name].each and len({names.tree(path) for path in paths}) > 1:
        raise invalid("paths must lie in one tree: what is derived stays where its sources are")
    return paths


def _messages(fields: Fields, name: str) -> list[Source]:
    listed = fields.get("messages")
    if listed is None:
        return []
    if not TASKS[name].messages:
        raise invalid(f"{name} takes paths, not messages")
    if not isinstance(listed, list) or len(listed) > MESSAGES:
        raise invalid(f"messages must be a list of at most {MESSAGES}")
    return [_message(item) for item in listed]


def _message(item: object) -> Source:
    if not isinstance(item, dict):
        raise invalid("messages must hold objects")
    fields = Fields(item)
    role = fields.text("role", 1, 16)
    if role not in ROLES:
        raise invalid(f"role must be one of {', '.join(ROLES)}")
    said_at = fields.optional_text("created_at", 0, DATE_LENGTH) or ""
    return Source(role, fields.text("content", 1, MESSAGE_LENGTH), said_at)


def _read(store: Store, brain: Brain, paths: list[str]) -> list[Source]:
    return [_source(path, store.documents.read(brain, path).decode("utf-8", "replace")) for path in paths]


def _source(path: str, content: str) -> Source:
    note = markdown.read(content)
    return Source(note.title or names.stem(path), note.body.strip() or "-")


async def _results(chat: Chat, name: str, sources: list[Source], paths: list[str], key: str | None) -> JsonObject:
    """The results: one for each document, or one for all.

    Raises: Refused.
    """
    each = TASKS[name].each
    results: list[JsonObject] = []
    left_out = 0
    for n, group in enumerate([[source] for source in sources] if each else [sources]):
        result = await derived(chat, name, group, key)
        if isinstance(result, Failed):
            raise refusal(result)
        made = result[0].model_dump()
        results.append({"path": paths[n], **made} if each else made)
        left_out += 0 if each else result[1]
    return {"results": results, **({"left_out": left_out} if left_out else {})}


def refusal(failure: Failed) -> Refused:
    code = {"timeout": "model_timeout", "rate_limited": "rate_limited"}.get(failure.code, "model_failed")
    return Refused(code, failure.message, retry_after=failure.retry_after)
