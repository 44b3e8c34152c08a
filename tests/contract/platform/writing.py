"""A writer for tests of durability: `python -m tests.contract.platform.writing DATA_DIR NAME THREADS WRITES`.

It prints the path of each document once the store has acknowledged it.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from contract.platform.brains import Brain
from contract.platform.sessions import Message
from contract.platform.store import Store

PRINTING = threading.Lock()


def content_of(path: str) -> bytes:
    return f"# {path}\n\nAcknowledged words about {path}.\n".encode() * 5


def write(store: Store, brain: Brain, name: str, number: int) -> None:
    path = f"{name}/{number}.md"
    store.documents.put(brain, path, content_of(path))
    store.documents.append(brain, "log.txt", f"{path}\n".encode())
    store.sessions.add(brain, name, Message("user", f"I like number {number} of {name}."))
    with PRINTING:
        sys.stdout.write(f"{path}\n")
        sys.stdout.flush()


def main(data_dir: str, name: str, threads: str, writes: str) -> None:
    store = Store.open(Path(data_dir))
    brain = store.brain("main")
    with ThreadPoolExecutor(int(threads)) as pool:
        list(pool.map(lambda number: write(store, brain, name, number), range(int(writes))))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
