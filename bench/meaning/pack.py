"""`python -m bench.meaning.pack`: makes the files of the sentence model in `contract/platform/meaning/sentence`.

They are those of all-MiniLM-L6-v2, which pip gets at first. Each row of its matrices becomes whole numbers of a byte,
and one number to multiply them with.
"""

import sys
from collections.abc import Iterator

import numpy as np

from bench.meaning import minilm
from bench.meaning.minilm import Numbers
from contract.platform.meaning import sentence

GREATEST = 127


def main() -> None:
    minilm.load()
    folder = minilm.INSTALLED / minilm.WEIGHTS
    weights = minilm.read_weights(folder / "model.safetensors")
    rows = np.concatenate(list(_matrices(weights)))
    scales = (np.abs(rows).max(axis=1) / GREATEST).astype(np.float32)
    sentence.FOLDER.mkdir(exist_ok=True)
    np.save(sentence.ROWS, np.rint(rows / np.maximum(scales, 1e-12)[:, None]).astype(np.int8))
    np.save(sentence.SCALES, scales)
    np.save(sentence.REST, np.concatenate(list(_rest(weights))))
    sentence.PIECES.write_bytes((folder / "vocab.txt").read_bytes())
    sys.stdout.write(f"{sum(file.stat().st_size for file in sentence.FOLDER.iterdir())} bytes\n")


def _matrices(weights: dict[str, Numbers]) -> Iterator[Numbers]:
    """In rows of one length, in the order in which the model reads them."""
    words, positions, kinds = (
        weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    yield words
    # Every text is of the first kind.
    yield positions[: sentence.LONGEST] + kinds[0]
    for name in _layers():
        yield weights[f"{name}.attention.self.query.weight"] * _of_a_head()
        yield weights[f"{name}.attention.self.key.weight"]
        yield weights[f"{name}.attention.self.value.weight"]
        yield weights[f"{name}.attention.output.dense.weight"]
        yield weights[f"{name}.intermediate.dense.weight"]
        yield weights[f"{name}.output.dense.weight"].T


def _rest(weights: dict[str, Numbers]) -> Iterator[Numbers]:
    yield from (weights[f"embeddings.LayerNorm.{part}"] for part in ("weight", "bias"))
    for name in _layers():
        yield weights[f"{name}.attention.self.query.bias"] * _of_a_head()
        yield weights[f"{name}.attention.self.key.bias"]
        yield weights[f"{name}.attention.self.value.bias"]
        yield weights[f"{name}.attention.output.dense.bias"]
        yield from (weights[f"{name}.attention.output.LayerNorm.{part}"] for part in ("weight", "bias"))
        yield weights[f"{name}.intermediate.dense.bias"]
        yield weights[f"{name}.output.dense.bias"]
        yield from (weights[f"{name}.output.LayerNorm.{part}"] for part in ("weight", "bias"))


def _layers() -> Iterator[str]:
    return (f"encoder.layer.{number}" for number in range(sentence.LAYERS))


def _of_a_head() -> np.float32:
    """What the products of attention are divided by, done once for all."""
    return np.float32((sentence.SIZE // sentence.HEADS) ** -0.5)


if __name__ == "__main__":
    main()
