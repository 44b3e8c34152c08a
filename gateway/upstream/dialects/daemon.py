"""The dialect of the `memory serve` daemons, in all three makes of it."""

import asyncio
import base64
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from gateway.operations.errors import GatewayError, StreamBroken
from gateway.operations.notes import without_mark
from gateway.operations.table import Args, JsonObject, JsonValue, Op, Upload
from gateway.upstream.dialects.citations import LOOKED_AT, Span, find_span
from gateway.upstream.dialects.dialect import Body, Dialect, Frames, Route
from gateway.upstream.dialects.spelling import number, objects, snake_keys, text
from gateway.upstream.dialects.store import BRAIN, STORE

_ASK_TOP_K: Final = 8
_PREVIEW_LENGTH: Final = 512
# It takes time to find each source in the answer, and no client asks for more sources than this.
_CITED_AT_MOST: Final = 100
_NO_TIME: Final = "0001-"
# The folders that are indexed by the makes that index only a part of a brain.
_INDEXED_TREES: Final = ("memory/global/", "memory/project/", "wiki/", "raw/documents/", "raw/lme/", "raw/.sources/")

_PAGES: Final = (
    "Pages are fetched by the gateway: such a daemon may store two pages under one name, and the second overwrites the "
    "first."
)
_INDEXES: Final = (
    "Consolidating there may write index files (MEMORY.md). The gateway leaves them out of results, and takes notes "
    "that are forgotten out of them."
)
_STAND_IN: Final = (
    'Without a language model there, memory_ask may answer all the same, with nothing but "ok". memory_extract and '
    "memory_reflect then find nothing, or fail after the answer."
)
_PARTLY_INDEXED: Final = (
    "Its search may hold a part of the brain alone. The gateway looks through the newest notes below memory/agent/ "
    "itself; memory_ask does not draw on them, and what lies outside the searched folders is searchable: false."
)
_EQUAL: Final = (
    "It may show only one of several notes that say the same. So each note that the gateway writes there ends with a "
    "comment of its own."
)


def _as_brain(args: Args) -> Body:
    return Body(json={"brainId": args["slug"], "description": args["name"]})


def _as_search(args: Args) -> Body:
    body: JsonObject = {"query": args["query"]}
    if args.get("top_k") is not None:
        body["topK"] = args["top_k"]
    # Daemons have no namespace "all", so a search in it would find nothing.
    filters = {"scope": args["scope"]} if args.get("scope") not in {None, "all"} else {}
    if args.get("tree"):
        filters["pathPrefix"] = args["tree"]
    return Body(json={**body, "filters": filters} if filters else body)


def _as_question(args: Args) -> Body:
    return Body(json={"question": args["query"], "topK": args.get("top_k") or _ASK_TOP_K})


def _as_base64(args: Args) -> Body:
    """Always sends the content. Without it, the daemon would read that path from its own disk."""
    upload: Upload = args["upload"]
    content = base64.b64encode(upload.body).decode()
    # One make names what it stores by the path, the others by the title.
    names = {"path": upload.name, "title": upload.name}
    return Body(json={**names, "contentType": upload.content_type, "contentBase64": content})


def _as_messages(args: Args) -> Body:
    body: JsonObject = {"messages": args["messages"], "sessionId": args["session_id"]}
    if args.get("actor_id") is not None:
        body["actorId"] = args["actor_id"]
    return Body(json=body)


def _brain(answer: JsonValue, args: Args) -> JsonObject:
    said = snake_keys(answer)
    brain_id, created = text(said, "brain_id") or text(said, "id"), text(said, "created")
    if not brain_id:
        raise GatewayError("upstream_error", "The platform's answer has a brain without an id.")
    for key in ("brain_id", "created", "description"):
        said.pop(key, None)
    known = {"created_at": created} if created and not created.startswith(_NO_TIME) else {}
    return {"id": brain_id, "slug": brain_id, "name": brain_id, "visibility": "private", **known, **said}


def _brains(answer: JsonValue, args: Args) -> JsonObject:
    said = snake_keys(answer)
    return {**said, "items": [_brain(item, args) for item in objects(said, "items")]}


def _hits(answer: JsonValue, args: Args) -> JsonObject:
    """Canonical hits of the wanted namespace, because one make also sends notes of other namespaces."""
    said = snake_keys(answer)
    found = [{**_hit(chunk), "brain_id": chunk.get("brain_id") or args["brain"]} for chunk in objects(said, "chunks")]
    scope = args.get("scope")
    if scope not in {None, "all"}:
        found = [hit for hit in found if str(hit["path"]).startswith(f"memory/{scope}/")]
    said.pop("chunks")
    took = number(said, "took_ms")
    return {"query": args["query"], "brain_id": args["brain"], **said, "hits": found, "took_ms": took}


def _hit(chunk: JsonObject) -> JsonObject:
    """Adds fields that are zero or empty, because one make leaves them out."""
    content, path = text(chunk, "text") or "", text(chunk, "path") or text(chunk, "document_id")
    if not path:
        raise GatewayError("upstream_error", "The platform's answer has a result without a path.")
    hit = {**chunk, "content": without_mark(content, path), "path": path, "score": number(chunk, "score")}
    hit.pop("text", None)
    return _by_path({**hit, "chunk_id": text(chunk, "chunk_id") or path})


