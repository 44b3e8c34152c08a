"""The types and times that cross the wire."""

from datetime import UTC, datetime
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool | None
JsonObject: TypeAlias = dict[str, object]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
