"""Another model to compare with, behind an OpenAI-compatible address."""

from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

_BATCH = 64


class Endpoint:
    def __init__(self, url: str, model: str) -> None:
        self._url = f"{url.rstrip('/').removesuffix('/v1')}/v1/embeddings"
        self.name = model
        self.dimensions = self.embed(["dimensions"]).shape[1]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows: list[list[float]] = []
        for begin in range(0, len(texts), _BATCH):
            body = {"model": self.name, "input": list(texts[begin : begin + _BATCH])}
            answer = httpx.post(self._url, json=body, timeout=300).raise_for_status().json()
            data: list[dict[str, Any]] = sorted(answer["data"], key=lambda item: item["index"])
            rows += [item["embedding"] for item in data]
        vectors = np.asarray(rows, dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors
