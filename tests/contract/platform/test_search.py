"""Search: what is found, in which order, and what never breaks it."""

import re
from collections.abc import Callable

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.platform import search as ranking
from contract.platform.library import Operation
from contract.platform.search import Folders
from contract.platform.store import Store
from tests.contract.platform.conftest import Json
from tests.tiers import by_tier

Write = Callable[[str, str | bytes], None]
Search = Callable[..., list[Json]]


def found(hits: list[Json]) -> list[str]:
    return [hit["path"] for hit in hits]


def test_an_answer_names_query_brain_and_time(client: httpx.Client, brain: str, write: Write) -> None:
    client.post(
        f"{brain}/documents", json={"content": "# Kites\n\nRed kites soar.", "path": "k.md", "metadata": {"a": 1}}
    )
    answer = client.get(f"{brain}/search", params={"q": "kites soaring"}).json()
    record = client.get(f"{brain}/documents/stat", params={"path": "k.md"}).json()["document"]
    hit = answer["hits"][0]
    assert {**answer, "hits": [], "took_ms": 0} == {
        "query": "kites soaring",
        "brain_id": brain.rpartition("/")[2],
        "hits": [],
        "method": "keyword",
        "took_ms": 0,
        "live": True,
    }
    assert hit == {
        "score": hit["score"],
        "component_scores": {"keyword": hit["score"]},
        "path": "k.md",
        "content": "# Kites\n\nRed kites soar.",
        "brain_id": record["brain_id"],
        "chunk_id": hit["chunk_id"],
        "document_id": record["id"],
        "title": "Kites",
        "metadata": {"a": 1},
        "highlights": ["# Kites\n\nRed kites soar."],
        "updated_at": record["updated_at"],
    }
    assert hit["chunk_id"].startswith("chk_")


def test_what_was_written_is_found_at_once_and_what_is_gone_is_not(
    client: httpx.Client, brain: str, write: Write, search: Search
) -> None:
    write("a.md", "a walrus")
    assert found(search("walrus")) == ["a.md"]
    write("a.md", "an otter")
    assert (found(search("walrus")), found(search("otter"))) == ([], ["a.md"])
    client.post(f"{brain}/documents/append", params={"path": "a.md"}, content=b" and a walrus")
    assert found(search("walrus")) == ["a.md"]
    client.post(f"{brain}/documents/rename", json={"from": "a.md", "to": "b.md"})
    assert found(search("walrus")) == ["b.md"]
    client.post(f"{brain}/documents/rename", json={"from": "b.md", "to": "b.txt"})
    assert found(search("walrus")) == []
    client.post(f"{brain}/documents/rename", json={"from": "b.txt", "to": "c.md"})
    assert found(search("walrus")) == ["c.md"]
    client.delete(f"{brain}/documents", params={"path": "c.md"})
    assert found(search("walrus")) == []


def test_only_markdown_that_is_not_generated_is_found(write: Write, search: Search) -> None:
    for path in ("a.md", "a.txt", "a.jsonl", "dir/_gen.md", "_dir/b.md", "a.md.bak"):
        write(path, "marmalade")
    assert sorted(found(search("marmalade"))) == ["_dir/b.md", "a.md"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("She was running quickly", "run"),
        ("the policies", "policy"),
        ("Crème brûlée", "creme brulee"),
        ("creme brulee", "crème"),
        ("cafe\u0301 noir", "café"),
        ("ÜBERSICHT", "übersicht"),
        ("state-of-the-art", "art"),
        ("snake_case_name", "case"),
        ("version 3.11.7", "3.11"),
        ("Ελληνικά γράμματα", "ελληνικά"),
        ("東京都に住んでいます", "東京"),
        ("東京都に住んでいます", "住んで"),
        ("東京都", "都"),
        ("会議は2024年に開催", "2024"),
        ("使用Python编程", "python"),
        ("서울에서 만나요", "서울"),
    ],
)
def test_a_word_is_found_however_it_is_spelled(write: Write, search: Search, text: str, query: str) -> None:
    write("a.md", f"{text}\n")
    write("other.md", "nothing of the kind\n")
    assert found(search(query)) == ["a.md"]


