"""Notes of ours are read, changed, moved and removed; and the same again is the same."""

import asyncio
from typing import Any

import pytest

from gateway.operations import notes
from gateway.operations.errors import Absent, Doubt, GatewayError, Unsure
from gateway.operations.notes import Draft
from gateway.operations.steps import index_files, note_writes
from gateway.operations.steps.documents import PUT_BYTES
from gateway.operations.table import JsonObject, Op
from tests.gateway.operations.steps.inmemory import BRAIN, Fault, InMemory, hurry, refusal

PATH = "memory/global/kv/default/a.md"
ASIDE = "memory/global/kv/default/_versions/a-1.txt"


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def body(content: str) -> bytes:
    return notes.write(content, {"digest": content})


def to(content: str, *, aside: dict[str, bytes] | None = None) -> Any:
    """A change to this content, unless that is what is there."""

    def change(before: notes.Note | None) -> Draft | None:
        if before is not None and before.content == content:
            return None
        return Draft(body(content), "A", {"key": "a"}, aside or {})

    return change


def args(**more: Any) -> dict[str, Any]:
    return {"brain": BRAIN, "path": PATH, **more}


def recording(work: InMemory) -> InMemory:
    """A platform that keeps records, and refuses a path that is taken."""

    def create(document: Any) -> JsonObject:
        if document["path"] in work.files:
            raise GatewayError("conflict")
        work.files[document["path"]] = document["content"].encode()
        return {"id": "doc"}

    work.answers[Op.CREATE_DOCUMENT] = create
    return work


@pytest.mark.parametrize("by", [note_writes.keep_by_put, note_writes.keep_by_record])
async def test_a_note_is_begun_changed_and_left_alone(by: Any) -> None:
    def kept(content: str) -> bytes:
        is_put = by is note_writes.keep_by_put
        return notes.set_apart(body(content), PATH) if is_put else body(content)

    work = recording(InMemory())
    assert await by(work, args(change=to("one"))) == {"body": kept("one"), "changed": True}
    assert await by(work, args(change=to("one"))) == {"body": kept("one"), "changed": False}
    assert await by(work, args(change=to("two"))) == {"body": kept("two"), "changed": True}
    assert work.files == {PATH: kept("two")}


async def test_a_new_note_has_a_record_with_what_is_known_of_it() -> None:
    work = recording(InMemory())
    await note_writes.keep_by_record(work, args(change=to("one")))
    sent = dict(work.sent)[Op.CREATE_DOCUMENT]
    assert (sent["title"], sent["metadata"], sent["content"]) == ("A", {"key": "a"}, body("one").decode())


async def test_what_would_be_lost_is_written_first() -> None:
    work = InMemory({PATH: body("one")})
    await note_writes.keep_by_put(work, args(change=to("two", aside={ASIDE: b"one"})))
    assert [sent["path"] for op, sent in work.sent if op is Op.WRITE_DOCUMENT] == [ASIDE, PATH]


async def test_nothing_is_replaced_when_that_cannot_be_written() -> None:
    work = InMemory({PATH: body("one")}).fails(Op.WRITE_DOCUMENT, "forbidden")
    assert (
        await refusal(note_writes.keep_by_put(work, args(change=to("two", aside={ASIDE: b"one"}))))
    ).code == "forbidden"
    assert work.files == {PATH: body("one")}


async def test_who_is_second_sees_what_the_first_has_made() -> None:
    """Between the look and the write somebody else creates the note."""
    work = recording(InMemory())
    seen: list[str | None] = []

    def change(before: notes.Note | None) -> Draft | None:
        seen.append(None if before is None else before.content)
        if before is None:
            work.files[PATH] = body("theirs")
        return to("mine")(before)  # type: ignore[no-any-return]

    await note_writes.keep_by_record(work, args(change=change))
    assert seen == [None, "theirs"]
    assert work.files == {PATH: body("mine")}


async def test_a_brain_by_either_of_its_names_is_one_and_no_change_is_lost() -> None:
    work = InMemory({PATH: body("")})
    send = work.send

    async def send_slowly(op: Op, args: Any) -> JsonObject:
        await asyncio.sleep(0)
        return await send(op, args)

    def add(letter: str) -> Any:
        return lambda before: Draft(body(before.content.strip() + letter), "A", {}, {})

    work.send = send_slowly  # type: ignore[method-assign]  # so that both are under way at once
    await asyncio.gather(
        *(note_writes.keep_by_put(work, args(brain=name, change=add(name[0]))) for name in ("main", "brn_1"))
    )
    assert notes.open_note(work.files[PATH]).content.strip() == "mb"


