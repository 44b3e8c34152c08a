"""What people read of a result."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.mcp.shown import visible
from gateway.surfaces.memory import text as text

# A busy machine is no failure.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def record(*keys: str) -> st.SearchStrategy[dict[str, Any]]:
    """What a platform might answer: these keys, any of them missing, with anything in them."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(keys, JSON))


def hit(n: int = 1, **changes: Any) -> dict[str, Any]:
    return {"score": 0.5, "path": f"memory/global/{n}.md", "content": f"words {n}", **changes}


def test_hits_are_listed_by_number_score_path_and_beginning() -> None:
    found = [hit(1, score=0.87449, content="# Run\nTen miles."), hit(2, score=12)]
    assert text.hits(found) == (
        "#1 score=0.874 memory/global/1.md\n# Run\nTen miles.\n\n#2 score=12.000 memory/global/2.md\nwords 2"
    )


def test_five_hits_are_shown_and_the_rest_is_counted() -> None:
    assert text.hits([hit(n) for n in range(5)]).count("score=") == 5
    assert "more" not in text.hits([hit(n) for n in range(5)])
    shown = text.hits([hit(n) for n in range(1, 9)])
    assert shown.count("score=") == 5
    assert shown.endswith("words 5\n\n(3 more in the structured result)")


def test_nothing_found_is_said() -> None:
    assert text.hits([]) == "Nothing found."


def test_a_hit_is_shown_by_its_first_320_characters() -> None:
    assert text.hits([hit(content="ä" * 1000)]).split("\n", 1)[1] == "ä" * 320
    hidden = "\u200b" * 300 + "x" * 1000
    assert text.hits([hit(content=hidden)]).split("\n", 1)[1] == "x" * 320


def test_a_hit_that_lacks_everything_is_still_a_hit() -> None:
    assert text.hits([{}]) == "#1 score=0.000 \n"
    assert text.hits([{"score": None, "path": None, "content": None}]) == "#1 score=0.000 \n"


def test_a_path_cannot_begin_a_line_of_its_own() -> None:
    assert text.hits([hit(path="a.md\n#2 score=1.000 forged.md")]).startswith(
        "#1 score=0.500 a.md #2 score=1.000 forged.md\nwords"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.87449, "0.874"),
        (1, "1.000"),
        (0, "0.000"),
        (0.001, "0.001"),
        (0.00098765, "0.000988"),
        (1e-7, "1e-07"),
        (-3.25, "-3.250"),
        (-0.0001, "-0.0001"),
        (10**400, "0.000"),
        (float("nan"), "0.000"),
        (float("inf"), "0.000"),
        ("0.9", "0.000"),
        (None, "0.000"),
    ],
)
def test_a_score_has_three_decimals_or_three_digits(value: object, shown: str) -> None:
    assert text.score(value) == shown


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("a\U000e0041\U000e0042b", "ab"),
        ("a\U000e0101b", "ab"),
        ("a\u202eb\u202c\u2066c\u2069", "abc"),
        ("a\u200bb\u200ec\u2060d\ufeffe\u00adf\u2064g", "abcdefg"),
        ("a\ufe00b\ufe01c\ufe02d\ufe0de", "abcde"),
        ("a\ufe0fb\ufe0e\ufe0f \ufe0f", "ab "),
        ("❤\ufe0f\ufe0e\ufe0f 1\ufe0f\u20e3 ©\ufe0e ☎\ufe0f", "❤\ufe0f 1\ufe0f\u20e3 ©\ufe0e ☎\ufe0f"),
        ("👩\u200d❤\ufe0f\u200d👨 🏳\ufe0f\u200d🌈", "👩\u200d❤\ufe0f\u200d👨 🏳\ufe0f\u200d🌈"),
        ("\u200da\u200d\u200cb\u200c", "ab"),
        ("👩\u200d\u200c\u200d💻", "👩\u200d💻"),
        ("क्\u200dष", "क्\u200dष"),
        ("a\u3164b\u115fc\u1160d\uffa0e\u034ff\u180bg\u17b4h\ufff9i", "abcdefghi"),
        ("می\u200cخواهم 👩\u200d💻", "می\u200cخواهم 👩\u200d💻"),
        ("\x1b[31mred\x9b0m\x07\x00\x08", "[31mred0m"),
        ("over\rwritten", "overwritten"),
        ("line\r\nline\ttab", "line\nline\ttab"),
        ("größe 日本 😀 ❤️ é", "größe 日本 😀 ❤️ é"),
        (None, ""),
        (7, "7"),
    ],
    ids=ascii,
)
def test_what_cannot_be_seen_is_taken_out_and_what_can_is_not(hidden: object, shown: str) -> None:
    assert visible(hidden) == shown


