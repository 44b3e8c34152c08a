"""The gateway with bugs in it: `python -m tests.canaries.crashing serve` fails where a caller asks for it.

Each bug puts all that it can get hold of into the words of its exception.
"""

import os
import sys
from contextlib import nullcontext
from typing import Any

CRASH = "crash-here"
HEADER = "x-crash"


def main() -> None:
    os.environ |= {"FASTMCP_LOG_ENABLED": "false", "FASTMCP_CHECK_FOR_UPDATES": "off"}
    from gateway.cli import main
    from tests.web import web_on

    _break_the_brain()
    _break_the_endpoint()
    with web_on(pages) if (pages := os.environ.get("TEST_PAGES")) else nullcontext():
        main.main(sys.argv[1:])


def _break_the_brain() -> None:
    """Any read with the word in its query, and any write with it in its content or title."""
    from gateway.brain.brain import Brain

    for name in ("serve", "search", "recall", "remember", "store_transcript", "append_messages"):
        _break(Brain, name)


def _break(owner: type, name: str) -> None:
    whole = getattr(owner, name)

    async def broken(self: Any, call: Any, *arguments: Any) -> Any:
        if CRASH in str(arguments):
            raise RuntimeError(f"{arguments} of {call.caller.principal} with {call.caller.principal.token}")
        return await whole(self, call, *arguments)

    setattr(owner, name, broken)


def _break_the_endpoint() -> None:
    from gateway.http.endpoint import Mounts

    whole = Mounts.__call__

    async def broken(self: Any, scope: Any, receive: Any, send: Any) -> None:
        if any(name == HEADER.encode() for name, _ in scope.get("headers", ())):
            raise RuntimeError(f"{scope}")
        await whole(self, scope, receive, send)

    Mounts.__call__ = broken  # type: ignore[method-assign]  # that is the bug


if __name__ == "__main__":
    main()
