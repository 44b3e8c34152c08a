"""Every person calls every tool of every surface, and no word comes back that is not theirs."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

import httpx
import pytest

from gateway.surfaces.being.schema import Target
from gateway.surfaces.catalog import SURFACES
from tests.gateway.test_processes import process
from tests.tenants.companies import (
    ALICE,
    ALICE_OF_GLOBEX,
    BOB,
    BRAIN,
    CAROL,
    KINDS,
    PEOPLE,
    Company,
    Kind,
    Person,
    company,
    make_tokens,
    result_of,
)
from tests.tiers import by_tier

# A word that is in every note, so that any search finds all of them.
COMMON: Final = "walrus"


@dataclass
class Secrets:
    """Words that were written, each with the people who may read it."""

    readers: dict[str, frozenset[Person]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def new(self, *readers: Person) -> str:
        word = f"secret{next(self._numbers):03d}x"
        self.readers[word] = frozenset(readers)
        return word

    def hidden_from(self, who: Person) -> list[str]:
        return [word for word, readers in self.readers.items() if who not in readers]

    def shown_to(self, who: Person) -> list[str]:
        return [word for word, readers in self.readers.items() if who in readers]


def members(org: str, project: str) -> list[Person]:
    return [person for person in PEOPLE if person.org == org and project in person.projects]


@dataclass
class World:
    kind: Kind
    company: Company
    secrets: Secrets = field(default_factory=Secrets)
    entry_ids: dict[str, str] = field(default_factory=dict)
    """The id of each team entry, by the word it holds."""
    foreign_brains: dict[str, list[Person]] = field(default_factory=dict)
    """Brains with owners, and who may not see each of them."""


@pytest.fixture(scope="module", params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with company(request.param, tmp_path_factory.mktemp("company")) as made:
        filled = World(request.param, made)
        write_everything(filled)
        yield filled


def write_everything(world: World) -> None:
    """What each person keeps for themselves, and in each of their projects, by every tool that writes such things."""
    here, secrets = world.company, world.secrets
    for who in PEOPLE:
        word = secrets.new(who)
        said = here.call(who, "team", "memory_remember", team_entry(word, "private"))
        world.entry_ids[word] = result_of(said)["structuredContent"]["id"]
        session = {"session_id": "talk", "messages": [{"role": "user", "content": f"{secrets.new(who)} {COMMON}?"}]}
        result_of(here.call(who, "memory", "memory_extract", session))
        result_of(here.call(who, "memory", "memory_reflect", {"session_id": "talk"}))
        for project in who.projects:
            word = secrets.new(*members(who.org, project))
            said = here.call(who, "team", "memory_remember", team_entry(word, project))
            world.entry_ids[word] = result_of(said)["structuredContent"]["id"]
            word = secrets.new(*members(who.org, project))
            memo = {"content": f"The {COMMON} is {word}.", "source": "test"}
            result_of(here.call(who, "memo", "memoai_memo_record", memo, project=project))
            word = secrets.new(*members(who.org, project))
            note = {
                "content": f"# {word}\n\nThe {COMMON} is {word}.",
                "path": f"memory/project/{project}/{who.name}.md",
            }
            result_of(here.call(who, "memory", "memory_remember", note))
    if world.kind == "embedded":
        for who, visibility in itertools.product((ALICE, CAROL), ("private", "tenant")):
            slug = f"{who.org}-{visibility}"
            readers = [who] if visibility == "private" else [p for p in PEOPLE if p.org == who.org]
            brain = {"name": f"{secrets.new(*readers)} brain", "slug": slug, "visibility": visibility}
            result_of(here.call(who, "memory", "memory_create_brain", brain, brain=""))
            note = {"content": f"The {COMMON} is {secrets.new(*readers)}."}
            result_of(here.call(who, "memory", "memory_remember", note, brain=slug))
            world.foreign_brains[slug] = [person for person in PEOPLE if person not in readers]


def team_entry(word: str, scope: str) -> dict[str, Any]:
    return {"content": f"The {COMMON} is {word}.", "type": "decision", "scope": scope}


def everything_to_read(world: World, who: Person) -> Iterator[str]:
    """Every tool that may tell something, asked for all there is, and for what is not theirs by its name."""
    for query in [COMMON, *world.secrets.hidden_from(who)[: by_tier(1, 4)]]:
        # Some answers say what was asked.
        yield from (said.replace(query, "") for said in everything_found(world, who, query))
    yield from everything_listed(world, who)


def everything_found(world: World, who: Person, query: str) -> Iterator[str]:
    here = world.company
    for scope in ("all", "project", "global", "agent"):
        yield here.call(who, "memory", "memory_search", {"query": query, "top_k": 50, "scope": scope})
    for sort in ("recency", "relevance_then_recency"):
        yield here.call(who, "memory", "memory_search", {"query": query, "sort": sort})
    yield here.call(who, "memory", "memory_recall", {"query": query, "top_k": 50})
    yield here.call(who, "memory", "memory_recall", {"query": query, "top_k": 50, "session_id": "talk"})
    yield here.call(who, "memory", "memory_ask", {"query": query, "top_k": 50})
    yield here.call(who, "kv", "jettson_memory_search", {"query": query})
    yield here.call(who, "team", "memory_recall", {"query": query})
    yield here.call(who, "being", "recall", {"query": query})
    yield here.call(who, "being", "search_memory", {"query": query})
    yield here.call(who, "being", "search_history", {"keyword": query})
    found = here.call(who, "chat", "search", {"query": query})
    yield found
    for one in result_of(found)["structuredContent"]["results"]:
        yield here.call(who, "chat", "fetch", {"id": one["id"]})


def everything_listed(world: World, who: Person) -> Iterator[str]:
    here = world.company
    for project in ("orion", "nebula", "vega", "Orion", "none"):
        yield here.call(who, "team", "memory_recall", {"scope": project})
        yield here.call(who, "team", "memory_load_context", {"scope": project})
        yield here.call(who, "team", "memory_recall", {}, project=project)
        yield here.call(who, "memo", "memoai_memo_search", {"query": COMMON}, project=project)
        yield here.ask_protocol(who, "team", "resources/read", {"uri": f"memory://{project}"})
    for scope in ("private", "global"):
        yield here.ask_protocol(who, "team", "resources/read", {"uri": f"memory://{scope}"})
    for start in ("", "o", "n", "v"):
        reference = {"type": "ref/resource", "uri": "memory://{scope}"}
        asked = {"ref": reference, "argument": {"name": "scope", "value": start}}
        yield here.ask_protocol(who, "team", "completion/complete", asked)
    for surface in SURFACES:
        for method in ("resources/list", "resources/templates/list", "tools/list", "prompts/list"):
            yield here.ask_protocol(who, surface, method, {})
        yield here.ask_protocol(who, surface, "resources/read", {"uri": "brains://capabilities"})
    for entry in world.entry_ids.values():
        yield here.call(who, "team", "memory_forget", {"id": f"{entry}x"})
    yield here.call(who, "team", "memory_scopes", {})
    yield here.call(who, "team", "memory_load_context", {})
    yield here.call(who, "kv", "jettson_memory_list", {})
    yield here.call(who, "kv", "jettson_memory_get", {"key": COMMON})
    yield here.call(who, "kv", "jettson_memory_put", {"key": f"{who.name}-{who.org}", "value": "nothing"})
    yield here.call(who, "kv", "jettson_memory_delete", {"key": COMMON})
    yield from everything_of_beings(here, who)
    yield here.call(who, "memory", "memory_ingest_url", {"url": "http://127.0.0.1:9/"})
    yield here.call(who, "memory", "memory_extract", {"messages": [{"role": "user", "content": f"And the {COMMON}?"}]})
    yield here.call(who, "memory", "memory_reflect", {"session_id": "talk"})
    yield from everything_by_path(here, who)
    yield here.call(who, "memory", "memory_list_brains", {})
    yield here.call(who, "memory", "memory_list_brains", {}, brain="")
    yield here.call(who, "memory", "memory_create_brain", {"name": "Shared", "slug": BRAIN}, brain="")
    for brain, strangers in world.foreign_brains.items():
        if who in strangers:
            yield here.call(who, "memory", "memory_search", {"query": COMMON}, brain=brain)
            yield here.call(who, "memory", "memory_ask", {"query": COMMON}, brain=brain)
            yield here.call(who, "team", "memory_recall", {}, brain=brain)
            yield here.call(who, "chat", "search", {"query": COMMON}, brain=brain)


def everything_by_path(here: Company, who: Person) -> Iterator[str]:
    """Notes of all by their names, which anybody may guess: listed, read, changed and put away."""
    for folder in ("", "memory/project", "memory/project/orion", "memory/agent", "sessions", "reflections"):
        yield here.call(who, "memory", "memory_list", {"folder": folder, "limit": 500})
    for other in PEOPLE:
        for project in other.projects:
            path = f"memory/project/{project}/{other.name}.md"
            yield here.call(who, "memory", "memory_read", {"path": path})
            yield here.call(who, "chat", "fetch", {"id": path})
            if project not in who.projects:
                new = {"path": path, "content": "intruder", "checksum_sha256": "0" * 64}
                yield here.call(who, "memory", "memory_update", new)
                yield here.call(who, "memory", "memory_forget", {"path": path})
    yield here.call(who, "memory", "memory_update", {"path": "a.md", "content": "x", "checksum_sha256": "0" * 64})
    yield here.call(who, "memory", "memory_forget", {"path": "memory/global/nothing.md"})


def everything_of_beings(here: Company, who: Person) -> Iterator[str]:
    yield here.call(who, "being", "get_context", {})
    yield here.call(who, "being", "recall_memory", {})
    for target in get_args(Target):
        yield here.call(who, "being", "update_memory", {"target": target, "action": "get"})
    yield here.call(who, "being", "update_notes", {"action": "append", "notes": ["nothing"]})
    relation = {"entity_name": "Rin", "relation_type": "person", "action": "upsert", "content": "nobody"}
    yield here.call(who, "being", "update_relation", relation)
    yield here.call(who, "being", "trigger_patrol", {"messages": []})
    yield here.call(who, "being", "merge_nodes", {"node_ids": "a,b", "summary": "nothing"})
    yield here.call(who, "being", "get_current_time", {})


@pytest.mark.parametrize("who", PEOPLE, ids=lambda person: f"{person.name} of {person.org}")
@pytest.mark.sampled(5)
@pytest.mark.few(6)
def test_no_tool_tells_anybody_a_word_that_is_not_theirs(world: World, who: Person) -> None:
    hidden = world.secrets.hidden_from(who)
    told = [said for said in everything_to_read(world, who) if any(word in said for word in hidden)]
    assert told == []
    tools = {(surface, spec["name"]) for surface in SURFACES for spec in tools_of(world.company, who, surface)}
    # Consolidating has a test of its own below.
    assert tools - set(world.company.called) <= {("memory", "memory_consolidate")}


def tools_of(here: Company, who: Person, surface: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(here.ask_protocol(who, surface, "tools/list", {}))[-1]["result"]["tools"]
    return listed


@pytest.mark.parametrize("who", PEOPLE, ids=lambda person: f"{person.name} of {person.org}")
def test_everybody_finds_what_is_theirs(world: World, who: Person) -> None:
    """Else the test above would hold for a gateway that tells nothing."""
    here = world.company
    found = here.call(who, "team", "memory_recall", {}) + here.call(
        who, "memory", "memory_search", {"query": COMMON, "top_k": 50}
    )
    for project in who.projects:
        found += here.call(who, "memo", "memoai_memo_search", {"query": COMMON, "limit": 50}, project=project)
    for brain, strangers in world.foreign_brains.items():
        if who not in strangers:
            found += here.call(who, "memory", "memory_search", {"query": COMMON}, brain=brain)
    found += here.call(who, "memory", "memory_list_brains", {}, brain="")
    said_in_session = {word for word in world.secrets.shown_to(who) if world.secrets.readers[word] == {who}}
    assert [word for word in world.secrets.shown_to(who) if word not in found and word not in said_in_session] == []


@pytest.mark.parametrize("who", PEOPLE, ids=lambda person: f"{person.name} of {person.org}")
def test_a_search_is_filled_up_with_what_is_theirs(world: World, who: Person) -> None:
    """What is left out leaves no gap: as many hits come as were asked for, where there are as many."""
    mine = result_of(world.company.call(who, "memory", "memory_search", {"query": COMMON, "top_k": 50}))
    few = result_of(world.company.call(who, "memory", "memory_search", {"query": COMMON, "top_k": 2}))
    assert len(few["structuredContent"]["hits"]) == min(2, len(mine["structuredContent"]["hits"])) == 2


@pytest.mark.parametrize("who", PEOPLE, ids=lambda person: f"{person.name} of {person.org}")
def test_nothing_of_others_is_changed_by_its_name(world: World, who: Person) -> None:
    """Nobody writes into, or forgets out of, a project that is not theirs."""
    here = world.company
    for project in {"orion", "nebula", "vega"} - set(who.projects):
        for said in (
            here.call(who, "team", "memory_remember", team_entry("intruder", project)),
            here.call(who, "memo", "memoai_memo_record", {"content": "intruder", "source": "x"}, project=project),
            here.call(
                who, "memory", "memory_remember", {"content": "intruder", "path": f"memory/project/{project}/i.md"}
            ),
        ):
            assert '"isError": true' in said
    for word, entry in world.entry_ids.items():
        if word in world.secrets.hidden_from(who):
            said = here.call(who, "team", "memory_forget", {"id": entry})
            assert '"forgotten": true' not in said
    for other in PEOPLE:
        told = here.call(other, "team", "memory_recall", {})
        assert [word for word in world.entry_ids if word in world.secrets.shown_to(other) and word not in told] == []
        assert "intruder" not in told


def test_the_same_refusal_whether_a_project_is_anothers_or_nobodys(world: World) -> None:
    here = world.company
    words = {
        here.call(BOB, "team", "memory_recall", {"scope": project}).replace(project, "P")
        for project in ("vega", "zeta")
    }
    assert len({_without_request_id(said) for said in words}) == 1


def test_the_same_refusal_whether_a_brain_is_anothers_or_nobodys(world: World) -> None:
    for brain in world.foreign_brains:
        for who in world.foreign_brains[brain]:
            said = [
                world.company.call(who, "memory", "memory_search", {"query": "x"}, brain=b) for b in (brain, "none")
            ]
            assert len({_without_request_id(one) for one in said}) == 1


def _without_request_id(said: str) -> str:
    result = json.loads(said)[-1]["result"]
    return json.dumps(result).replace(result["structuredContent"]["request_id"], "")


def test_consolidating_mixes_nothing(world: World) -> None:
    """Where the platform does not keep folders apart, it is refused in words."""
    said = world.company.call(ALICE, "memory", "memory_consolidate", {})
    if world.kind == "embedded":
        result_of(said)
        assert [t for t in everything_to_read(world, BOB) if any(w in t for w in world.secrets.hidden_from(BOB))] == []
    else:
        assert "would mix them with yours" in said


def test_a_session_is_its_callers(world: World) -> None:
    """Whoever names the session of another names one of their own, in which nothing was said yet."""
    here = world.company
    said = {"session_id": "hers", "messages": [{"role": "user", "content": f"How is the {COMMON}?"}]}
    first = result_of(here.call(ALICE, "memory", "memory_extract", said))["structuredContent"]
    assert {message["session_id"] for message in first["messages"]} == {"hers"}
    for who in (BOB, CAROL, ALICE_OF_GLOBEX):
        assert "no_result" in here.call(who, "memory", "memory_reflect", {"session_id": "hers"})
    again = result_of(here.call(ALICE, "memory", "memory_extract", said))["structuredContent"]
    assert again["reused"] is True
    assert [message["id"] for message in again["messages"]] == [message["id"] for message in first["messages"]]


@pytest.mark.parametrize("world", ["embedded"], indirect=True)
def test_what_is_learned_in_a_session_is_its_callers(world: World) -> None:
    """Facts that were extracted are told to whoever said them, by search and by answer, and to nobody else."""
    here, fact = world.company, "My shoe size is 4711 inches."
    said = {"session_id": "fitting", "messages": [{"role": "user", "content": fact}]}
    result_of(here.call(ALICE, "memory", "memory_extract", said))
    for who in PEOPLE:
        told = [
            here.call(who, "memory", "memory_search", {"query": "shoe size"}),
            here.call(who, "memory", "memory_recall", {"query": "shoe size", "session_id": "fitting"}),
            here.call(who, "memory", "memory_ask", {"query": "What is the shoe size?"}),
        ]
        assert ["4711 inches" in one for one in told] == [who is ALICE] * 3
        assert who is ALICE or not any("fitting-" in one or "-fitting" in one for one in told)


@pytest.mark.parametrize("world", ["embedded"], indirect=True)
def test_what_was_said_in_a_session_is_its_callers(world: World) -> None:
    """Messages are told to whoever said them, and to nobody else, whatever session they name."""
    here, words = world.company, "somehow the zeppelin is stinking of surstromming"
    said = {"session_id": "flight", "messages": [{"role": "user", "content": words}]}
    result_of(here.call(ALICE, "memory", "memory_extract", said))
    owner_session = None
    for who in [ALICE, *(person for person in PEOPLE if person is not ALICE)]:
        told = [
            here.call(who, "memory", "memory_search", {"query": "stinking zeppelin"}),
            here.call(who, "memory", "memory_search", {"query": "stinking zeppelin", "sort": "recency"}),
            here.call(who, "memory", "memory_recall", {"query": "stinking zeppelin"}),
            here.call(who, "memory", "memory_recall", {"query": "stinking zeppelin", "session_id": "flight"}),
            here.call(who, "memory", "memory_ask", {"query": "What did the zeppelin stink of?"}),
        ]
        assert ["surstromming" in one for one in told] == [who is ALICE] * 5
        if who is ALICE:
            hits = result_of(told[0])["structuredContent"]["hits"]
            owner_session = hits[0]["path"].split("/")[1]
            assert [hit["path"] for hit in hits] == [f"sessions/{owner_session}/000001.md"]
        else:
            # Not even by the name that the platform knows the session by.
            asked = {"query": "stinking zeppelin", "session_id": owner_session}
            assert "surstromming" not in here.call(who, "memory", "memory_recall", asked)


@pytest.mark.parametrize("world", ["embedded"], indirect=True)
def test_a_brain_of_ones_own_is_made_and_listed(world: World) -> None:
    """Only the embedded brain is told who calls: whose a brain is, another platform knows itself."""
    listed = {
        who: {
            brain["slug"]
            for brain in result_of(world.company.call(who, "memory", "memory_list_brains", {}, brain=""))[
                "structuredContent"
            ]["items"]
        }
        for who in (ALICE, BOB, CAROL, ALICE_OF_GLOBEX)
    }
    assert listed[ALICE] == {"main", BRAIN, "acme-private", "acme-tenant"}
    assert listed[BOB] == {"main", BRAIN, "acme-tenant"}
    assert listed[CAROL] == {"main", BRAIN, "globex-private", "globex-tenant"}
    assert listed[ALICE_OF_GLOBEX] == {"main", BRAIN, "globex-tenant"}


@pytest.mark.slow
def test_workers_tell_the_embedded_brain_who_calls_too(tmp_path: Path) -> None:
    """It runs in the process of their supervisor, and they reach it as they would any platform."""
    tokens = tmp_path / "tokens.json"
    made = make_tokens(tokens)
    settings = {"BRAINS_AUTH": "tokens", "BRAINS_TOKENS_FILE": str(tokens)}
    with (
        process(tmp_path, "--workers", "2", **settings) as served,
        httpx.Client(trust_env=False, timeout=60) as http,
    ):
        here = Company(f"http://127.0.0.1:{served.port}", made, http, None)
        brain = {"name": "Hers", "slug": "hers", "visibility": "private"}
        result_of(here.call(ALICE, "memory", "memory_create_brain", brain, brain=""))
        assert "hers" in here.call(ALICE, "memory", "memory_list_brains", {}, brain="")
        for who in (BOB, CAROL, ALICE_OF_GLOBEX):
            assert "hers" not in here.call(who, "memory", "memory_list_brains", {}, brain="")
            assert "no_brain" in here.call(who, "memory", "memory_search", {"query": "x"}, brain="hers")
