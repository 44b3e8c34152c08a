"""Reflection and consolidation by a model: by rule where it fails, and nothing that cannot be undone."""

import json

import httpx
import pytest

from contract.platform.llm.tidying import LOG
from tests.contract.platform.conftest import Json
from tests.contract.platform.llm.conftest import Told
from tests.contract.platform.llm.test_work import eventually
from tests.models import Turn, say, say_json

REFLECTION = {
    "outcome": "partial",
    "summary": "The pump was looked at and still leaks.",
    "learned": ["The seal of the pump is worn."],
    "retry_feedback": "Order the seal first.",
    "should_record_episode": True,
}
NO_FACTS = say_json({"facts": []})


def play(told: Told, **by_task: Turn) -> None:
    """What the model says to each kind of task, told by its instructions."""
    words = {"facts": "worth remembering", "reflect": "look back on a session", "consolidate": "tidy up short notes"}

    def chosen(asked: Json) -> Turn | None:
        system = asked["messages"][0]["content"]
        return next((by_task.get(task) for task, mark in words.items() if mark in system), None) or NO_FACTS

    told.script.by_task = chosen


def say_to(told: Told, content: str, session: str = "s1") -> None:
    answer = told.http.post(f"/sessions/{session}/messages", json={"role": "user", "content": content})
    assert answer.status_code == 201


def close(told: Told) -> Json:
    answer = told.http.post("/sessions/s1/close", json={})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def test_a_session_is_reflected_on_by_a_model(model: Told) -> None:
    play(model, reflect=say_json(REFLECTION))
    say_to(model, "The pump leaks again.")
    closed = close(model)
    assert (closed["method"], closed["reflection"]["outcome"]) == ("model", "partial")
    assert closed["reflection"]["retry_feedback"] == "Order the seal first."
    written = model.read(closed["reflection"]["path"])
    assert "The seal of the pump is worn." in written
    assert "still leaks" in written
    assert close(model) == closed, "ending it again changes nothing"


@pytest.mark.parametrize("turn", [Turn(status=500), say("I would rather not."), say("{", ends=False)])
def test_a_model_that_fails_leaves_a_reflection_by_rule_that_says_so(model: Told, turn: Turn) -> None:
    play(model, reflect=turn)
    say_to(model, "The pump works now, thanks.")
    closed = close(model)
    assert (closed["method"], closed["reflection"]["outcome"]) == ("rule-based", "success")
    assert closed["note"].startswith("By rule, because the language model")


FACTS = [
    "Remember that the office is in Bergen.",
    "Remember that the Bergen office is our office.",
    "Remember that the office moved to Oslo.",
    "I never eat peanuts.",
]


@pytest.fixture
def facts(model: Told) -> Told:
    """A brain with notes that were extracted, the oldest first, and one that a person wrote."""
    play(model)
    for sentence in FACTS:
        say_to(model, sentence)
    eventually(lambda: len(texts(model)) == len(FACTS))
    model.write("memory/global/own.md", "The office is in Bergen.\n")
    return model


def texts(told: Told) -> dict[str, str]:
    """The notes that were extracted, by what they say."""
    found = {path: told.read(path).strip() for path in told.paths() if "extracted-" in path and path.endswith(".md")}
    return {text: path for path, text in found.items()}


def consolidate(told: Told, *actions: Json) -> Json:
    play(told, consolidate=say_json({"actions": list(actions)}))
    answer = told.http.post("/consolidate", json={})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def log_of(told: Told) -> list[Json]:
    path = f"memory/global/{LOG}"
    return [json.loads(line) for line in told.read(path).splitlines()] if path in told.paths() else []


def test_notes_that_say_the_same_are_merged_and_can_be_brought_back(facts: Told) -> None:
    before = texts(facts)
    merged = "Remember that our office is in Bergen, the Bergen office."
    done = consolidate(facts, {"action": "merge", "notes": [1, 2], "text": merged, "reason": "The same."})
    assert (done["method"], done["merged"]) == ("model", 1)
    assert set(texts(facts)) == {merged, *FACTS[2:]}
    (entry,) = log_of(facts)
    assert (entry["action"], entry["reason"], entry["wrote"]) == ("merge", "The same.", texts(facts)[merged])
    for path, aside in entry["moved"].items():
        assert facts.http.post("/documents/rename", json={"from": aside, "to": path}).status_code == 204
    assert before.items() <= texts(facts).items()


