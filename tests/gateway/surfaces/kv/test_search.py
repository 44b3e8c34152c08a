"""What a search of `kv` ranks, and how far it looks: filters and importance hold for a whole namespace."""

import time
from pathlib import Path
from typing import Any

import pytest

from gateway.brain.notebook import MOST_FOUND
from gateway.operations.coverage import Query
from gateway.operations.table import JsonObject
from gateway.surfaces.kv.rank import WEIGHTS, Ranker
from tests.daemons.fake import FakeDaemon, T
from tests.gateway.conftest import structured, text_of
from tests.gateway.surfaces.shelf import Agent, shelf_on
from tests.served import listening, serving

FOLDER = "memory/global/kv/default"


def note(value: str, *, tags: str = "", importance: int = 5) -> str:
    head = f"via: brains-gateway\ncreated: 2026-01-01T00:00:00+00:00\nimportance: {importance}\ntags: [{tags}]\n"
    return f"---\n{head}---\n\n{value}"


@pytest.fixture(params=["platform", "daemon"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def search(agent: Agent, **arguments: Any) -> tuple[list[str], str]:
    """The keys that are found, and the last line of the text."""
    result = await agent.client.call_tool("jettson_memory_search", {"query": "otter", **arguments})
    return [m["key"] for m in structured(result)["results"]], text_of(result).rpartition("\n")[2]


@pytest.mark.not_quick
async def test_tags_are_looked_for_in_the_whole_namespace_and_what_was_not_read_is_said(
    kind: str, tmp_path: Path
) -> None:
    """Both memories that are wanted say little of otters, and so are behind all that a platform finds at once."""
    with shelf_on(kind, tmp_path, recall_notes=MOST_FOUND + 3) as shelf:
        shelf.put(f"{FOLDER}/old.md", note("An otter.", tags="rare"))
        for n in range(MOST_FOUND + 5):
            shelf.put(f"{FOLDER}/k{n:03}.md", note(f"Otter otter otter {n}.", tags="common"))
        shelf.put(f"{FOLDER}/new.md", note("An otter.", tags="rare, common"))
        async with shelf.client("kv") as agent:
            assert (await search(agent))[1] == "(There may be more matches: only the first 100 were ranked.)"
            before = shelf.counted.requests
            assert await search(agent, tags=["rare"]) == (["new"], "(4 older notes were not read)")
            # Two searches, a listing, and no more notes than may be read.
            assert shelf.counted.requests - before == 2 + 1 + MOST_FOUND + 3
            assert await search(agent, query="seal", tags=["rare"]) == ([], "Nothing was found.")
            assert await search(agent, tags=["rare"], namespace="empty") == ([], "Nothing was found.")


@pytest.mark.not_quick
async def test_a_platform_without_a_listing_is_searched_as_far_as_it_goes(tmp_path: Path) -> None:
    fake = FakeDaemon(T).without("GET /v1/brains/{brain}/documents")
    paths = [f"{FOLDER}/k{n:03}.md" for n in range(MOST_FOUND + 5)]
    tagged = {path: note(f"Otter {path}.", tags="rare" if path == paths[0] else "common") for path in paths}
    fake.brains["main"] = {path: (text.encode(), 0.0) for path, text in tagged.items()}
    with listening(fake.app()) as url, serving(tmp_path, None, upstream_url=url) as served:
        async with served.over_http("modern", "/kv/mcp/main") as client:
            found, said = await search(Agent(client), tags=["rare"])
    assert (found, "only the first 100" in said) == (["k000"], True)


@pytest.mark.not_quick
async def test_importance_ranks_more_than_the_first_few_hits(kind: str, tmp_path: Path) -> None:
    with shelf_on(kind, tmp_path) as shelf:
        for n in range(40):
            shelf.put(f"{FOLDER}/k{n:03}.md", note(f"Otter otter otter {n}."))
        shelf.put(f"{FOLDER}/wanted.md", note("An otter.", importance=10))
        async with shelf.client("kv") as agent:
            found, said = await search(agent, limit=3)
            assert (found[0], len(found), "only the first" in said) == ("wanted", 3, False)


@pytest.mark.not_quick
async def test_no_more_is_read_than_can_change_the_answer(kind: str, tmp_path: Path) -> None:
    """Of two words, what has one is no match for what has both, however important."""
    with shelf_on(kind, tmp_path) as shelf:
        for n in range(40):
            both = "Otters like rivers." if n < 15 else "Otters."
            shelf.put(f"{FOLDER}/k{n:03}.md", note(f"{both} {n}", importance=5 if n < 15 else 10))
        async with shelf.client("kv") as agent:
            # With what it takes to find out which brain is meant.
            await search(agent)
            before = shelf.counted.requests
            found, _ = await search(agent, query="otters rivers")
            assert shelf.counted.requests - before == 1 + 30
            assert set(found) <= {f"k{n:03}" for n in range(15)}


def hit(path: str, score: float = 1.0, content: str = "", **component_scores: float) -> JsonObject:
    return {"path": path, "score": score, "content": content, "component_scores": component_scores}


def memory(value: str, importance: float = 5, *, days: float = 0, **other: Any) -> JsonObject:
    moment = round((time.time() - days * 86_400) * 1000)
    placed = {"key": "k", "namespace": "n", "tags": [], "created_at": moment, "updated_at": moment}
    return {**placed, "value": value, "importance": importance, **other}


def ranked(query: str, *found: tuple[JsonObject, JsonObject], mode: str = "hybrid") -> list[JsonObject]:
    hits = [one for one, _ in found]
    return Ranker(Query(query), mode).rank(hits, {one["path"]: held for one, held in found})


COLOR = memory("Brand primary color is #FF5733", 8, days=1.3, key="brand_color", tags=["brand", "design"])


def test_the_contracts_own_example_scores_as_it_says() -> None:
    (result,) = ranked("brand color", (hit("a", semantic=0.78), COLOR))
    assert result["breakdown"] == {"semantic": 0.78, "keyword": 1.0, "importance": 0.8, "timeDecay": 0.9704}
    assert result["score"] == pytest.approx(0.82, abs=0.01)
    assert sum(WEIGHTS.values()) == 1.0


def test_a_score_is_the_relevance_raised_by_importance_and_age() -> None:
    (result,) = ranked("otters", (hit("a"), memory("Otters sleep.", 4, days=30)))
    assert result["score"] == pytest.approx(0.75 + 0.15 * 0.4 + 0.1 * 0.5, abs=1e-4)
    (best,) = ranked("otters", (hit("a"), memory("Otters sleep.", 10)))
    assert best["score"] == 1.0


def test_importance_makes_nothing_relevant() -> None:
    first, second = ranked(
        "machine learning model drift",
        (hit("a", 2.0), memory("The coffee machine needs descaling.", 10)),
        (hit("b", 1.0), memory("Model drift is watched by the machine learning team.", 1, days=90)),
    )
    assert first["value"].startswith("Model drift")
    assert first["score"] > 0.75
    assert second["score"] <= 0.1


def test_the_platforms_score_by_meaning_is_taken_as_it_is() -> None:
    far, near = (hit("far", 9.0, semantic=0.31), memory("Seals.")), (hit("near", 1.0, semantic=0.9), memory("Otters."))
    first, second = ranked("otters", far, near)
    assert (first["breakdown"]["semantic"], second["breakdown"]["semantic"]) == (0.9, 0.31)
    assert (first["breakdown"]["keyword"], second["breakdown"]["keyword"]) == (0.999, 0.0)
    assert second["score"] < 0.31
    (by_meaning,) = ranked("otters", far, mode="semantic")
    assert (by_meaning["breakdown"]["semantic"], by_meaning["breakdown"]["keyword"]) == (0.31, 0.0)
    (by_words,) = ranked("otters", far, mode="keyword")
    assert (by_words["breakdown"]["semantic"], by_words["score"]) == (0.0, 0.0)


def test_key_tags_and_value_are_what_a_memory_covers_a_query_with() -> None:
    (result,) = ranked("brand design color", (hit("a"), {**COLOR, "value": "#FF5733"}))
    assert result["breakdown"]["keyword"] == 1.0
