"""What people read: the short summary of each canonical tool's result. Pure functions."""

import re

from gateway.operations import JsonObject

_HITS_SHOWN = 5
_HIT_LENGTH = 320
# Invisible ways to hide text from a person but not from a model: tags, bidi controls, zero width, escape codes.
_INVISIBLE = re.compile("[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069\u200b-\u200f\u2060\ufeff\x1b]")


def visible(text: object) -> str:
    return _INVISIBLE.sub("", str(text))


def score(value: object) -> str:
    """Three decimals, or three significant digits where that would read as nothing."""
    number = float(value) if isinstance(value, int | float) else 0.0
    return f"{number:.3f}" if abs(number) >= 0.001 or number == 0 else f"{number:.3g}"


def hits(found: list[JsonObject]) -> str:
    if not found:
        return "Nothing found."
    shown = [
        f"#{n} score={score(hit.get('score'))} {visible(hit.get('path', ''))}\n"
        f"{visible(hit.get('content', ''))[:_HIT_LENGTH]}"
        for n, hit in enumerate(found[:_HITS_SHOWN], start=1)
    ]
    rest = len(found) - _HITS_SHOWN
    return "\n\n".join(shown) + (f"\n\n({rest} more in the structured result)" if rest > 0 else "")


def remembered(document: JsonObject) -> str:
    if document.get("reused"):
        return f"Already stored as {document['path']} (id {document['id']})."
    return f"Stored {document['path']} (id {document['id']}, {document['byte_size']:,} bytes)."


def ingested(result: JsonObject) -> str:
    path = result.get("path")
    if result.get("status") == "queued":
        return f"Queued {path} (job {result.get('job_id')}); it is not searchable yet."
    if result.get("reused"):
        return f"Already stored as {path}."
    return f"Ingested {path} ({result.get('chunk_count', 0)} chunks)."


def ingested_url(answer: JsonObject) -> str:
    if answer["path"] == "server":
        return ingested(answer["result"])
    return remembered(answer["document"]) + " Fetched by the gateway."


def extracted(answer: JsonObject) -> str:
    if answer["mode"] == "session":
        return f"Appended {len(answer['messages'])} message(s) to the session; the platform extracts from them."
    return f"{remembered(answer['document'])} The platform extracts from this transcript."


def reflected(answer: JsonObject) -> str:
    reflection = answer.get("reflection") or {}
    if not reflection:
        return f"Session closed: {answer['reflection_status']}, no reflection. Ended at {answer.get('ended_at')}."
    recorded = "yes" if reflection.get("should_record_episode") else "no"
    return (
        f"Session closed: {answer['reflection_status']}. Outcome: {visible(reflection.get('outcome'))}. "
        f"Record episode: {recorded}. Path: {reflection.get('path')}. Ended at {answer.get('ended_at')}."
    )


def brains(items: list[JsonObject]) -> str:
    if not items:
        return "There is no brain yet. Create one with memory_create_brain."
    lines = [f"- {b.get('slug')} ({visible(b.get('name'))}, {b.get('visibility')}), id {b.get('id')}" for b in items]
    return f"{len(items)} brain(s):\n" + "\n".join(lines)


def created(brain: JsonObject) -> str:
    verb = "You have this brain already" if brain.get("reused") else "Created brain"
    return f"{verb}: {brain['slug']} (id {brain['id']}, {brain['visibility']})."


def answered(answer: str, citations: list[JsonObject]) -> str:
    sources = sorted({str(citation.get("document_id")) for citation in citations})
    return f"{answer}\n\nSources: {', '.join(sources)}" if sources else answer
