"""Searches that the platform's own search cannot do alone."""

import asyncio
from functools import partial

from gateway.operations import names, notes, ranking
from gateway.operations.context import StepContext
from gateway.operations.coverage import Query
from gateway.operations.errors import Absent, GatewayError
from gateway.operations.parallel import in_parallel
from gateway.operations.steps.documents import read
from gateway.operations.steps.session_log import read_log
from gateway.operations.table import Args, JsonObject, Op

_DEFAULT_TOP_K = 10
_OVER_FETCH, _MOST_FETCHED = 4, 100
_SCANNED_NOTES, _SCANNED_BYTES = 100, 4 * 1024 * 1024
_AGENT_NOTES = "memory/agent"


def is_sorted(query: Args) -> bool:
    """Whether hits are wanted in another order than the usual one."""
    return query.get("sort") not in {None, "relevance"}


def in_agent_scope(query: Args) -> bool:
    return query.get("scope") == "agent"


async def search(context: StepContext, query: Args) -> JsonObject:
    """By the platform's search. If its index lacks the agent's notes, they are looked through as well."""
    if not _lacks_agent_notes(context, query):
        return await context.send(Op.SEARCH, query)
    scanning = asyncio.ensure_future(_scan_agent_notes(context, query))
    try:
        answer = await context.send(Op.SEARCH, query)
        by_words = await scanning
    finally:
        scanning.cancel()
    top_k = query.get("top_k") or _DEFAULT_TOP_K
    return {**answer, "hits": ranking.interleave(hits_of(answer), by_words)[:top_k]} if by_words else answer


async def search_and_arrange(context: StepContext, query: Args) -> JsonObject:
    """For a search whose index lacks a namespace, or that cannot sort."""
    top_k = query.get("top_k") or _DEFAULT_TOP_K
    more = min(top_k * _OVER_FETCH, _MOST_FETCHED) if is_sorted(query) else top_k
    answer = await search(context, {**query, "top_k": more})
    hits = hits_of(answer)
    listed: list[JsonObject] | None = None
    if not hits and in_agent_scope(query):
        listed = await _list_notes(context, query)
        hits = await _scan(context, query, listed)
    if hits and is_sorted(query):
        listed = listed if listed is not None else await _list_notes(context, query)
        changed = {str(item.get("path")): item.get("mtime") for item in listed}
        hits = ranking.sort_hits(hits, changed, str(query["sort"]))
    return {**answer, "hits": hits[:top_k]}


def _lacks_agent_notes(context: StepContext, query: Args) -> bool:
    """Whether a search that means all notes, or those of every namespace, would not find those of agents."""
    means_them = query.get("scope") in {None, "all"} and not query.get("tree")
    return means_them and not context.finds(f"{_AGENT_NOTES}/note.md")


async def _scan_agent_notes(context: StepContext, query: Args) -> list[JsonObject]:
    of_agents = {**query, "scope": "agent"}
    try:
        return await _scan(context, of_agents, await _list_notes(context, of_agents))
    except Absent:
        return []


async def recall_in_session(context: StepContext, query: Args) -> JsonObject:
    """By a recall that knows sessions. Platforms have different names for the list of hits."""
    answer = await context.send(Op.RECALL, query)
    named = next((key for key in ("chunks", "hits", "memories") if key in answer), "hits")
    # Some platforms say null for an empty list.
    found = [] if answer.get(named, False) is None else answer.get(named)
    return {**answer, "chunks": hits_of({"hits": found})}


async def recall_with_log(context: StepContext, query: Args) -> JsonObject:
    """A search that also listens to what was said in the session."""
    session_id, brain = str(query["session_id"]), str(query["brain"])
    top_k = query.get("top_k") or _DEFAULT_TOP_K
    plain = {key: query.get(key) for key in ("brain", "query", "scope", "exclude", "include", "own")} | {"top_k": top_k}
    log = await read_log(context, brain, session_id)
    found = hits_of(await (search_and_arrange if in_agent_scope(plain) else search)(context, plain))
    if said_before := ranking.salient(log.messages):
        # Without the query: with it, both searches would find the same in much the same order.
        of_session = hits_of(await context.send(Op.SEARCH, {**plain, "query": said_before}))
        found = ranking.blend(found, of_session, session_id)
    chunks = [{"chunk_id": hit.get("path"), "document_id": hit.get("path"), **hit} for hit in found[:top_k]]
    return {"chunks": chunks, "session_id": session_id, "brain_id": brain}


def hits_of(answer: JsonObject) -> list[JsonObject]:
    hits = answer.get("hits")
    if not isinstance(hits, list) or not all(isinstance(hit, dict) for hit in hits):
        raise GatewayError("upstream_error", "The platform's answer has no list of results.")
    return hits


async def _list_notes(context: StepContext, query: Args) -> list[JsonObject]:
    scope = query.get("scope")
    directory = f"memory/{scope}" if scope not in {None, "all"} else ""
    try:
        listed = await context.send(Op.LIST_DOCUMENTS, {"brain": query["brain"], "dir": directory})
    except GatewayError as error:
        # There is no such folder.
        if error.code != "not_found":
            raise
        listed = {}
    return [item for item in listed.get("items") or [] if isinstance(item, dict) and not item.get("is_dir")]


async def _scan(context: StepContext, query: Args, listed: list[JsonObject]) -> list[JsonObject]:
    """Hits among notes that no index holds: the newest ones are read, up to a limit, and matched by their words.

    Notes of others are not read: the other hits and their scores would tell what is in them.
    """
    newest_first = sorted(listed, key=lambda item: ranking.moment(item.get("mtime")), reverse=True)
    own = str(query.get("own") or "")
    theirs = [item for item in newest_first if not names.is_private_of_others(str(item.get("path")), own)]
    scanned = [item for item in theirs if str(item.get("path")).endswith(".md")][:_SCANNED_NOTES]
    left, chosen, untold = _SCANNED_BYTES, [], []
    for item in scanned:
        path, size = str(item["path"]), item.get("size")
        if not isinstance(size, int):
            untold.append(path)
        elif size <= left:
            left -= size
            chosen.append(path)
    reading = [partial(read, context, str(query["brain"]), path) for path in chosen]
    bodies = dict(zip(chosen, await in_parallel(reading), strict=True))
    for path in untold:
        if left > 0:
            bodies[path] = await read(context, str(query["brain"]), path)
            left -= len(bodies[path] or b"")
    asked, found = Query(str(query["query"])), {path: notes.parse(body) for path, body in bodies.items() if body}
    hits = [
        {
            "score": asked.covered_by(note.title or "", note.content),
            "path": path,
            "content": note.content,
            "brain_id": query["brain"],
        }
        for path, note in found.items()
    ]
    return sorted((hit for hit in hits if hit["score"] > 0), key=ranking.score_of, reverse=True)


async def ask(context: StepContext, args: Args) -> JsonObject:
    """An answer in frames. Returns its stream, of which nothing was read yet."""
    return {"stream": await context.open(Op.ASK, args)}
