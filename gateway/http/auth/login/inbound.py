"""Access tokens of our own login. They pass the checks for any provider; and the user must exist, the login not end."""

from gateway.config.user_file import User
from gateway.http.auth.inbound import Refused
from gateway.http.auth.jwt import JwtInbound
from gateway.http.auth.login.keyring import Keyring
from gateway.http.auth.login.logins import Revocations
from gateway.http.auth.login.users import Users
from gateway.http.auth.signed import claims_of
from gateway.operations import scopes
from gateway.operations.caller import Principal

ISSUER = "brains-gateway:users"
"""The issuer's name for private notes, which does not depend on the address of the gateway."""


class LoginInbound:
    """Lets in callers with an access token that was issued here."""

    tells_apart = True

    def __init__(self, tokens: JwtInbound, keyring: Keyring, users: Users, revocations: Revocations) -> None:
        self._tokens, self._keyring, self._users, self._revocations = tokens, keyring, users, revocations
        self.wants = tokens.wants

    async def principal(self, token: str) -> Principal:
        principal = await self._tokens.principal(token)
        said = claims_of(token)
        if self._users.named(str(said.get("user")), str(said.get("version"))) is None:
            raise Refused("the user is gone or has changed")
        await self._revocations.check(str(said.get("login")))
        return principal

    async def problem(self) -> str | None:
        if not self._users.is_current:
            return "the file of users cannot be read"
        if not self._keyring.is_current:
            return "the file of login keys cannot be read"
        return await self._revocations.problem()


def principal_of_user(user: User) -> Principal:
    """The principal of a user who acts without a program."""
    return Principal(
        issuer=ISSUER,
        subject=user.subject,
        org=user.org,
        projects=user.projects,
        scopes=scopes.grant([user.scope]),
        brain=user.brain,
    )
