"""How the `kv` surface ranks what a search found: by words, meaning, importance and age."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.operations.coverage import Query
from gateway.operations.ranking import likeness, meaning_of, places
from gateway.operations.table import JsonObject

# The weights of the parts. If one of the first two is missing, the other has the weight of both.
WEIGHTS: Final = {"semantic": 0.5, "keyword": 0.25, "importance": 0.15, "timeDecay": 0.1}
HALF_LIFE_DAYS: Final = 30.0
_DAY: Final = 86_400_000
_LEFT_OUT: Final = {"hybrid": frozenset[str](), "semantic": frozenset({"keyword"}), "keyword": frozenset({"semantic"})}
_OF_RELEVANCE: Final = ("semantic", "keyword")


@dataclass(frozen=True, slots=True)
class Ranker:
    """Ranks what one query found. `mode` is what the caller wants it ranked by."""

    query: Query
    mode: str

    def rank(self, hits: Sequence[JsonObject], memories: Mapping[str, JsonObject]) -> list[JsonObject]:
        """Memories with score and breakdown, best first; each is at the path of the hit that it was found by."""
        weights = self._weights(hits)
        results = [
            self._result(hit, place, memories[hit["path"]], weights)
            for hit, place in zip(hits, places(hits), strict=True)
            if hit["path"] in memories
        ]
        return sorted(results, key=lambda result: (result["score"], result["created_at"]), reverse=True)

    def matches(self, memory: JsonObject) -> bool:
        """Whether a memory that no search found has anything of the query."""
        return self.query.covered_by(_text(memory)) > 0

    def may_be_beaten(self, hits: Sequence[JsonObject], results: Sequence[JsonObject], limit: int) -> bool:
        """Whether further hits could be among the first, if they are as good as the last ones that were found."""
        if len(results) < limit:
            return True
        weights = self._weights(hits)
        last = [self._relevance(hit, 0, str(hit.get("content") or ""), weights)[0] for hit in hits[len(hits) // 2 :]]
        return max(last, default=0.0) > float(results[limit - 1]["score"])

    def _weights(self, hits: Sequence[JsonObject]) -> dict[str, float]:
        """What counts towards relevance. A platform that knows no meanings is searched by words in every mode."""
        has_meaning = any(meaning_of(hit) is not None for hit in hits)
        left_out = _LEFT_OUT[self.mode] if has_meaning else {"semantic"}
        return {part: WEIGHTS[part] for part in _OF_RELEVANCE if part not in left_out}

    def _relevance(
        self, hit: JsonObject, place: int, text: str, weights: Mapping[str, float]
    ) -> tuple[float, dict[str, float]]:
        """How well a hit answers the query, and the parts of that score."""
        covered, meaning = self.query.covered_by(text), meaning_of(hit)
        # A hit that was found by its meaning need not have any of the words.
        by_words = likeness(covered, place) if covered or meaning is None else 0.0
        parts = {"semantic": meaning or 0.0, "keyword": by_words}
        relevance = sum(weight * parts[part] for part, weight in weights.items()) / sum(weights.values())
        return relevance, {part: parts[part] if part in weights else 0.0 for part in _OF_RELEVANCE}

    def _result(self, hit: JsonObject, place: int, memory: JsonObject, weights: Mapping[str, float]) -> JsonObject:
        relevance, parts = self._relevance(hit, place, _text(memory), weights)
        age = max(time.time() * 1000 - memory["updated_at"], 0) / _DAY
        parts |= {"importance": min(memory["importance"] / 10, 1.0), "timeDecay": 0.5 ** (age / HALF_LIFE_DAYS)}
        # Importance and age raise the score of a relevant hit, but do not make a hit relevant.
        raised = sum(WEIGHTS[part] * (parts[part] if part not in _OF_RELEVANCE else 1.0) for part in WEIGHTS)
        shown = {part: round(value, 4) for part, value in parts.items()}
        kept = {key: memory[key] for key in ("key", "value", "namespace", "tags", "importance")}
        score = round(relevance * raised, 4)
        return {**kept, "score": score, "breakdown": shown, "created_at": memory["created_at"]}


def _text(memory: JsonObject) -> str:
    return " ".join((memory["key"], *memory["tags"], memory["value"]))
