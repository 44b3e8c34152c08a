"""Platforms for the matrix, and a direct look at what they hold: not through a proxy, not through a gateway."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from contract.platform.app import create_app
from contract.platform.ingest import Page
from contract.platform.store import Store
from gateway.app.embedded import convert_in_child
from gateway.upstream.dialects.daemon import DAEMON
from gateway.upstream.dialects.dialect import Dialect
from gateway.upstream.dialects.platform import PLATFORM
from tests.daemons.fake import FakeDaemon, G, Script, T, Y
from tests.served import listening

URL = "https://example.com/lighthouse"
PAGE = b"# Lighthouse\n\nThe lighthouse keeper writes down every ship."
DAEMONS = {"T": T, "Y": Y, "G": G}

Said = tuple[str, str]


class World(Protocol):
    """A platform under test. Brains are named by their slug."""

    name: str
    url: str
    dialect: Dialect

    def begin(self, brain: str, notes: dict[str, str] | None = None) -> None:
        """A brain with these notes in it."""

    def documents(self, brain: str) -> dict[str, bytes]: ...

    def messages(self, brain: str, session: str) -> Sequence[Said]: ...

    def brains(self) -> list[str]: ...

    def named(self, brain: str, name: str) -> bool:
        """Whether the brain has kept the name it was created with."""


@dataclass
class PlatformWorld:
    """The reference platform."""

    store: Store
    url: str
    name: str = "platform"
    dialect: Dialect = PLATFORM

    def begin(self, brain: str, notes: dict[str, str] | None = None) -> None:
        made = self.store.create_brain(brain, brain)
        for path, text in (notes or {}).items():
            self.store.documents.put(made, path, text.encode())

    def documents(self, brain: str) -> dict[str, bytes]:
        found, documents = self.store.brain(brain), self.store.documents
        entries = documents.entries(found, "", recursive=True, include_generated=True, glob="")
        return {str(entry["path"]): documents.read(found, str(entry["path"])) for entry in entries}

    def messages(self, brain: str, session: str) -> Sequence[Said]:
        records = self.store.sessions.messages(self.store.brain(brain), session, 100)
        return [(str(record["role"]), str(record["content"])) for record in records]

    def brains(self) -> list[str]:
        return [brain.slug for brain in self.store.brains()]

    def named(self, brain: str, name: str) -> bool:
        return self.store.brain(brain).name == name


@dataclass
class DaemonWorld:
    """A daemon: it keeps files, and the gateway keeps sessions and names in them."""

    daemon: FakeDaemon
    url: str
    name: str
    dialect: Dialect = DAEMON

    def begin(self, brain: str, notes: dict[str, str] | None = None) -> None:
        self.daemon.state.brains[brain] = {}
        for path, text in (notes or {}).items():
            self.daemon.state.write(brain, path, text.encode())

    def documents(self, brain: str) -> dict[str, bytes]:
        return {path: content for path, (content, _) in dict(self.daemon.brains[brain]).items()}

    def messages(self, brain: str, session: str) -> Sequence[Said]:
        logs = [body for path, body in self.documents(brain).items() if path.startswith("sessions/")]
        entries = [json.loads(line) for body in logs for line in body.splitlines() if line]
        said = [entry for entry in entries if entry["kind"] == "message" and entry["session_id"] == session]
        # A line says of which call it is, and which of its messages: twice the same line was said once.
        once = {(entry["call"], entry["n"]): entry for entry in said}
        return [(entry["role"], entry["content"]) for entry in once.values()]

    def brains(self) -> list[str]:
        return list(self.daemon.brains)

    def named(self, brain: str, name: str) -> bool:
        return bool(json.loads(self.documents(brain).get("_brain.json", b"{}")).get("name") == name)


async def _fetched(url: str) -> Page:
    return Page(url, "text/markdown", PAGE)


@contextmanager
def world(name: str, folder: Path) -> Iterator[World]:
    """The platform of that name, listening."""
    if name == "platform":
        store = Store.open(folder)
        try:
            with listening(create_app(store, token=None, fetch=_fetched, convert=convert_in_child)) as url:
                yield PlatformWorld(store, url)
        finally:
            store.close()
        return
    daemon = FakeDaemon(DAEMONS[name], llm=Script())
    with listening(daemon.app()) as url:
        yield DaemonWorld(daemon, url, name)
