"""Putting hits in order where the platform does not: by age, by two queries at once, by words alone. Pure functions."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest

from gateway.operations.small_words import GENERAL, SMALL
from gateway.operations.table import JsonObject

_WORD = re.compile(r"\w+")
_SHORTEST_TELLING = 4
_RECENT_MESSAGES, _RECENT_CHARACTERS, _SALIENT_WORDS = 6, 4000, 12
_RANK_OFFSET = 60
_SESSION_WEIGHT, _SAME_SESSION_BOOST = 0.5, 1.5
# The names that platforms have for a score by meaning.
_MEANING = ("semantic", "vector", "embedding", "similarity")
# The score of a hit that has no word of the query, and how much each place in the platform's order takes off.
_UNEXPLAINED, _PLACE, _LAST_PLACE = 0.1, 0.001, 100
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def moment(text: object) -> datetime:
    """A time as any platform writes it; a time long ago if there is none."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return _LONG_AGO
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def sort_hits(hits: Sequence[JsonObject], changed: Mapping[str, object], sort: str) -> list[JsonObject]:
    """Sorts by `recency`, or by `relevance_then_recency`: hits of equal relevance are sorted by recency."""

    def age_then_score(hit: JsonObject) -> tuple[datetime, float]:
        return moment(changed.get(str(hit.get("path")))), score_of(hit)

    def score_then_age(hit: JsonObject) -> tuple[float, datetime]:
        return score_of(hit), moment(changed.get(str(hit.get("path"))))

    key = age_then_score if sort == "recency" else score_then_age
    return sorted(hits, key=key, reverse=True)


def score_of(hit: JsonObject) -> float:
    score = hit.get("score")
    return float(score) if isinstance(score, int | float) else 0.0


def meaning_of(hit: JsonObject) -> float | None:
    """How near a hit is in meaning, if the platform says so. Platforms that do not know it say zero."""
    said = hit.get("component_scores")
    parts = said if isinstance(said, dict) else {}
    near = next((parts[name] for name in _MEANING if name in parts), hit.get("vector_similarity"))
    if not isinstance(near, int | float) or isinstance(near, bool) or not near or not math.isfinite(near):
        return None
    return min(max(float(near), 0.0), 1.0)


def tells_words(hit: JsonObject) -> bool:
    """Whether the platform says apart how well a hit answers by its words."""
    said = hit.get("component_scores")
    return isinstance(said, dict) and "keyword" in said


def places(hits: Sequence[JsonObject]) -> list[int]:
    """Where each hit stands in the platform's order, from 0; hits of the same score share a place."""
    scores = [score_of(hit) for hit in hits]
    if not any(scores):
        return list(range(len(hits)))
    place, found = 0, list[int]()
    for at, score in enumerate(scores):
        place += at > 0 and score != scores[at - 1]
        found.append(place)
    return found


def likeness(covered: float, place: int = _LAST_PLACE) -> float:
    """How well a hit answers by its words: what it covers, a little less for each place in the platform's order.

    So hits that cover the same keep the platform's order, and a poor hit has a low score even if all others are worse.
    """
    return max(covered, _UNEXPLAINED) * (1 - _PLACE * min(place, _LAST_PLACE))


def salient(messages: Sequence[JsonObject]) -> str:
    """The telling words of the last messages, the latest first."""
    recent = [str(m.get("content", ""))[-_RECENT_CHARACTERS:].lower() for m in messages[-_RECENT_MESSAGES:]]
    said = [word for text in recent for word in _WORD.findall(text)]
    small = SMALL | GENERAL
    telling = [w for w in reversed(said) if w not in small and (len(w) >= _SHORTEST_TELLING or not w.isascii())]
    return " ".join(list(dict.fromkeys(telling))[:_SALIENT_WORDS])


def blend(by_query: Sequence[JsonObject], by_session: Sequence[JsonObject], session_id: str) -> list[JsonObject]:
    """Two lists of hits as one, by their ranks, because scores of two searches cannot be compared."""
    scores: dict[str, float] = {}
    hits: dict[str, JsonObject] = {}
    for found, weight in ((by_query, 1.0), (by_session, _SESSION_WEIGHT)):
        for rank, hit in enumerate(found, start=1):
            key = str(hit.get("chunk_id") or hit.get("path"))
            hits.setdefault(key, hit)
            scores[key] = scores.get(key, 0.0) + weight / (_RANK_OFFSET + rank)
    for key, hit in hits.items():
        if _session_of(hit) == session_id:
            scores[key] *= _SAME_SESSION_BOOST
    return sorted(({**hit, "score": scores[key]} for key, hit in hits.items()), key=score_of, reverse=True)


def interleave(one: Sequence[JsonObject], other: Sequence[JsonObject]) -> list[JsonObject]:
    """Two lists of hits as one, in turns, beginning with the first list: scores of two searches cannot be compared.

    A score that is higher than that of the hit before is lowered to it.
    """
    turns = [hit for pair in zip_longest(one, other) for hit in pair if hit is not None]
    lowest, mixed = float("inf"), []
    for hit in turns:
        lowest = min(lowest, score_of(hit))
        mixed.append({**hit, "score": lowest})
    return mixed


def _session_of(hit: JsonObject) -> object:
    metadata = hit.get("metadata")
    return metadata.get("session_id") or metadata.get("sessionId") if isinstance(metadata, dict) else None
