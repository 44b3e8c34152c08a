"""Text for people: the short summary of each canonical tool's result, and a full text beside it. Pure functions."""

from collections.abc import Mapping

from gateway.mcp.shown import head, heads, line, lines, visible
from gateway.operations.table import JsonObject

_HITS_SHOWN = 5
_HIT_LENGTH = 320
_LARGEST_SCORE = 1e300
_TITLE_LENGTH = 80
_NOTE_LENGTH = 512
# A time of RFC 3339 begins with its day.
_DAY_LENGTH = 10


def score(value: object) -> str:
    """Three decimals, or three significant digits if three decimals would all be zero."""
    number = float(value) if isinstance(value, (int, float)) and abs(value) < _LARGEST_SCORE else 0.0
    return f"{number:.3f}" if abs(number) >= 0.001 or number == 0 else f"{number:.3g}"


def hits(found: list[JsonObject]) -> str:
    if not found:
        return "Nothing found."
    first = found[:_HITS_SHOWN]
    paths, beginnings = lines([hit.get("path") for hit in first]), _beginnings([hit.get("content") for hit in first])
    shown = [
        f"#{n} score={score(hit.get('score'))} {path}\n{beginning}"
        for n, (hit, path, beginning) in enumerate(zip(first, paths, beginnings, strict=True), start=1)
    ]
    rest = len(found) - _HITS_SHOWN
    return "\n\n".join(shown) + (f"\n\n({rest} more in the structured result)" if rest > 0 else "")


def _beginnings(contents: list[object]) -> list[str]:
    """The beginning of each text. To save time, all of them are checked together first."""
    texts = [str(content or "")[:_HIT_LENGTH] for content in contents]
    whole = "".join(texts)
    if whole.isascii() and visible(whole) is whole:
        return texts
    return [_beginning(content) for content in contents]


def _beginning(content: object) -> str:
    # A hit may hold megabytes, and only its beginning is shown; more is read if characters are removed from it.
    text = str(content or "")
    shown = visible(text[:_HIT_LENGTH])
    if len(shown) == _HIT_LENGTH or len(text) <= _HIT_LENGTH:
        return shown
    return visible(text[: 4 * _HIT_LENGTH])[:_HIT_LENGTH]


def whole_hits(found: list[JsonObject]) -> list[tuple[str, str]]:
    """The hits with all their text, if their summary leaves some of it out."""
    if len(found) <= _HITS_SHOWN and not any(_is_cut(hit.get("content")) for hit in found):
        return []
    named = heads([(hit.get("path"), hit.get("title"), _date(hit)) for hit in found])
    return [(name, str(hit.get("content") or "")) for name, hit in zip(named, found, strict=True)]


def _is_cut(content: object) -> bool:
    text = str(content or "")
    return len(text) > _HIT_LENGTH and (len(text) > 4 * _HIT_LENGTH or len(visible(text)) > _HIT_LENGTH)


def _date(hit: JsonObject) -> object:
    """When it was written, if the platform says so."""
    for name in ("updated_at", "modified", "created_at"):
        if isinstance(date := hit.get(name), str):
            return date
    return ""


def remembered(document: JsonObject) -> str:
    """Says what was stored, even if the platform's record lacks a field: the note is stored all the same."""
    name, size = f"{line(document.get('path'))} (id {line(document.get('id'))}", document.get("byte_size")
    unfound = " This platform's search does not look there." if document.get("searchable") is False else ""
    if document.get("reused"):
        return f"Already stored as {name}).{unfound}"
    if document.get("status") == "queued":
        return f"Queued {name}); it is not stored yet.{unfound}"
    return (f"Stored {name}, {size:,} bytes)." if isinstance(size, int) else f"Stored {name}).") + unfound


def ingested(result: JsonObject) -> str:
    path = line(result.get("path"))
    if result.get("status") == "queued":
        return f"Queued {path} (job {line(result.get('job_id'))}); it is not searchable yet."
    if result.get("reused"):
        return f"Already stored as {path}."
    return f"Ingested {path} ({line(result.get('chunk_count', 0))} chunks)."


def ingested_url(answer: JsonObject) -> str:
    if answer["path"] == "server":
        return ingested(answer["result"])
    return remembered(answer["document"]) + " Fetched by the gateway."


