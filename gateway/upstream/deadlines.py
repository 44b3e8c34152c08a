"""How long an operation may take."""

from dataclasses import dataclass

from gateway.operations.table import Op


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds an operation may take, all attempts together, by kind."""

    connect: float = 5.0
    probe: float = 5.0
    read: float = 30.0
    ingest: float = 300.0
    stage: float = 300.0
    first_event: float = 120.0
    idle: float = 120.0
    ask: float = 600.0

    def of(self, op: Op) -> float:
        return float(getattr(self, op.policy.deadline))
