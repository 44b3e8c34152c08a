"""Many callers at once, on both wires, by every way to name a brain: nobody gets anything of anybody else."""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.served import Era
from tests.tenants.people import CANARY, Auth, House, Person, brains_of, house, name_of, result_of, twenty
from tests.tiers import by_tier

ERAS: tuple[Era, ...] = ("modern", "legacy")
AT_ONCE = 32
CALLS: dict[Auth, int] = {"jwt": by_tier(240, 600, 9000), "tokens": by_tier(80, 200, 3000)}
# An address that is public and needs no look-up; the platform only says that it fetched it.
PAGE = "https://93.184.216.34/page"
Planned = tuple[Person, Era, str, dict[str, Any], str, dict[str, str]]


def arguments_of(tool: str, person: Person, n: int) -> dict[str, Any]:
    """What a call says, with the mark of who says it, and nothing that is not theirs."""
    said = f"{person.canary} from-{person.mark}-end number {n}"
    session = f"s{n % 3}-from-{person.mark}-end"
    message = {"role": "user", "content": said}
    arguments: dict[str, dict[str, Any]] = {
        "memory_search": {"query": said},
        "memory_recall": {"query": said, "session_id": session},
        "memory_remember": {"content": said, "title": said},
        "memory_ingest_file": {"path": "note.md"},
        "memory_ingest_url": {"url": f"{PAGE}?from-{person.mark}-end"},
        "memory_extract": {"messages": [message], **({"session_id": session} if n % 2 else {})},
        "memory_reflect": {"session_id": session},
        "memory_consolidate": {},
        "memory_create_brain": {"name": f"{person.canary} {n}", "slug": f"new-{person.mark}-{n}"},
        "memory_list_brains": {},
        "memory_ask": {"query": said},
    }
    return arguments[tool]


TOOLS = (
    "memory_search",
    "memory_recall",
    "memory_remember",
    "memory_ingest_file",
    "memory_ingest_url",
    "memory_extract",
    "memory_reflect",
    "memory_consolidate",
    "memory_create_brain",
    "memory_list_brains",
    "memory_ask",
)
WITHOUT_A_BRAIN = {"memory_create_brain", "memory_list_brains"}


def planned(auth: Auth, count: int) -> Iterator[Planned]:
    """Calls of everybody, of all kinds, by every way to name a brain, in an order that is always the same."""
    people, chance = twenty(), random.Random(4711)
    tools = [tool for tool in TOOLS if auth == "jwt" or tool != "memory_create_brain"]
    for n, (person, era) in enumerate(itertools.islice(itertools.cycle(itertools.product(people, ERAS)), count)):
        tool = chance.choice(tools)
        brain = chance.choice(("notes", "by-id", f"id-{name_of(person.tenant)}", f"own-{name_of(person.tenant)}"))
        arguments, path, headers = arguments_of(tool, person, n), "/mcp", dict[str, str]()
        way = chance.choice(("argument", "header", "path")) if auth == "jwt" else "path"
        if tool in WITHOUT_A_BRAIN and auth == "jwt":
            way = "none"
        if way == "argument":
            arguments["brain"] = brain
        elif way == "header":
            headers["x-brain"] = brain
        elif way == "path":
            path = f"/mcp/{brain}"
        yield person, era, tool, arguments, path, headers


@pytest.fixture(params=["jwt", "tokens"])
def full_house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    with house(tmp_path, twenty(), request.param) as found:
        yield found


async def mixed(full: House, calls: list[Planned]) -> list[httpx.Response]:
    """The answers to all calls, in their order; so many under way at once."""
    gate = asyncio.Semaphore(AT_ONCE)
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:

        async def one(planned: Planned) -> httpx.Response:
            person, era, tool, arguments, path, headers = planned
            async with gate:
                return await full.call(http, person, era, tool, arguments, path=path, **headers)

        return list(await asyncio.gather(*(one(call) for call in calls)))


@pytest.mark.timeout(600)
@pytest.mark.slow
async def test_in_a_crowd_everybody_gets_their_own_and_nothing_else(full_house: House) -> None:
    calls = list(planned(full_house.auth, CALLS[full_house.auth]))

    answers = await mixed(full_house, calls)

    failed: Counter[str] = Counter()
    for (person, era, tool, arguments, path, _), answer in zip(calls, answers, strict=True):
        seen = set(CANARY.findall(answer.text))
        assert seen <= {person.canary}, f"{tool} on {era} showed {person} what is not theirs"
        assert "set-cookie" not in answer.headers
        if answer.status_code != 200 or result_of(answer)["isError"] or seen != {person.canary}:
            failed[f"{tool} {era} {path} {sorted(arguments)} {answer.status_code} {answer.text[:400]}"] += 1
    assert not failed, failed.most_common(3)
    assert full_house.platform.odd == []
    assert full_house.platform.cookies == []
    assert full_house.platform.served > len(calls)
    assert_nothing_of_others_is_kept(full_house)


def assert_nothing_of_others_is_kept(full: House) -> None:
    """In every cache there is: lists of brains, what a brain is known as, cookies."""
    tenants = {full.partition(person): person for person in full.people}
    assert len(tenants) == len(full.people)
    directory, upstream = full.gateway.brain._directory, full.gateway._upstream
    assert directory._kept
    assert directory._known_as
    for (partition, _, _), (_, brains) in directory._kept.items():
        shown = {canary for brain in brains for canary in CANARY.findall(str(brain))}
        assert shown <= {tenants[partition].canary}
        assert {brain["id"] for brain in brains} <= {brain.id for brain in full.platform.of(tenants[partition].tenant)}
    for partition, _, slug, brain_id in directory._known_as:
        own = full.platform.of(tenants[partition].tenant)
        assert (slug, brain_id) in {(brain.slug, brain.id) for brain in own} | {(b.id, b.slug) for b in own}
    assert not list(upstream._exchange._http.cookies.jar)
    assert not list(upstream._exchange._streams.cookies.jar)


@pytest.mark.parametrize("era", ERAS)
async def test_limits_are_counted_for_each_caller_alone(tmp_path: Path, era: Era) -> None:
    """One call each: nobody takes any from another, though subject or client are the same."""
    people = twenty()
    with house(tmp_path, people, calls_per_second=0.001) as full:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            rounds = [
                [await full.call(http, person, era, "memory_list_brains", {}) for person in people] for _ in range(2)
            ]
    assert full.platform.odd == []
    assert [answer.status_code for answer in rounds[0]] == [200] * len(people)
    assert [answer.status_code for answer in rounds[1]] == [429] * len(people)
    assert all(0 < int(answer.headers["retry-after"]) <= 1000 for answer in rounds[1])


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("slug", ["notes", "by-id"])
async def test_a_brain_of_one_project_is_not_taken_for_that_of_another(tmp_path: Path, slug: str, era: Era) -> None:
    """Of one caller, but of two projects: the same slug is another brain."""
    caller = Person("ann", "web", "red", ("one", "two"))
    parts = [Person("ann", "web", "red", (project,)) for project in caller.projects]
    with house(tmp_path, [caller]) as full:
        full.platform.brains += [brain for part in parts for brain in brains_of(part.tenant)]
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            answers = [
                await full.call(
                    http, caller, era, "memory_search", {"query": "x", "brain": slug}, **{"x-project": part.projects[0]}
                )
                for part in parts
            ]
    assert [set(CANARY.findall(answer.text)) for answer in answers] == [{part.canary} for part in parts]
