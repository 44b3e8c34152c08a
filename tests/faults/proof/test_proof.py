"""The judge catches what it is there for, the page keeps what was not run again, and a small proof holds."""

from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.faults.faults import Kind, Request
from tests.faults.proof import __main__ as proof
from tests.faults.proof import kills, report, writes
from tests.faults.proof.clients import Clients
from tests.faults.proof.ledger import (
    BROKEN,
    FAILED_THOUGH_STORED,
    STORED_BEFORE,
    STORED_THOUGH_ABSENT,
    Answer,
    Tally,
    Write,
    disordered,
    judge,
    misreported,
)
from tests.faults.proof.part import Part
from tests.faults.proof.shelves import DaemonShelf, copies, held, mark, message_key
from tests.faults.proof.stages import STAGES
from tests.faults.proof.weather import KINDS, Weather, is_writing, written_by
from tests.faults.proof.workload import BRAIN, BRAINS, MIX, PAGE, REMEMBER, SESSION, Workload
from tests.faults.proxy import proxying
from tests.tiers import by_tier


def note(*said: str, key: str = "a") -> Write:
    return Write("note", "memory_remember", {"brain": "b"}, (key,), answers=[Answer(text) for text in said])


def talk(*said: Answer, count: int = 3) -> Write:
    keys = tuple(f"m{n}" for n in range(count))
    return Write("talk", "memory_extract", {"brain": "b"}, keys, session="s", answers=list(said))


def figures(write: Write, **copies: int) -> Tally:
    return judge([write], copies).total


def test_a_write_that_is_there_once_is_well() -> None:
    assert figures(note("stored"), a=1) == Tally(sent=1, calls=1, once=1)
    assert judge([note("stored")], {"a": 1}).failures == []


def test_a_write_that_is_there_twice_is_doubled() -> None:
    judgement = judge([note("outcome_unknown", "stored")], {"a": 2})
    assert judgement.total == Tally(sent=1, calls=2, doubled=1, unknown=1)
    assert judgement.failures == ["doubled (2 of 1): 'a' in memory_remember (note) 'a': outcome_unknown, stored"]


@pytest.mark.parametrize(("kind", "settles"), [(kind, kind not in {PAGE, SESSION}) for kind in MIX])
def test_a_write_may_be_unknown_where_no_look_settles_it(kind: str, settles: bool) -> None:
    judgement = judge([Write(kind, "memory_x", {}, ("a",), answers=[Answer("outcome_unknown")])], {})
    assert bool(writes.unsettled(judgement)) is settles
    assert writes.unsettled(judge([note("stored")], {"a": 1})) == []


@pytest.mark.parametrize("said", ["stored", "queued"])
def test_a_write_that_was_acknowledged_and_is_absent_is_lost(said: str) -> None:
    assert figures(note(said)) == Tally(sent=1, calls=1, lost=1)


def test_a_write_that_was_refused_and_is_absent_was_given_up() -> None:
    assert figures(note("rate_limited")) == Tally(sent=1, calls=1, gave_up=1)


def test_one_message_of_three_that_is_missing_or_twice_there_is_seen() -> None:
    assert figures(talk(Answer("stored")), m0=1, m1=1, m2=1).once == 1
    assert figures(talk(Answer("stored")), m0=1, m2=1).lost == 1
    assert figures(talk(Answer("stored")), m0=1, m1=2, m2=1).doubled == 1


def test_words_said_twice_are_there_twice() -> None:
    calls = [note("stored", key="yes"), note("stored", key="yes")]
    assert judge(calls, {"yes": 2}).failures == []
    assert judge(calls, {"yes": 1}).total.lost == 2
    assert judge(calls, {"yes": 3}).total.doubled == 2


def test_messages_in_another_order_are_seen() -> None:
    said = [talk(Answer("stored"))]
    assert disordered(said, {"s": ["m0", "m1", "m2"]}) == []
    assert disordered(said, {"s": ["m1", "m0", "m2"]}) == ["out of order: session s"]


