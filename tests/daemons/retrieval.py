"""Search, recall and ask: what a daemon finds, and what its language model says about it."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.daemons.answers import Refused, read_json, stream, text_of, whole
from tests.daemons.notes import dressed, read_note, search
from tests.daemons.state import State

BASIC_KEYS = ("chunkId", "documentId", "path", "score", "text", "title", "summary")
NO_MODEL = "no LLM provider configured"
# The address of the model is told to whoever asks, as the daemons do.
MODEL_FAILED = "POST http://127.0.0.1:9/v1/chat/completions failed with status 500"


def found(state: State, brain: str, query: str, body: dict[str, Any], default: int) -> tuple[list[dict[str, Any]], int]:
    raw = body.get("filters")
    filters: dict[str, Any] = dict(raw) if isinstance(raw, dict) else {}
    for snake, camel in (("path_prefix", "pathPrefix"), ("document_paths", "paths"), ("documentPaths", "paths")):
        if snake in filters:
            filters.setdefault(camel, filters[snake])
    top = whole(body, "topK", default, state.traits)
    return search(state.files(brain), query, top, filters, state.traits), top


async def search_route(state: State, request: Request, brain: str) -> Response:
    state.files(brain)
    body = await read_json(request, state.traits.caps.query, state.traits)
    query, started = text_of(body, "query"), time.monotonic()
    if not query:
        raise Refused(400, "query required")
    chunks, _ = found(state, brain, query, body, 10)
    attempts = [{"strategy": "initial", "query": query, "hits": len(chunks)}]
    trace = {"mode": "bm25", "originalQuery": query, "fusedCount": len(chunks), "attempts": attempts}
    if state.traits.snake_trace:
        trace = {"mode": "bm25", "original_query": query, "fused_count": len(chunks), "attempts": attempts}
    took = int((time.monotonic() - started) * 1000)
    return JSONResponse({"chunks": dressed(chunks, state.traits), "tookMs": took, "trace": trace, "attempts": attempts})


async def recall_route(state: State, request: Request, brain: str) -> Response:
    files, traits = state.files(brain), state.traits
    body = await read_json(request, traits.caps.small, traits)
    query = text_of(body, "query")
    if not query:
        raise Refused(400, "query required")
    if traits.recall == "picked":
        picked = [] if state.llm is None or state.llm.prose else found(state, brain, query, body, 5)[0]
        raw = {chunk["path"]: files[chunk["path"]][0].decode("utf-8", "replace") for chunk in picked}
        memories = [{"path": path, "content": content, "linkedFrom": ""} for path, content in raw.items()]
        return JSONResponse({"memories": memories or (None if traits.null_lists else [])})
    scope = body.get("scope") if body.get("scope") in {"project", "agent"} else "global"
    actor = text_of(body, "actorId") or "daemon"
    if "/" in actor and scope != "global":
        raise Refused(400, f"brain: invalid path: path segment contains slash: {actor}")
    prefix = "memory/global/" if scope == "global" else f"memory/{scope}/{actor}/"
    scored: list[dict[str, Any]] = []
    for path, (content, _) in sorted(files.items()):
        name, text = path.rsplit("/", 1)[-1], content.decode("utf-8", "replace")
        if path.startswith(prefix) and name.endswith(".md") and name != "MEMORY.md" and not name.startswith("_"):
            note = read_note(text)
            score = 10 * text.lower().count(query.lower())
            shown = {"path": path, "content": note.body, "score": score}
            scored.append({**shown, "name": note.matter.get("name", name), "tags": note.tags})
    hits = sorted((hit for hit in scored if hit["score"]), key=lambda hit: hit["score"], reverse=True)
    return JSONResponse({"memories": hits[: whole(body, "topK", 10, traits)]})


async def ask_route(state: State, request: Request, brain: str) -> Response:
    state.files(brain)
    body = await read_json(request, state.traits.caps.query, state.traits)
    question = text_of(body, "question")
    if not question:
        raise Refused(400, "question required")
    reader = body.get("readerMode", body.get("reader_mode", "basic"))
    if not isinstance(reader, str) or reader.strip().lower() not in {"basic", "augmented"}:
        raise Refused(400, "readerMode must be 'basic' or 'augmented'")
    chunks, top = found(state, brain, question, body, 5)
    mode = body["mode"] if isinstance(body.get("mode"), str) else state.traits.default_mode
    return stream(answer(state, chunks, top, mode), state.traits, state.cut_frames)


async def answer(state: State, chunks: list[dict[str, Any]], top: int, mode: str) -> AsyncIterator[tuple[str, Any]]:
    traits, llm = state.traits, state.llm
    shown = dressed(chunks, traits)
    if shown and traits.bare_ask_chunks:
        shown = [{key: chunk[key] for key in BASIC_KEYS} for chunk in shown]
    yield "retrieve", {"chunks": shown, "topK": top, "mode": mode}
    if llm is None and traits.llm_stand_in is None:
        yield "error", {"message": NO_MODEL}
        yield "done", {"ok": False}
        return
    failed = llm is not None and llm.fails
    if failed:
        yield "error", {"message": MODEL_FAILED}
    else:
        for token in [traits.llm_stand_in] if llm is None else llm.spoken():
            if llm is not None:
                await asyncio.sleep(llm.delay)
                llm.said += 1
            yield "answer_delta", {"text": token}
    if not failed or traits.failed_llm_is_ok:
        for chunk in chunks:
            yield "citation", {key: chunk[key] for key in ("chunkId", "path", "title", "score")}
    yield "done", {"ok": not failed or traits.failed_llm_is_ok}


async def events_route(state: State, _request: Request, brain: str) -> Response:
    state.files(brain)
    queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def changes() -> AsyncIterator[tuple[str, Any]]:
        state.listeners.setdefault(brain, []).append(queue)
        try:
            yield "ready", "ok"
            while True:
                try:
                    yield "change", await asyncio.wait_for(queue.get(), 25)
                except TimeoutError:
                    yield "ping", "keepalive"
        finally:
            state.listeners[brain].remove(queue)

    return stream(changes(), state.traits)
