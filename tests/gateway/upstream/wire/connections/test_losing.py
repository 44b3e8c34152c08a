"""What is known of a request that got no answer; and that whoever leaves closes the connection."""

import asyncio
import datetime
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gateway.upstream.exchange import NOT_SENT
from gateway.upstream.wire import connections
from gateway.upstream.wire.transport import pooled_client
from tests.gateway.upstream.wire.connections.peer import CHUNKED, Exchange, Peer, answer, chunk, peering

MAYBE_SENT = (httpx.ReadError, httpx.RemoteProtocolError, httpx.ReadTimeout, httpx.WriteError)
LARGE = b"x" * 20_000_000
SOON = httpx.Timeout(20, connect=0.1)


async def says_nothing(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def says_garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"this is no TLS at all\r\n")
    await writer.drain()


async def hangs_up(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def test_a_refused_connection_was_not_sent(http: httpx.AsyncClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    with pytest.raises(httpx.ConnectError):
        await http.post(f"http://localhost:{port}", content=b"x")


@pytest.mark.parametrize("name", ["nowhere.invalid", f"{'a' * 64}.example", "127.1"])
async def test_a_name_that_leads_nowhere_was_not_sent(http: httpx.AsyncClient, name: str) -> None:
    with pytest.raises(httpx.ConnectError):
        await http.post(f"http://{name}:9", content=b"x")


async def test_a_name_that_is_not_found_in_time_was_not_sent(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def getaddrinfo(*_: object, **__: object) -> object:
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    with pytest.raises(httpx.ConnectTimeout):
        await http.post("http://brains.example", content=b"x", timeout=SOON)


async def test_a_connection_that_is_not_made_in_time_was_not_sent(http: httpx.AsyncClient) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as bound:
        address = bound.getsockname()
        # As many as the system keeps for later: the next one waits.
        full = [socket.socket() for _ in range(4)]
        for waiting in full:
            waiting.setblocking(False)
            waiting.connect_ex(address)
        try:
            with pytest.raises(httpx.ConnectTimeout):
                await http.post(f"http://127.0.0.1:{address[1]}", content=b"x", timeout=SOON)
        finally:
            for waiting in full:
                waiting.close()


@pytest.mark.parametrize("at_once", [says_garbage, hangs_up], ids=["garbage", "nothing"])
async def test_without_tls_nothing_was_sent(http: httpx.AsyncClient, at_once: Any) -> None:
    async with peering(Peer(at_once=at_once)) as peer:
        with pytest.raises(httpx.ConnectError):
            await http.post(peer.url.replace("http:", "https:"), content=b"x")


async def test_tls_that_takes_too_long_was_not_sent(http: httpx.AsyncClient) -> None:
    async with peering(Peer(at_once=says_nothing)) as peer:
        with pytest.raises(httpx.ConnectTimeout):
            await http.post(peer.url.replace("http:", "https:"), content=b"x", timeout=SOON)
        await peer.until(lambda peer: peer.ended == 1)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for `localhost`, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(private + signed.public_bytes(pem))
    return path


@asynccontextmanager
async def over_tls(certificate: Path) -> AsyncIterator[tuple[Peer, str]]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    async with peering(Peer(), context) as peer:
        yield peer, peer.url.replace("http:", "https:")


async def test_a_certificate_that_nobody_vouches_for_was_not_sent(http: httpx.AsyncClient, certificate: Path) -> None:
    async with over_tls(certificate) as (peer, url):
        with pytest.raises(httpx.ConnectError):
            await http.post(url, content=b"x")
        assert peer.requests == []


async def test_a_certificate_that_is_trusted_is_for_its_name_alone(
    http: httpx.AsyncClient, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_tls", lambda: ssl.create_default_context(cafile=certificate))
    async with over_tls(certificate) as (peer, url):
        assert [(await http.get(url)).text for _ in range(3)] == ["ok"] * 3
        with pytest.raises(httpx.ConnectError):
            await http.get(url.replace("localhost", "127.0.0.1"))
        assert len(peer.requests) == 3


WHOLE = answer(b"0123456789")
CUT: dict[str, bytes] = {
    "nothing": b"",
    "status": WHOLE[:7],
    "headers": WHOLE[:30],
    "body": WHOLE[:-4],
    "chunk": CHUNKED + chunk(b"hello")[:4],
    "last-chunk": CHUNKED + chunk(b"hello"),
}


@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("kept", [0, 1], ids=["new", "kept"])
@pytest.mark.parametrize("said", CUT.values(), ids=CUT)
async def test_a_request_that_was_received_and_dropped_may_have_been_sent(
    http: httpx.AsyncClient, said: bytes, kept: int, is_reset: bool
) -> None:
    async def serve(exchange: Exchange) -> None:
        if exchange.on_connection < kept:
            await exchange.say(answer())
            return
        await exchange.say(said)
        if is_reset:
            exchange.reset()
        else:
            exchange.writer.close()

    async with peering(Peer(serve)) as peer:
        for _ in range(kept):
            await http.get(peer.url)
        with pytest.raises(MAYBE_SENT) as failure:
            await http.post(peer.url, content=b"x")
        assert not isinstance(failure.value, NOT_SENT)
        assert len(peer.requests) == kept + 1


BROKEN: dict[str, bytes] = {
    "no-http": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "status": b"HTTP/1.1 2x0 OK\r\n\r\n",
    "huge-header": answer(b"ok", "200 OK", f"x-much: {'x' * 200_000}"),
    "many-headers": answer(b"ok", "200 OK", *["x-many: x"] * 20_000),
    "two-lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
    "negative": b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nok",
    "no-chunk": CHUNKED + b"zz\r\nok\r\n",
}


@pytest.mark.parametrize("said", BROKEN.values(), ids=BROKEN)
async def test_what_is_no_http_is_said_to_be_none(http: httpx.AsyncClient, said: bytes) -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.say(said)
        await exchange.reader.read()

    async with peering(Peer(serve)) as peer:
        with pytest.raises(httpx.RemoteProtocolError) as failure:
            await http.post(peer.url, content=b"x", timeout=20)
        assert "SSH" not in str(failure.value)
        await peer.until(lambda peer: peer.ended == 1)


@pytest.mark.parametrize("size", [9_000, 30_000])
async def test_a_long_header_is_read(http: httpx.AsyncClient, size: int) -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.say(answer(b"ok", "200 OK", f"x-much: {'x' * size}"))

    async with peering(Peer(serve)) as peer:
        assert len((await http.get(peer.url)).headers["x-much"]) == size


async def test_what_comes_before_an_answer_is_passed_over(http: httpx.AsyncClient) -> None:
    async def serve(exchange: Exchange) -> None:
        hints = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
        await exchange.say(b"HTTP/1.1 100 Continue\r\n\r\n", hints, answer())

    async with peering(Peer(serve)) as peer:
        assert [(await http.get(peer.url)).text for _ in range(2)] == ["ok", "ok"]
    assert peer.connections == 1


async def test_an_answer_without_a_length_ends_with_its_connection(http: httpx.AsyncClient) -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.say(b"HTTP/1.1 200 OK\r\n\r\nall there is")
        exchange.writer.close()

    async with peering(Peer(serve)) as peer:
        assert [(await http.get(peer.url)).text for _ in range(2)] == ["all there is"] * 2


async def test_silence_is_a_timeout_wherever_it_begins(http: httpx.AsyncClient) -> None:
    async def serve(exchange: Exchange) -> None:
        if b"/begun" in exchange.head:
            await exchange.say(CHUNKED, chunk(b"begun"))
        await exchange.reader.read()

    async with peering(Peer(serve)) as peer:
        for path in ("/silent", "/begun"):
            with pytest.raises(httpx.ReadTimeout):
                await http.post(peer.url + path, content=b"x", timeout=httpx.Timeout(20, read=0.05))
        await peer.until(lambda peer: peer.ended == 2)


@asynccontextmanager
async def stuck() -> AsyncIterator[tuple[Peer, asyncio.Event]]:
    """A peer that reads no more than it has to. Our end is gone all the same when the block is left.

    Closed politely, it would stay open until the peer had read on.
    """
    begun, over, read = asyncio.Event(), asyncio.Event(), list[int]()

    async def at_once(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        await over.wait()
        read.append(len(await reader.read()))

    async with peering(Peer(at_once=at_once)) as peer:
        before = len(os.listdir("/dev/fd"))
        try:
            yield peer, begun
        except BaseException:
            over.set()
            raise
        async with asyncio.timeout(30):
            # The peer's own end is still there.
            while len(os.listdir("/dev/fd")) > before + 1:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0)
        over.set()
        await peer.until(lambda peer: peer.ended == 1)
    assert read[0] < len(LARGE)


async def test_a_platform_that_stops_reading_is_a_timeout(http: httpx.AsyncClient) -> None:
    async with stuck() as (peer, _):
        with pytest.raises(httpx.WriteTimeout):
            await http.put(peer.url, content=LARGE, timeout=httpx.Timeout(20, write=0.05))


async def test_an_answer_before_the_end_of_a_request_is_the_answer(http: httpx.AsyncClient) -> None:
    async def at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b"too much", "413 Too Large"))
        await reader.read()

    async with peering(Peer(at_once=at_once)) as peer:
        response = await http.put(peer.url, content=LARGE)
        assert (response.status_code, response.text) == (413, "too much")
        await peer.until(lambda peer: peer.ended == 1)


async def left(http: httpx.AsyncClient, peer: Peer, url: str, *, content: bytes = b"x") -> None:
    """A request is cancelled once the peer has heard of it, and the peer sees that."""
    request = asyncio.ensure_future(http.post(url, content=content))
    await peer.until(lambda peer: peer.connections == 1)
    await peer.until(lambda peer: peer.at_once is not None or len(peer.requests) == 1)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    await peer.until(lambda peer: peer.ended == 1)


async def test_who_leaves_while_connecting_closes_the_connection(http: httpx.AsyncClient) -> None:
    async with peering(Peer(at_once=says_nothing)) as peer:
        await left(http, peer, peer.url.replace("http:", "https:"))


async def test_who_leaves_while_sending_closes_the_connection(http: httpx.AsyncClient) -> None:
    async with stuck() as (peer, begun):
        request = asyncio.ensure_future(http.put(peer.url, content=LARGE))
        await begun.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request


async def test_closing_the_client_waits_for_nobody_who_does_not_read() -> None:
    async with stuck() as (peer, begun):
        http = pooled_client()
        request = asyncio.ensure_future(http.put(peer.url, content=LARGE))
        await begun.wait()
        # More turns than parts: by then the system holds all that it can.
        for _ in range(1000):
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await http.aclose()
            with pytest.raises(MAYBE_SENT):
                await request


async def test_who_leaves_while_waiting_closes_the_connection(http: httpx.AsyncClient) -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.reader.read()

    async with peering(Peer(serve)) as peer:
        await left(http, peer, peer.url)


async def test_who_leaves_a_body_closes_the_connection(http: httpx.AsyncClient) -> None:
    async def serve(exchange: Exchange) -> None:
        await exchange.say(CHUNKED, chunk(b"begun"))
        await exchange.reader.read()

    async with peering(Peer(serve)) as peer:
        await left(http, peer, peer.url)


@pytest.mark.parametrize("how", ["cancelled", "closed", "failed"])
async def test_who_leaves_a_stream_closes_the_connection(http: httpx.AsyncClient, how: str) -> None:
    begun = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        await exchange.say(CHUNKED, chunk(b"begun"))
        await exchange.reader.read()

    async def read(url: str) -> None:
        async with http.stream("GET", url) as response:
            async for _ in response.aiter_bytes():
                begun.set()
                if how != "cancelled":
                    break
            if how == "failed":
                raise ZeroDivisionError

    async with peering(Peer(serve)) as peer:
        reading = asyncio.ensure_future(read(peer.url))
        await begun.wait()
        if how == "cancelled":
            reading.cancel()
        await asyncio.wait([reading])
        await peer.until(lambda peer: peer.ended == 1)
    assert reading.cancelled() == (how == "cancelled")


async def test_closing_the_client_ends_what_is_being_read() -> None:
    begun = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        await exchange.say(CHUNKED, chunk(b"begun"))
        await exchange.reader.read()

    async def read(http: httpx.AsyncClient, url: str) -> None:
        async with http.stream("GET", url) as response:
            async for _ in response.aiter_bytes():
                begun.set()

    async with peering(Peer(serve)) as peer:
        http = pooled_client()
        reading = asyncio.ensure_future(read(http, peer.url))
        await begun.wait()
        await http.aclose()
        async with asyncio.timeout(20):
            with pytest.raises(httpx.ReadError):
                await reading
        await peer.until(lambda peer: peer.ended == 1)


async def test_each_part_of_a_stream_comes_when_it_is_sent(http: httpx.AsyncClient) -> None:
    heard = asyncio.Semaphore(0)

    async def serve(exchange: Exchange) -> None:
        await exchange.say(CHUNKED)
        for n in range(50):
            await exchange.say(chunk(b"%d" % n))
            await heard.acquire()
        await exchange.say(chunk(b""))

    said = []
    async with asyncio.timeout(20), peering(Peer(serve)) as peer, http.stream("GET", peer.url) as response:
        async for part in response.aiter_bytes():
            said.append(int(part))
            heard.release()
    assert said == list(range(50))


async def test_what_came_before_a_stream_broke_is_read(http: httpx.AsyncClient) -> None:
    """Also by who was busy with something else when it broke."""

    async def serve(exchange: Exchange) -> None:
        await exchange.say(CHUNKED, chunk(b"one"))
        await go.wait()
        await exchange.say(chunk(b"two"), chunk(b"three"))
        exchange.writer.close()

    go, said = asyncio.Event(), b""
    async with peering(Peer(serve)) as peer, peering(Peer()) as other, http.stream("GET", peer.url) as response:
        parts = response.aiter_bytes()
        said += await anext(parts)
        go.set()
        await peer.until(lambda peer: peer.ended == 1)
        for _ in range(3):
            await http.get(other.url)
        said += await anext(parts)
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(parts)
    assert said == b"onetwothree"


async def test_who_reads_slowly_is_sent_no_more_than_fits(http: httpx.AsyncClient) -> None:
    stuck = asyncio.Event()
    sent = 0

    async def serve(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(LARGE))
        for start in range(0, len(LARGE), 65536):
            exchange.writer.write(LARGE[start : start + 65536])
            try:
                async with asyncio.timeout(0.5):
                    await exchange.writer.drain()
            except TimeoutError:
                stuck.set()
                await exchange.writer.drain()
            sent = start

    async with peering(Peer(serve)) as peer, http.stream("GET", peer.url) as response:
        await stuck.wait()
        assert sent < len(LARGE) / 2
        assert len(await response.aread()) == len(LARGE)