def _by_path(found: JsonObject) -> JsonObject:
    """A document's id is its path; the id that only some answers have is kept in another field."""
    path, said = text(found, "path"), text(found, "document_id")
    if path is None or said is None or said == path:
        return {**found, "document_id": path or said}
    return {**found, "document_id": path, "upstream_document_id": said}


def _ingested(answer: JsonValue, args: Args) -> JsonObject:
    said = _by_path(snake_keys(answer))
    if not said["document_id"]:
        raise GatewayError("upstream_error", "The platform's answer does not say what it stored.")
    took, chunks = number(said, "took_ms"), number(said, "chunk_count")
    said.pop("took_ms", None)
    counts = {"chunk_count": chunks, "embedded_count": 0}
    return {"status": "completed", "duration_ms": took, **counts, **said, "path": said["document_id"]}


def _memories(answer: JsonValue, args: Args) -> JsonObject:
    said = snake_keys(answer)
    return {**said, "memories": objects(said, "memories")}


def _reflection(answer: JsonValue, args: Args) -> JsonObject:
    said = snake_keys(answer)
    result = said.get("result")
    return {**said, "result": None if result is None else snake_keys(result)}


def _named(answer: JsonValue, args: Args) -> JsonObject:
    return snake_keys(answer)


async def _canonical_frames(frames: Frames) -> Frames:
    """Turns the daemon's frames into ours."""
    answer = _Answer()
    async with aclosing(frames) as theirs:
        async for together in theirs:
            ours: list[JsonObject] = []
            for frame in together:
                try:
                    ours.append(answer.canonical(snake_keys(frame)))
                except GatewayError as error:
                    if ours:
                        yield ours
                    raise StreamBroken(error.code, error.message) from error
                if ours[-1]["type"] == "citation":
                    # This took some time, so other tasks get their turn before the next one.
                    yield ours
                    ours = []
                    await asyncio.sleep(0)
            if ours:
                yield ours
            del together, ours


class _Answer:
    """The sources and the answer so far. A daemon's citation only names a chunk; we find the words that both share."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._said = ""
        self._cited = 0

    def canonical(self, frame: JsonObject) -> JsonObject:
        match frame["type"]:
            case "retrieve":
                chunks = [_hit(chunk) for chunk in objects(frame, "chunks")]
                self._texts = {chunk["chunk_id"]: chunk["content"] for chunk in chunks}
                return {**frame, "chunks": [_preview(chunk) for chunk in chunks]}
            case "answer_delta":
                delta = text(frame, "text") or text(frame, "delta") or ""
                frame.pop("text", None)
                if len(self._said) < LOOKED_AT:
                    self._said += delta
                return {**frame, "delta": delta}
            case "citation":
                found = _by_path(frame)
                if not found["document_id"]:
                    raise GatewayError("upstream_error", "The platform's answer cites nothing.")
                chunk_id = text(frame, "chunk_id") or found["document_id"]
                self._cited += 1
                span = (
                    find_span(self._texts.get(chunk_id, ""), self._said) if self._cited <= _CITED_AT_MOST else Span("")
                )
                place = {"quote": span.quote, "answer_start": span.start, "answer_end": span.end}
                return {**found, "chunk_id": chunk_id, **place}
            case "done" if frame.get("ok") is False:
                raise StreamBroken("upstream_error", "The platform could not finish its answer.")
            case _:
                return frame


def _preview(chunk: JsonObject) -> JsonObject:
    return {**chunk, "preview": chunk["content"][:_PREVIEW_LENGTH]}


def _is_markdown(path: str) -> bool:
    return path.endswith(".md")


def _is_in_indexed_tree(path: str) -> bool:
    return _is_markdown(path) and path.startswith(_INDEXED_TREES) and not path.rpartition("/")[2].startswith("_")


_DAEMON = Dialect(
    name="daemon",
    brain_key="brainId",
    finds=_is_markdown,
    writes_index=True,
    caveats=(
        "memory_ask, memory_extract and memory_reflect need a language model there; only memory_ask says so.",
        _PAGES,
        _INDEXES,
    ),
    routes={
        Op.LIST_BRAINS: Route("GET", "/v1/brains", lambda _args: Body(), _brains),
        Op.CREATE_BARE_BRAIN: Route("POST", "/v1/brains", _as_brain, _brain),
        Op.SEARCH: Route("POST", BRAIN + "/search", _as_search, _hits),
        Op.ASK: Route("POST", BRAIN + "/ask", _as_question, reframe=_canonical_frames),
        Op.INGEST_TEXT: Route("POST", BRAIN + "/ingest/file", _as_base64, _ingested),
        Op.EXTRACT: Route("POST", BRAIN + "/extract", _as_messages, _memories),
        Op.REFLECT: Route("POST", BRAIN + "/reflect", _as_messages, _reflection),
        Op.CONSOLIDATE: Route("POST", BRAIN + "/consolidate", decode=_named),
        Op.COMPILE: Route("POST", BRAIN + "/compile", decode=_named),
        **STORE,
    },
)
# One make answers an unknown route with a problem, and indexes every note; the others do neither.
DAEMON = replace(
    _DAEMON,
    plain=replace(_DAEMON, finds=_is_in_indexed_tree, caveats=(_STAND_IN, _PARTLY_INDEXED, _EQUAL, _PAGES, _INDEXES)),
)