def extracted(answer: JsonObject) -> str:
    if answer.get("extraction") == "unavailable":
        extracts = "This platform extracts no memories."
    else:
        extracts = "Memories are extracted from this in the background."
    if answer["mode"] == "session" and answer.get("reused"):
        return f"These {len(answer['messages'])} message(s) are in the session already, from this call. {extracts}"
    if answer["mode"] == "session":
        return f"Appended {len(answer['messages'])} message(s) to the session. {extracts}"
    return f"{remembered(answer['document'])} {extracts}"


def reflected(answer: JsonObject) -> str:
    status, ended = line(answer.get("reflection_status")), line(answer.get("ended_at")) or "an unknown time"
    reflection = answer.get("reflection")
    if not isinstance(reflection, dict) or not reflection:
        tried = answer.get("reflection_attempted")
        why = "the platform found nothing to say of it" if tried else "there was nothing to reflect on"
        return f"Session closed: {status}, {why}. Ended at {ended}."
    recorded = "yes" if reflection.get("should_record_episode") else "no"
    return (
        f"Session closed: {status}. Outcome: {line(reflection.get('outcome'))}. "
        f"Record episode: {recorded}. Path: {line(reflection.get('path'))}. Ended at {ended}.{_noted(answer)}"
    )


def consolidated(result: JsonObject) -> str:
    return f"Consolidation done.{_noted(result)}"


def _noted(answer: JsonObject) -> str:
    """What the platform says of its answer, such as why its model did not make it."""
    note = answer.get("note")
    return f" {line(note[:_NOTE_LENGTH])}" if isinstance(note, str) and note else ""


def brains(items: list[JsonObject], prefix: str = "") -> str:
    if not items:
        return f"There is no brain yet. Create one with {prefix}memory_create_brain."
    lines = [
        f"- {line(b.get('slug'))} ({line(b.get('name'))}, {line(b.get('visibility'))}), id {line(b.get('id'))}"
        for b in items
    ]
    return f"{len(items)} brain(s):\n" + "\n".join(lines)


def created(brain: JsonObject) -> str:
    verb = "You have this brain already" if brain.get("reused") else "Created brain"
    return f"{verb}: {line(brain.get('slug'))} (id {line(brain.get('id'))}, {line(brain.get('visibility'))})."


def answered(answer: str, citations: list[JsonObject], origins: Mapping[str, JsonObject]) -> str:
    """The answer, and its sources by title, path and date, or by id if the platform sends nothing else."""
    cited = dict.fromkeys(str(citation.get("document_id") or "") for citation in citations)
    known = [f"- {_origin(origins[document])}" for document in cited if document in origins]
    unknown = sorted(line(document) for document in cited if document not in origins)
    told = "\n".join([f"{visible(answer)}\n\nSources:", *known, *(f"- {document}" for document in unknown)])
    if known:
        return told
    return f"{visible(answer)}\n\nSources: {', '.join(unknown)}" if unknown else visible(answer)


def _origin(origin: JsonObject) -> str:
    title = line(origin.get("title"))
    short = title if len(title) <= _TITLE_LENGTH else f"{title[: _TITLE_LENGTH - 1].rstrip()}…"
    return head(short, origin.get("path"), _day(origin))


def _day(origin: JsonObject) -> str:
    return line(_date(origin))[:_DAY_LENGTH]


def sources(
    retrieved: list[JsonObject], citations: list[JsonObject], origins: Mapping[str, JsonObject]
) -> list[tuple[str, str]]:
    """The sources of an answer: the chunks that the platform found, in its order, then those that are only cited."""
    quotes: dict[str, list[str]] = {}
    for citation in citations:
        quotes.setdefault(citation["document_id"], []).append(citation["quote"])
    told = [_source(chunk, origins, chunk["preview"], is_cited=chunk["document_id"] in quotes) for chunk in retrieved]
    found = {chunk["document_id"] for chunk in retrieved}
    for document, said in quotes.items():
        if document not in found:
            told.append(_source({"document_id": document}, origins, "\n".join(dict.fromkeys(said)), is_cited=True))
    return told


def _source(chunk: JsonObject, origins: Mapping[str, JsonObject], text: str, *, is_cited: bool) -> tuple[str, str]:
    document = chunk["document_id"]
    origin = origins.get(chunk.get("chunk_id") or document, {})
    named = (origin.get("path"), document, origin.get("title"), _day(origin))
    return head(*named, "cited" if is_cited else ""), text
