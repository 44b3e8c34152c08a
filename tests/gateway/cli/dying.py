"""Runs a command, and kills it as `kill -9` does when the embedded brain reaches a point in writing its n-th document.

`python -m tests.gateway.cli.dying NTH POINT COMMAND …`
"""

import os
import signal
import sqlite3
import sys

from contract.platform.database import Database
from gateway.cli.main import main

# The statement before which it dies: in the middle of the transaction, at its commit, or when the next one begins.
POINTS = {"amid": "INSERT OR REPLACE INTO bodies", "uncommitted": "COMMIT", "committed": "BEGIN IMMEDIATE"}


class Death:
    """Sees every statement before it is run."""

    def __init__(self, nth: int, point: str) -> None:
        self._left, self._last_words = nth, POINTS[point]

    def see(self, statement: str) -> None:
        self._left -= statement.startswith(POINTS["amid"])
        if self._left <= 0 and statement.startswith(self._last_words):
            os.kill(os.getpid(), signal.SIGKILL)


def run(nth: str, point: str, *command: str) -> None:
    connect, death = Database._connect, Death(int(nth), point)

    def connect_watched(database: Database, patience: float | None = None) -> sqlite3.Connection:
        connection = connect(database, patience)
        connection.set_trace_callback(death.see)
        return connection

    Database._connect = connect_watched  # type: ignore[method-assign, assignment]
    main(command)


if __name__ == "__main__":
    run(*sys.argv[1:])