@pytest.mark.parametrize("code", ["upstream_unavailable", "rate_limited", "upstream_error", "conflict", "timeout"])
def test_an_error_that_denies_what_is_there_is_a_misreport(code: str) -> None:
    assert misreported(note(), Answer(code), [1]) == FAILED_THOUGH_STORED
    assert misreported(note(), Answer(code), [0]) is None


def test_a_repeat_that_denies_what_an_earlier_try_stored_is_told_apart() -> None:
    assert misreported(note(), Answer("rate_limited"), [1], [1]) == STORED_BEFORE
    assert misreported(note(), Answer("rate_limited"), [2], [1]) == FAILED_THOUGH_STORED


@pytest.mark.parametrize("said", ["outcome_unknown", BROKEN])
def test_who_says_nothing_misreports_nothing(said: str) -> None:
    assert misreported(note(), Answer(said), [1]) is None
    assert misreported(note(), Answer(said), [0]) is None


def test_what_is_called_stored_has_to_be_there() -> None:
    assert misreported(note(), Answer("stored"), [0]) == STORED_THOUGH_ABSENT
    assert misreported(note(), Answer("stored"), [1]) is None
    assert misreported(note(), Answer("queued"), [0]) is None


def test_so_many_messages_as_an_error_says_are_there_and_no_more() -> None:
    cut = Answer("upstream_unavailable", appended=1)
    assert misreported(talk(), cut, [1, 0, 0]) is None
    assert misreported(talk(), cut, [0, 0, 0]) == STORED_THOUGH_ABSENT
    assert misreported(talk(), cut, [1, 1, 0]) == FAILED_THOUGH_STORED
    assert misreported(talk(), Answer("outcome_unknown", appended=1), [1, 1, 0]) is None
    assert misreported(talk(), Answer("outcome_unknown", appended=2), [1, 0, 0]) == STORED_THOUGH_ABSENT


class Full:
    """A storage where everything is there once."""

    def documents(self, brain: str = "") -> Counter[str]:
        return Counter("a")

    def brains(self) -> Counter[str]:
        return Counter()

    def log(self, session: str, brain: str = "") -> list[str]:
        return []


@pytest.mark.parametrize(("wrote", "which"), [(True, FAILED_THOUGH_STORED), (False, STORED_BEFORE)])
async def test_a_call_that_sent_nothing_to_be_stored_denies_nothing_of_its_own(wrote: bool, which: str) -> None:
    write = note()
    clients = Clients(["http://nowhere.example"], Full(), wrote=lambda _request_id: wrote)
    await clients._compare(write, Answer("upstream_unavailable", request_id="r"), [0])
    assert [found for found, _ in write.misreports] == [which]


def test_misreports_are_counted_and_told() -> None:
    write = note("rate_limited", "stored")
    write.misreports = [(FAILED_THOUGH_STORED, "how"), (STORED_THOUGH_ABSENT, "so"), (STORED_BEFORE, "oh")]
    judgement = judge([write], {"a": 1})
    total = judgement.total
    assert (total.failed_though_stored, total.stored_though_absent, total.stored_before) == (1, 1, 1)
    assert judgement.failures == ["failed though stored: how", "stored though absent: so"]


def test_the_storage_of_a_platform_tells_copies_apart(tmp_path: Path) -> None:
    with STAGES["platform"](tmp_path) as stage, proxying(stage.url) as proxy:
        (tmp_path / "files").mkdir()
        work = Workload(1, tmp_path / "files")
        first, session = work.single(REMEMBER), work.session(2)
        assert copies(stage.shelf, first) == [0]
        _put(proxy.url, first, "one.md")
        assert copies(stage.shelf, first) == [1]
        _put(proxy.url, first, "two.md")
        _say(proxy.url, session)
        _say(proxy.url, session)
        assert copies(stage.shelf, first) == [2]
        assert copies(stage.shelf, session) == [2, 2]
        assert held(stage.shelf, [session.session])[0] == {first.keys[0]: 2, **dict.fromkeys(session.keys, 2)}


