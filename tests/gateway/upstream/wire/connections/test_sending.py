"""What is sent to a platform, how often, and over which connection."""

import asyncio
import gzip
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx

from gateway.upstream.wire import connections
from tests.gateway.upstream.platforms import PLATFORM_URL, client_of
from tests.gateway.upstream.wire.connections.peer import CHUNKED, Exchange, Peer, answer, chunk, peering

METHODS = ["GET", "PUT", "DELETE", "POST"]


async def sent(http: httpx.AsyncClient, method: str, url: str, **arguments: Any) -> httpx.Response:
    """With nothing of the client's own in it."""
    return await http.send(httpx.Request(method, url, **arguments))


async def test_no_cookie_is_kept_or_sent(http: httpx.AsyncClient) -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.say(answer(b"ok", "200 OK", "set-cookie: who=you; Path=/", "set-cookie: more=1; Max-Age=999"))

    async with peering(Peer(serve)) as peer:
        for _ in range(3):
            assert (await http.get(peer.url)).headers.get_list("set-cookie") == [
                "who=you; Path=/",
                "more=1; Max-Age=999",
            ]
    assert not http.cookies
    assert [name for exchange in peer.requests for name in exchange.header_names if "cookie" in name] == []


@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("kept", [0, 1], ids=["new", "kept"])
@pytest.mark.parametrize("method", METHODS)
async def test_a_request_that_was_dropped_is_not_sent_again(
    http: httpx.AsyncClient, method: str, kept: int, is_reset: bool
) -> None:
    async def serve(exchange: Exchange) -> None:
        if exchange.on_connection < kept:
            await exchange.say(answer())
        elif is_reset:
            exchange.reset()
        else:
            exchange.writer.close()

    async with peering(Peer(serve)) as peer:
        for _ in range(kept):
            await http.get(peer.url)
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await sent(http, method, peer.url, content=None if method in {"GET", "DELETE"} else b"once")
        assert len(peer.requests) == kept + 1
        assert peer.connections == 1


async def test_a_redirect_is_an_answer(http: httpx.AsyncClient) -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.say(answer(b"", "307 Temporary Redirect", "location: /elsewhere"))

    async with peering(Peer(serve)) as peer:
        assert (await http.post(peer.url, content=b"x")).status_code == 307
    assert len(peer.requests) == 1


