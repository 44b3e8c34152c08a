"""The sixth law: what a caller may not see never appears in an answer to them, on any tool of any surface.

Not theirs is what is private to another, of a project or an organization that is not theirs; and nobody's any more is
what has expired, was deleted, or was replaced.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tenants.companies import KINDS, PEOPLE, Company, Person, company, result_of
from tests.tiers import by_tier

COMMON = "walrus"
NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Step:
    """Something that a person does. `where` is a scope, a project or a key, by what is done."""

    who: Person
    what: str
    where: str


@dataclass
class Told:
    """Words that are in a brain, and who may still be told each of them."""

    readers: dict[str, set[Person]] = field(default_factory=dict)
    at: dict[tuple[str, ...], str] = field(default_factory=dict)
    """The word that stands at a place where the next one replaces it."""

    def write(self, readers: set[Person], place: tuple[str, ...] | None = None) -> str:
        word = f"word{next(NUMBERS):05d}x"
        if place is not None:
            self.end(place)
            self.at[place] = word
        self.readers[word] = set(readers)
        return word

    def end(self, place: tuple[str, ...]) -> None:
        if (before := self.at.pop(place, None)) is not None:
            self.readers[before] = set()


@pytest.fixture(scope="module", params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    with company(request.param, tmp_path_factory.mktemp("sight")) as made:
        yield made


@st.composite
def steps(draw: st.DrawFn) -> Step:
    who = draw(st.sampled_from(PEOPLE))
    what = draw(st.sampled_from(["team", "forget", "memo", "note", "put", "expiring", "delete", "session"]))
    if what in {"put", "expiring", "delete"}:
        return Step(who, what, draw(st.sampled_from(["first", "second"])))
    scopes = ["private", "global"] if what in {"team", "forget"} else []
    return Step(who, what, draw(st.sampled_from([*scopes, *who.projects])))


def sharing(who: Person, project: str) -> set[Person]:
    return {person for person in PEOPLE if person.org == who.org and project in person.projects}


def do(here: Company, brain: str, told: Told, step: Step) -> None:
    who, where = step.who, step.where
    by_scope = {"private": {who}, "global": set(PEOPLE)}
    readers = by_scope.get(where) or sharing(who, where)
    owner = {"private": f"{who.name} of {who.org}", "global": ""}.get(where, who.org)
    team_place = ("team", where, owner)
    tool, arguments = "", dict[str, Any]()
    match step.what:
        case "team":
            word = told.write(readers, team_place)
            entry = {"content": f"The {COMMON} is {word}.", "type": "status", "scope": where, "key": "walrus-now"}
            tool, arguments = "team memory_remember", entry
        case "forget":
            told.end(team_place)
            tool, arguments = "team memory_forget", {"scope": where, "key": "walrus-now"}
        case "memo":
            memo = {"content": f"The {COMMON} is {told.write(readers)}.", "source": "test"}
            tool, arguments = "memo memoai_memo_record", memo
        case "note":
            word = told.write(readers)
            path = f"memory/project/{where}/{word}.md"
            tool, arguments = "memory memory_remember", {"content": f"The {COMMON} is {word}.", "path": path}
        case "put" | "expiring":
            word = told.write(set(PEOPLE), ("kv", where))
            value: dict[str, Any] = {"key": where, "namespace": "n", "value": f"The {COMMON} is {word}."}
            if step.what == "expiring":
                value["expires_in_days"] = 1e-9
                told.end(("kv", where))
            tool, arguments = "kv jettson_memory_put", value
        case "delete":
            told.end(("kv", where))
            tool, arguments = "kv jettson_memory_delete", {"key": where, "namespace": "n"}
        case "session":
            word = told.write({who})
            message = {"role": "user", "content": f"Is the {COMMON} {word}?"}
            tool, arguments = "memory memory_extract", {"session_id": "talk", "messages": [message]}
    surface, _, name = tool.partition(" ")
    said = here.call(who, surface, name, arguments, brain=brain, **({"project": where} if step.what == "memo" else {}))
    if step.what != "forget":
        result_of(said)


def answers(here: Company, brain: str, who: Person) -> Iterator[str]:
    for surface, tool, arguments in (
        ("memory", "memory_search", {"query": COMMON, "top_k": 50}),
        ("memory", "memory_search", {"query": COMMON, "scope": "project", "sort": "recency"}),
        ("memory", "memory_recall", {"query": COMMON}),
        ("memory", "memory_recall", {"query": COMMON, "session_id": "talk"}),
        ("memory", "memory_ask", {"query": COMMON}),
        ("memory", "memory_reflect", {"session_id": "talk"}),
        ("kv", "jettson_memory_search", {"query": COMMON}),
        ("kv", "jettson_memory_list", {}),
        ("kv", "jettson_memory_get", {"key": "first", "namespace": "n"}),
        ("team", "memory_recall", {}),
        ("team", "memory_load_context", {}),
        ("being", "search_memory", {"query": COMMON}),
        ("being", "get_context", {}),
        ("chat", "search", {"query": COMMON}),
    ):
        yield here.call(who, surface, tool, arguments, brain=brain)
    for project in who.projects:
        yield here.call(who, "memo", "memoai_memo_search", {"query": COMMON}, brain=brain, project=project)


@settings(
    deadline=None,
    max_examples=by_tier(3, 6, 60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(steps(), min_size=2, max_size=10))
@pytest.mark.sampled(3)
def test_law_6_what_a_caller_may_not_see_never_appears(here: Company, taken: list[Step]) -> None:
    brain, told = here.new_brain(f"law-six-{next(NUMBERS)}"), Told()
    for step in taken:
        do(here, brain, told, step)
    for who in PEOPLE:
        hidden = [word for word, readers in told.readers.items() if who not in readers]
        said = list(answers(here, brain, who))
        assert [(word, one) for word in hidden for one in said if word in one] == []
        # And what stands, and is theirs by a place, is told.
        standing = [word for word in told.at.values() if who in told.readers[word]]
        assert [word for word in standing if not any(word in one for one in said)] == []
