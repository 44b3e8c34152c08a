"""Each of these tests runs on asyncio's own loop, as stdio does, and on uvloop, as `serve` does."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import httpx
import pytest_asyncio
import uvloop

from gateway.upstream.wire.transport import pooled_client


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest_asyncio.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with pooled_client() as client:
        yield client
