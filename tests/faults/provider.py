"""A provider of models on loopback, for embeddings and for chat, that can be in trouble, and recover."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.embeddings import listed, vector_of

KEY = "key-of-the-operator"
# What the model finds worth remembering: sentences that begin so.
WORTH = "The pump of house"


@dataclass(frozen=True)
class Trouble:
    """What the provider does instead of answering."""

    name: str
    answer: Callable[["_Handler", Any], None]
    from_the_start: bool = False
    """Whether the gateway never saw it well."""
    keeps_waiting: bool = False
    is_of_all: bool = False
    """Whether it is plain from the answer that any other request would have failed, too."""


class Provider:
    def __init__(self) -> None:
        self.trouble: Trouble | None = None
        self.asked: Counter[str] = Counter()
        """How often it was asked: for embeddings, and for chat."""
        self._held: socket.socket | None = None
        self._leaving = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self)
        self._address = self._server.server_address
        self.url = f"http://127.0.0.1:{self._address[1]}"
        self._begin()

    def fail(self, trouble: Trouble) -> None:
        self.trouble = trouble
        if trouble is REFUSED:
            self._end()
            self._held = socket.socket()
            self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Whoever is bound and does not listen refuses, and nobody else gets the port.
            self._held.bind(self._address)

    def recover(self) -> None:
        self.trouble = None
        self._leaving.set()
        if self._held is not None:
            self._held.close()
            self._held = None
            self._server = _Server(self._address, self)
            self._begin()

    def wait(self, seconds: float = 60.0) -> bool:
        """Whether the trouble was over before so many seconds were."""
        return self._leaving.wait(seconds)

    def close(self) -> None:
        self._leaving.set()
        if self._held is not None:
            self._held.close()
        else:
            self._end()

    def _begin(self) -> None:
        serve = {"poll_interval": 0.01}
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs=serve, daemon=True)
        self._thread.start()

    def _end(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: Any, provider: Provider) -> None:
        super().__init__(address, _Handler)
        self.provider = provider

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has left is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        provider = self.server.provider
        provider.asked["chat" if "messages" in asked else "embeddings"] += 1
        (_answer_truly if provider.trouble is None else provider.trouble.answer)(self, asked)

    def send(self, status: int, body: bytes, more: int = 0, **headers: str) -> None:
        self.send_response(status)
        length = {"content-length": str(len(body) + more), "content-type": "application/json"}
        for name, value in {**length, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test says what matters."""


def _chat(said: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice]}).encode()


def _body(asked: Any) -> bytes:
    if "input" in asked:
        return listed([vector_of(text) for text in asked["input"]])
    told = str(asked["messages"][-1]["content"])
    lines = [line for line in told.splitlines() if line.startswith(WORTH)]
    facts = [{"kind": "fact", "sentence": line} for line in lines]
    return _chat(json.dumps({"facts": facts, "scenes": [], "actions": []}))


def _answer_truly(request: _Handler, asked: Any) -> None:
    request.send(200, _body(asked))


def _refuse(status: int, **headers: str) -> Callable[[_Handler, Any], None]:
    return lambda request, asked: request.send(status, b'{"error": {"message": "no"}}', 0, **headers)


def _hang_up(request: _Handler, asked: Any) -> None:
    request.close_connection = True


def _hang(request: _Handler, asked: Any) -> None:
    request.server.provider.wait()
    request.close_connection = True


def _drip(request: _Handler, asked: Any) -> None:
    """The beginning of a good answer, a byte now and then."""
    body = _body(asked)
    request.send(200, b"", len(body))
    for byte in body:
        request.wfile.write(bytes([byte]))
        if request.server.provider.wait(0.05):
            break
    request.close_connection = True


def _cut(request: _Handler, asked: Any) -> None:
    body = _body(asked)
    half = len(body) // 2
    request.send(200, body[:half], len(body) - half)
    request.close_connection = True


def _cut_events(request: _Handler, asked: Any) -> None:
    """A stream that breaks off in the middle of a word."""
    event = {"choices": [{"index": 0, "delta": {"content": '{"facts": [{"sent'}, "finish_reason": None}]}
    request.send(200, f"data: {json.dumps(event)}\n\n".encode(), 1000, content_type="text/event-stream")
    request.close_connection = True


def _other_form(request: _Handler, asked: Any) -> None:
    """Vectors of another length than before; of a model, JSON of another form."""
    if "input" in asked:
        request.send(200, listed([vector_of(text, 256) for text in asked["input"]]))
    else:
        request.send(200, _chat('{"facts": 3, "scenes": "none", "actions": {}}'))


def _garbage(request: _Handler, asked: Any) -> None:
    request.send(200, b"<html>\xff\xfe oops" * 50)


REFUSED = Trouble("refuses connections", _hang_up, from_the_start=True, is_of_all=True)
TROUBLES = {
    trouble.name: trouble
    for trouble in [
        Trouble("500", _refuse(500), is_of_all=True),
        Trouble("hangs", _hang, keeps_waiting=True),
        REFUSED,
        Trouble("429", _refuse(429, retry_after="0"), is_of_all=True),
        Trouble("refuses the key", _refuse(401), from_the_start=True, is_of_all=True),
        Trouble("another form", _other_form),
        Trouble("garbage", _garbage),
        Trouble("cut answers", _cut),
        Trouble("cut streams", _cut_events),
        Trouble("a byte now and then", _drip, keeps_waiting=True),
    ]
}


@contextmanager
def provider() -> Iterator[Provider]:
    made = Provider()
    try:
        yield made
    finally:
        made.close()
