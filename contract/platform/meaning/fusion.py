"""One score from two: how well a text covers the words of a query, and how near their meanings are.

Both are absolute, and so is the result: it comes from the query and this text alone, whatever else is found. The
settings were chosen on one half of the questions in `bench/meaning`, with several models.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from contract.platform.meaning.calibration import Calibration

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.float64]

# A text with one common word of the query is a poor hit. A text with most of its words loses hardly anything by this.
KEYWORD_POWER: Final = 1.5
# The highest score by meaning alone, so that a text with the very words of the query stays in front.
SEMANTIC_SHARE: Final = 0.35
# A text without any word of the query is a hit unless it is further away than texts that have nothing to do with each
# other usually are: the note that is meant may be no nearer, and a low score tells what the rest is worth.
LEAST_SEMANTIC: Final = 0.05
# Most texts that have nothing to do with the query are below this, and so are some that do.
RELATED: Final = 0.3


class Fused(NamedTuple):
    """For each candidate, as they were given; `order` holds their places, the best first."""

    order: list[int]
    scores: list[float]


def fuse(keywords: Sequence[float], semantics: Sequence[float]) -> Fused:
    """Scores from 0 to 1 by words and by meaning (NaN for a text without a vector). Equals stay in the order given."""
    import numpy as np

    near = np.nan_to_num(np.asarray(semantics, dtype=np.float64), nan=0.0)
    words = np.clip(np.asarray(keywords, dtype=np.float64), 0.0, 1.0) ** KEYWORD_POWER
    scores = 1 - (1 - words) * (1 - SEMANTIC_SHARE * near)
    order = np.argsort(-scores, kind="stable")
    return Fused(order.tolist(), scores.tolist())


def semantic(cosines: Sequence[float], calibration: Calibration) -> "Numbers":
    """From 0 to 1: how sure one may be, by this model, that two texts are about the same."""
    import numpy as np

    way = calibration.related - calibration.unrelated
    if way <= 0:
        # A model that cannot tell related texts from others gives no information.
        return np.zeros(len(cosines))
    places = (np.asarray(cosines, dtype=np.float64) - calibration.unrelated) / way
    # Further out the exponential would overflow, and the result is 0 or 1 anyway.
    steps = np.clip((places - calibration.half_way) / calibration.slope, -50.0, 50.0)
    return 1 / (1 + np.exp(-steps))


def cosine_of(semantic: float, calibration: Calibration) -> float:
    """The cosine that has this value for this model."""
    place = calibration.half_way + calibration.slope * math.log(semantic / (1 - semantic))
    return calibration.unrelated + place * (calibration.related - calibration.unrelated)
