"""Documents on platforms that keep records, and on those that keep bytes: the same write again is the same document."""

import asyncio
from typing import Any

import pytest

from gateway.operations import names, notes
from gateway.operations.context import StepContext
from gateway.operations.errors import Absent, Doubt, GatewayError
from gateway.operations.steps import documents
from gateway.operations.table import Args, JsonObject, Op
from tests.gateway.operations.steps.inmemory import BRAIN, Fault, InMemory, lost, refusal

PATH = "memory/global/run.md"
WAYS = [
    pytest.param(documents.by_put, Op.WRITE_DOCUMENT, id="put"),
    pytest.param(documents.by_batch, Op.BATCH_WRITE, id="batch"),
]
ways = pytest.mark.parametrize(("store", "op"), WAYS)


def document(**other: Any) -> dict[str, Any]:
    kept = {"title": "Run", "content": "Ten miles.\n", "tags": ["sport"], "metadata": {"tags": "sport"}}
    return {**kept, "source": "ingest", "brain": BRAIN, "path": PATH, **other}


@ways
async def test_a_document_is_written_as_a_note_after_a_look(store: Any, op: Op) -> None:
    work = InMemory()
    record = await store(work, document())
    assert work.ops == [Op.READ_DOCUMENT, op]
    assert notes.parse(work.files[PATH]).holds(document())
    assert record == notes.record(document(), record["created_at"])
    assert record["created_at"] == notes.parse(work.files[PATH]).created


@ways
async def test_what_the_platform_has_only_queued_is_not_called_stored(store: Any, op: Op) -> None:
    work = InMemory(answers={op: lambda _args: {"status": "queued"}})
    assert (await store(work, document()))["status"] == "queued"


@ways
async def test_the_same_again_is_reused_and_not_written(store: Any, op: Op) -> None:
    work = InMemory()
    first = await store(work, document())
    before = dict(work.files)
    assert await store(work, document()) == {**first, "reused": True}
    assert work.files == before
    assert work.ops.count(op) == 1


@ways
@pytest.mark.parametrize("other", [{"content": "Twenty."}, {"title": "Walk"}, {"tags": ["sport", "more"]}])
async def test_something_else_at_that_path_is_a_conflict_and_stays(store: Any, op: Op, other: dict[str, Any]) -> None:
    work = InMemory()
    await store(work, document())
    before = dict(work.files)
    error = await refusal(store(work, document(**other)))
    assert (error.code, error.retryable) == ("conflict", False)
    assert work.files == before
    assert work.ops.count(op) == 1


@ways
@pytest.mark.parametrize("mine", [b"", b"my own words", b"---\nname: Mine\n---\n\nTen miles.\n", b"\xff\x00"])
async def test_what_somebody_else_wrote_there_is_never_replaced(store: Any, op: Op, mine: bytes) -> None:
    work = InMemory({PATH: mine})
    assert (await refusal(store(work, document()))).code == "conflict"
    assert work.files == {PATH: mine}
    assert op not in work.ops


@ways
async def test_a_write_whose_answer_was_lost_is_looked_for_and_found(store: Any, op: Op) -> None:
    work = InMemory().fails(op, lost(done=True))
    record = await store(work, document())
    assert record["path"] == PATH
    assert "reused" not in record
    assert work.ops == [Op.READ_DOCUMENT, op, Op.READ_DOCUMENT]


@ways
@pytest.mark.parametrize("doubt", [Doubt.LOST, Doubt.LATE])
async def test_a_write_that_is_not_found_again_is_made_once_more(store: Any, op: Op, doubt: Doubt) -> None:
    work = InMemory().fails(op, lost(done=False, doubt=doubt))
    record = await store(work, document())
    assert (record["path"], "reused" in record) == (PATH, False)
    assert work.ops == [Op.READ_DOCUMENT, op, Op.READ_DOCUMENT, op]
    assert notes.parse(work.files[PATH]).holds(document())


