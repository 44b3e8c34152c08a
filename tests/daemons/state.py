"""The state of a fake daemon: its brains, what is under way, and who listens."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tests.daemons.answers import Refused
from tests.daemons.notes import IS_DIRECTORY, Files, directories, disk_trouble, path_problem
from tests.daemons.script import Script
from tests.daemons.traits import Traits

Page = tuple[str, bytes]


@dataclass
class State:
    """Everything the routes share."""

    traits: Traits
    llm: Script | None = None
    brains: dict[str, Files] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    """What ingest/url finds: URL -> (content type, body); nothing is ever dialled."""
    host_files: dict[str, bytes] = field(default_factory=dict)
    """What ingest/file finds on the daemon's own disk when it is sent a path alone."""
    put_collisions: int = 0
    """So many PUTs to a path that exists are still to fail."""
    cut_frames: int | None = None
    """An ask stream ends after so many frames, as when the daemon dies."""
    writing: Counter[tuple[str, str]] = field(default_factory=Counter)
    listeners: dict[str, list[asyncio.Queue[dict[str, Any]]]] = field(default_factory=dict)
    untold: list[tuple[str, dict[str, Any]]] | None = None
    """What a batch has done so far; it is told once all of it is done."""

    def files(self, brain: str) -> Files:
        if brain not in self.brains:
            raise Refused(404, f"brain not found: {brain}")
        return self.brains[brain]

    def write(self, brain: str, path: str, content: bytes, reason: str | None = None) -> None:
        files = self.files(brain)
        if (trouble := disk_trouble(files, path)) is not None or path in directories(files):
            raise Refused(500, f"{trouble or IS_DIRECTORY}, rename '{path}'")
        kind = "updated" if path in files else "created"
        files[path] = (content, time.time())
        self.announce(brain, kind, path, reason=reason)

    def announce(self, brain: str, kind: str, path: str, *, old: str | None = None, reason: str | None = None) -> None:
        when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        change = {"kind": kind, "path": path, "when": when}
        if old is not None:
            change["old_path"] = old
        if reason is not None and self.traits.batch_atomic:
            change["reason"] = reason
        if self.untold is not None:
            self.untold.append((brain, change))
            return
        for queue in self.listeners.get(brain, []):
            queue.put_nowait(change)

    def batch_done(self, *, tell: bool) -> None:
        done, self.untold = self.untold or [], None
        for brain, change in done if tell else []:
            for queue in self.listeners.get(brain, []):
                queue.put_nowait(change)


Handler = Callable[[State, Request, str], Awaitable[Response]]


def checked(path: Any) -> str:
    """The path, if the store takes it."""
    text = path if isinstance(path, str) else ""
    if (reason := path_problem(text)) is not None:
        raise Refused(400, f"brain: invalid path: {reason}")
    return text
