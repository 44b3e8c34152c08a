"""`brains-gateway stdio`: MCP over standard input and output."""

import asyncio
import os
from typing import Final

from gateway.app.gateway import Gateway
from gateway.app.stopping import stop_signals, wait_until_answered
from gateway.cli.prepare import local_roots, prepare
from gateway.config.settings import Settings
from gateway.config.unsafe_settings import check_local

_DRAIN_SECONDS: Final = 10


def stdio(settings: Settings) -> None:
    """MCP over standard input and output, for the client that started us."""
    check_local(settings)
    prepare(settings)
    gateway = Gateway(settings, roots=local_roots(settings))
    surface = gateway.surface(settings.first_surface)

    async def run() -> None:
        told_to_stop = stop_signals()
        async with gateway.running():
            serving = asyncio.create_task(gateway.server(surface).run_stdio_async(show_banner=False))
            stopping = asyncio.create_task(told_to_stop.wait())
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                stopping.cancel()
                return await serving
            await wait_until_answered(surface, _DRAIN_SECONDS)
        # A thread waits for the next line of standard input, and would for ever.
        os._exit(0)

    asyncio.run(run())
