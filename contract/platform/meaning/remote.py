"""Vectors from any service with `/v1/embeddings`. If the service fails, only the vectors are missing."""

import json
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import httpx

from contract.platform.meaning.embedder import EmbeddingFailed
from contract.platform.models import ModelEndpoint

if TYPE_CHECKING:
    from contract.platform.meaning.embedder import Vectors

EMBED_SECONDS, QUERY_SECONDS = 30.0, 2.0
# Requests that were given up and may still be under way.
ABANDONED: Final = 4
# A large model sends some thousands of numbers for a text, of some twenty characters each.
BYTES_AT_LEAST, BYTES_PER_TEXT = 1024 * 1024, 256 * 1024
LARGEST_DIMENSIONS: Final = 16_384
# How long a service is left alone after a failure: twice as long each time, within these bounds.
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
LONGEST_RETRY_AFTER: Final = 600.0
QUERIES_KEPT: Final = 256
# Texts that are too long, or too many at once.
TOO_MUCH: Final = (400, 413, 422)
# A text that every service takes that takes any.
PLAIN: Final = "car"


class RemoteEmbedder:
    """Asks a service for vectors. The length of its vectors is known from its first answer on."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self.name = endpoint.model
        self.dimensions = 0
        self.error: str | None = None
        self._model = endpoint.model
        self._url = endpoint.address("embeddings")
        self._headers = {"accept-encoding": "identity"}
        if endpoint.key:
            self._headers["authorization"] = f"Bearer {endpoint.key}"
        self._client = httpx.Client(trust_env=False, follow_redirects=False, timeout=httpx.Timeout(10, connect=5))
        self._queries: OrderedDict[str, Vectors] = OrderedDict()
        self._breaker = Breaker()
        self._under_way = threading.BoundedSemaphore(ABANDONED)
        self._turn = threading.Lock()

    def close(self) -> None:
        self._client.close()

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Raises: EmbeddingFailed."""
        return self._asked(texts, EMBED_SECONDS)

    def embed_query(self, text: str) -> "Vectors":
        """The same for one short text, from memory if it was asked for lately, and soon or not at all.

        Raises: EmbeddingFailed.
        """
        with self._turn:
            if text in self._queries:
                self._queries.move_to_end(text)
                return self._queries[text]
        if not self._breaker.lets_through():
            raise EmbeddingFailed(self.error or "left alone after a failure")
        vector: Vectors = self._asked([text], QUERY_SECONDS)[0]
        with self._turn:
            self._queries[text] = vector
            while len(self._queries) > QUERIES_KEPT:
                self._queries.popitem(last=False)
        return vector

    def pause(self) -> float:
        """How many seconds the service is to be left alone."""
        return self._breaker.remaining()

    def _asked(self, texts: Sequence[str], seconds: float) -> "Vectors":
        try:
            if not self._under_way.acquire(blocking=False):
                raise EmbeddingFailed("earlier requests are still without an answer")
            rows = _within(seconds, lambda: self._exchange(texts, seconds), self._under_way.release)
            self._keep_length(rows)
        except EmbeddingFailed as failure:
            # A service that has answered before, and refuses a text as too long, may be working.
            if failure.too_much and self.dimensions and [*texts] != [PLAIN]:
                if len(texts) == 1:
                    self._asked([PLAIN], seconds)
                raise
            self.error = str(failure)
            self._breaker.failed(failure.retry_after)
            raise EmbeddingFailed(self.error, retry_after=failure.retry_after) from None
        self.error = None
        self._breaker.succeeded()
        return rows

    def _keep_length(self, rows: "Vectors") -> None:
        with self._turn:
            sent = rows.shape[1]
            if self.dimensions and sent != self.dimensions:
                raise EmbeddingFailed(f"sent vectors of {sent} numbers instead of {self.dimensions}")
            self.dimensions = sent

    def _exchange(self, texts: Sequence[str], seconds: float) -> "Vectors":
        most = BYTES_AT_LEAST + BYTES_PER_TEXT * len(texts)
        request = {"model": self._model, "input": list(texts)}
        ends = time.monotonic() + seconds
        body = bytearray()
        try:
            with self._client.stream("POST", self._url, json=request, headers=self._headers) as answer:
                _check_status(answer)
                for piece in answer.iter_raw():
                    body += piece
                    if len(body) > most:
                        raise EmbeddingFailed(f"sent more than {most} bytes")
                    if time.monotonic() > ends:
                        raise EmbeddingFailed(f"took longer than {seconds:g} s")
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise EmbeddingFailed("cannot be reached") from None
        except httpx.HTTPError as error:
            raise EmbeddingFailed(f"could not be asked: {type(error).__name__}") from None
        except RuntimeError:
            raise EmbeddingFailed("is being closed") from None
        return read_vectors(bytes(body), len(texts))


