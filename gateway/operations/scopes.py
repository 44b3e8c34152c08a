"""What a caller may do: three scopes, each with all of the one before."""

from collections.abc import Iterable
from typing import Final

READ: Final = "brains:read"
WRITE: Final = "brains:write"
ADMIN: Final = "brains:admin"
ORDER: Final = (READ, WRITE, ADMIN)
ALL: Final = frozenset(ORDER)


def grant(scopes: Iterable[str]) -> frozenset[str]:
    """Those scopes of a token that are ours, and the scopes that they include."""
    highest = max((ORDER.index(scope) for scope in scopes if scope in ALL), default=-1)
    return frozenset(ORDER[: highest + 1])


def including(scope: str) -> list[str]:
    """A scope and all it includes, least first."""
    return list(ORDER[: ORDER.index(scope) + 1])