async def test_a_note_that_never_comes_to_rest_is_a_conflict_that_may_be_tried_again() -> None:
    work = recording(InMemory()).fails(Op.CREATE_DOCUMENT, *["conflict"] * 5)
    error = await refusal(note_writes.keep_by_record(work, args(change=to("one"))))
    assert (error.code, error.retryable) == ("conflict", True)
    assert work.files == {}


async def test_a_note_that_is_too_large_is_refused_before_anything_is_written() -> None:
    work = InMemory()
    large = Draft(b"x" * (PUT_BYTES + 1), "A", {}, {ASIDE: b"one"})
    error = await refusal(note_writes.keep_by_put(work, args(change=lambda _before: large)))
    assert error.code == "payload_too_large"
    assert work.files == {}


@pytest.mark.parametrize("done", [True, False])
async def test_a_lost_answer_is_looked_into(done: bool) -> None:
    work = recording(InMemory()).fails(
        Op.CREATE_DOCUMENT, Fault(Unsure(GatewayError("upstream_unavailable"), Doubt.LOST), done=done)
    )
    assert (await note_writes.keep_by_record(work, args(change=to("one"))))["changed"]
    assert work.files == {PATH: body("one")}


MOVED = "memory/global/kv/default/_deleted/a.txt"


@pytest.mark.parametrize("by", [note_writes.move, note_writes.move_by_copy])
async def test_a_note_is_moved_and_that_again_is_the_same(by: Any) -> None:
    work = InMemory({PATH: b"x"})
    assert await by(work, args(to=MOVED)) == {"moved": True}
    assert work.files == {MOVED: b"x"}
    assert await by(work, args(to=MOVED)) == {"moved": True}
    assert await by(InMemory(), args(to=MOVED)) == {"moved": False}


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize(
    ("by", "op"), [(note_writes.move, Op.RENAME_DOCUMENT), (note_writes.move_by_copy, Op.DELETE_DOCUMENT)]
)
async def test_a_move_without_an_answer_is_looked_into(by: Any, op: Op, done: bool) -> None:
    lost = Fault(Unsure(GatewayError("upstream_unavailable"), Doubt.LOST), done=done)
    work = InMemory({PATH: b"x"}).fails(op, lost)
    assert await by(work, args(to=MOVED)) == {"moved": True}
    assert work.files == {MOVED: b"x"}


async def test_a_copy_that_fails_leaves_the_note_where_it_is() -> None:
    work = InMemory({PATH: b"x"}).fails(Op.WRITE_DOCUMENT, "forbidden")
    assert (await refusal(note_writes.move_by_copy(work, args(to=MOVED)))).code == "forbidden"
    assert work.files == {PATH: b"x"}


@pytest.mark.parametrize("done", [True, False])
async def test_a_removal_without_an_answer_is_looked_into(done: bool) -> None:
    lost = Fault(Unsure(GatewayError("upstream_unavailable"), Doubt.LOST), done=done)
    work = InMemory({PATH: b"x"}).fails(Op.DELETE_DOCUMENT, lost)
    assert await note_writes.remove(work, args()) == {"removed": True}
    assert work.files == {}
    assert await note_writes.remove(work, args()) == {"removed": False}


@pytest.mark.parametrize("done", [True, False])
async def test_a_line_is_appended_once(done: bool) -> None:
    lost = Fault(Unsure(GatewayError("upstream_unavailable"), Doubt.LOST), done=done)
    work = InMemory({PATH: b"one\n"}).fails(Op.APPEND_DOCUMENT, lost)
    await note_writes.append(work, args(body=b"two\n"))
    assert work.files == {PATH: b"one\ntwo\n"}


async def test_the_size_of_nothing_is_none() -> None:
    assert (await note_writes.size_and_time(InMemory({PATH: b"..."}), args()))["size"] == 3
    assert await note_writes.size_and_time(InMemory(), args()) == {}
    with pytest.raises(Absent):
        await note_writes.size_and_time(InMemory(lacks={Op.STAT_DOCUMENT}), args())