def _check_status(answer: httpx.Response) -> None:
    if answer.status_code == 200 and "content-encoding" in answer.headers:
        raise EmbeddingFailed("sent a compressed answer that was not asked for")
    if answer.status_code != 200:
        waiting = _retry_after(answer.headers.get("retry-after")) if answer.status_code in (429, 503) else None
        too_much = answer.status_code in TOO_MUCH
        raise EmbeddingFailed(f"answered {answer.status_code}", retry_after=waiting, too_much=too_much)


def _retry_after(said: str | None) -> float | None:
    try:
        seconds = float(said or "")
    except ValueError:
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER) if math.isfinite(seconds) else None


def read_vectors(body: bytes, wanted: int) -> "Vectors":
    """The vectors of an answer, in the order of the texts, each of length 1.

    Raises: EmbeddingFailed.
    """
    import numpy as np

    try:
        rows: list[list[float]] = [item["embedding"] for item in _in_order(json.loads(body)["data"])]
        lengths = {len(row) if isinstance(row, list) and {*map(type, row)} <= {int, float} else 0 for row in rows}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise EmbeddingFailed("sent what is no list of vectors") from None
    if len(rows) != wanted:
        raise EmbeddingFailed(f"sent {len(rows)} vectors for {wanted} texts")
    if len(lengths) != 1 or not 0 < min(lengths) <= LARGEST_DIMENSIONS:
        raise EmbeddingFailed("sent vectors that are no rows of numbers of one length")
    try:
        made = np.asarray(rows, dtype=np.float64)
    except OverflowError:
        made = np.full((1, 1), np.inf)
    norms = np.linalg.norm(made, axis=1, keepdims=True)
    if not np.isfinite(norms).all():
        raise EmbeddingFailed("sent numbers that are not finite")
    unit: Vectors = np.divide(made, norms, out=np.zeros_like(made), where=norms > 0).astype(np.float32)
    return unit


def _in_order(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By `index`, where every vector has its own; else as they came."""
    places = [item.get("index") for item in listed]
    is_numbered = all(type(place) is int for place in places) and {*places} == {*range(len(listed))}
    return sorted(listed, key=lambda item: int(item["index"])) if is_numbered else listed


class Breaker:
    """Leaves a service alone for a while after a failure, so that not every call waits for it."""

    def __init__(self) -> None:
        self._failures = 0
        self._closed_until = 0.0
        self._turn = threading.Lock()

    def lets_through(self) -> bool:
        """Whether to try: after a pause, one tries for all."""
        with self._turn:
            moment = time.monotonic()
            if moment < self._closed_until:
                return False
            if self._failures:
                self._closed_until = moment + QUERY_SECONDS
            return True

    def failed(self, retry_after: float | None) -> None:
        with self._turn:
            self._failures += 1
            pause = min(PAUSE_SECONDS * 2 ** min(self._failures - 1, 10), LONGEST_PAUSE_SECONDS)
            self._closed_until = time.monotonic() + max(pause, retry_after or 0.0)

    def succeeded(self) -> None:
        with self._turn:
            self._failures, self._closed_until = 0, 0.0

    def remaining(self) -> float:
        with self._turn:
            return max(self._closed_until - time.monotonic(), 0.0)


def _within(seconds: float, work: "Callable[[], Vectors]", ended: Callable[[], None]) -> "Vectors":
    """The result of some work, if it comes in time. A service that sends a byte now and then gets no more time.

    Raises: EmbeddingFailed.
    """
    results: list[Vectors] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as failure:  # noqa: BLE001  # raised below, in the thread that waits
            failures.append(failure)
        finally:
            ended()

    thread = threading.Thread(target=run, name="embedding", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise EmbeddingFailed(f"took longer than {seconds:g} s")
    if failures:
        raise failures[0]
    return results[0]
