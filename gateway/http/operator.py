"""Who is the operator, and so is told more than others."""

import hmac
import re
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

_LOOPBACK: Final = re.compile(rb"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Operator:
    """Who is told the details: a caller with this token, or every program of this machine."""

    token: str | None = None
    is_anybody_here: bool = False

    def is_asking(self, scope: Scope) -> bool:
        if self.is_anybody_here and _is_from_here(scope):
            return True
        wanted = b"" if self.token is None else b"Bearer " + self.token.encode()
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return bool(wanted) and len(given) == 1 and hmac.compare_digest(given[0], wanted)


def _is_from_here(scope: Scope) -> bool:
    """Whether the request cannot be from a web page, whose own name for this machine would be in the Host header."""
    names = [header for header in scope["headers"] if header[0] in {b"host", b"origin"}]
    return len(names) == 1 and names[0][0] == b"host" and _LOOPBACK.fullmatch(names[0][1]) is not None
