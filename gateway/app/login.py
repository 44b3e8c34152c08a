"""Our own login, put together from the settings."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.app.gateway import naming_of
from gateway.app.startup import CannotStart
from gateway.brain.limits import SharedLimits
from gateway.config.reread_file import made_key, state_keys
from gateway.config.settings import Settings
from gateway.http.auth.jwt import Expected, JwtInbound
from gateway.http.auth.login.authorize import Authorize
from gateway.http.auth.login.clients import Clients
from gateway.http.auth.login.grants import Grants
from gateway.http.auth.login.inbound import ISSUER, LoginInbound
from gateway.http.auth.login.keyring import Keyring
from gateway.http.auth.login.logins import Logins, Revocations
from gateway.http.auth.login.logins_file import LoginsFile
from gateway.http.auth.login.proofs import Fetch
from gateway.http.auth.login.server import LoginServer
from gateway.http.auth.login.throttle import Places, Throttle
from gateway.http.auth.login.users import Users
from gateway.ingest.fetch import Fetcher
from gateway.operations.errors import GatewayError

_FILE: Final = "logins.sqlite3"
# Anybody can make us fetch documents of clients, so these fetches do not use the places of callers who ingest pages.
_FETCHES: Final = 8
_FETCHES_OF_ONE: Final = 2
_FETCH_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Login:
    """The login's server, its check of callers, and the memory that both share."""

    server: LoginServer
    inbound: LoginInbound
    logins: Logins

    async def close(self) -> None:
        await self.logins.close()


def login_of(
    settings: Settings,
    fetch: Fetcher | None,
    buckets: SharedLimits | None,
    clock: Callable[[], float] = time.time,
    ticks: Callable[[], float] = time.monotonic,
) -> Login:
    """The clock is the time of day, which is the same for all replicas; ticks measure durations in each of them.

    Raises: CannotStart.
    """
    issuer = str(settings.public_url)
    try:
        if settings.login_keys_file is None:
            made_key(settings.login_keys_path)
        keyring = Keyring(settings.login_keys_path, issuer, clock)
        throttle = Throttle(state_keys(settings.login_keys_path.read_bytes())[-1], buckets, ticks)
        users = Users(settings.users_path, throttle)
    except (OSError, ValueError):
        raise CannotStart("The files of users and login keys cannot be read: brains-gateway user list.") from None
    logins = _logins(settings, clock)
    revocations = Revocations(logins, ticks)
    expected = Expected(issuer, settings.audience, brain_claim="brain", issuer_name=ISSUER)
    tokens = JwtInbound(expected, keyring, naming=naming_of(settings), clock=clock)
    clients = Clients(keyring, _document_fetch(fetch), ticks)
    audience = settings.audience
    grants = Grants(keyring, users, logins, revocations, clients, issuer=issuer, audience=audience, clock=clock)
    scope = f"brains:{settings.login_scope}"
    places = Places(_FETCHES, _FETCHES_OF_ONE)
    authorize = Authorize(issuer, clients, users, grants, keyring, throttle, places, scope)
    server = LoginServer(issuer, clients, grants, authorize, throttle, tokens)
    return Login(server, LoginInbound(tokens, keyring, users, revocations), logins)


def _logins(settings: Settings, clock: Callable[[], float]) -> Logins:
    if settings.redis_url is None:
        return LoginsFile(settings.data_dir / _FILE, clock=clock)
    # Imported when used: few have it.
    from gateway.app.redis_logins import RedisLogins

    return RedisLogins(settings.redis_url.get_secret_value(), clock)


def _document_fetch(fetch: Fetcher | None) -> Fetch | None:
    """The fetcher for documents of clients: from the public web alone, because nobody has logged in yet."""
    if fetch is None:
        return None
    fetch_public = fetch.public_only()

    async def get(url: str) -> tuple[str, bytes]:
        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                page = await fetch_public(url)
        except TimeoutError:
            raise GatewayError("fetch_failed") from None
        return page.url, page.body

    return get