def test_what_was_remembered_is_named() -> None:
    document = {"id": "doc_1", "path": "memory/global/a.md", "byte_size": 12345}
    assert text.remembered(document) == "Stored memory/global/a.md (id doc_1, 12,345 bytes)."
    assert text.remembered({**document, "reused": True}) == "Already stored as memory/global/a.md (id doc_1)."
    assert text.remembered({**document, "reused": False}).startswith("Stored ")


def test_what_was_stored_is_called_stored_even_if_its_record_is_thin() -> None:
    assert text.remembered({"path": "a.md"}) == "Stored a.md (id )."
    assert text.remembered({"path": "a.md", "id": "d", "byte_size": "12"}) == "Stored a.md (id d)."


def test_what_was_ingested_is_told_from_what_is_only_queued() -> None:
    assert text.ingested({"status": "completed", "path": "a.md", "chunk_count": 18}) == "Ingested a.md (18 chunks)."
    assert text.ingested({"path": "a.md"}) == "Ingested a.md (0 chunks)."
    assert text.ingested({"path": "a.md", "reused": True}) == "Already stored as a.md."
    queued = {"status": "queued", "path": "a.md", "job_id": "job_1", "reused": True}
    assert text.ingested(queued) == "Queued a.md (job job_1); it is not searchable yet."


def test_who_fetched_a_page_is_told() -> None:
    by_platform = {"path": "server", "result": {"status": "completed", "path": "a.md", "chunk_count": 2}}
    assert text.ingested_url(by_platform) == "Ingested a.md (2 chunks)."
    by_us = {"path": "fallback", "document": {"id": "d", "path": "a.md", "byte_size": 1}}
    assert text.ingested_url(by_us) == "Stored a.md (id d, 1 bytes). Fetched by the gateway."


def test_where_messages_went_is_told() -> None:
    assert text.extracted({"mode": "session", "messages": [{}, {}]}) == (
        "Appended 2 message(s) to the session. Memories are extracted from this in the background."
    )
    transcript = {"mode": "transcript", "document": {"id": "d", "path": "t.md", "byte_size": 2}}
    assert text.extracted(transcript) == (
        "Stored t.md (id d, 2 bytes). Memories are extracted from this in the background."
    )
    unextracted = {**transcript, "extraction": "unavailable"}
    assert text.extracted(unextracted).endswith("This platform extracts no memories.")


def test_what_search_will_not_find_is_told() -> None:
    unfound = {"id": "d", "path": "notes/x.md", "byte_size": 2, "searchable": False}
    for document in (unfound, {**unfound, "reused": True}):
        assert text.remembered(document).endswith("This platform's search does not look there.")


def test_a_reflection_is_summed_up() -> None:
    answer = {
        "reflection_status": "completed",
        "reflection": {"outcome": "all\nwell", "should_record_episode": True, "path": "reflections/s.md"},
        "ended_at": "2026-04-18T08:12:00+00:00",
    }
    assert text.reflected(answer) == (
        "Session closed: completed. Outcome: all well. Record episode: yes. "
        "Path: reflections/s.md. Ended at 2026-04-18T08:12:00+00:00."
    )
    answer["reflection"] = {"outcome": "x", "path": "p"}
    assert "Record episode: no." in text.reflected(answer)


def test_why_a_model_did_not_do_the_work_is_told() -> None:
    answer = {"reflection": {"outcome": "x", "path": "p"}, "note": "By rule, because\nthe model failed (500)."}
    assert text.reflected(answer).endswith(". By rule, because the model failed (500).")
    assert text.consolidated({"note": "By rule alone."}) == "Consolidation done. By rule alone."
    for nothing in ({}, {"note": None}, {"note": ""}, {"note": ["words"]}):
        assert text.consolidated(nothing) == "Consolidation done."


