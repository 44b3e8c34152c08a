"""Searching where the platform's own search does not do all of it."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.operations import names
from gateway.operations.steps import finding
from gateway.operations.steps.session_log import line
from gateway.operations.table import Args, JsonObject, Op
from tests.gateway.operations.steps.inmemory import BRAIN, InMemory, refusal

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
LOG = names.session_log_path("c0ffee", "s")


def query(**other: Any) -> dict[str, Any]:
    return {"brain": BRAIN, "query": "otters", **other}


def hit(path: str, score: float = 1.0) -> JsonObject:
    return {"path": path, "score": score, "content": "x"}


def searching(*found: JsonObject) -> InMemory:
    def search(args: Args) -> JsonObject:
        return {"query": args["query"], "hits": list(found)[: args.get("top_k") or 10], "took_ms": 3}

    return InMemory(answers={Op.SEARCH: search})


def paths(answer: JsonObject, key: str = "hits") -> list[str]:
    return [str(one["path"]) for one in answer[key]]


# In another order.

CHANGED = {f"{n:03}.md": f"2026-01-01T00:{n // 60:02}:{n % 60:02}.000Z" for n in range(200)}


def dated(count: int) -> InMemory:
    """Finds the oldest first."""
    work = searching(*(hit(path, 1 - n / 1000) for n, path in enumerate(list(CHANGED)[:count])))
    work.files = dict.fromkeys(CHANGED, b"x")
    work.changed = dict(CHANGED)
    return work


@pytest.mark.parametrize(
    ("top_k", "fetched"), [(None, 40), (1, 4), (10, 40), (25, 100), (26, 100), (100, 100)], ids=str
)
async def test_more_is_fetched_than_was_asked_for_to_put_it_in_order(top_k: int | None, fetched: int) -> None:
    work = dated(200)
    answer = await finding.search_and_arrange(work, query(top_k=top_k, sort="recency"))
    assert work.sent[0][1]["top_k"] == fetched
    assert paths(answer) == sorted(list(CHANGED)[:fetched], reverse=True)[: top_k or 10]
    assert (answer["query"], answer["took_ms"]) == ("otters", 3)


async def test_hits_whose_age_is_not_known_come_last() -> None:
    work = dated(3)
    del work.changed["002.md"]
    del work.files["001.md"]
    answer = await finding.search_and_arrange(work, query(sort="recency"))
    assert paths(answer) == ["000.md", "001.md", "002.md"]


async def test_by_relevance_nothing_has_to_be_put_in_order() -> None:
    work = dated(5)
    answer = await finding.search_and_arrange(work, query(sort="relevance"))
    assert paths(answer) == list(CHANGED)[:5]
    assert work.ops == [Op.SEARCH]
    assert work.sent[0][1]["top_k"] == 10


async def test_where_nothing_was_found_there_is_nothing_to_put_in_order() -> None:
    work = searching()
    assert (await finding.search_and_arrange(work, query(sort="recency")))["hits"] == []
    assert work.ops == [Op.SEARCH]


@pytest.mark.parametrize(
    ("scope", "directory"), [(None, ""), ("all", ""), ("global", "memory/global"), ("agent", "memory/agent")]
)
async def test_ages_are_looked_up_in_the_namespace_alone(scope: str | None, directory: str) -> None:
    work = dated(2)
    await finding.search_and_arrange(work, query(sort="recency", scope=scope))
    assert work.sent[1] == (Op.LIST_DOCUMENTS, {"brain": BRAIN, "dir": directory})


@pytest.mark.parametrize(
    "items", [None, [], ["odd"], [{"path": "000.md", "mtime": None}], [{"path": "000.md", "is_dir": True}]]
)
async def test_a_list_that_tells_no_age_leaves_the_order(items: Any) -> None:
    work = dated(3)
    work.answers[Op.LIST_DOCUMENTS] = lambda _: {"items": items}
    assert paths(await finding.search_and_arrange(work, query(sort="recency"))) == ["000.md", "001.md", "002.md"]


async def test_a_list_that_fails_fails_the_search() -> None:
    work = dated(3).fails(Op.LIST_DOCUMENTS, "timeout")
    assert (await refusal(finding.search_and_arrange(work, query(sort="recency")))).code == "timeout"


@pytest.mark.parametrize("answer", [{}, {"hits": None}, {"hits": "x"}, {"hits": ["x"]}])
async def test_an_answer_without_hits_is_an_error_of_the_platform(answer: JsonObject) -> None:
    work = InMemory(answers={Op.SEARCH: lambda _: answer})
    assert (await refusal(finding.search_and_arrange(work, query(scope="agent")))).code == "upstream_error"


# In the namespace of agents, which not every index holds.


def agent_notes(**bodies: bytes) -> InMemory:
    work = searching()
    work.files = {f"memory/agent/{name}.md": body for name, body in bodies.items()}
    return work


async def test_notes_that_no_index_holds_are_found_by_their_words() -> None:
    work = agent_notes(
        a=b"cats",
        b=b"Otters hold hands.",
        c=b"---\nname: Otters\n---\n\nThey swim; otters do.",
    )
    work.files["memory/global/d.md"] = b"otters otters otters"
    answer = await finding.search_and_arrange(work, query(scope="agent", query="an otter swims"))
    assert paths(answer) == ["memory/agent/c.md", "memory/agent/b.md"]
    assert answer["hits"][0]["content"] == "They swim; otters do."
    assert answer["hits"][0]["brain_id"] == BRAIN


async def test_what_the_index_does_hold_is_not_read_again() -> None:
    work = searching(hit("memory/agent/a.md"))
    answer = await finding.search_and_arrange(work, query(scope="agent"))
    assert (paths(answer), work.ops) == (["memory/agent/a.md"], [Op.SEARCH])


async def test_nothing_but_notes_is_read() -> None:
    work = agent_notes()
    work.files = {"memory/agent/a.jsonl": b"otters", "memory/agent/.search.db": b"otters"}
    assert (await finding.search_and_arrange(work, query(scope="agent")))["hits"] == []
    assert Op.READ_DOCUMENT not in work.ops


async def test_no_more_than_the_newest_hundred_are_read() -> None:
    work = agent_notes(**{f"{n:03}": b"otters" for n in range(150)})
    work.changed = {f"memory/agent/{n:03}.md": CHANGED[f"{n:03}.md"] for n in range(150)}
    answer = await finding.search_and_arrange(work, query(scope="agent", top_k=100))
    read = [args["path"] for op, args in work.sent if op is Op.READ_DOCUMENT]
    assert read == [f"memory/agent/{n:03}.md" for n in range(149, 49, -1)]
    assert len(answer["hits"]) == 100


MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("sizes", "read"),
    [
        ([4 * MIB], 1),
        ([4 * MIB + 1], 0),
        ([4 * MIB + 1, 100, 100], 2),
        ([3 * MIB, MIB, 1], 2),
        ([3 * MIB, 2 * MIB, MIB], 2),
    ],
)
@pytest.mark.parametrize("sizes_are_told", [True, False])
async def test_no_more_than_four_mebibytes_are_read(sizes: list[int], read: int, sizes_are_told: bool) -> None:
    work = agent_notes(**{f"{n}": b"x" * size for n, size in enumerate(sizes)})
    work.changed = {path: CHANGED[f"{100 - n:03}.md"] for n, path in enumerate(work.files)}
    if sizes_are_told:
        await finding.search_and_arrange(work, query(scope="agent"))
        assert work.ops.count(Op.READ_DOCUMENT) == read
        return
    items = [{"path": path, "mtime": work.changed[path]} for path in work.files]
    work.answers[Op.LIST_DOCUMENTS] = lambda _: {"items": items}
    await finding.search_and_arrange(work, query(scope="agent"))
    taken = 0
    for op, args in work.sent:
        if op is Op.READ_DOCUMENT:
            assert taken < 4 * MIB
            taken += len(work.files[args["path"]])


async def test_a_note_that_is_deleted_meanwhile_is_passed_over() -> None:
    work = agent_notes(a=b"otters", b=b"otters").fails(Op.READ_DOCUMENT, "not_found")
    assert len((await finding.search_and_arrange(work, query(scope="agent")))["hits"]) == 1


async def test_agent_notes_are_put_in_order_too() -> None:
    work = agent_notes(a=b"otters swim", b=b"otters")
    work.changed = {"memory/agent/a.md": CHANGED["001.md"], "memory/agent/b.md": CHANGED["002.md"]}
    plain = await finding.search_and_arrange(work, query(scope="agent", query="otters swim"))
    latest = await finding.search_and_arrange(work, query(scope="agent", query="otters swim", sort="recency"))
    assert (paths(plain)[0], paths(latest)[0]) == ("memory/agent/a.md", "memory/agent/b.md")
    assert work.ops.count(Op.LIST_DOCUMENTS) == 2


# Where the index lacks them, and all notes are meant.


def partly_indexed(*found: JsonObject, **bodies: bytes) -> InMemory:
    work = searching(*found)
    work.files = {f"memory/agent/{name}.md": body for name, body in bodies.items()}
    work.unfindable = ("memory/agent/",)
    return work


@pytest.mark.parametrize("scope", [None, "all"])
async def test_a_search_for_all_finds_notes_of_agents_too(scope: str | None) -> None:
    work = partly_indexed(hit("a.md", 0.02), hit("b.md", 0.01), x=b"An otter and otters", y=b"cats")
    answer = await finding.search(work, query(scope=scope))
    assert paths(answer) == ["a.md", "memory/agent/x.md", "b.md"]
    scores = [one["score"] for one in answer["hits"]]
    assert scores == sorted(scores, reverse=True)
    assert (answer["query"], answer["took_ms"]) == ("otters", 3)
    assert work.ops.count(Op.LIST_DOCUMENTS) == 1


async def test_a_search_that_finds_nothing_else_finds_notes_of_agents() -> None:
    assert paths(await finding.search(partly_indexed(x=b"otters"), query())) == ["memory/agent/x.md"]


async def test_no_more_is_found_with_notes_of_agents_than_was_asked_for() -> None:
    work = partly_indexed(hit("a.md"), hit("b.md"), x=b"otters", y=b"otters")
    assert paths(await finding.search(work, query(top_k=2))) == ["a.md", "memory/agent/x.md"]


@pytest.mark.parametrize("theirs", ["u-they/n.md", "U-They/n.md", "u-they/sub/n.md"])
async def test_what_others_keep_to_themselves_is_not_even_read(theirs: str) -> None:
    found = [hit(f"memory/global/{n}.md", 9 - n) for n in range(3)]
    answers = []
    for body in (b"nothing", b"otters otters"):
        work = partly_indexed(*found)
        work.files = {f"memory/agent/{theirs}": body, "memory/agent/u-me/n.md": b"my otters"}
        answers.append(await finding.search(work, query(own="u-me")))
        assert [args["path"] for op, args in work.sent if op is Op.READ_DOCUMENT] == ["memory/agent/u-me/n.md"]
    assert answers[0] == answers[1]
    assert "memory/agent/u-me/n.md" in paths(answers[0])


async def test_small_words_make_no_hit_among_notes_of_agents() -> None:
    work = partly_indexed(x=b"This is the one for you", y=b"otters")
    answer = await finding.search(work, {**query(), "query": "what is the age of otters"})
    assert paths(answer) == ["memory/agent/y.md"]


@pytest.mark.parametrize("asked", [{"scope": "global"}, {"scope": "project"}, {"tree": "memory/global/kv/"}], ids=str)
async def test_a_search_of_something_else_looks_at_no_notes_of_agents(asked: dict[str, str]) -> None:
    work = partly_indexed(hit("a.md"), x=b"otters")
    await finding.search(work, query(**asked))
    assert work.ops == [Op.SEARCH]


async def test_an_index_that_holds_all_notes_is_all_that_is_asked() -> None:
    work = searching(hit("a.md"))
    work.files = {"memory/agent/x.md": b"otters"}
    assert (paths(await finding.search(work, query())), work.ops) == (["a.md"], [Op.SEARCH])


async def test_without_notes_of_agents_the_answer_is_the_platforms_own() -> None:
    work = partly_indexed(hit("a.md"))
    assert await finding.search(work, query()) == {"query": "otters", "hits": [hit("a.md")], "took_ms": 3}
    assert sorted(work.ops) == sorted([Op.SEARCH, Op.LIST_DOCUMENTS])
    work.fails(Op.LIST_DOCUMENTS, "not_found")
    assert paths(await finding.search(work, query())) == ["a.md"]
    work.lacks = {Op.LIST_DOCUMENTS}
    assert paths(await finding.search(work, query())) == ["a.md"]


async def test_a_list_that_fails_fails_the_search_for_all() -> None:
    work = partly_indexed(hit("a.md"), x=b"otters").fails(Op.LIST_DOCUMENTS, "timeout")
    assert (await refusal(finding.search(work, query()))).code == "timeout"


async def test_notes_of_agents_are_put_in_order_with_the_others() -> None:
    work = partly_indexed(hit("a.md"), x=b"otters")
    work.files["a.md"] = b"x"
    work.changed = {"a.md": CHANGED["001.md"], "memory/agent/x.md": CHANGED["002.md"]}
    assert paths(await finding.search_and_arrange(work, query(sort="recency"))) == ["memory/agent/x.md", "a.md"]


async def test_a_recall_in_a_session_finds_notes_of_agents_too() -> None:
    work = partly_indexed(hit("a.md"), x=b"otters")
    recalled = await finding.recall_with_log(work, query(session_id="s"))
    assert paths(recalled, "chunks") == ["a.md", "memory/agent/x.md"]


# Recalling in a session.


@pytest.mark.parametrize("key", ["chunks", "hits", "memories"])
async def test_what_a_recall_finds_is_chunks_whatever_it_calls_it(key: str) -> None:
    work = InMemory(answers={Op.RECALL: lambda _: {key: [hit("a.md")], "more": 1}})
    answer = await finding.recall_in_session(work, query(session_id="s"))
    assert (answer["chunks"], answer["more"]) == ([hit("a.md")], 1)
    work.answers[Op.RECALL] = lambda _: {key: None}
    assert (await finding.recall_in_session(work, query(session_id="s")))["chunks"] == []


@pytest.mark.parametrize("answer", [{}, {"results": []}, {"hits": "x"}, {"memories": ["x"]}])
async def test_a_recall_without_a_list_is_an_error_of_the_platform(answer: JsonObject) -> None:
    work = InMemory(answers={Op.RECALL: lambda _: answer})
    assert (await refusal(finding.recall_in_session(work, query(session_id="s")))).code == "upstream_error"


def logged(*contents: str) -> bytes:
    return b"".join(line({"kind": "message", "role": "user", "content": content}) for content in contents)


@UNHURRIED
@given(
    st.lists(st.text("abc", min_size=1), unique=True, max_size=15),
    st.sampled_from([None, 1, 5, 50]),
    st.sampled_from([None, "global", "project", "agent"]),
)
async def test_without_a_log_recalling_is_searching(found: list[str], top_k: int | None, scope: str | None) -> None:
    work = searching(*map(hit, found))
    work.files = {"memory/agent/a.md": b"otters", "memory/agent/b.md": b"otters otters"}
    asked = query(top_k=top_k, scope=scope)
    searched = await finding.search_and_arrange(work, asked)
    recalled = await finding.recall_with_log(work, {**asked, "session_id": "s"})
    kept = [{key: chunk[key] for key in one} for one, chunk in zip(searched["hits"], recalled["chunks"], strict=True)]
    assert kept == searched["hits"]
    assert (recalled["session_id"], recalled["brain_id"]) == ("s", BRAIN)


async def test_chunks_are_known_by_their_path_where_nothing_better_is_known() -> None:
    work = searching(hit("a.md"), {**hit("b.md"), "chunk_id": "c", "document_id": "d"})
    answer = await finding.recall_with_log(work, query(session_id="s"))
    assert [(c["chunk_id"], c["document_id"]) for c in answer["chunks"]] == [("a.md", "a.md"), ("c", "d")]


async def test_what_was_said_in_the_session_has_a_say() -> None:
    def search(args: Args) -> JsonObject:
        in_context = args["query"] != "otters"
        return {"hits": [hit("river.md"), hit("b.md")] if in_context else [hit("a.md"), hit("b.md")]}

    work = InMemory({LOG: logged("We walked along the river")}, {Op.SEARCH: search})
    answer = await finding.recall_with_log(work, query(session_id="s", scope="global"))
    assert paths(answer, "chunks") == ["b.md", "a.md", "river.md"]
    searches = [args for op, args in work.sent if op is Op.SEARCH]
    assert [args["query"] for args in searches] == ["otters", "river along walked"]
    assert [(args["scope"], args["top_k"]) for args in searches] == [("global", 10)] * 2


async def test_no_more_is_recalled_than_was_asked_for() -> None:
    def search(args: Args) -> JsonObject:
        return {"hits": [hit(f"{args['query']}-{n}.md") for n in range(args["top_k"])]}

    work = InMemory({LOG: logged("river")}, {Op.SEARCH: search})
    answer = await finding.recall_with_log(work, query(session_id="s", top_k=3))
    assert len(answer["chunks"]) == 3


async def test_a_log_that_cannot_be_read_is_a_failure_and_no_empty_log() -> None:
    work = searching(hit("a.md")).fails(Op.READ_DOCUMENT, "timeout")
    assert (await refusal(finding.recall_with_log(work, query(session_id="s")))).code == "timeout"


async def test_a_log_of_another_caller_is_not_listened_to() -> None:
    work = searching(hit("a.md"))
    work.files[names.session_log_path("other", "s")] = logged("river")
    await finding.recall_with_log(work, query(session_id="s"))
    assert work.ops == [Op.READ_DOCUMENT, Op.SEARCH]
