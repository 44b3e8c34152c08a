"""Calls of every surface that write, as hypothesis draws them; every text has a word of its own."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from gateway.surfaces.catalog import SURFACES
from tests.laws.world import PEOPLE, PROJECT


@dataclass(frozen=True)
class Write:
    """One call. `word` is in what it stores, and in nothing else."""

    who: str
    surface: str
    tool: str
    arguments: tuple[tuple[str, Any], ...]
    word: str = ""

    @property
    def given(self) -> dict[str, Any]:
        return {name: thawed(value) for name, value in self.arguments}

    def __repr__(self) -> str:
        return f"{self.who}: {self.surface} {self.tool} {self.given}"


def frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return ("dict", tuple((key, frozen(inner)) for key, inner in value.items()))
    return ("list", tuple(map(frozen, value))) if isinstance(value, list) else value


def thawed(value: Any) -> Any:
    if isinstance(value, tuple):
        kind, held = value
        return {key: thawed(inner) for key, inner in held} if kind == "dict" else [thawed(inner) for inner in held]
    return value


def _write(who: str, surface: str, tool: str, word: str = "", /, **arguments: Any) -> Write:
    return Write(who, surface, tool, tuple((name, frozen(value)) for name, value in arguments.items()), word)


who = st.sampled_from(PEOPLE)
number = st.integers(0, 5)
key = st.sampled_from(["first", "Second.key", "third-1"])
small_key = st.sampled_from(["db.system-of-record", "style"])


@st.composite
def memory_writes(draw: st.DrawFn) -> Write:
    word = f"memoryword{draw(number)}"
    return _write(draw(who), "memory", "memory_remember", word, content=f"The {word} is remembered.")


@st.composite
def kv_writes(draw: st.DrawFn) -> Write:
    named = {"key": draw(key), "namespace": draw(st.sampled_from(["default", "Other"]))}
    if draw(st.booleans()):
        word = f"kvword{draw(number)}"
        return _write(
            draw(who), "kv", "jettson_memory_put", word, value=f"The {word} is put.", tags=["a"], importance=7, **named
        )
    return _write(draw(who), "kv", "jettson_memory_delete", **named)


@st.composite
def team_writes(draw: st.DrawFn) -> Write:
    scope = draw(st.sampled_from(["global", "private", PROJECT]))
    keyed = {"key": draw(small_key)} if draw(st.booleans()) else {}
    if keyed and draw(st.integers(0, 3)) == 0:
        return _write(draw(who), "team", "memory_forget", scope=scope, **keyed)
    person = draw(who)
    word = f"{'private' + person if scope == 'private' else 'team' + scope}word{draw(number)}"
    kind = draw(st.sampled_from(["decision", "convention", "status"]))
    return _write(
        person, "team", "memory_remember", word, content=f"The {word} holds.", type=kind, scope=scope, **keyed
    )


@st.composite
def memo_writes(draw: st.DrawFn) -> Write:
    word = f"memoword{draw(number)}"
    metadata = {"file": "src/core/store.py", "lines": [1, 2], "done": True}
    return _write(
        draw(who), "memo", "memoai_memo_record", word, content=f"Fixed the {word}.", source="manual", metadata=metadata
    )


@st.composite
def being_writes(draw: st.DrawFn) -> Write:
    word, person = f"beingword{draw(number)}", draw(who)
    scene = {"action": f"Saw the {word}", "actors": ["Ann"], "when": ["2026-04-14"], "themes": ["travel"]}
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return _write(person, "being", "update_notes", word, scenes=[scene], notes=[f"Buy a {word}"])
    if kind == 1:
        target = draw(st.sampled_from(["knowledge", "preferences", "diary"]))
        return _write(
            person, "being", "update_memory", word, target=target, action="append", content=f"The {word} is known."
        )
    if kind == 2:
        return _write(
            person, "being", "update_memory", word, target="knowledge", action="update", key="k", content=f"A {word}."
        )
    if kind == 3:
        return _write(
            person,
            "being",
            "update_relation",
            word,
            entity_name="Bob",
            relation_type="person",
            action="upsert",
            content=f"Knows the {word}.",
        )
    if kind == 4:
        return _write(person, "being", "update_relation", entity_name="Bob", relation_type="person", action="delete")
    messages = [{"role": "user", "content": f"Tell me of the {word}."}]
    return _write(person, "being", "trigger_patrol", word, messages=messages)


_OF = {
    "memory": memory_writes(),
    "kv": kv_writes(),
    "team": team_writes(),
    "being": being_writes(),
    "memo": memo_writes(),
}
writes = st.one_of(*(_OF[surface] for surface in SURFACES if surface in _OF))


def questions(word: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Every call that reads, on every surface, so that it would show what has this word."""
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("memory", "memory_search", {"query": word}),
        ("memory", "memory_search", {"query": word, "scope": "agent"}),
        ("memory", "memory_recall", {"query": word, "session_id": "talk"}),
        ("memory", "memory_ask", {"query": word}),
        ("kv", "jettson_memory_search", {"query": word}),
        ("kv", "jettson_memory_list", {"limit": 200}),
        ("team", "memory_recall", {"query": word}),
        ("team", "memory_recall", {}),
        ("team", "memory_load_context", {}),
        ("team", "memory_scopes", {}),
        ("memo", "memoai_memo_search", {"query": word, "limit": 100}),
        ("being", "recall", {"user_message": word}),
        ("being", "search_memory", {"query": word, "limit": 30}),
        ("being", "search_history", {"query": word, "limit": 50}),
        ("being", "get_context", {}),
        ("being", "recall_memory", {}),
        ("chat", "search", {"query": word}),
    ]
    return [question for question in asked if question[0] in SURFACES]
