"""The memory of logins in a file that all processes of one machine share."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from gateway.http.auth.login.logins import LoginsDown

T = TypeVar("T")
_MOST: Final = 100_000
_BUSY_SECONDS: Final = 2.0
_TABLE: Final = """
create table if not exists logins (
    login text primary key, step integer not null, expires real not null, revoked real
) without rowid
"""


class LoginsFile:
    """One SQLite file. It is opened for each question, because somebody may have replaced it."""

    def __init__(self, path: Path, *, most: int = _MOST, clock: Callable[[], float] = time.time) -> None:
        self._path, self._most, self._clock = path, most, clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="logins")

    async def take_step(self, login: str, step: int, seconds: float) -> bool:
        def taken(file: sqlite3.Connection) -> bool:
            now = self._clock()
            found = file.execute("select step, revoked from logins where login = ?", (login,)).fetchone()
            if found is None and step == 0:
                self._make_room(file, now)
                file.execute("insert into logins values (?, 0, ?, null)", (login, now + seconds))
                return True
            if found == (step - 1, None):
                file.execute("update logins set step = ?, expires = ? where login = ?", (step, now + seconds, login))
                return True
            # If a login is no longer in the file, it cannot be known whether it was revoked.
            file.execute("update logins set revoked = coalesce(revoked, ?) where login = ?", (now, login))
            return False

        return await self._in_thread(taken)

    async def revoke(self, login: str, seconds: float) -> None:
        def revoke(file: sqlite3.Connection) -> None:
            now = self._clock()
            file.execute(
                "insert into logins values (?, 0, ?, ?) on conflict (login) do update "
                "set revoked = coalesce(revoked, excluded.revoked)",
                (login, now + seconds, now),
            )

        await self._in_thread(revoke)

    async def revoked(self, seconds: float) -> frozenset[str]:
        def listed(file: sqlite3.Connection) -> frozenset[str]:
            since = self._clock() - seconds
            return frozenset(login for (login,) in file.execute("select login from logins where revoked > ?", (since,)))

        return await self._in_thread(listed)

    async def close(self) -> None:
        self._thread.shutdown(wait=False)

    def _make_room(self, file: sqlite3.Connection, now: float) -> None:
        """Delete logins that have ended; then, if there are too many, those that end first and are not revoked."""
        file.execute("delete from logins where expires <= ?", (now,))
        (there,) = file.execute("select count(*) from logins").fetchone()
        if there >= self._most:
            file.execute(
                "delete from logins where login in "
                "(select login from logins order by revoked is not null, expires limit ?)",
                (there - self._most + 1,),
            )

    async def _in_thread(self, do: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, do)
        except (sqlite3.Error, OSError) as error:
            raise LoginsDown(type(error).__name__) from error

    def _do(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """In one transaction, in a file that is readable by us alone."""
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)) as file:
            file.execute("begin immediate")
            file.execute(_TABLE)
            done = do(file)
            file.execute("commit")
            return done