@ways
@pytest.mark.parametrize(
    ("doubts", "code"),
    [
        ([Doubt.ANSWERED], "upstream_error"),
        ([Doubt.LOST, Doubt.LOST], "upstream_unavailable"),
        ([Doubt.LOST, Doubt.ANSWERED], "upstream_error"),
        ([Doubt.LATE, *[Doubt.LOST] * 3], "outcome_unknown"),
        ([Doubt.LOST, *[Doubt.LATE] * 3], "outcome_unknown"),
    ],
)
async def test_a_write_that_failed_for_good_says_so_unless_it_may_be_under_way(
    store: Any, op: Op, doubts: list[Doubt], code: str
) -> None:
    work = InMemory().fails(op, *[lost(done=False, doubt=doubt) for doubt in doubts])
    error = await refusal(store(work, document()))
    assert (error.code, error.retryable) == (code, code != "upstream_error")
    assert work.files == {}
    assert work.ops.count(op) == len(doubts)
    assert (await store(work, document()))["path"] == PATH


@ways
@pytest.mark.parametrize("code", ["timeout", "upstream_unavailable", "upstream_error", "unauthorized", "no_brain"])
async def test_a_look_that_fails_leaves_a_write_in_doubt(store: Any, op: Op, code: str) -> None:
    looks: list[Fault | str] = [Fault(GatewayError(code), passed_over=1), *[code] * 3]
    work = InMemory().fails(op, lost(done=True)).fails(Op.READ_DOCUMENT, *looks)
    error = await refusal(store(work, document()))
    assert (error.code, error.retryable) == ("outcome_unknown", True)


@ways
async def test_a_look_that_is_absent_leaves_a_write_in_doubt(store: Any, op: Op) -> None:
    """Were that absence passed on, another step would write the document again."""
    work = InMemory().fails(op, lost(done=True)).fails(Op.READ_DOCUMENT, Fault(Absent(), passed_over=1))
    assert (await refusal(store(work, document()))).code == "outcome_unknown"
    assert work.made.count(op) == 1


@ways
async def test_a_lost_write_where_something_else_is_now_is_a_conflict(store: Any, op: Op) -> None:
    class Overtaken(InMemory):
        async def send(self, op_: Op, args: Args) -> JsonObject:
            if op_ is op:
                self.files[PATH] = b"somebody was faster"
            return await super().send(op_, args)

    work = Overtaken()
    work.fails(op, lost(done=False))
    assert (await refusal(store(work, document()))).code == "conflict"
    assert work.files == {PATH: b"somebody was faster"}


@ways
@pytest.mark.parametrize("code", ["forbidden", "payload_too_large", "rate_limited", "upstream_error", "timeout"])
async def test_a_refused_write_is_told_as_it_is(store: Any, op: Op, code: str) -> None:
    work = InMemory().fails(op, code)
    assert (await refusal(store(work, document()))).code == code
    assert work.ops == [Op.READ_DOCUMENT, op]


@ways
@pytest.mark.parametrize("code", ["timeout", "forbidden", "no_brain", "upstream_error"])
async def test_nothing_is_written_where_nobody_could_look(store: Any, op: Op, code: str) -> None:
    work = InMemory().fails(Op.READ_DOCUMENT, code)
    assert (await refusal(store(work, document()))).code == code
    assert work.ops == [Op.READ_DOCUMENT]


class Unhurried(InMemory):
    """Lets everybody else go on between a look and a write."""

    async def send(self, op: Op, args: Args) -> JsonObject:
        for _ in range(5):
            await asyncio.sleep(0)
        return await super().send(op, args)


@ways
async def test_of_two_that_write_there_at_once_one_is_told_of_a_conflict(store: Any, op: Op) -> None:
    work = Unhurried()
    wanted = [document(content=words) for words in ("one", "two")]
    answers = await asyncio.gather(*(store(work, one) for one in wanted), return_exceptions=True)
    assert [getattr(answer, "code", "stored") for answer in answers] == ["stored", "conflict"]
    assert notes.parse(work.files[PATH]).content == "one"


@ways
async def test_two_that_write_the_same_at_once_write_it_once(store: Any, op: Op) -> None:
    work = Unhurried()
    answers = await asyncio.gather(*(store(work, document()) for _ in range(3)))
    assert [answer.get("reused", False) for answer in answers] == [False, True, True]
    assert work.made.count(op) == 1


