"""Sessions: messages, recall, and how a session ends."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import httpx
import pytest

from tests.contract.platform.conftest import Json

Write = Callable[[str, str | bytes], None]
Paths = Callable[..., list[str]]


def say(
    client: httpx.Client, brain: str, content: str, role: str = "user", session: str = "s1", **rest: object
) -> Json:
    answer = client.post(f"{brain}/sessions/{session}/messages", json={"role": role, "content": content, **rest})
    assert answer.status_code == 201, answer.text
    record: Json = answer.json()
    return record


def close(client: httpx.Client, brain: str, session: str = "s1") -> Json:
    answer = client.post(f"{brain}/sessions/{session}/close", json={})
    assert answer.status_code == 200
    closed: Json = answer.json()
    return closed


def recall(client: httpx.Client, brain: str, query: str, session: str = "s1", **rest: object) -> list[str]:
    answer = client.post(f"{brain}/sessions/{session}/recall", json={"query": query, **rest})
    assert answer.status_code == 200, answer.text
    return [chunk["path"] for chunk in answer.json()["chunks"]]


def test_a_message_comes_back_without_its_metadata(client: httpx.Client, brain: str) -> None:
    record = say(client, brain, "what did I watch?", metadata={"actor_id": "a", "skip_extract": True, "more": [1]})
    assert record == {
        "id": record["id"],
        "session_id": "s1",
        "role": "user",
        "content": "what did I watch?",
        "created_at": record["created_at"],
    }
    assert record["id"].startswith("msg_")
    assert datetime.fromisoformat(record["created_at"]).utcoffset() is not None
    assert client.get(f"{brain}/sessions/s1/messages").json() == {"items": [record]}


def test_messages_come_in_order_and_the_newest_of_them(client: httpx.Client, brain: str) -> None:
    said = [say(client, brain, f"number {number}", name="clock", role="tool") for number in range(205)]
    assert client.get(f"{brain}/sessions/s1/messages").json()["items"] == said[-200:]
    assert client.get(f"{brain}/sessions/s1/messages", params={"limit": 3}).json()["items"] == said[-3:]
    assert len({record["id"] for record in said}) == 205
    assert said[0]["name"] == "clock"


def test_a_session_begins_with_its_first_message(client: httpx.Client, brain: str) -> None:
    unknown = client.get(f"{brain}/sessions/s1")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert client.get(f"{brain}/sessions/s1/messages").json() == {"items": []}
    first, second = say(client, brain, "one"), say(client, brain, "two")
    assert client.get(f"{brain}/sessions/s1").json() == {
        "session_id": "s1",
        "brain_id": brain.rpartition("/")[2],
        "message_count": 2,
        "created_at": client.get(f"{brain}/sessions/s1").json()["created_at"],
        "updated_at": second["created_at"],
        "ended_at": None,
    }
    assert first["id"] != say(client, brain, "one", session="s2")["id"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"role": "user"},
        {"content": "x"},
        {"role": "robot", "content": "x"},
        {"role": "user", "content": ""},
        {"role": "user", "content": ["x"]},
        {"role": "tool", "content": "x", "name": ""},
        {"role": "tool", "content": "x", "name": "n" * 129},
        {"role": "user", "content": "x", "metadata": []},
        {"role": "user", "content": "x", "metadata": {"idempotency_key": ""}},
        {"role": "user", "content": "x", "metadata": {"idempotency_key": "k" * 129}},
        {"role": "user", "content": "x", "metadata": {"idempotency_key": 7}},
    ],
)
def test_a_malformed_message_is_refused(client: httpx.Client, brain: str, body: Json) -> None:
    answer = client.post(f"{brain}/sessions/s1/messages", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")
    assert client.get(f"{brain}/sessions/s1").status_code == 404


def test_a_message_that_comes_again_under_its_key_is_the_one_that_is_there(
    client: httpx.Client, brain: str, paths: Paths
) -> None:
    keyed = {"idempotency_key": "k"}
    first = say(client, brain, "I like rooibos.", metadata=keyed)
    say(client, brain, "I like rooibos.", metadata={"idempotency_key": "l"})
    say(client, brain, "I like rooibos.")
    made, closed = paths(), close(client, brain)
    assert say(client, brain, "I like rooibos.", metadata=keyed) == first
    assert len(client.get(f"{brain}/sessions/s1/messages").json()["items"]) == 3
    assert set(paths()) - set(made) == {closed["reflection"]["path"]}
    assert client.get(f"{brain}/sessions/s1").json()["ended_at"] == closed["ended_at"], "it is not open again"
    # Another session has keys of its own.
    assert say(client, brain, "I like rooibos.", session="s2", metadata=keyed)["id"] != first["id"]


@pytest.mark.parametrize("other", [{"content": "no"}, {"role": "assistant"}])
def test_a_key_names_one_message_alone(client: httpx.Client, brain: str, other: Json) -> None:
    message = {"role": "user", "content": "yes", "metadata": {"idempotency_key": "k" * 128}}
    assert client.post(f"{brain}/sessions/s1/messages", json=message).status_code == 201
    answer = client.post(f"{brain}/sessions/s1/messages", json=message | other)
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert client.get(f"{brain}/sessions/s1").json()["message_count"] == 1


def test_a_message_that_comes_ten_times_at_once_is_added_once(client: httpx.Client, brain: str) -> None:
    with ThreadPoolExecutor(10) as threads:
        said = list(threads.map(lambda _: say(client, brain, "yes", metadata={"idempotency_key": "k"}), range(10)))
    assert said == [said[0]] * 10
    assert client.get(f"{brain}/sessions/s1/messages").json()["items"] == said[:1]


@pytest.mark.parametrize("session", ["a", "A.b_c:d@e-f", "9", "s" * 256])
def test_a_session_id_may_look_like_this(client: httpx.Client, brain: str, session: str) -> None:
    assert say(client, brain, "hello", session=session)["session_id"] == session
    assert close(client, brain, session)["session_id"] == session


@pytest.mark.parametrize("session", ["-a", ".a", "_a", "a%20b", "s" * 257, "é", "a%00", "a%0A"])
def test_a_session_id_may_not_look_like_this(client: httpx.Client, brain: str, session: str) -> None:
    root = f"{brain}/sessions/{session}"
    answers = [
        client.get(root),
        client.get(f"{root}/messages"),
        client.post(f"{root}/messages", json={"role": "user", "content": "x"}),
        client.post(f"{root}/close", json={}),
        client.post(f"{root}/recall", json={"query": "x"}),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(400, "validation_error")] * 5


def test_closing_an_unknown_session_reflects_on_nothing(client: httpx.Client, brain: str, paths: Paths) -> None:
    closed = close(client, brain)
    assert closed == {
        "session_id": "s1",
        "reflection_status": "no_result",
        "reflection_attempted": False,
        "ended_at": closed["ended_at"],
        "method": "rule-based",
    }
    assert paths() == []
    assert client.get(f"{brain}/sessions/s1").status_code == 404


def test_closing_a_session_writes_a_reflection(client: httpx.Client, brain: str) -> None:
    say(client, brain, "How do I prune the quince? I prefer hand tools.", session="team:a@b")
    say(client, brain, "Cut in February. It works.", role="assistant", session="team:a@b")
    closed = close(client, brain, "team:a@b")
    assert closed == {
        "session_id": "team:a@b",
        "reflection_status": "completed",
        "reflection": {
            "outcome": "success",
            "should_record_episode": True,
            "path": "reflections/team%3Aa%40b.md",
        },
        "reflection_attempted": True,
        "ended_at": closed["ended_at"],
        "method": "rule-based",
    }
    stat = client.get(f"{brain}/documents/stat", params={"path": "reflections/team%3Aa%40b.md"}).json()
    assert stat["document"]["source"] == "reflect"
    text = client.get(f"{brain}/documents/read", params={"path": "reflections/team%3Aa%40b.md"}).text
    assert "How do I prune the quince?" in text
    assert "I prefer hand tools." in text
    assert client.get(f"{brain}/sessions/team:a@b").json()["ended_at"] == closed["ended_at"]


def test_a_message_opens_a_closed_session_again(client: httpx.Client, brain: str) -> None:
    say(client, brain, "one")
    close(client, brain)
    said = say(client, brain, "two")
    session = client.get(f"{brain}/sessions/s1").json()
    assert (session["message_count"], session["updated_at"], session["ended_at"]) == (2, said["created_at"], None)
    again = close(client, brain)
    assert client.get(f"{brain}/sessions/s1").json()["ended_at"] == again["ended_at"]


def test_closing_again_answers_the_same_until_there_is_more(client: httpx.Client, brain: str) -> None:
    say(client, brain, "Deploy the build.")
    first, second = close(client, brain), close(client, brain)
    assert first == second
    say(client, brain, "The deploy failed with an error. Try the other region.")
    third = close(client, brain)
    assert third["ended_at"] > first["ended_at"]
    assert third["reflection"]["outcome"] == "failure"
    assert third["reflection"]["retry_feedback"] == "The deploy failed with an error."


@pytest.mark.parametrize(
    ("turns", "outcome"),
    [
        ([("user", "Hello.")], "unknown"),
        ([("user", "It is broken."), ("assistant", "Restart it."), ("user", "Thanks!")], "success"),
        ([("user", "Great."), ("user", "No, it does not work.")], "failure"),
        ([("user", "The first part works now, the second one is still broken. Thanks")], "partial"),
        ([("tool", "error error error")], "unknown"),
    ],
)
def test_the_outcome_is_told_by_the_last_signs(
    client: httpx.Client, brain: str, turns: list[tuple[str, str]], outcome: str
) -> None:
    for role, content in turns:
        say(client, brain, content, role=role)
    assert close(client, brain)["reflection"]["outcome"] == outcome


def test_a_session_of_symbols_still_ends(client: httpx.Client, brain: str) -> None:
    say(client, brain, "# error\n")
    say(client, brain, "!!!", role="assistant")
    reflection = close(client, brain)["reflection"]
    assert (reflection["outcome"], reflection["retry_feedback"]) == ("failure", "# error")


def test_recall_in_an_unknown_session_is_a_search(client: httpx.Client, brain: str, write: Write) -> None:
    write("memory/global/a.md", "the violet ledger\n")
    write("wiki/b.md", "the violet ledger, revised\n")
    found = client.get(f"{brain}/search", params={"q": "violet ledger"}).json()
    answer = client.post(f"{brain}/sessions/nobody/recall", json={"query": "violet ledger"}).json()
    of_session = {"session_id": "nobody", "brain_id": found["brain_id"], "method": "keyword", "live": True}
    assert answer == {"chunks": found["hits"], **of_session}
    assert recall(client, brain, "violet ledger", scope="global") == ["memory/global/a.md"]
    assert recall(client, brain, "violet ledger", top_k=1) == ["memory/global/a.md"]


def test_recall_listens_to_what_was_said_last(client: httpx.Client, brain: str, write: Write) -> None:
    write("a.md", "The budget of the harbour project is small.\n")
    write("b.md", "The budget of the orchard project is large.\n")
    write("c.md", "Orchard trees are pruned in winter.\n")
    assert recall(client, brain, "budget project") == ["a.md", "b.md"]
    say(client, brain, "Let us talk about the orchard.", metadata={"skip_extract": True})
    assert recall(client, brain, "budget project") == ["b.md", "a.md", "c.md"]
    chunks = client.post(f"{brain}/sessions/s1/recall", json={"query": "budget project"}).json()["chunks"]
    scores = [chunk["score"] for chunk in chunks]
    # By reciprocal rank: second for the query and for the context beats first for the query alone. Scores are those of
    # the searches, half for the context, and none is below that of a hit behind it.
    alone = client.post(f"{brain}/sessions/nobody/recall", json={"query": "budget project"}).json()["chunks"]
    assert scores[:2] == [alone[0]["score"]] * 2
    assert 0 < scores[2] < 0.5


def test_the_query_outweighs_the_context(client: httpx.Client, brain: str, write: Write) -> None:
    write("asked.md", "Lighthouse keepers\n")
    write("said.md", "Submarine crews\n")
    say(client, brain, "Tell me about submarine crews.", metadata={"skip_extract": True})
    assert recall(client, brain, "lighthouse keepers") == ["asked.md", "said.md"]


def test_recall_forgets_what_was_said_long_ago(client: httpx.Client, brain: str, write: Write) -> None:
    write("old.md", "glockenspiel\n")
    say(client, brain, "glockenspiel", metadata={"skip_extract": True})
    assert recall(client, brain, "anything") == ["old.md"]
    for number in range(6):
        say(client, brain, f"small talk {number}", role="assistant", metadata={"skip_extract": True})
    assert recall(client, brain, "anything") == []


@pytest.mark.parametrize(
    "metadata", [{"skip_extract": "true"}, {"skip_extract": 1}, {"actor_id": 7}, {"actor_id": "a" * 513}, [], "x"]
)
def test_words_that_change_what_is_done_are_checked(client: httpx.Client, brain: str, metadata: object) -> None:
    body = {"role": "user", "content": "I like tea.", "metadata": metadata}
    answer = client.post(f"{brain}/sessions/s/messages", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")


def test_a_field_that_is_null_counts_as_left_out(client: httpx.Client, brain: str) -> None:
    body = {"role": "user", "content": "tea", "name": None, "metadata": {"skip_extract": None, "actor_id": None}}
    assert client.post(f"{brain}/sessions/s/messages", json=body).status_code == 201
    assert client.post(f"{brain}/sessions/s/messages", json={**body, "metadata": None}).status_code == 201
    asked = {"query": "tea", "scope": None, "top_k": None}
    assert client.post(f"{brain}/sessions/s/recall", json=asked).status_code == 200


def search(client: httpx.Client, brain: str, query: str, **rest: str) -> list[str]:
    hits = client.get(f"{brain}/search", params={"q": query, **rest}).json()["hits"]
    return [hit["path"] for hit in hits]


def test_what_was_said_is_found_by_search_and_by_recall(client: httpx.Client, brain: str) -> None:
    say(client, brain, "Somehow the trombone got dented again")
    say(client, brain, "Then hammer the trombone out gently", role="assistant")
    paths = ["sessions/s1/000001.md", "sessions/s1/000002.md"]
    assert sorted(search(client, brain, "dented trombone")) == paths
    assert sorted(recall(client, brain, "dented trombone")) == paths
    assert sorted(recall(client, brain, "dented trombone", session="another")) == paths


def test_a_message_is_a_note_called_by_its_beginning(client: httpx.Client, brain: str) -> None:
    say(client, brain, "Somehow the trombone got dented\nand nobody knows why", session="team:a@b", name="ada")
    path = "sessions/team%3Aa%40b/000001.md"
    document = client.get(f"{brain}/documents/stat", params={"path": path}).json()["document"]
    assert document["title"] == "Somehow the trombone got dented"
    assert document["metadata"] == {"session_id": "team:a@b", "role": "user", "name": "ada"}
    (hit,) = client.get(f"{brain}/search", params={"q": "trombone"}).json()["hits"]
    assert (hit["path"], hit["content"]) == (path, "Somehow the trombone got dented\nand nobody knows why")


def test_instructions_and_what_tools_print_are_not_found(client: httpx.Client, brain: str, paths: Paths) -> None:
    say(client, brain, "Always mention the trombone", role="system")
    say(client, brain, "trombone: 5 found", role="tool", name="inventory")
    assert paths() == []
    assert search(client, brain, "trombone") == []


def test_a_message_and_its_fact_are_one_hit(client: httpx.Client, brain: str) -> None:
    say(client, brain, "My trombone is a Yamaha.")
    say(client, brain, "Well well. I bought the tuba in Turin. It was rainy and cold and late there.")
    for query in ("trombone", "tuba"):
        (found,) = search(client, brain, query)
        assert found.startswith("memory/global/extracted-")
    assert search(client, brain, "rainy and late") == ["sessions/s1/000002.md"]
    assert search(client, brain, "trombone", sort="recency") != []


def test_what_waits_for_extraction_is_found_once_it_has_run(client: httpx.Client, brain: str) -> None:
    say(client, brain, "Somehow the trombone got dented", metadata={"skip_extract": True})
    assert search(client, brain, "trombone") == []
    say(client, brain, "Oh no", role="assistant")
    assert search(client, brain, "trombone") == ["sessions/s1/000001.md"]


def test_what_was_said_is_told_by_ask(client: httpx.Client, brain: str) -> None:
    say(client, brain, "Somehow the trombone got dented on the ferry")
    answer = client.post(f"{brain}/ask", json={"query": "where did the trombone get dented?"}).text
    assert "Somehow the trombone got dented on the ferry" in answer


def test_consolidating_does_not_list_messages(client: httpx.Client, brain: str, write: Write) -> None:
    say(client, brain, "Somehow the trombone got dented")
    write("a.md", "# Alpha\n")
    client.post(f"{brain}/consolidate", json={})
    overview = client.get(f"{brain}/documents/read", params={"path": "wiki/_overview.md"}).text
    assert "Alpha" in overview
    assert "trombone" not in overview


def test_what_was_said_last_does_not_come_back_for_every_query(client: httpx.Client, brain: str, write: Write) -> None:
    write("old.md", "The trombone is in its case.\n")
    say(client, brain, "Somehow the trombone got dented")
    assert recall(client, brain, "anything") == ["old.md"]
