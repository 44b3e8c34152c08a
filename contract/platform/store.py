"""The whole platform without HTTP, on one SQLite file; every method may be called from any thread."""

import sqlite3
from pathlib import Path

from contract.platform import brains, changes, documents, names
from contract.platform.brains import ANYBODY, Brain, Caller
from contract.platform.changes import Changes
from contract.platform.database import Database, StoreUnavailable
from contract.platform.ingest import Intake
from contract.platform.library import Library
from contract.platform.search import EVERYWHERE, Folders, Found, Sort, search
from contract.platform.sessions import Sessions
from contract.platform.stages import Stages

__all__ = ["Store", "StoreUnavailable"]


class Store:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.changes = Changes(database)
        self.documents = Library(database)
        self.sessions = Sessions(database)
        self.intake = Intake(database)
        self.stages = Stages(database)

    @classmethod
    def open(cls, data_dir: Path) -> "Store":
        """Open the brains kept in a directory, or begin there with one brain called Main.

        Raises: StoreUnavailable.
        """
        return cls(Database.open(data_dir, _complete))

    def close(self) -> None:
        self._database.close()

    def brains(self, caller: Caller = ANYBODY) -> list[Brain]:
        with self._database.reading() as connection:
            return brains.every(connection, caller)

    def brain(self, reference: str, caller: Caller = ANYBODY) -> Brain:
        with self._database.reading() as connection:
            return brains.find(connection, reference, caller)

    def create_brain(
        self, name: str, slug: str | None = None, visibility: str = "private", caller: Caller = ANYBODY
    ) -> Brain:
        with self._database.writing() as connection:
            return brains.create(connection, name, slug or names.brain_slug(name), visibility, caller)

    def delete_brain(self, brain: Brain) -> None:
        with self._database.writing() as connection:
            # The row goes with the brain; that the log has moved on makes its listeners look, and leave.
            changes.note(connection, brain.n, "deleted", "")
            brains.delete(connection, brain)

    def search(
        self, brain: Brain, text: str, top_k: int, *, sort: Sort = "relevance", folders: Folders = EVERYWHERE
    ) -> Found:
        with self._database.reading() as connection:
            return search(connection, brain, text, top_k, sort=sort, folders=folders)


def _complete(connection: sqlite3.Connection, version: int) -> None:
    if version == 0:
        brains.create(connection, "Main", "main", "private")
    elif version < 3:
        documents.read_endings(connection)