async def test_writes_to_other_paths_wait_for_nobody() -> None:
    started = asyncio.Event()

    class Stuck(InMemory):
        async def send(self, op: Op, args: Args) -> JsonObject:
            if op is Op.WRITE_DOCUMENT and args["path"] == PATH:
                started.set()
                await asyncio.Event().wait()
            return await super().send(op, args)

    work = Stuck()
    stuck = asyncio.ensure_future(documents.by_put(work, document()))
    await started.wait()
    assert (await documents.by_put(work, document(path="a.md")))["path"] == "a.md"
    stuck.cancel()
    await asyncio.gather(stuck, return_exceptions=True)


@ways
@pytest.mark.parametrize(("path", "says"), [("notes/a.md", {"searchable": False}), ("memory/global/a.md", {})])
async def test_where_search_never_looks_the_record_says_so(store: Any, op: Op, path: str, says: Any) -> None:
    work = InMemory(unfindable=("notes/",))
    for _ in range(2):
        record = await store(work, document(path=path))
        assert {key: record[key] for key in record if key == "searchable"} == says


@pytest.mark.parametrize(
    ("content", "fits"),
    [
        ("x" * documents.PUT_BYTES, True),
        ("x" * (documents.PUT_BYTES + 1), False),
        ("ä" * (documents.PUT_BYTES // 2), True),
        ("ä" * (documents.PUT_BYTES // 2) + "x", False),
    ],
    ids=["all", "one more", "all, two bytes each", "one more than that"],
)
def test_what_fits_a_put_is_counted_in_bytes(content: str, fits: bool) -> None:
    assert documents.fits_a_put({"content": content}) is fits


LONGEST = {"title": "\ufeff" * 512, "tags": [f"{n:02}" + "\ufeff" * 62 for n in range(64)]}


@pytest.mark.parametrize(
    ("store", "op", "content_bytes", "platform_bytes"),
    [
        (documents.by_put, Op.WRITE_DOCUMENT, documents.PUT_BYTES, 2 * 1024 * 1024),
        (documents.by_batch, Op.BATCH_WRITE, documents.BATCH_BYTES, 8 * 1024 * 1024),
    ],
    ids=["put", "batch"],
)
async def test_the_largest_document_with_the_longest_front_matter_is_what_a_platform_takes(
    store: Any, op: Op, content_bytes: int, platform_bytes: int
) -> None:
    work = InMemory()
    await store(work, document(content="x" * content_bytes, **LONGEST))
    assert work.ops[-1] is op
    assert content_bytes < len(work.files[PATH]) <= platform_bytes


@pytest.mark.parametrize("content", ["x" * (documents.BATCH_BYTES + 1), "ä" * (documents.BATCH_BYTES // 2 + 1)])
async def test_a_document_larger_than_a_batch_is_refused_before_anything_is_sent(content: str) -> None:
    work = InMemory()
    assert (await refusal(documents.by_batch(work, document(content=content)))).code == "payload_too_large"
    assert work.sent == []


async def test_bytes_of_our_own_are_written_until_they_are_there() -> None:
    for fault in (lost(done=True), lost(done=False)):
        work = InMemory({PATH: b"before"}).fails(Op.WRITE_DOCUMENT, fault)
        await documents.write(work, BRAIN, PATH, b"x")
        assert work.files == {PATH: b"x"}
        assert work.made.count(Op.WRITE_DOCUMENT) == 1


async def test_what_is_not_there_reads_as_none() -> None:
    assert await documents.read(InMemory(), BRAIN, PATH) is None
    assert await documents.read(InMemory({PATH: b""}), BRAIN, PATH) == b""
    failing = InMemory().fails(Op.READ_DOCUMENT, "timeout")
    assert (await refusal(documents.read(failing, BRAIN, PATH))).code == "timeout"


# By a platform that keeps records.


# What a receipt needs and these records leave out.
DERIVED = {"path": PATH, "byte_size": 11}


def recorded(**other: Any) -> JsonObject:
    found = {"id": "doc_1", "checksum_sha256": names.checksum("Ten miles.\n"), "title": "Run"}
    return {"document": {**found, "metadata": {"tags": "sport"}, **other}}


def with_records(stat: JsonObject) -> InMemory:
    return InMemory(answers={Op.CREATE_DOCUMENT: lambda _: {"id": "doc_1"}, Op.STAT_DOCUMENT: lambda _: stat})


async def by_record(work: StepContext) -> JsonObject:
    return await documents.by_record(work, document())


async def test_a_platform_with_records_is_sent_the_document_and_nothing_else() -> None:
    work = with_records(recorded())
    assert await by_record(work) == {"id": "doc_1", **DERIVED}
    assert work.sent == [(Op.CREATE_DOCUMENT, document())]


async def test_the_record_of_the_same_document_is_reused() -> None:
    work = with_records(recorded()).fails(Op.CREATE_DOCUMENT, "conflict")
    assert await by_record(work) == {**recorded()["document"], **DERIVED, "reused": True}


@pytest.mark.parametrize("doubt", Doubt)
async def test_the_record_of_a_document_whose_answer_was_lost_is_its_answer(doubt: Doubt) -> None:
    work = with_records(recorded()).fails(Op.CREATE_DOCUMENT, lost(done=True, doubt=doubt))
    assert await by_record(work) == {**recorded()["document"], **DERIVED}
    assert work.ops == [Op.CREATE_DOCUMENT, Op.STAT_DOCUMENT]


@pytest.mark.parametrize(
    "other", [{"title": "Walk"}, {"checksum_sha256": "0"}, {"metadata": {"tags": "sport,more"}}, {"metadata": None}]
)
async def test_the_record_of_another_document_is_a_conflict(other: dict[str, Any]) -> None:
    for fault in ("conflict", lost(done=False), lost(done=False, doubt=Doubt.LATE)):
        work = with_records(recorded(**other)).fails(Op.CREATE_DOCUMENT, fault)
        error = await refusal(by_record(work))
        assert (error.code, error.retryable) == ("conflict", False)
        assert work.ops.count(Op.CREATE_DOCUMENT) == 1


@pytest.mark.parametrize("look", ["absent", "timeout"])
@pytest.mark.parametrize("fault", ["conflict", lost(done=True), lost(done=False)], ids=repr)
async def test_a_record_that_cannot_be_looked_up_leaves_it_in_doubt(look: str, fault: Fault | str) -> None:
    """Also a conflict: what is there may be what this very call has stored."""
    work = with_records(recorded()).fails(Op.CREATE_DOCUMENT, fault)
    if look == "absent":
        work.lacks = {Op.STAT_DOCUMENT}
    else:
        work.fails(Op.STAT_DOCUMENT, look, look)
    error = await refusal(by_record(work))
    assert (error.code, error.retryable) == ("outcome_unknown", True)
    assert work.ops.count(Op.CREATE_DOCUMENT) == 1


async def test_a_conflict_where_nothing_is_stays_a_conflict() -> None:
    work = with_records(recorded()).fails(Op.CREATE_DOCUMENT, "conflict").fails(Op.STAT_DOCUMENT, "not_found")
    assert (await refusal(by_record(work))).code == "conflict"


async def test_a_document_that_is_not_recorded_is_sent_once_more() -> None:
    work = with_records(recorded()).fails(Op.CREATE_DOCUMENT, lost(done=False)).fails(Op.STAT_DOCUMENT, "not_found")
    assert await by_record(work) == {"id": "doc_1", **DERIVED}
    assert work.ops == [Op.CREATE_DOCUMENT, Op.STAT_DOCUMENT, Op.CREATE_DOCUMENT]


async def test_a_document_whose_first_request_arrived_late_is_one_document() -> None:
    """It was not there at the look, and at the second request it was."""
    work = with_records(recorded()).fails(Op.STAT_DOCUMENT, "not_found")
    work.fails(Op.CREATE_DOCUMENT, lost(done=True), "conflict")
    assert (await by_record(work))["id"] == "doc_1"
    assert work.made.count(Op.CREATE_DOCUMENT) == 1


@pytest.mark.parametrize(("stored", "outcome"), [(b"Ten miles.\n", "reused"), (b"other", "conflict")])
async def test_without_a_record_the_bytes_are_compared(stored: bytes, outcome: str) -> None:
    work = with_records({"path": PATH}).fails(Op.CREATE_DOCUMENT, "conflict")
    work.files[PATH] = stored
    if outcome == "reused":
        assert (await by_record(work))["reused"] is True
    else:
        assert (await refusal(by_record(work))).code == "conflict"
