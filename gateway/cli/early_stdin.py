"""Standard input while the server is being imported: a thread reads it, and answers what can be answered at once.

Everything that it reads goes on to the server through a pipe, so the server reads the whole conversation and is in
the same state as if it had answered itself. Its second answers are dropped (`gateway/mcp/sdk.py`).
"""

import os
import sys
import threading
from typing import Final

from gateway.cli.early_answers import EarlyAnswers

_CHUNK: Final = 65_536
# No usual request is longer.
_LONGEST: Final = 65_536


class EarlyStdin:
    """Takes the place of standard input for the rest of the process. `hand_over` before the server writes."""

    def __init__(self, answers: EarlyAnswers) -> None:
        """Begins to read.

        Raises:
            OSError: there is no standard input.
        """
        self._answers = answers
        self._answering = threading.Lock()
        self._source = os.dup(0)
        read_end, self._server = os.pipe()
        os.dup2(read_end, 0)
        os.close(read_end)
        # At the end nothing waits for this thread, because it may be waiting for a line that never comes.
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def hand_over(self) -> None:
        """From here on the server answers, and nothing else writes to standard output."""
        with self._answering:
            self._answers.is_over = True

    def _read(self) -> None:
        try:
            rest = b""
            while chunk := os.read(self._source, _CHUNK):
                rest = self._pass_on(rest + chunk)
            _write(self._server, rest)
        except OSError:
            # The client or the server is gone.
            pass
        finally:
            # For the server this is the end of its input.
            os.close(self._server)

    def _pass_on(self, read: bytes) -> bytes:
        """Pass on the lines that were read, and answer them if possible. Returns the rest, an incomplete line."""
        while not self._answers.is_over and (end := read.find(b"\n") + 1):
            line, read = read[:end], read[end:]
            with self._answering:
                taken = self._answers.take(line)
                if taken is not None:
                    _write(1, taken.answer)
            _write(self._server, line if taken is None else taken.replay)
        if len(read) > _LONGEST:
            self.hand_over()
        if not self._answers.is_over:
            return read
        _write(self._server, read)
        return b""


def read_early(answers: EarlyAnswers | None) -> EarlyStdin | None:
    """Begin to read, if there are recorded answers, and pipes work as expected on this system."""
    try:
        if answers is None or sys.platform == "win32" or not (os.get_blocking(0) and os.get_blocking(1)):
            return None
        return EarlyStdin(answers)
    except OSError:
        return None


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
