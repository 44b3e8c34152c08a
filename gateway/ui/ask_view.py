"""The question box: an answer as it comes, with its sources."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Final

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from gateway.mcp.shown import line, visible
from gateway.operations import notes
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject
from gateway.ui.catalogue import without_marks
from gateway.ui.render import address
from gateway.ui.visit import Form, PageServices, Visit, get, post

_TOP_K: Final = 8
_QUESTION_LENGTH: Final = 8000
_STREAM: Final = "application/x-ndjson"


def routes(services: PageServices) -> Sequence[Route]:
    path = "/ui/brains/{brain}/ask"
    return [get(path, form, services), post(path, ask, services)]


async def form(visit: Visit) -> Response:
    return visit.page("ask.html", question="", answer=None)


async def ask(visit: Visit, given: Form) -> Response:
    """A stream of lines for the script of the page; a whole page for browsers without scripts."""
    question = given.get("question", "").strip()
    if not question or len(question) > _QUESTION_LENGTH:
        raise GatewayError("validation_error", f"Ask a question of at most {_QUESTION_LENGTH:,} characters.")
    if visit.request.headers.get("accept") == _STREAM:
        return StreamingResponse(_lines(visit, question), media_type=_STREAM)
    answer: dict[str, Any] = {"text": "", "sources": [], "note": None}
    async for said in _answer(visit, question):
        answer["text"] += said.pop("delta", "")
        answer |= said
    return visit.page("ask.html", question=question, answer=answer)


async def _lines(visit: Visit, question: str) -> AsyncIterator[str]:
    try:
        async with aclosing(_answer(visit, question)) as saying:
            async for said in saying:
                yield json.dumps(said, ensure_ascii=False) + "\n"
    except GatewayError as error:
        yield json.dumps({"error": error.message}, ensure_ascii=False) + "\n"


async def _answer(visit: Visit, question: str) -> AsyncGenerator[dict[str, Any], None]:
    """Pieces of an answer, and at the end its sources: those that it cites, or else the notes that were found."""
    found, cited, note = dict[str, JsonObject](), list[str](), None
    async with visit.call("ask") as call:
        coming = visit.services.brain.ask(call, None, {"query": question, "top_k": _TOP_K})
        async with aclosing(coming):
            async for frame in (frame async for frames in coming for frame in frames):
                match frame["type"]:
                    case "answer_delta":
                        yield {"delta": visible(frame.get("delta", ""))}
                    case "retrieve":
                        chunks = [chunk for chunk in frame.get("chunks") or () if isinstance(chunk, dict)]
                        found = {str(chunk.get("chunk_id")): chunk for chunk in chunks}
                    case "citation":
                        cited.append(str(frame.get("chunk_id")))
                note = frame.get("note") or note
    drawn = [found[chunk] for chunk in dict.fromkeys(cited) if chunk in found]
    yield {"sources": _sources(visit, drawn or list(found.values())), "cited": bool(drawn), "note": note and line(note)}


def _sources(visit: Visit, chunks: Sequence[JsonObject]) -> list[dict[str, str]]:
    """Each note once, with a link to it."""
    paths = {str(chunk["path"]).removeprefix("/"): chunk for chunk in reversed(chunks) if chunk.get("path")}
    return [
        {
            "title": line(chunk.get("title") or path),
            "path": line(path),
            "preview": line(_preview(chunk)),
            "href": address(visit.brain_name, "note", path=path),
        }
        for path, chunk in reversed(paths.items())
    ]


def _preview(chunk: JsonObject) -> str:
    """The first words of a source, which is shown after its title."""
    title = str(chunk.get("title") or "")
    said = notes.described(without_marks(str(chunk.get("preview") or "")[:200]), title)
    return "" if said == title else said
