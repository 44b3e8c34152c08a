"""The whole platform without HTTP, on one SQLite file; every method may be called from any thread."""

import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from contract.platform import brains, changes, documents, names
from contract.platform.brains import ANYBODY, Brain, Caller
from contract.platform.changes import Changes
from contract.platform.database import FILE_NAME, Database, StoreUnavailable
from contract.platform.ingest import Intake
from contract.platform.integrity import check_database, kind_of, was_left_open
from contract.platform.integrity import trouble as trouble_of
from contract.platform.library import Library
from contract.platform.llm.backlog import Backlog
from contract.platform.llm.tidying import Tidying
from contract.platform.meaning.embedder import Embedder
from contract.platform.meaning.remote import RemoteEmbedder
from contract.platform.meaning.service import Meaning
from contract.platform.quota import Quota
from contract.platform.search import EVERYWHERE, Folders, Found, Sort, search
from contract.platform.sessions import Sessions
from contract.platform.stages import Stages
from contract.platform.wire import JsonObject

__all__ = ["Store", "StoreUnavailable"]

OFF: Final[JsonObject] = {"name": None, "source": "none", "dimensions": 0, "state": "off", "embedded": 0, "chunks": 0}


class Store:
    def __init__(self, database: Database, *embedders: Embedder) -> None:
        self._database = database
        self._meaning = Meaning(database, embedders) if embedders else None
        self.changes = Changes(database)
        self.documents = Library(database)
        self.sessions = Sessions(database, self._meaning)
        self.intake = Intake(database)
        self.stages = Stages(database)
        self.backlog = Backlog(database)
        self.tidying = Tidying(database)

    @classmethod
    def open(
        cls,
        data_dir: Path,
        embedder: Embedder | None = None,
        quota: Quota | None = None,
        *,
        sentences: Embedder | None = None,
    ) -> "Store":
        """Open the brains kept in a directory, or begin there with one brain called Main.

        Without an embedder, everything is found by words alone, and nothing gets a vector. `sentences` is a better one
        that is too slow for a write: it makes its vectors later, and until then those of the other one serve. A quota
        is that of each brain.
        Raises: StoreUnavailable.
        """
        # What was not closed may be damaged, and a damaged file looks sound until a bad page of it is read.
        trouble = check_database(data_dir, thorough=was_left_open(data_dir), patience=0)
        if trouble is not None and not trouble.may_pass:
            raise StoreUnavailable(str(trouble))
        # No write waits for a service: its vectors are filled in later.
        at_once = None if isinstance(embedder, RemoteEmbedder) else embedder
        try:
            embedders = [one for one in (sentences, embedder) if one is not None]
            store = cls(Database.open(data_dir, _complete, at_once, quota), *embedders)
            if store._meaning is not None:
                with ExitStack() as failed:
                    failed.callback(store.close)
                    store._meaning.start()
                    failed.pop_all()
        except sqlite3.Error as error:
            raise StoreUnavailable(
                f"{trouble_of(kind_of(error), data_dir / FILE_NAME)} SQLite says: {error}."
            ) from None
        return store

    def close(self) -> None:
        if self._meaning is not None:
            self._meaning.close()
        self._database.close()

    def problem(self) -> str | None:
        """What is wrong with the file, in a few words."""
        return self._database.health.problem()

    def embedding(self) -> JsonObject:
        """Which model embeds, how far it is, and whether it works."""
        return OFF if self._meaning is None else self._meaning.status()

    def brains(self, caller: Caller = ANYBODY) -> list[Brain]:
        with self._database.reading() as connection:
            return brains.every(connection, caller)

    def brain(self, reference: str, caller: Caller = ANYBODY) -> Brain:
        with self._database.reading() as connection:
            return brains.find(connection, reference, caller)

    def glance_at_brain(self, reference: str, caller: Caller = ANYBODY) -> Brain | None:
        """The same brain, found in some microseconds or not at all. For code that must not wait: then it is None."""
        try:
            return self._database.glance(lambda connection: brains.seen_as(connection, reference, caller))
        except sqlite3.Error:
            return None

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
        sought = self._meaning.seek(text) if self._meaning is not None else None
        with self._database.reading() as connection:
            return search(connection, brain, text, top_k, sort=sort, folders=folders, sought=sought)


def _complete(connection: sqlite3.Connection, version: int) -> None:
    if version == 0:
        brains.create(connection, "Main", "main", "private")
    elif version < 3:
        documents.read_endings(connection)
