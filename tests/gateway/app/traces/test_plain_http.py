"""A collector over plain HTTP is reached over one connection, any other one as OpenTelemetry does it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

import pytest
from opentelemetry.exporter.http.transport._requests import RequestsHTTPTransport

from gateway.app.traces.plain_http import PlainTransport, is_plain
from gateway.app.traces.sending import Exporter

_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_LONG = b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + b"x" * 200_000


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


class Answering:
    """A server that gives its answers one after the other, and counts what came."""

    def __init__(self, *answers: bytes, leaves: bool) -> None:
        self._answers, self._leaves = list(answers), leaves
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1/traces?of=ours"
        self.heads: list[bytes] = []
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while self._answers:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                # The test has ended.
                return
            self.connections += 1
            # A client may leave without reading all of a long answer.
            with connection, connection.makefile("rb") as said, suppress(OSError):
                while self._answers and (head := _head_in(said)):
                    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                    said.read(int(lengths[0].partition(b":")[2]))
                    self.heads.append(head)
                    connection.sendall(self._answers.pop(0))
                    if self._leaves:
                        break

    def close(self) -> None:
        self._listening.close()


def _head_in(said: BufferedReader) -> bytes:
    lines: list[bytes] = []
    while (line := said.readline()).strip():
        lines.append(line)
    return b"".join(lines)


@contextmanager
def answering(monkeypatch: pytest.MonkeyPatch, *answers: bytes, leaves: bool = False) -> Iterator[Answering]:
    server = Answering(*answers, leaves=leaves)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.url)
    try:
        yield server
    finally:
        server.close()


def test_all_batches_go_over_one_connection_with_the_headers_of_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
    with answering(monkeypatch, _OK, _OK, _OK) as server:
        exporter = Exporter()
        assert [exporter.send(b"spans") for _ in range(3)] == [None] * 3
        exporter.close()
    assert server.connections == 1
    assert server.heads[0].startswith(b"POST /v1/traces?of=ours HTTP/1.1\r\n")
    assert b"\r\nx-key: secret\r\n" in server.heads[0]
    assert b"\r\ncontent-type: application/x-protobuf\r\n" in server.heads[0]


def test_a_collector_that_closes_its_connections_gets_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(monkeypatch, _OK, _OK, _OK, leaves=True) as server:
        exporter = Exporter()
        assert [exporter.send(b"spans") for _ in range(3)] == [None] * 3
        exporter.close()
    assert len(server.heads) == server.connections == 3


def test_the_rest_of_a_long_answer_is_not_taken_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(monkeypatch, _LONG, _OK) as server:
        exporter = Exporter()
        assert [exporter.send(b"spans") for _ in range(2)] == [None] * 2
        exporter.close()
    assert len(server.heads) == server.connections == 2


def test_a_collector_that_is_silent_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(monkeypatch, b"", b"") as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0.05")
        exporter = Exporter()
        assert exporter.send(b"spans") == "TimeoutError"
        exporter.close()
    assert server.heads


@pytest.mark.parametrize(
    ("url", "is_so"),
    [
        ("http://127.0.0.1:4318/v1/traces", True),
        ("http://collector/v1/traces", True),
        ("http://[::1]:4318/v1/traces", True),
        ("https://collector/v1/traces", False),
        ("http://user:secret@collector/v1/traces", False),
        ("collector:4318", False),
        ("http://collector:99999/v1/traces", False),
        ("http://collector:port/v1/traces", False),
        ("http://[collector/v1/traces", False),
    ],
)
def test_only_plain_http_is_ours(url: str, is_so: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_plain(url) is is_so
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url)
    exporter = Exporter()
    assert isinstance(exporter._client._transport, PlainTransport if is_so else RequestsHTTPTransport)
    exporter.close()


def test_what_the_environment_says_of_the_way_there_is_left_to_requests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = "http://collector:4318/v1/traces"
    for name in ("http_proxy", "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER"):
        with monkeypatch.context() as changed:
            changed.setenv(name, "http://127.0.0.1:9")
            assert not is_plain(url)
    assert is_plain(url)
    (tmp_path / "netrc").write_text("machine collector login us password secret\n", encoding="utf-8")
    assert not is_plain(url)
