"""How much is measured: the quick run, and the full one."""

from dataclasses import dataclass, field

from bench.quiet import Quiet


@dataclass(frozen=True, slots=True)
class Sizes:
    name: str
    rounds: int
    slice_seconds: int
    calls: int
    """Calls over which memory must stay flat; streams likewise."""
    streams: int
    open_streams: int
    first_token_streams: int
    deltas: int
    stdio_runs: int
    chunks: int
    queries: int
    writes: int
    quiet: Quiet = field(default_factory=Quiet, compare=False)


QUICK = Sizes(
    name="quick",
    rounds=3,
    slice_seconds=2,
    calls=20_000,
    streams=1_000,
    open_streams=1_000,
    first_token_streams=200,
    deltas=2_000,
    stdio_runs=7,
    chunks=100_000,
    queries=100,
    writes=300,
)
FULL = Sizes(
    name="full",
    rounds=5,
    slice_seconds=5,
    calls=100_000,
    streams=10_000,
    open_streams=1_000,
    first_token_streams=1_000,
    deltas=10_000,
    stdio_runs=15,
    chunks=100_000,
    queries=400,
    writes=1_000,
)
