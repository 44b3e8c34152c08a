"""Makes of this system one that lacks what only some systems have. Python imports it at start if it is on its path."""

import asyncio
import os
import select
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

LACKING = {"fcntl", "uvloop", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "curses", "readline"}
# Libraries ask what the system is called, and then count on getuid and the like: those stay.
NAMES = ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_DIRECTORY", "killpg", "fork", "chown")


# Modules of libraries that ask what the system is called before they import such a thing.
ASKING = {"mcp.server.stdio"}


class _Lacking:
    """A finder of modules that does not find what is lacking."""

    def __init__(self, finder: Any) -> None:
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in LACKING and _importer() not in ASKING:
            return None
        found: ModuleSpec | None = self._finder.find_spec(name, path, target)
        return found


def _importer() -> str:
    """The module that imports: the first above the machinery that does it."""
    frame = sys._getframe(2)
    while frame.f_back is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def _refuse(*_arguments: object) -> bool:
    raise NotImplementedError


def _forget(module: ModuleType, names: Sequence[str]) -> None:
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


for lacking in LACKING:
    sys.modules.pop(lacking, None)
sys.meta_path[:] = [_Lacking(finder) for finder in sys.meta_path]
_forget(os, NAMES)
_forget(select, ("poll", "epoll"))
for loop in (asyncio.AbstractEventLoop, asyncio.SelectorEventLoop):
    setattr(loop, "add_signal_handler", _refuse)  # noqa: B010  # mypy would not let it be set
    setattr(loop, "remove_signal_handler", _refuse)  # noqa: B010
