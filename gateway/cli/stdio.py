"""`brains-gateway stdio`: MCP over standard input and output."""

import asyncio
import os
import signal
from collections.abc import Mapping
from typing import Final

from gateway.app.startup import fast_import
from gateway.cli.early_answers import early_answers
from gateway.cli.early_stdin import read_early
from gateway.cli.prepare import check_place, local_roots, prepare
from gateway.config.settings import Settings
from gateway.config.unsafe_settings import check_local

_DRAIN_SECONDS: Final = 10


def stdio(settings: Settings, fastmcp_settings: Mapping[str, str]) -> None:
    """MCP over standard input and output, for the client that started us.

    It is answered while most of the gateway is still being imported, but only after all checks that could keep it from
    serving: a client that was answered is served.
    """
    check_local(settings)
    check_place(settings)
    roots = local_roots(settings)
    answers = early_answers(settings, fastmcp_settings)
    # A client that was answered expects exit code 0. So far there is no work that must be finished first.
    before = signal.signal(signal.SIGTERM, lambda _signal, _frame: os._exit(0))
    early = read_early(answers)
    if early is None:
        signal.signal(signal.SIGTERM, before)
    with fast_import():
        from gateway.app.gateway import Gateway
        from gateway.app.observing import observing_of
        from gateway.app.stopping import stop_signals, wait_until_answered
    prepare(settings)
    gateway = Gateway(settings, roots=roots, observing=observing_of())
    surface = gateway.surface(settings.first_surface)
    server = gateway.server(surface, is_answered=answers.is_replayed if answers else None)

    async def run() -> None:
        told_to_stop = stop_signals()
        async with gateway.running():
            serving = asyncio.create_task(server.run_stdio_async(show_banner=False))
            stopping = asyncio.create_task(told_to_stop.wait())
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                stopping.cancel()
                return await serving
            await wait_until_answered(surface, _DRAIN_SECONDS)
        # A thread waits for the next line of standard input, and would wait for ever.
        os._exit(0)

    if early is not None:
        early.hand_over()
    asyncio.run(run())