@pytest.mark.parametrize(
    "query",
    [
        *('"', "'", '"unbalanced', "AND", "OR NOT", "a AND", "NEAR(a b)", "title:kettle", "kettle*", "^kettle"),
        *("(kettle", "kettle)", "-kettle", "+", "***", "!?.,;", "😀", "\x01\x7f", "%00", "\\", "{}", "a" * 4096),
        *(" ".join(f"w{n}" for n in range(1500)), "kettle " * 1000, "\ufffd", "grams:x", "words_1", "ß", "İ", "ﬁ"),
    ],
)
def test_no_query_is_a_syntax_error(write: Write, search: Search, query: str) -> None:
    write("a.md", "kettle\n")
    expected = ["a.md"] if re.search("kettle", query) else []
    assert found(search(query)) == expected


@settings(max_examples=by_tier(20, 60, 600), deadline=None)
@given(query=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_any_text_can_be_asked_for(store: Store, query: str) -> None:
    brain = store.brain("main")
    store.documents.put(brain, "hypothesis.md", f"before\n\n{query}\n".encode())
    assert all(0 < hit.score < 1 for hit in store.search(brain, query, 5).hits)


@settings(max_examples=by_tier(20, 60, 600), deadline=None)
@given(query=st.text(st.characters(max_codepoint=0x24F), min_size=1, max_size=60))
def test_text_in_latin_letters_finds_itself(store: Store, query: str) -> None:
    brain = store.brain("main")
    store.documents.put(brain, "hypothesis.md", f"before\n\n{query}\n".encode())
    has_words = any(character.isalnum() for character in query)
    assert bool([hit for hit in store.search(brain, query, 50).hits if hit.path == "hypothesis.md"]) == has_words


def test_a_query_of_stop_words_finds_them(write: Write, search: Search) -> None:
    write("a.md", "who is there\n")
    write("b.md", "nobody\n")
    assert found(search("who is")) == ["a.md"]


def test_stop_words_beside_other_words_find_nothing_by_themselves(write: Write, search: Search) -> None:
    write("a.md", "what is this about\n")
    write("b.md", "a plumber\n")
    assert found(search("What is the plumber about?")) == ["b.md"]


def test_scores_fall_with_rank_and_ties_go_by_path_and_place(write: Write, search: Search) -> None:
    for name in ("c", "a", "b"):
        write(f"{name}.md", "one badger\n")
    write("best.md", "# Badger\n\nbadger badger\n")
    write("two.md", "\n\n".join(["badger " + "filler " * 200] * 2))
    hits = search("badger")
    scores = [hit["score"] for hit in hits]
    assert found(hits) == ["best.md", "a.md", "b.md", "c.md", "two.md", "two.md"]
    assert scores == sorted(scores, reverse=True)
    assert scores[1] == scores[2] == scores[3]
    assert hits[4]["chunk_id"] != hits[5]["chunk_id"]
    assert search("badger") == hits


def test_more_of_the_query_counts_more_than_more_of_one_word(write: Write, search: Search) -> None:
    write("one.md", "violin " * 40 + "\n")
    write("both.md", "a violin and a harp\n")
    assert found(search("violin harp")) == ["both.md", "one.md"]


def test_a_rare_word_counts_more_than_a_common_one(write: Write, search: Search) -> None:
    for number in range(12):
        write(f"common-{number}.md", f"meeting number {number}\n")
    write("rare.md", "the zeppelin\n")
    assert found(search("zeppelin meeting"))[0] == "rare.md"


def test_title_and_tags_are_searched_and_front_matter_is_not_content(
    client: httpx.Client, brain: str, write: Write, search: Search
) -> None:
    write("fm.md", "---\nname: Penguin census\ntags: [antarctic, birds]\nsecret: opaque\n---\nCounted twice.\n")
    client.post(f"{brain}/documents", json={"content": "plain", "path": "m.md", "metadata": {"tags": "moss,fern"}})
    for query in ("penguin", "antarctic", "birds", "counted"):
        hits = search(query)
        assert found(hits) == ["fm.md"]
        assert hits[0]["content"] == "Counted twice."
    assert search("opaque") == []
    assert found(search("fern")) == ["m.md"]


def test_a_title_weighs_more_than_the_text(write: Write, search: Search) -> None:
    write("text.md", "# Other\n\nlobster lobster\n")
    write("title.md", "# Lobster\n\nboil it\n")
    assert found(search("lobster")) == ["title.md", "text.md"]


def test_a_first_line_is_no_title(write: Write, search: Search) -> None:
    write("b-line.md", "lobster\n")
    write("a-text.md", "# Sea\n\nlobster\n")
    hits = search("lobster")
    assert hits[0]["score"] - hits[1]["score"] < 0.1
    assert [hit["title"] for hit in hits] == ["lobster", "Sea"]


def test_a_scope_is_exactly_one_tree(write: Write, search: Search) -> None:
    for path in (
        "memory/global/a.md",
        "memory/project/p/b.md",
        "memory/agent/c.md",
        "memory/globalx/d.md",
        "wiki/e.md",
    ):
        write(path, "saffron\n")
    everything = sorted(found(search("saffron")))
    assert len(everything) == 5
    assert sorted(found(search("saffron", scope="all"))) == everything
    assert found(search("saffron", scope="global")) == ["memory/global/a.md"]
    assert found(search("saffron", scope="project")) == ["memory/project/p/b.md"]
    assert found(search("saffron", scope="agent")) == ["memory/agent/c.md"]
    assert found(search("saffron", path_prefix="/wiki/")) == ["wiki/e.md"]
    assert found(search("saffron", path_prefix="memory/g", scope="global")) == ["memory/global/a.md"]
    assert found(search("saffron", path_prefix="wiki/", scope="global")) == []


@pytest.mark.parametrize("params", [{"scope": "mine"}, {"sort": "newest"}, {"top_k": "0"}, {"q": ""}])
def test_a_malformed_search_is_refused(client: httpx.Client, brain: str, params: dict[str, str]) -> None:
    answer = client.get(f"{brain}/search", params={"q": "x", **params})
    assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")
    assert client.get(f"{brain}/search").status_code == 400


def test_sort_lets_relevance_or_recency_win(write: Write, search: Search) -> None:
    write("best.md", "# Comet\n\ncomet comet\n")
    write("equal-1.md", "a comet\n")
    write("equal-2.md", "a comet\n")
    write("newest.md", "a comet among many other words in a longer sentence\n")
    assert found(search("comet")) == ["best.md", "equal-1.md", "equal-2.md", "newest.md"]
    assert found(search("comet", sort="recency")) == ["newest.md", "equal-2.md", "equal-1.md", "best.md"]
    assert found(search("comet", sort="relevance_then_recency")) == ["best.md", "equal-2.md", "equal-1.md", "newest.md"]
    assert found(search("comet", sort="recency", top_k=1)) == ["newest.md"]


def test_long_documents_are_found_by_their_parts(write: Write, search: Search) -> None:
    paragraphs = [f"Paragraph {number} speaks. " + f"filler{number} " * 120 for number in range(20)]
    paragraphs[13] += " The hidden osprey."
    write("long.md", "# Long\n\n" + "\n\n".join(paragraphs))
    hits = search("osprey")
    assert len(hits) == 1
    assert "Paragraph 13" in hits[0]["content"]
    assert len(hits[0]["content"].split()) <= 250
    assert all(highlight in hits[0]["content"] for highlight in hits[0]["highlights"])
    assert "osprey" in hits[0]["highlights"][0]


def test_top_k_cuts_and_a_small_brain_gives_what_it_has(write: Write, search: Search) -> None:
    for number in range(12):
        write(f"{number}.md", "pebble\n")
    assert [len(search("pebble", top_k=k)) for k in (1, 10, 100)] == [1, 10, 12]
    assert len(search("pebble")) == 10


def test_rare_words_lead_in_a_brain_too_large_to_rank_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the number of rows that are ranked, common words change the order only, and filters still find."""
    monkeypatch.setattr(ranking, "RANKED", 200)
    brain = store.create_brain("Large")
    common = "\n\n".join([("ubiquitous filler " * 90).strip()] * 50).encode()
    writes = [Operation("write", f"bulk/{number}.md", content=common) for number in range(6)]
    writes += [
        Operation("write", "bulk/rare.md", content=b"a quokka and other small animals\n"),
        Operation("write", "bulk/both.md", content=b"a ubiquitous quokka\n"),
        Operation("write", "memory/global/plain.md", content=b"ubiquitous here\n"),
        Operation("append", "bulk/0.md", content=common),
    ]
    store.documents.batch(brain, writes)

    assert [hit.path for hit in store.search(brain, "ubiquitous quokka", 10).hits] == ["bulk/both.md", "bulk/rare.md"]
    inside = store.search(brain, "ubiquitous quokka", 10, folders=Folders(("memory/global/",)))
    assert [hit.path for hit in inside.hits] == ["memory/global/plain.md"]
    assert len(store.search(brain, "ubiquitous", 10).hits) == 10
    assert store.search(brain, "ubiquitous filler", 3, sort="recency").hits[0].path == "bulk/0.md"
    store.delete_brain(brain)
