"""What the clients write: every kind of write, each with a mark of its own, in conversations that keep their order."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.proof.ledger import Write
from tests.faults.proof.shelves import mark, message_key

# Kinds of write, and how many of a hundred are such.
REMEMBER, WITH_PATH, ELSEWHERE = "remember", "remember, with a path", "remember, in another tree"
FILE, PAGE = "ingest_file", "ingest_url"
SESSION, TRANSCRIPT, BRAIN = "extract, in a session", "extract, a transcript", "create_brain"
MIX = {REMEMBER: 35, WITH_PATH: 10, FILE: 10, PAGE: 5, SESSION: 20, TRANSCRIPT: 10, BRAIN: 5, ELSEWHERE: 5}
# Each kind has a brain of its own, so that a request tells which kind of write it belongs to.
BRAINS = {
    kind: f"proof-{n}-{kind.replace(', ', '-').replace(' ', '-').replace('_', '-')}" for n, kind in enumerate(MIX)
}
PAGES = "http://pages.example"
_LARGE, _LARGE_SHARE = 40_000, 0.03
_WORDS = ("the", "heron", "waits", "by", "a", "river", "until", "night", "trains", "have", "left", "old", "bridges")


class Workload:
    """Writes in the order they are made up; `root` is where the gateway reads files from."""

    def __init__(self, seed: int, root: Path) -> None:
        self._random = random.Random(seed)
        self._seed, self._root = seed, root
        self._marks = 0

    def conversations(self, count: int) -> Iterator[list[Write]]:
        """At least `count` writes, as lists of which each has to be sent in order."""
        # A session is four writes, more or less: it is drawn so much less often.
        weights = [weight / 4 if kind == SESSION else weight for kind, weight in MIX.items()]
        made = 0
        while made < count:
            kind = self._random.choices(list(MIX), weights)[0]
            writes = self._session(self._random.randint(2, 6)) if kind == SESSION else [self.single(kind)]
            made += len(writes)
            yield writes

    def single(self, kind: str) -> Write:
        """One write of a kind that stands alone."""
        n, brain = self._mark(), BRAINS[kind]
        arguments: dict[str, Any]
        match kind:
            case "remember":
                title = {} if self._random.random() < 0.5 else {"title": f"Note {n}", "tags": ["proof", n]}
                arguments = {"content": f"# Heron {n}\n\n{self._text()}", **title}
            case "remember, with a path":
                arguments = {"content": f"{self._text()} {n}", "path": f"memory/global/{n}.md"}
            case "remember, in another tree":
                arguments = {"content": f"{n}\n\n{self._text()}", "path": f"projects/proof/{n[-1]}/{n}.md"}
            case "ingest_file":
                file = self._root / f"{n}.txt"
                file.write_text(f"{n}\n\n{self._text()}\n", encoding="utf-8")
                arguments = {"path": str(file)}
            case "ingest_url":
                arguments = {"url": f"{PAGES}/{n}"}
            case "extract, a transcript":
                arguments = {"messages": [{"role": "user", "content": f"{self._text()} {n}"}, *self._chat()]}
            case "create_brain":
                slug = {} if self._random.random() < 0.5 else {"slug": f"{n}-slug"}
                return Write(kind, "memory_create_brain", {"name": f"Brain {n}", **slug}, (n,))
            case _:
                raise ValueError(kind)
        tool = "memory_" + kind.partition(",")[0]
        return Write(kind, tool, {"brain": brain, **arguments}, (n,))

    def session(self, count: int = 3) -> Write:
        """One call of a new session, with so many messages."""
        return self._call(f"session-{self._mark()}", count)

    def _session(self, calls: int) -> list[Write]:
        name = f"session-{self._mark()}"
        made = [self._call(name, self._random.randint(1, 4)) for _ in range(calls)]
        if calls >= 4 and self._random.random() < 0.5:
            # The same words again, with others between: that is no repeat.
            again = f"Yes, go ahead. {name}"
            for call in (made[0], made[-1]):
                call.arguments["messages"].insert(0, {"role": "user", "content": again})
                call.keys = (message_key(name, again), *call.keys)
                call.shared = frozenset({message_key(name, again)})
        return made

    def _call(self, session: str, count: int) -> Write:
        messages = [
            {"role": ("user", "assistant")[n % 2], "content": f"{self._text(short=True)} {self._mark()}"}
            for n in range(count)
        ]
        keys = tuple(message_key(session, message["content"]) for message in messages)
        arguments = {"brain": BRAINS[SESSION], "session_id": session, "messages": messages}
        return Write(SESSION, "memory_extract", arguments, keys, session=session)

    def _chat(self) -> list[dict[str, str]]:
        return [{"role": "assistant", "content": self._text(short=True)} for _ in range(self._random.randint(0, 3))]

    def _mark(self) -> str:
        self._marks += 1
        return mark(self._seed, self._marks)

    def _text(self, short: bool = False) -> str:
        large = not short and self._random.random() < _LARGE_SHARE
        words = self._random.choices(_WORDS, k=self._random.randint(5, 40))
        return " ".join(words) * (_LARGE // 200 if large else 1)
