"""Stand-in until the real one is there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LEAST: Final = 0.2


@dataclass(frozen=True, slots=True)
class Fused:
    score: float
    semantic: float | None


def fuse(candidates: Sequence[tuple[float, float | None]]) -> list[Fused]:
    made = []
    for keyword, cosine in candidates:
        semantic = None if cosine is None else min(max(cosine, 0.0), 1.0)
        score = keyword if semantic is None else 1 - (1 - keyword) * (1 - 0.5 * semantic)
        made.append(Fused(min(max(round(score, 6), 0.000001), 0.999999), semantic))
    return made