# Index files, which a platform writes when it consolidates.

INDEX = "memory/global/MEMORY.md"
A, B = "memory/global/team/a.md", "memory/global/b c.md"
HIDDEN = b"- being/_digest.md: Digest\n"
LINES = {A: "- team/a.md: The codename", B: "- [B](b c.md) — Otters", "other": "- o.md: replaces team/a.md.bak"}


def indexed(*paths: str) -> InMemory:
    work = InMemory({path: body(path) for path in paths if path != "other"}, indexes=True)
    work.files[INDEX] = index_of(*paths)
    return work


def index_of(*paths: str) -> bytes:
    return "".join(f"{LINES[path]}\n" for path in paths).encode()


@pytest.mark.parametrize("gone", [A, B])
async def test_a_note_that_is_gone_is_in_no_index(gone: str) -> None:
    left = [path for path in (A, B, "other") if path != gone]
    work = indexed(A, B, "other")
    assert await note_writes.remove(work, args(path=gone)) == {"removed": True}
    assert work.files[INDEX] == index_of(*left)
    work = indexed(A, B, "other")
    assert await note_writes.move(work, args(path=gone, to="memory/global/_deleted/x.txt")) == {"moved": True}
    assert work.files[INDEX] == index_of(*left)


async def test_two_who_forget_at_once_leave_neither_line() -> None:
    work = indexed(A, B, "other")
    await asyncio.gather(*(note_writes.remove(work, args(path=path)) for path in (A, B)))
    assert work.files[INDEX] == index_of("other")


async def test_a_line_that_another_gateway_brings_back_is_taken_out_again() -> None:
    work = indexed(A, B, "other")
    others = [index_of(A, "other")]

    def write(sent: Any) -> JsonObject:
        work.files[INDEX] = others.pop() if others else sent["body"]
        return {}

    work.answers[Op.WRITE_DOCUMENT] = write
    await note_writes.remove(work, args(path=A))
    assert work.files[INDEX] == index_of("other")


@pytest.mark.parametrize("path", [A.replace("/team/", "/_hits/").replace(".md", ".txt"), "memory/agent/a.md", INDEX])
async def test_where_no_index_tells_of_a_note_none_is_read(path: str) -> None:
    work = indexed(A)
    work.files[path] = b"x"
    await note_writes.remove(work, args(path=path))
    assert work.ops == [Op.DELETE_DOCUMENT]


async def test_a_platform_that_writes_no_index_is_not_asked_for_one() -> None:
    work = indexed(A)
    work.indexes = False
    await note_writes.remove(work, args(path=A))
    assert work.ops == [Op.DELETE_DOCUMENT]


@pytest.mark.parametrize("op", [Op.READ_DOCUMENT, Op.WRITE_DOCUMENT])
async def test_an_index_that_cannot_be_written_fails_nobody(op: Op) -> None:
    for fault in ("timeout", "forbidden", Fault(Absent())):
        work = indexed(A).fails(op, fault)
        assert await note_writes.remove(work, args(path=A)) == {"removed": True}


async def test_what_was_forgotten_while_a_platform_consolidated_is_in_no_index() -> None:
    def consolidate(_args: Any) -> JsonObject:
        # It has read the notes before one of them was removed.
        del work.files[A]
        work.files[INDEX] = index_of(A, B) + HIDDEN
        return {"merged": 0}

    work = indexed(A, B)
    work.answers[Op.CONSOLIDATE] = consolidate
    work.files["memory/global/b c.md"] = b"x"
    assert await index_files.consolidate(work, {"brain": BRAIN}) == {"merged": 0}
    # Some list nothing whose name begins with an underscore: nobody knows that it is gone.
    assert work.files[INDEX] == index_of(B) + HIDDEN


@pytest.mark.parametrize("fault", ["timeout", Fault(Absent())], ids=str)
async def test_a_consolidation_is_done_also_where_its_index_cannot_be_looked_at(fault: Fault | str) -> None:
    work = indexed(A).fails(Op.LIST_DOCUMENTS, fault)
    work.answers[Op.CONSOLIDATE] = lambda _: {"merged": 0}
    assert await index_files.consolidate(work, {"brain": BRAIN}) == {"merged": 0}
