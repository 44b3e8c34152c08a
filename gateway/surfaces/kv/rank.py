"""How the `kv` surface ranks what a search found: by words, meaning, importance and age."""

import time
from collections.abc import Sequence
from typing import Final

from gateway.operations.table import JsonObject

# What each part weighs where there are all of them; without one of the first two the others share its weight.
WEIGHTS: Final = {"semantic": 0.5, "keyword": 0.25, "importance": 0.15, "timeDecay": 0.1}
HALF_LIFE_DAYS: Final = 30.0
_DAY: Final = 86_400_000
_LEFT_OUT: Final = {"hybrid": frozenset[str](), "semantic": frozenset({"keyword"}), "keyword": frozenset({"semantic"})}
_MEANING: Final = ("semantic", "vector", "embedding", "similarity")


def rank(found: Sequence[tuple[JsonObject, JsonObject]], mode: str) -> list[JsonObject]:
    """Memories with score and breakdown, best first; each came with the hit it was found by."""
    best = max((_number(hit.get("score")) for hit, _ in found), default=0.0) or 1.0
    has_meaning = any(_meaning(hit) is not None for hit, _ in found)
    left_out = _LEFT_OUT[mode] | (frozenset() if has_meaning else {"semantic"})
    if not has_meaning:
        # A platform that knows no meanings is searched by words whatever was asked for.
        left_out -= {"keyword"}
    results = [_result(hit, memory, best, left_out) for hit, memory in found]
    return sorted(results, key=lambda result: (result["score"], result["created_at"]), reverse=True)


def _result(hit: JsonObject, memory: JsonObject, best: float, left_out: frozenset[str]) -> JsonObject:
    age = max(time.time() * 1000 - memory["updated_at"], 0) / _DAY
    parts = {
        "semantic": _meaning(hit) or 0.0,
        "keyword": _number(hit.get("score")) / best,
        "importance": memory["importance"] / 10,
        "timeDecay": 0.5 ** (age / HALF_LIFE_DAYS),
    }
    weights = {part: weight for part, weight in WEIGHTS.items() if part not in left_out}
    score = sum(weight * _share(parts[part]) for part, weight in weights.items()) / sum(weights.values())
    shown = {part: 0.0 if part in left_out else round(_share(value), 4) for part, value in parts.items()}
    kept = {key: memory[key] for key in ("key", "value", "namespace", "tags", "importance")}
    return {**kept, "score": round(score, 4), "breakdown": shown, "created_at": memory["created_at"]}


def _meaning(hit: JsonObject) -> float | None:
    """How near a hit is in meaning, where the platform says so; zero is what those say that do not know."""
    said = hit.get("component_scores")
    parts = said if isinstance(said, dict) else {}
    named = next((parts[name] for name in _MEANING if name in parts), hit.get("vector_similarity"))
    return _number(named) or None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)
