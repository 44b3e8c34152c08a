"""How the gateway is served: with its own bounds on heads, also in worker processes; and how it takes connections."""

import asyncio
import os
import pickle
import socket

import pytest
import uvicorn
import uvloop
from starlette.applications import Starlette

from gateway.app.startup import listening_socket
from gateway.app.uvicorn_config import several_of, uvicorn_config
from gateway.http.connection import Connection

MANY = 32
ON_POSIX = pytest.mark.skipif(os.name != "posix", reason="uvloop is for POSIX systems")


@pytest.mark.parametrize("workers", [1, 2])
def test_heads_are_bounded_in_every_process(workers: int) -> None:
    """The configuration of workers is handed to their processes as it is pickled."""
    made = uvicorn_config(Starlette()) if workers == 1 else uvicorn_config(Starlette, workers)
    config = made if workers == 1 else pickle.loads(pickle.dumps(made))
    assert config.http is Connection


async def turns_to_take(listening: list[socket.socket], port: int) -> int:
    """In how many turns of the loop a server takes those who all wait when it begins."""
    callers = [socket.create_connection(("127.0.0.1", port)) for _ in range(MANY)]
    server = uvicorn.Server(uvicorn_config(Starlette()))
    serving = asyncio.ensure_future(server.serve(sockets=listening))
    turns = 0
    try:
        while len(server.server_state.connections) < MANY:
            turns += bool(server.server_state.connections)
            await asyncio.sleep(0)
    finally:
        for caller in callers:
            caller.close()
        server.should_exit = True
        await serving
    return turns


@ON_POSIX
def test_those_who_come_at_once_are_taken_in_a_few_turns_of_the_loop() -> None:
    listening = listening_socket("127.0.0.1", 0)
    assert uvloop.run(turns_to_take(several_of(listening), listening.getsockname()[1])) < MANY / 2


@ON_POSIX
def test_no_socket_is_left_open_when_the_server_ends() -> None:
    listening = several_of(listening_socket("127.0.0.1", 0))
    uvloop.run(turns_to_take(listening, listening[0].getsockname()[1]))
    assert {one.fileno() for one in listening} == {-1}
