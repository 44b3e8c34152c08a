"""The ways to let callers in: what they have in common, and the one-token way."""

import hashlib
import hmac
from collections.abc import Callable
from typing import Protocol

from gateway.operations.caller import LOCAL, Principal

Naming = Callable[[str], str]
"""What the operator wants somebody to be called in the log."""


def short_hash(name: str) -> str:
    """As `printf %s NAME | sha256sum | cut -c1-16` has it."""
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]


class Refused(Exception):
    """A token that does not let anybody in. The reason is for the log; callers hear only that it is not valid."""


class ProviderDown(Exception):
    """Nobody can tell at the moment whether a token is valid."""

    def __init__(self, reason: str, retry_after: int = 5) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Inbound(Protocol):
    """One way to tell who brings a token."""

    tells_apart: bool
    """Whether callers are different people, or all the one who has the token."""
    wants: str
    """What a caller has to do, said to those who are not let in."""

    async def principal(self, token: str) -> Principal:
        """Who it is.

        Raises:
            Refused: nobody.
            ProviderDown: it cannot be told now.
        """
        ...

    async def problem(self) -> str | None:
        """Why nobody could be let in at the moment, in a few words; None when all is well."""
        ...


class OneToken:
    """Lets in whoever brings the one configured bearer token."""

    tells_apart = False
    wants = "Send the gateway's token: Authorization: Bearer <BRAINS_TOKEN>."

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def principal(self, token: str) -> Principal:
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token):
            raise Refused("not the token")
        return LOCAL

    async def problem(self) -> str | None:
        return None


class AnyToken:
    """Lets in everybody, for a platform that judges tokens itself: they are passed on to it."""

    tells_apart = True
    wants = "Send a token of the platform's: Authorization: Bearer <token>."

    async def principal(self, token: str) -> Principal:
        hashed = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        return Principal(issuer="brains-gateway:any", subject=hashed, token=token, known_as=short_hash(token))

    async def problem(self) -> str | None:
        return None
