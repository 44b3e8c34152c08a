"""Embedders for tests: one that knows some words which mean the same, and a service that follows a script."""

import hashlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from contract.platform.meaning import offline
from contract.platform.meaning.calibration import PAIRS
from contract.platform.meaning.offline import OfflineEmbedder

DIMENSIONS = 512
# Words of one row mean the same.
SAME = (
    ("car", "automobile", "vehicle"),
    ("dog", "hound", "puppy", "hund"),
    ("doctor", "physician"),
    ("rent", "lease"),
    ("ship", "vessel", "boat"),
    ("buy", "purchase"),
)
_OF_CALIBRATION = {text for pair in PAIRS for text in pair}
_CONCEPTS = {word: row[0] for row in SAME for word in row}


def vector_of(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """The sum of a fixed direction for each word, the same one for words that mean the same."""
    total = np.zeros(dimensions)
    for word in re.findall(r"\w+", text.lower()):
        seed = int.from_bytes(hashlib.sha256(_CONCEPTS.get(word, word).encode()).digest()[:8], "big")
        total += np.random.default_rng(seed).standard_normal(dimensions)
    length = float(np.linalg.norm(total))
    return [float(number) for number in (total / length if length else total)]


def offline_embedder() -> OfflineEmbedder | None:
    """As the embedded brain has it: nothing where the small model is not installed."""
    return OfflineEmbedder() if offline.is_installed() else None


@dataclass
class ConceptEmbedder:
    """In this process, and at once. With a gate, no note is embedded before it is opened."""

    name: str = "concepts"
    dimensions: int = DIMENSIONS
    texts: list[str] = field(default_factory=list)
    gate: threading.Event | None = None

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.gate is not None and not all(text.endswith("?") or text in _OF_CALIBRATION for text in texts):
            assert self.gate.wait(30)
        self.texts += texts
        rows = [vector_of(text, self.dimensions) for text in texts]
        return np.asarray(rows, dtype=np.float32).reshape(len(texts), self.dimensions)


Answer: TypeAlias = Callable[["_Handler", list[str]], None]


class EmbeddingServer:
    """`/v1/embeddings` on loopback. It answers truly, unless it is told to answer otherwise."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.answer: Answer = answer_truly
        self.requests: list[list[str]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.leaving = threading.Event()
        """Set when the test is over: whoever is told to be slow waits for it."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: EmbeddingServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        texts: list[str] = json.loads(body)["input"]
        self.script.paths.append(self.path)
        self.script.headers.append({name.lower(): value for name, value in self.headers.items()})
        self.script.requests.append(texts)
        self.script.answer(self, texts)

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test says what matters."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has left is no error here."""


def listed(vectors: Sequence[object]) -> bytes:
    return json.dumps({"data": [{"index": n, "embedding": row} for n, row in enumerate(vectors)]}).encode()


def answer_truly(request: _Handler, texts: list[str]) -> None:
    request.send(200, listed([vector_of(text) for text in texts]))


def answer_with(status: int, body: bytes = b"{}", **headers: str) -> Answer:
    return lambda request, texts: request.send(status, body, **headers)


def answer_vectors(make: Callable[[list[str]], Sequence[object]]) -> Answer:
    return lambda request, texts: request.send(200, listed(make(texts)))


def answer_never(request: _Handler, texts: list[str]) -> None:
    request.script.leaving.wait(60)


def hang_up(request: _Handler, texts: list[str]) -> None:
    request.close_connection = True
    request.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    handler = type("Handler", (_Handler,), {})
    server = _Server(("127.0.0.1", 0), handler)
    script = EmbeddingServer(server)
    handler.script = script  # type: ignore[attr-defined]  # made above, for this server alone
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        script.leaving.set()
        server.shutdown()
        thread.join()
        server.server_close()