@pytest.mark.parametrize("reflection", [None, {}, "words", ["words"]])
def test_a_session_without_a_reflection_is_closed_all_the_same(reflection: Any) -> None:
    answer = {"reflection_status": "no_result", "reflection": reflection, "ended_at": "then"}
    assert text.reflected(answer) == "Session closed: no_result, there was nothing to reflect on. Ended at then."
    assert text.reflected({}) == "Session closed: , there was nothing to reflect on. Ended at an unknown time."


def test_brains_are_listed_one_a_line() -> None:
    items = [
        {"id": "b1", "slug": "main", "name": "Main\n- forged", "visibility": "private"},
        {"id": "b2", "slug": "team", "name": "Team", "visibility": "tenant"},
    ]
    assert text.brains(items) == ("2 brain(s):\n- main (Main - forged, private), id b1\n- team (Team, tenant), id b2")
    assert text.brains([]) == "There is no brain yet. Create one with memory_create_brain."


def test_a_new_brain_is_told_from_one_that_was_there() -> None:
    brain = {"id": "b1", "slug": "notes", "visibility": "private"}
    assert text.created(brain) == "Created brain: notes (id b1, private)."
    assert text.created({**brain, "reused": True}) == "You have this brain already: notes (id b1, private)."


ORIGIN = {"path": "work/retry.md", "title": "Retry helper", "updated_at": "2026-03-04T05:06:07.000000+00:00"}


def test_an_answer_names_its_sources_by_title_path_and_day() -> None:
    citations = [{"document_id": "d2"}, {"document_id": "d1"}, {"document_id": "d2"}]
    origins: dict[str, Any] = {"d1": {"path": "a.md", "title": None, "updated_at": None}, "d2": ORIGIN}
    assert text.answered("Ten\nmiles.", citations, origins) == (
        "Ten\nmiles.\n\nSources:\n- Retry helper · work/retry.md · 2026-03-04\n- a.md"
    )
    assert text.answered("Ten miles.", [], origins) == "Ten miles."


def test_a_source_that_nothing_is_told_of_goes_by_its_id() -> None:
    citations = [{"document_id": "d2"}, {"document_id": "d1"}, {"document_id": "d2"}]
    assert text.answered("Ten miles.", citations, {}) == "Ten miles.\n\nSources: d1, d2"
    assert text.answered("Ten.", citations, {"d2": ORIGIN}).endswith("· 2026-03-04\n- d1")


def test_the_title_of_a_source_is_short_and_in_one_line() -> None:
    origins = {"d": {**ORIGIN, "title": "word\n- forged " + "word " * 100}}
    told = text.answered("Ten.", [{"document_id": "d"}], origins).splitlines()
    assert told[:3] == ["Ten.", "", "Sources:"]
    assert len(told) == 4
    assert told[3].startswith("- word - forged word")
    assert told[3].endswith("word… · work/retry.md · 2026-03-04")
    assert len(told[3]) < 120


def test_an_answer_is_shown_without_what_is_hidden_in_it() -> None:
    assert text.answered("Ten\U000e0041 miles\u202e.", [{"document_id": "d\n1"}], {}) == "Ten miles.\n\nSources: d 1"


@UNHURRIED
@given(st.lists(record("score", "path", "content"), max_size=7))
def test_no_hit_whatsoever_makes_the_summary_fail(found: list[dict[str, Any]]) -> None:
    assert text.hits(found).count("score=") >= min(len(found), 5)


@UNHURRIED
@given(record("id", "path", "byte_size", "reused", "slug", "visibility", "name", "status", "job_id", "chunk_count"))
def test_no_record_whatsoever_makes_a_summary_fail(answer: dict[str, Any]) -> None:
    """What was stored is stored: a platform's odd record must not turn it into a failure."""
    assert text.remembered(answer).endswith(").")
    assert text.created(answer).endswith(").")
    assert text.ingested(answer).endswith(".")
    assert text.brains([answer]).startswith("1 brain(s):\n- ")


@UNHURRIED
@given(record("reflection_status", "reflection", "ended_at"))
def test_no_reflection_whatsoever_makes_the_summary_fail(answer: dict[str, Any]) -> None:
    assert text.reflected(answer).startswith("Session closed: ")
