"""How far a call travels through our own code, from a tool's method to the transport.

`Journey` records one call: every function of the gateway that is entered, and how deep the stack is where a request
leaves. Run as a program it is a gateway that records each call it serves; `tests.house` starts it so.
"""

import asyncio
import atexit
import json
import sys
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

_TRANSPORT = "connections.py"
_OF_THE_CALL: ContextVar[FrameType | None] = ContextVar("_OF_THE_CALL", default=None)


@dataclass
class Journey:
    """The last call of a tool, from the entry of its surface's method on."""

    root: str
    tool: str
    start: FrameType | None = None
    frames: list[FrameType] = field(default_factory=list)
    """Every entry of a function of ours. Kept, so that a coroutine that goes on is not counted again."""
    seen: set[int] = field(default_factory=set)
    requests: list[list[str]] = field(default_factory=list)
    """For each request the functions of ours on its way, the tool's method first."""
    _task: Any = None
    _last: list[str] = field(default_factory=list)
    _before: dict[Any, list[str]] = field(default_factory=dict)

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """What `sys.setprofile` calls."""
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(self.root):
            return
        is_method = frame.f_code.co_qualname.split(".")[1:] == [self.tool]
        if "/surfaces/" in name and is_method and id(frame) not in self.seen:
            self._begin(frame)
        if _OF_THE_CALL.get() is not self.start or self.start is None:
            return
        is_new = id(frame) not in self.seen
        if is_new:
            self.seen.add(id(frame))
            self.frames.append(frame)
        task = _task()
        if task is not self._task and task not in self._before:
            # Another task that the call began: what waits for it is on the way too.
            self._before[task] = self._last
        self._last = way = [*self._before.get(task, []), *self._stack(frame)]
        if is_new and name.endswith(_TRANSPORT) and frame.f_code.co_name == "handle_async_request":
            self.requests.append(way)

    def _begin(self, frame: FrameType) -> None:
        """The tool was called, perhaps again: what was before is forgotten."""
        self.start, self._task = frame, _task()
        # Tasks that the call begins have it too; those that go on beside it have not.
        _OF_THE_CALL.set(frame)
        self.frames, self.seen, self.requests, self._before = [], set(), [], {}

    def _stack(self, frame: FrameType) -> list[str]:
        way, at = list[str](), frame
        while True:
            if at.f_code.co_filename.startswith(self.root):
                way.append(f"{Path(at.f_code.co_filename).stem}:{at.f_code.co_qualname}")
            if at is self.start or at.f_back is None or at.f_code.co_filename.endswith("asyncio/runners.py"):
                return way[::-1]
            at = at.f_back

    def summary(self) -> dict[str, Any]:
        deepest = max(self.requests, key=len, default=[])
        modules = {frame.f_code.co_filename for frame in self.frames}
        return {
            "tool": self.tool,
            "frames": len(deepest),
            "calls": len(self.frames),
            "modules": len(modules),
            "way": deepest,
            "entered": [f"{Path(f.f_code.co_filename).stem}:{f.f_code.co_qualname}" for f in self.frames],
        }


def _task() -> Any:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _record_and_serve(root: str, tool: str, page: str, arguments: list[str]) -> None:
    """A gateway that tells of the last call of a tool when it ends."""
    journey = Journey(root, tool)

    def write() -> None:
        sys.setprofile(None)
        Path(page).write_text(json.dumps(journey.summary()), encoding="utf-8")

    atexit.register(write)
    # Where the command is, in this tree and in older ones.
    module = "gateway.cli.main" if Path(root, "cli").is_dir() else "gateway.cli"
    command = import_module(module)
    sys.setprofile(journey)
    command.main(arguments)


if __name__ == "__main__":
    _record_and_serve(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