async def test_the_environment_changes_nothing(
    http: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine localhost login someone password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with peering(Peer()) as peer:
        await sent(http, "GET", f"{peer.url}/a")
    assert peer.requests[0].header_names == ["host"]
    assert peer.requests[0].head.startswith(b"GET /a HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("method", "content", "framing"),
    [("GET", None, []), ("POST", b"x", ["content-length"]), ("POST", b"", ["content-length"])],
    ids=["get", "post", "empty"],
)
async def test_what_a_request_says_and_nothing_else_is_sent(
    http: httpx.AsyncClient, method: str, content: bytes | None, framing: list[str]
) -> None:
    async with peering(Peer()) as peer:
        await sent(http, method, peer.url, content=content, headers={"x-ours": "1", "authorization": "Bearer b"})
    assert peer.requests[0].header_names == sorted(["authorization", "host", "x-ours", *framing])


@pytest.mark.parametrize("target", ["/a%2Fb/c%20d?q=%C3%A9+x&y=a%26b", "/v1//x/?a=1&a=2", "/%E2%82%AC", "/~%7E;v=1"])
async def test_a_url_arrives_to_the_letter(http: httpx.AsyncClient, target: str) -> None:
    async with peering(Peer()) as peer:
        url = httpx.URL(peer.url + target)
        await sent(http, "GET", str(url))
    assert peer.requests[0].head.split(b" ")[1] == url.raw_path


async def test_a_header_that_would_begin_another_is_not_sent(http: httpx.AsyncClient) -> None:
    async with peering(Peer()) as peer:
        with pytest.raises(httpx.LocalProtocolError):
            await sent(http, "GET", peer.url, headers={"x-ours": "1\r\nx-theirs: 2"})
    assert peer.requests == []


async def test_packed_answers_are_unpacked_once(http: httpx.AsyncClient) -> None:
    packed = gzip.compress(b"hello")

    async def serve(exchange: Exchange) -> None:
        await exchange.say(answer(packed, "200 OK", "content-encoding: gzip"))

    async with peering(Peer(serve)) as peer:
        assert (await http.get(peer.url)).content == b"hello"
        async with http.stream("GET", peer.url) as response:
            assert b"".join([part async for part in response.aiter_raw()]) == packed


async def test_a_large_answer_comes_in_parts_that_can_be_measured(http: httpx.AsyncClient) -> None:
    """However little was read of it: unpacked, a part may be a thousand times as large."""
    arrived = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        exchange.writer.write(answer(b"x" * 400_000))
        await exchange.writer.drain()
        arrived.set()

    async with peering(Peer(serve)) as peer, http.stream("GET", peer.url) as response:
        await arrived.wait()
        parts = [len(part) async for part in response.aiter_raw()]
    assert sum(parts) == 400_000
    assert max(parts) <= 64 * 1024


async def test_uploads_arrive_whole(http: httpx.AsyncClient) -> None:
    body = bytes(range(256)) * 20_000
    async with peering(Peer()) as peer:
        await http.put(peer.url, content=body)
        await http.post(peer.url, files={"file": ("a.bin", body, "application/octet-stream")})
        await http.post(peer.url, content=b"small")
    raw, multipart, small = peer.requests
    assert raw.body == body
    assert body in multipart.body
    assert b"transfer-encoding" not in multipart.head.lower()
    assert small.body == b"small"
    assert peer.connections == 1


async def test_an_upload_without_a_length_arrives_in_chunks(http: httpx.AsyncClient) -> None:
    async def parts() -> Any:
        yield b"one "
        yield b"two"

    async def serve(exchange: Exchange) -> None:
        assert b"transfer-encoding: chunked" in exchange.head.lower()
        assert await exchange.reader.readuntil(b"0\r\n\r\n") == chunk(b"one ") + chunk(b"two") + chunk(b"")
        await exchange.say(answer())

    async with peering(Peer(serve)) as peer:
        assert (await http.post(peer.url, content=parts())).text == "ok"


async def test_connections_are_used_again_and_few_stay_idle(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_IDLE", 5)
    together = asyncio.Barrier(40)

    async def serve(exchange: Exchange) -> None:
        if exchange.on_connection == 0:
            await together.wait()
        await exchange.say(answer())

    async with peering(Peer(serve)) as peer:
        await asyncio.gather(*(http.get(peer.url) for _ in range(40)))
        await peer.until(lambda peer: peer.ended == 35)
        await asyncio.gather(*(http.get(peer.url) for _ in range(5)))
    assert peer.connections == 40


async def test_an_idle_connection_is_closed(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_IDLE_SECONDS", 0.01)
    async with peering(Peer()) as peer:
        await http.get(peer.url)
        await peer.until(lambda peer: peer.ended == 1)
        assert (await http.get(peer.url)).text == "ok"


async def test_as_many_requests_as_there_are_places_are_under_way_at_once(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connections._AT_ONCE >= 1000
    monkeypatch.setattr(connections, "_AT_ONCE", 3)
    go = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        await go.wait()
        await exchange.say(answer())

    async with peering(Peer(serve)) as peer:
        under_way = [asyncio.ensure_future(http.get(peer.url)) for _ in range(3)]
        await peer.until(lambda peer: len(peer.requests) == 3)
        with pytest.raises(httpx.PoolTimeout):
            await http.get(peer.url, timeout=httpx.Timeout(20, pool=0.01))
        waiting = asyncio.ensure_future(http.get(peer.url))
        go.set()
        assert [(await answered).text for answered in (*under_way, waiting)] == ["ok"] * 4
        assert len(peer.requests) == 4


async def test_a_place_is_free_again_however_a_request_ends(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_AT_ONCE", 1)

    async def serve(exchange: Exchange) -> None:
        if b"/hold" in exchange.head:
            await exchange.say(CHUNKED, chunk(b"x"))
            await exchange.reader.read()
        elif b"/drop" in exchange.head:
            exchange.writer.close()
        else:
            await exchange.say(answer())

    async with peering(Peer(serve)) as peer:
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get(f"{peer.url}/drop")
        async with http.stream("GET", f"{peer.url}/hold"):
            pass
        with pytest.raises(httpx.ConnectError):
            await http.get("http://nowhere.invalid")
        assert (await http.get(peer.url, timeout=httpx.Timeout(20, pool=0.01))).text == "ok"


async def test_a_connection_that_says_more_while_nobody_asks_is_not_used_again(http: httpx.AsyncClient) -> None:
    spoke = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        await exchange.say(answer(exchange.head.split(b" ")[1]))
        if exchange.connection == 0:
            await asked_again.wait()
            await exchange.say(answer(b"for nobody"))
            spoke.set()

    asked_again = asyncio.Event()
    async with peering(Peer(serve)) as peer:
        assert (await http.get(f"{peer.url}/a")).text == "/a"
        asked_again.set()
        await spoke.wait()
        assert (await http.get(f"{peer.url}/b")).text == "/b"
    assert peer.connections == 2


REST = b"ngth: 10\r\n\r\nfor nobody"


@pytest.mark.parametrize(
    "extra",
    [answer(b"for nobody"), answer(b"for nobody").removesuffix(REST), b"garbage"],
    ids=["whole", "half", "none"],
)
async def test_what_follows_the_end_of_an_answer_answers_nothing(http: httpx.AsyncClient, extra: bytes) -> None:
    """It comes with the last bytes of the body, when the head was read already."""
    begun = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        said = exchange.head.split(b" ")[1]
        if exchange.connection > 0:
            await exchange.say(answer(said))
        elif exchange.on_connection > 0:
            await exchange.say(REST)
        else:
            await exchange.say(answer(said)[: -len(said)])
            await begun.wait()
            await exchange.say(said + extra)

    async with peering(Peer(serve)) as peer:
        async with http.stream("GET", f"{peer.url}/first") as response:
            begun.set()
            with suppress(httpx.RemoteProtocolError):
                assert await response.aread() == b"/first"
        with suppress(httpx.RemoteProtocolError):
            assert (await http.get(f"{peer.url}/second")).text == "/second"
        assert (await http.get(f"{peer.url}/third")).text == "/third"
    assert peer.connections == 2


async def test_every_address_of_a_name_is_tried(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    async def getaddrinfo(host: str, port: int, **hints: int) -> Sequence[Any]:
        asked.append((host, hints.get("flags", 0)))
        tcp = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        addresses = ["127.0.0.9", "127.0.0.1"] if host == "brains.example" else [host]
        return [(*tcp, (address, port)) for address in addresses]

    async with peering(Peer()) as peer:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
        assert (await http.get(f"http://brains.example:{peer.port}")).text == "ok"
    assert asked[0] == ("brains.example", 0)


async def test_respx_stands_in_for_all_of_it(platform: respx.MockRouter) -> None:
    read = platform.get("/v1/brains", params={"dir": "a b"}).respond(204)
    async with client_of(platform) as http:
        assert (await http.get(f"{PLATFORM_URL}/v1/brains?dir=a%20b")).status_code == 204
    assert read.calls.last.request.headers["host"] == "platform.example"