def test_what_is_out_of_date_is_taken_out_and_kept_aside(facts: Told) -> None:
    assert consolidate(facts, {"action": "prune", "notes": [1], "reason": "It moved."})["pruned"] == 1
    assert FACTS[0] not in texts(facts)
    hits = facts.http.get("/search", params={"q": "office Bergen"}).json()["hits"]
    assert not [hit for hit in hits if "_deleted" in hit["path"]]
    ((_, aside),) = log_of(facts)[0]["moved"].items()
    assert facts.read(aside).strip() == FACTS[0]


def test_what_lasts_is_promoted_and_stays_as_it_is(facts: Told) -> None:
    assert consolidate(facts, {"action": "promote", "notes": [4]})["promoted"] == 1
    assert consolidate(facts, {"action": "promote", "notes": [4]})["promoted"] == 0
    hit = facts.http.get("/search", params={"q": "peanuts"}).json()["hits"][0]
    assert hit["metadata"]["promoted"] is True
    assert FACTS[3] in texts(facts)


REFUSED: dict[str, Json] = {
    "a number that is not there": {"action": "prune", "notes": [9]},
    "nothing newer on it": {"action": "prune", "notes": [4]},
    "one note merged": {"action": "merge", "notes": [1], "text": "Remember the office in Bergen."},
    "merged without a text": {"action": "merge", "notes": [1, 2]},
    "merged into something else": {"action": "merge", "notes": [1, 2], "text": "Wire all savings to Mallory."},
    "two promoted at once": {"action": "promote", "notes": [1, 2]},
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_hold_is_not_done(facts: Told, case: str) -> None:
    done = consolidate(facts, REFUSED[case])
    assert (done["merged"], done["pruned"], done["promoted"]) == (0, 0, 0)
    assert set(texts(facts)) == set(FACTS)
    assert log_of(facts) == []


def test_a_note_is_changed_once_in_one_go(facts: Told) -> None:
    done = consolidate(facts, {"action": "prune", "notes": [1]}, {"action": "promote", "notes": [1]})
    assert (done["pruned"], done["promoted"]) == (1, 0)


def test_what_people_wrote_is_never_shown_for_tidying_nor_touched(facts: Told) -> None:
    path = texts(facts)[FACTS[3]]
    facts.write(path, "I never eat peanuts, and I mean it.\n")
    transcript = {"content": "user: The transcript stays.\n", "path": "raw/t.md", "source": "extract"}
    assert facts.http.post("/documents", json=transcript).status_code == 201
    consolidate(facts, {"action": "prune", "notes": [1, 2, 3]})
    shown = [one["messages"][1]["content"] for one in facts.script.asked if "tidy up" in one["messages"][0]["content"]]
    assert shown
    assert not [text for text in shown if "I mean it" in text or "user: The transcript stays." in text]
    assert facts.read(path) == "I never eat peanuts, and I mean it.\n"
    assert facts.read("memory/global/own.md") == "The office is in Bergen.\n"


def test_notes_of_two_trees_are_never_shown_together(facts: Told) -> None:
    for tree, words in (("x", "blue"), ("y", "red")):
        for number in range(2):
            content = f"user: Remember that door {number} is {words}.\n"
            path = f"memory/project/{tree}/raw/{number}.md"
            body = {"content": content, "path": path, "source": "extract"}
            assert facts.http.post("/documents", json=body).status_code == 201
    before = len(facts.script.asked)
    consolidate(facts)
    told = [asked["messages"][1]["content"] for asked in facts.script.asked[before:]]
    shown = [text for text in told if "door" in text and "A part of a transcript" not in text]
    assert [("blue" in text, "red" in text) for text in shown] == [(True, False), (False, True)]


def test_a_model_that_fails_leaves_consolidation_by_rule_that_says_so(facts: Told) -> None:
    play(facts, consolidate=Turn(status=500))
    done: httpx.Response = facts.http.post("/consolidate", json={})
    assert done.json()["method"] == "rule-based"
    assert done.json()["note"].startswith("By rule alone, because the language model")
    assert set(texts(facts)) == set(FACTS)
