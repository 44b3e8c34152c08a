"""Reads documents of others in a process of its own: a small file can keep a parser busy for hours."""

import asyncio
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final, Literal

from gateway.ingest.cross_loop_semaphore import CrossLoopSemaphore

Kind = Literal["html", "pdf", "json"]
# Why there is no text: the bytes are not readable, too costly to read, or too many others are being read.
Reason = Literal["broken", "encrypted", "limits", "busy"]

SECONDS: Final = 30.0
_PROGRAM: Final = Path(__file__).with_name("extract_text_child.py")
# Each may use a whole core, and a gigabyte.
_READERS = CrossLoopSemaphore(2)
_MIB: Final = 1024 * 1024
# What Python needs to start and to find its packages. The rest may hold secrets, and a parser has no use for it.
_ENVIRONMENT: Final = ("HOME", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH", "SYSTEMROOT", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a child. They grow with the size of the file, so that a small one cannot cost much."""

    cpu_seconds: int
    text: int
    memory: int = 1024 * _MIB
    pages: int = 2000

    @classmethod
    def of(cls, kind: Kind, size: int) -> "Limits":
        text = min(_MIB + 8 * size, 8 * _MIB)
        # JSON can always be kept as it is, with a fence around it.
        return cls(min(10 + 10 * size // _MIB, 30), max(text, size + 1000) if kind == "json" else text)


@dataclass(frozen=True, slots=True)
class Reading:
    text: str
    title: str | None = None
    truncated: bool = False


class Unreadable(Exception):
    """The document has no text that can be read."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


async def read_in_child(
    kind: Kind, body: bytes, *, charset: str = "utf-8", seconds: float = SECONDS, limits: Limits | None = None
) -> Reading:
    """The text of a document. The child ends when its limits are reached, and when this is cancelled.

    Raises: Unreadable.
    """
    wanted = {"kind": kind, "charset": charset, **asdict(limits or Limits.of(kind, len(body)))}
    waited = True
    try:
        async with asyncio.timeout(seconds), _READERS.one() as waited:
            output = await _run_child(json.dumps(wanted), body)
    except TimeoutError as error:
        # If a document had to wait, we do not know whether it is the cause.
        raise Unreadable("busy" if waited else "limits") from error
    except OSError as error:
        raise Unreadable("busy") from error
    about, _, text = output.partition(b"\n")
    told = json.loads(about or b'{"refused": "limits"}')
    if "refused" in told:
        raise Unreadable(told["refused"])
    return Reading(text.decode(), told.get("title"), told.get("truncated", False))


async def _run_child(wanted: str, body: bytes) -> bytes:
    """The output of the child; nothing if it was ended before it wrote any."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(_PROGRAM), wanted), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
    )
    try:
        output, _ = await child.communicate(body)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return output if child.returncode == 0 else b""
