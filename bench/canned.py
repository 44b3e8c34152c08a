"""The instant platform's answers, made once: what a search of ten hits and the frames of an answer look like."""

import json
from typing import Any

_SENTENCES = (
    "the gateway keeps one pooled client per process and puts credentials on each request for its caller because "
    "what is shared between callers leaks sooner or later so the release on Thursday waits for the review of the "
    "retry budget and for the numbers of the second load test which ran on the small machine over the weekend "
)
_WORDS = _SENTENCES.split()
_CHUNK_WORDS = 150
HITS = 10
QUERY = "what did we decide about the retry budget"


def _text(seed: int) -> str:
    return " ".join(_WORDS[(seed * 7 + i) % len(_WORDS)] for i in range(_CHUNK_WORDS))


def _hit(n: int) -> dict[str, Any]:
    text = _text(n)
    return {
        "score": round(0.93 - n * 0.061, 6),
        "path": f"memory/global/decision-{n:04d}-retry-budget.md",
        "content": text,
        "brain_id": "brn_4c6f1d2e9a70",
        "chunk_id": f"chk_{n:012x}",
        "document_id": f"doc_{n:012x}",
        "title": f"Decision {n}: the retry budget",
        "metadata": {"tags": "decisions,gateway"},
        "highlights": [text[:160], text[300:460]],
        "updated_at": "2026-11-02T09:30:00+00:00",
    }


def search_result() -> dict[str, Any]:
    return {"query": QUERY, "brain_id": "brn_4c6f1d2e9a70", "hits": [_hit(n) for n in range(HITS)], "took_ms": 3.2}


def brain_list() -> dict[str, Any]:
    brain = {"id": "brn_4c6f1d2e9a70", "slug": "main", "name": "Main", "visibility": "private"}
    return {"items": [brain], "next_cursor": None}


def event(kind: str, **fields: Any) -> bytes:
    """One server-sent event, as one chunk of a chunked body."""
    data = json.dumps({"type": kind, **fields}, separators=(",", ":"))
    frame = f"event: {kind}\ndata: {data}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(frame), frame)


def retrieved() -> bytes:
    chunks = [
        {"chunk_id": hit["chunk_id"], "document_id": hit["document_id"], "score": hit["score"], "preview": _text(n)}
        for n, hit in enumerate(search_result()["hits"][:8])
    ]
    return event("retrieve", chunks=chunks)


def ask_query(deltas: int, pause: float = 0.0, *, hold: bool = False) -> str:
    """A question that tells the instant platform how to answer it."""
    return json.dumps({"deltas": deltas, "pause": pause, "hold": hold})
