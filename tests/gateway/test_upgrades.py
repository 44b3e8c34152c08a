"""A platform that changes under a running gateway: routes come and go, and it may become another kind of platform."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from contract.platform.app import create_app
from contract.platform.store import Store
from tests.daemons.fake import BRAIN, FakeDaemon, G, T
from tests.gateway.conftest import code_of, structured
from tests.served import listening, serving

CONSOLIDATE = f"POST {BRAIN}/consolidate"


async def test_a_route_that_disappears_is_noticed_and_fallen_back_from(tmp_path: Path) -> None:
    daemon = FakeDaemon(T)
    daemon.brains["main"] = {}
    with listening(daemon.app()) as url, serving(tmp_path, None, upstream_url=url) as served:
        async with served.over_http("modern") as client:
            assert not (await client.call_tool("memory_consolidate")).is_error
            daemon.without(CONSOLIDATE)
            gone = await client.call_tool("memory_consolidate", raise_on_error=False)
            assert code_of(gone) == "not_implemented"
            daemon.without(f"PUT {BRAIN}/documents")
            stored = structured(await client.call_tool("memory_remember", {"content": "kingfisher"}))
            assert stored["route"] == "POST /v1/brains/{brain}/documents/batch-ops"
            found = structured(await client.call_tool("memory_search", {"query": "kingfisher"}))
            assert [hit["path"] for hit in found["hits"]] == [stored["path"]]


async def test_a_route_that_appears_with_a_restart_is_used(tmp_path: Path) -> None:
    daemon = FakeDaemon(G).without(CONSOLIDATE)
    daemon.brains["main"] = {}
    with port() as bound, serving(tmp_path, None, upstream_url=bound.url) as served:
        async with served.over_http("legacy") as client:

            async def consolidated() -> Any:
                return await client.call_tool("memory_consolidate", raise_on_error=False)

            with bound.serving(daemon.app()):
                assert code_of(await consolidated()) == "not_implemented"
            down = await client.call_tool("memory_list_brains", raise_on_error=False)
            assert code_of(down) == "upstream_unavailable"
            daemon.with_route(CONSOLIDATE)
            with bound.serving(daemon.app()):
                assert not (await consolidated()).is_error


async def test_a_daemon_may_become_a_platform_and_a_daemon_again(tmp_path: Path) -> None:
    daemon = FakeDaemon(T)
    daemon.brains["main"] = {}
    store = Store.open(tmp_path / "store")
    with port() as bound, serving(tmp_path / "gateway", None, upstream_url=bound.url) as served:
        async with served.over_http("modern") as client:

            async def route() -> str:
                note = {"content": "kingfisher", "brain": "main"}
                return str(structured(await client.call_tool("memory_remember", note))["route"])

            async def is_down() -> bool:
                listed = await client.call_tool("memory_list_brains", raise_on_error=False)
                return code_of(listed) == "upstream_unavailable"

            with bound.serving(daemon.app()):
                assert await route() == "PUT /v1/brains/{brain}/documents"
            assert await is_down()
            with bound.serving(create_app(store, token=None)):
                assert await route() == "POST /v1/brains/{brain}/documents"
                assert not (await client.call_tool("memory_ask", {"query": "kingfisher"})).is_error
            assert await is_down()
            with bound.serving(daemon.app()):
                assert not (await client.call_tool("memory_search", {"query": "kingfisher"})).is_error
    store.close()


class Port:
    """A port of loopback that one server after another listens on."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.url = f"http://127.0.0.1:{number}"

    @contextmanager
    def serving(self, app: ASGIApp) -> Iterator[None]:
        config = uvicorn.Config(
            app, host="127.0.0.1", port=self._number, lifespan="off", log_config=None, timeout_graceful_shutdown=2
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(timeout=15)


@contextmanager
def port() -> Iterator[Port]:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        number = int(bound.getsockname()[1])
    yield Port(number)
