"""What the ways to let callers in have in common, and two simple ones."""

import hashlib
import hmac
from collections.abc import Callable
from typing import Protocol

from gateway.operations.caller import LOCAL, Principal

Naming = Callable[[str], str]
"""The form in which the log names callers."""


def short_hash(name: str) -> str:
    """As `printf %s NAME | sha256sum | cut -c1-16` has it."""
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]


class Refused(Exception):
    """A token is not accepted. The reason is for the log; callers are told only that it is not valid."""


class ProviderDown(Exception):
    """At the moment it cannot be found out whether a token is valid."""

    def __init__(self, reason: str, retry_after: int = 5) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Inbound(Protocol):
    """One way to find out whose token it is."""

    tells_apart: bool
    """Whether callers are different people, or all count as the owner of the token."""
    wants: str
    """The message for refused callers, which says what they need."""

    async def principal(self, token: str) -> Principal:
        """Whose token it is.

        Raises:
            Refused: the token is not accepted.
            ProviderDown: it cannot be found out now.
        """
        ...

    async def problem(self) -> str | None:
        """Why no token can be checked at the moment, in a few words; None if all is well."""
        ...


class OneToken:
    """Lets in every caller with the one configured bearer token."""

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
    """Lets in everybody, because their tokens are passed on to a platform that checks them itself."""

    tells_apart = True
    wants = "Send a token of the platform's: Authorization: Bearer <token>."

    async def principal(self, token: str) -> Principal:
        hashed = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        return Principal(issuer="brains-gateway:any", subject=hashed, token=token, known_as=short_hash(token))

    async def problem(self) -> str | None:
        return None