def _put(url: str, write: Write, path: str) -> None:
    content = write.arguments["content"].encode()
    put = f"{url}/v1/brains/{write.arguments['brain']}/documents?path=memory/global/{path}"
    httpx.put(put, content=content).raise_for_status()


def _say(url: str, write: Write) -> None:
    messages = f"{url}/v1/brains/{write.arguments['brain']}/sessions/{write.session}/messages"
    for message in write.arguments["messages"]:
        httpx.post(messages, json=message).raise_for_status()


def test_the_storage_of_a_daemon_tells_copies_apart(tmp_path: Path) -> None:
    brain = tmp_path / "one"
    (brain / "memory").mkdir(parents=True)
    (tmp_path / f"brain-{mark(1, 9)}").mkdir()
    shelf = DaemonShelf(tmp_path)
    wanted = note(key=mark(1, 1))
    wanted.arguments["brain"] = "one"
    file, again = brain / "memory" / "a.md", brain / "memory" / "b.md"
    file.write_text("")
    assert copies(shelf, wanted) == [0]
    file.write_text(f"half written {mark(1, 1)}")
    assert copies(shelf, wanted) == [1]
    again.write_text(mark(1, 1))
    assert copies(shelf, wanted) == [2]
    line = '{"kind":"message","session_id":"s","content":"hello"}'
    (brain / "s.jsonl").write_text(f'\n{line}\n{{"kind":"extracted","through":1}}\ntorn {{\n{line}\n')
    assert shelf.log("s") == [message_key("s", "hello")] * 2
    assert shelf.brains() == {mark(1, 9): 1}


def test_the_workload_has_every_kind_in_its_share_and_every_mark_once(tmp_path: Path) -> None:
    made = [write for writes in Workload(5, tmp_path).conversations(2000) for write in writes]
    for kind, share in MIX.items():
        assert sum(write.kind == kind for write in made) / len(made) == pytest.approx(share / 100, rel=0.35)
    own = [key for write in made for key in write.keys if key not in write.shared]
    assert len(set(own)) == len(own)
    assert any(write.shared for write in made if write.kind == SESSION)


def test_a_third_of_what_writes_meets_a_fault_at_every_point() -> None:
    weather = Weather(1)
    request = Request("POST", f"/v1/brains/{BRAINS[REMEMBER]}/documents", {"x-request-id": "r"}, 1)
    assert weather.plan(request) is None
    weather.fair = False
    met = [fault.kind for fault in (weather.plan(request) for _ in range(3000)) if fault]
    assert len(met) / 3000 == pytest.approx(1 / 3, rel=0.1)
    assert len(set(met)) == 21
    assert weather.by_write == {REMEMBER: len(met)}
    assert weather.wrote("r")
    assert not weather.wrote("another")
    dry = Weather(1, without=[Kind.cut_in_body])
    dry.fair = False
    assert Kind.cut_in_body not in {fault.kind for fault in (dry.plan(request) for _ in range(3000)) if fault}


@pytest.mark.parametrize(("kind", "arrives"), [(Kind.refuse_429, False), (Kind.refuse_503, False), (Kind.late, True)])
def test_what_is_refused_on_the_way_was_not_written(kind: Kind, arrives: bool) -> None:
    weather = Weather(1, writing=1.0, without=[other for other in KINDS if other is not kind])
    weather.fair = False
    weather.plan(Request("POST", f"/v1/brains/{BRAINS[REMEMBER]}/documents", {"x-request-id": "r"}, 1))
    assert weather.wrote("r") is arrives


