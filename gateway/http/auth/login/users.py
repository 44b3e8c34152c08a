"""Who logs in: users of the file, by their passwords."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import BoundedSemaphore
from typing import Final, NamedTuple

from gateway.config.passwords import DECOY, MOST, is_password
from gateway.config.reread_file import RereadFile
from gateway.config.user_file import User, parse
from gateway.http.auth.login.throttle import BY_ADDRESS, BY_USER, BY_USER_AND_ADDRESS, Throttle, TooMany

# Each takes a core and 32 MiB for half a second.
_AT_ONCE: Final = 2
_WAITING: Final = 16
_BUSY_SECONDS: Final = 5.0


class Known(NamedTuple):
    """A user, and a version by which a change of the user can be seen."""

    user: User
    version: str


class Users:
    """The users of a file, which is read again when it changes."""

    def __init__(self, path: Path, throttle: Throttle, check: Callable[[str, str], bool] = is_password) -> None:
        """Raises: OSError, ValueError."""
        # Without the file there are no users.
        self._file: RereadFile[Mapping[str, Known]] = RereadFile(
            path,
            lambda body: {user.name: Known(user, user.version()) for user in parse(body) if user.is_understood},
            without={},
        )
        self._throttle, self._check = throttle, check
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="passwords")
        self._places = BoundedSemaphore(_WAITING)

    @property
    def is_current(self) -> bool:
        self._file.value()
        return self._file.is_current

    def named(self, name: str, version: str | None = None) -> User | None:
        """The user of that name, if nothing about them has changed since that version."""
        known = self._file.value().get(name)
        return known.user if known is not None and version in (None, known.version) else None

    def version_of(self, name: str) -> str:
        return self._file.value()[name].version

    async def log_in(self, name: str, password: str, address: str) -> User | None:
        """The user, if that is their password. It takes the same time for a user who does not exist.

        Raises:
            TooMany: there were too many tries; the password is not checked.
        """
        name = name.strip().lower()
        tries = ((BY_ADDRESS, address), (BY_USER_AND_ADDRESS, f"{address} {name}"), (BY_USER, name))
        for rate, who in tries:
            if wait := await self._throttle.take(rate, who):
                raise TooMany(wait)
        found = self.named(name)
        if not await self._is_theirs(password, DECOY if found is None else found.password) or found is None:
            return None
        for rate, who in tries:
            await self._throttle.take(rate, who, -1)
        return found

    async def _is_theirs(self, password: str, hashed: str) -> bool:
        """In a thread, because it takes long, and other calls must be answered meanwhile. Raises: TooMany."""
        if not self._places.acquire(blocking=False):
            raise TooMany(_BUSY_SECONDS)
        looking = self._threads.submit(self._check, password[:MOST], hashed)
        # Ends with its thread, not with the caller, who may leave before.
        looking.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(looking)
