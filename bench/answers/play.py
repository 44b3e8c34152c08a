"""Put the notes into a brain and ask, by the platform of whatever tree is first on the path. Prints JSON.

It runs as a file, so that it can be played on another checkout: it may import nothing of `bench`.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import yaml

from contract.platform.app import create_app
from contract.platform.store import Store

HERE = Path(__file__).parent
# One is told in ten messages, with answers between them and some talk that is worth nothing.
_IN_ONE_SESSION = 10
_TALK = ("hey there!", "Can you summarise this page for me?", "Write a haiku about the sea.", "thanks, that's all")
_FIRST = 3


def opened(directory: Path, method: str) -> Store:
    """A store that finds by words alone, or by meaning, too, with the models that come with the tree."""
    if method == "words":
        return Store.open(directory)
    from contract.platform.meaning.offline import OfflineEmbedder

    try:
        from contract.platform.meaning.sentence import SentenceEmbedder
    except ImportError:
        return Store.open(directory, OfflineEmbedder())
    return Store.open(directory, OfflineEmbedder(), sentences=SentenceEmbedder())


def _wait_for_vectors(store: Store) -> None:
    """Some are made in the background. A tree of before has none."""
    while hasattr(store, "embedding") and store.embedding()["state"] == "building":
        time.sleep(0.05)


async def play(directory: Path, method: str) -> dict[str, Any]:
    store = opened(directory, method)
    transport = httpx.ASGITransport(create_app(store, token=None))
    async with httpx.AsyncClient(transport=transport, base_url="http://platform", timeout=60) as client:
        answers = await _asked(store, client, await _brain(client, "Notes"))
        told = await _told(store, client, await _brain(client, "Told"))
    store.close()
    return {"answers": answers, "told": told}


async def _brain(client: httpx.AsyncClient, name: str) -> str:
    made = (await client.post("/v1/brains", json={"name": name})).raise_for_status()
    return f"/v1/brains/{made.json()['id']}"


async def _asked(store: Store, client: httpx.AsyncClient, brain: str) -> list[dict[str, Any]]:
    for note in yaml.safe_load((HERE / "notes.yaml").read_text(encoding="utf-8")):
        put = await client.put(f"{brain}/documents", params={"path": note["path"]}, content=note["text"].encode())
        put.raise_for_status()
    _wait_for_vectors(store)
    return [
        {"answer": await _ask(client, brain, row["ask"]), "hits": await _hits(client, brain, row["ask"])}
        for row in yaml.safe_load((HERE / "questions.yaml").read_text(encoding="utf-8"))
    ]


async def _told(store: Store, client: httpx.AsyncClient, brain: str) -> list[dict[str, Any]]:
    rows = yaml.safe_load((HERE / "told.yaml").read_text(encoding="utf-8"))
    for n, row in enumerate(rows):
        talk = [_TALK[n % len(_TALK)], row["tell"]]
        for role, content in [*(("user", said) for said in talk), ("assistant", "Got it.")]:
            message = {"role": role, "content": content}
            (await client.post(f"{brain}/sessions/{_session(n)}/messages", json=message)).raise_for_status()
    _wait_for_vectors(store)
    return [
        {
            "answer": await _ask(client, brain, row["ask"]),
            "hits": await _hits(client, brain, row["ask"]),
            "recalled": await _recalled(client, brain, _session(n), row["ask"]),
        }
        for n, row in enumerate(rows)
    ]


def _session(n: int) -> str:
    return f"talk-{n // _IN_ONE_SESSION}"


async def _ask(client: httpx.AsyncClient, brain: str, question: str) -> str:
    body = (await client.post(f"{brain}/ask", json={"query": question})).raise_for_status().text
    done = json.loads(body.rstrip().rpartition("\ndata: ")[2])
    return str(done["answer"])


async def _hits(client: httpx.AsyncClient, brain: str, question: str) -> list[dict[str, Any]]:
    found = await client.get(f"{brain}/search", params={"q": question, "top_k": _FIRST})
    return _shown(found.raise_for_status().json()["hits"])


async def _recalled(client: httpx.AsyncClient, brain: str, session: str, question: str) -> list[dict[str, Any]]:
    found = await client.post(f"{brain}/sessions/{session}/recall", json={"query": question, "top_k": _FIRST})
    return _shown(found.raise_for_status().json()["chunks"])


def _shown(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: hit[key] for key in ("path", "score", "content")} for hit in hits]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        json.dump(asyncio.run(play(Path(directory), sys.argv[1])), sys.stdout)