@pytest.mark.parametrize(
    ("method", "path", "writing"),
    [
        ("POST", "/v1/brains", True),
        ("GET", "/v1/brains", False),
        ("POST", "/v1/brains/b/documents/ingest/file", True),
        ("POST", "/v1/brains/b/ingest/url", True),
        ("PUT", "/v1/brains/b/documents?path=a.md", True),
        ("POST", "/v1/brains/b/sessions/s/messages", True),
        ("POST", "/v1/brains/b/search", False),
        ("POST", "/v1/brains/b/extract", False),
    ],
)
def test_requests_that_write_are_told_from_those_that_do_not(method: str, path: str, writing: bool) -> None:
    assert is_writing(Request(method, path, {}, 1)) is writing


def test_a_request_tells_the_kind_of_write_by_its_brain() -> None:
    assert written_by(f"PUT /v1/brains/{BRAINS[SESSION]}/documents") == SESSION
    assert written_by("POST /v1/brains") == BRAIN
    assert written_by(f"PUT /v1/brains/brain-{mark(1, 2)}/documents") == BRAIN
    assert written_by("GET /v1/brains/ghost/documents") == ""


def test_a_page_keeps_the_parts_that_were_not_run_again(tmp_path: Path) -> None:
    page = tmp_path / "PROOF.md"
    part = Part("Title", "It holds.", ("a", "b"), [("1", "2")], [], 3.0, ["A note."])
    proof._merge(page, "kills", report.section(part, "Commit one"))
    proof._merge(page, "writes", report.section(part, "Commit two"))
    broken = Part("Title", "It holds.", ("a",), [], ["one | thing"], 3.0)
    proof._merge(page, "writes", report.section(broken, "Commit three"))
    text = page.read_text(encoding="utf-8")
    assert list(report.sections(text)) == ["writes", "kills"]
    assert "Commit one, 3 s." in text
    assert "Commit two" not in text
    assert "| a | b |\n| --- | --- |\n| 1 | 2 |" in text
    assert "It holds. Held." in report.sections(text)["kills"]
    assert "**Did not hold: 1 failures.**" in text
    assert "- one \\| thing" in text


def test_a_failure_of_a_part_is_the_end_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    monkeypatch.setattr(writes, "run", lambda full: Part(f"{full}", "", (), [], found, 0.0))
    page = tmp_path / "page.md"
    assert proof.main(["writes", "--output", str(page)]) == 0
    assert "## True" in page.read_text(encoding="utf-8")
    found.append("doubled")
    assert proof.main(["writes", "--small", "--output", str(page)]) == 1


def test_figures_of_more_than_one_version_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = iter("aabc")
    monkeypatch.setattr(writes, "run", lambda full: Part("Title", "", (), [], [], 0.0))
    monkeypatch.setattr(report, "fingerprint", lambda: next(versions))
    page = tmp_path / "page.md"
    proof.main(["writes", "--output", str(page)])
    assert "not one version" not in page.read_text(encoding="utf-8")
    proof.main(["writes", "--output", str(page)])
    assert "not one version" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("setup", "count"),
    [
        pytest.param("platform", by_tier(20, 120), id="nobody leaves"),
        pytest.param("platform, clients leave", 80, id="clients leave", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_a_small_run_of_writes_holds(setup: str, count: int) -> None:
    # So few writes meet so few stalls that each may last: on a busy machine a look, too, takes more than a second.
    result = writes.written(setup, count, seed=4, deadline=6)
    assert result.judgement.failures == []
    assert result.judgement.total.sent >= count
    assert result.weather.by_kind.total() >= count / 6


@pytest.mark.slow
def test_a_gateway_killed_at_every_point_leaves_each_write_there_once() -> None:
    judgement = kills.killed("platform", 1, seed=2)
    assert judgement.failures == []
    # One that had its answer before the kill is not counted, and done again.
    assert judgement.total.once == judgement.total.sent >= len(kills.POINTS)
    assert judgement.total.faults >= len(kills.POINTS) - 1
