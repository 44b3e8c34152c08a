"""Which calls are traced, by OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG, as OpenTelemetry defines them."""

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

import structlog

from gateway.app.traces.context import SAMPLED, Above

log = structlog.get_logger()

# A trace is sampled if the lower half of its id is below a bound.
_ALL: Final = 1 << 64
_HALF: Final = 8
_PARENT_BASED: Final = "parentbased_"
_RATIO: Final = "traceidratio"
_ROOTS: Final = {"always_on": _ALL, "always_off": 0, _RATIO: _ALL}
_NAMES: Final = tuple(_ROOTS) + tuple(_PARENT_BASED + name for name in _ROOTS)
_SHOWN: Final = 40
_DEFAULT: Final = "parentbased_always_on"


class Sampler(NamedTuple):
    """Decides by the flag of the client's span, or by the id of the trace."""

    follows_client: bool
    bound: int

    def samples(self, trace: bytes, above: Above | None) -> bool:
        if above is not None and self.follows_client:
            return bool(above.flags & SAMPLED)
        # Most samplers take all.
        return self.bound == _ALL or int.from_bytes(trace[_HALF:], "big") < self.bound


def sampler_of(environment: Mapping[str, str] = os.environ) -> Sampler:
    """The sampler that the environment names. A value that makes no sense is told, and counts as not set."""
    name = environment.get("OTEL_TRACES_SAMPLER", "").strip().lower() or _DEFAULT
    if name not in _NAMES:
        reason = f"OTEL_TRACES_SAMPLER is {name[:_SHOWN]!r}, which is none of {', '.join(_NAMES)}."
        log.warning("traces.doubtful", reason=f"{reason} {_DEFAULT} is used instead.")
        name = _DEFAULT
    root = name.removeprefix(_PARENT_BASED)
    bound = round(_share(environment) * _ALL) if root == _RATIO else _ROOTS[root]
    return Sampler(name != root, bound)


def _share(environment: Mapping[str, str]) -> float:
    said = environment.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    try:
        share = float(said) if said else 1.0
    except ValueError:
        share = -1.0
    if 0 <= share <= 1:
        return share
    log.warning(
        "traces.doubtful",
        reason=f"OTEL_TRACES_SAMPLER_ARG is {said[:_SHOWN]!r}, which is no number from 0 to 1. 1 is used instead.",
    )
    return 1.0
