"""What people read: the short summary of each canonical tool's result. Pure functions."""

import re

from gateway.operations.table import JsonObject

_HITS_SHOWN = 5
_HIT_LENGTH = 320
_LARGEST_SCORE = 1e300
# Invisible ways to hide text from a person but not from a model: tags and variation selectors, bidi controls,
# zero width, letters that fill no space, and the control characters that terminals obey. Only what a person would miss
# stays: one joiner behind a letter or an emoji beyond ASCII, and one choice of look behind what has an emoji's look.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|(?<![^\x00-\x7f\u200c\u200d])[\u200c\u200d]"
    "|(?<![#*0-9\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
)


def visible(text: object) -> str:
    return "" if text is None else _INVISIBLE.sub("", str(text))


def line(text: object) -> str:
    """On one line, whatever it holds: a name must not begin a line of its own."""
    return " ".join(visible(text).split())


def score(value: object) -> str:
    """Three decimals, or three significant digits where that would read as nothing."""
    number = float(value) if isinstance(value, int | float) and abs(value) < _LARGEST_SCORE else 0.0
    return f"{number:.3f}" if abs(number) >= 0.001 or number == 0 else f"{number:.3g}"


def hits(found: list[JsonObject]) -> str:
    if not found:
        return "Nothing found."
    shown = [
        f"#{n} score={score(hit.get('score'))} {line(hit.get('path'))}\n{_beginning(hit.get('content'))}"
        for n, hit in enumerate(found[:_HITS_SHOWN], start=1)
    ]
    rest = len(found) - _HITS_SHOWN
    return "\n\n".join(shown) + (f"\n\n({rest} more in the structured result)" if rest > 0 else "")


def _beginning(content: object) -> str:
    # A hit may hold megabytes, and only its beginning is shown; more of it where some is taken out.
    text = str(content or "")
    shown = visible(text[:_HIT_LENGTH])
    return shown if len(shown) == _HIT_LENGTH else visible(text[: 4 * _HIT_LENGTH])[:_HIT_LENGTH]


def remembered(document: JsonObject) -> str:
    """Says what was stored, even where the platform's record lacks a field: it is stored all the same."""
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
        f"Record episode: {recorded}. Path: {line(reflection.get('path'))}. Ended at {ended}."
    )


def brains(items: list[JsonObject]) -> str:
    if not items:
        return "There is no brain yet. Create one with memory_create_brain."
    lines = [
        f"- {line(b.get('slug'))} ({line(b.get('name'))}, {line(b.get('visibility'))}), id {line(b.get('id'))}"
        for b in items
    ]
    return f"{len(items)} brain(s):\n" + "\n".join(lines)


def created(brain: JsonObject) -> str:
    verb = "You have this brain already" if brain.get("reused") else "Created brain"
    return f"{verb}: {line(brain.get('slug'))} (id {line(brain.get('id'))}, {line(brain.get('visibility'))})."


def answered(answer: str, citations: list[JsonObject]) -> str:
    sources = sorted({line(citation.get("document_id")) for citation in citations})
    return f"{visible(answer)}\n\nSources: {', '.join(sources)}" if sources else visible(answer)
