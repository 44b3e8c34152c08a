"""A load balancer as small as can be: each connection goes to the next server that takes it."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress


class Balancer:
    """Round robin over ports of this machine, one connection at a time."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._turns = itertools.cycle(range(len(ports)))
        self._ports = ports
        self.taken = [0] * len(ports)
        """How many connections each server was given."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.TaskGroup() as both:
                there, back = await self._next()
                both.create_task(_copied(reader, back))
                both.create_task(_copied(there, writer))
        except* OSError:
            writer.transport.abort()

    async def _next(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for _ in self._ports:
            turn = next(self._turns)
            with suppress(ConnectionRefusedError):
                opened = await asyncio.open_connection("127.0.0.1", self._ports[turn])
                self.taken[turn] += 1
                return opened
        raise ConnectionRefusedError


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction, to its end; what breaks at one side breaks at the other."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
    except OSError:
        writer.transport.abort()
        raise


@asynccontextmanager
async def balancing(ports: Sequence[int]) -> AsyncIterator[tuple[str, Balancer]]:
    balancer = Balancer(ports)
    server = await asyncio.start_server(balancer.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", balancer
    finally:
        server.close()
