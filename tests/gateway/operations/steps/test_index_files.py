"""Tidying an index takes out lines that a daemon wrote of notes that are gone, and touches nothing else."""

from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from gateway.operations.steps import index_files, note_writes
from gateway.operations.table import Args, JsonObject, Op
from tests.gateway.operations.steps.inmemory import BRAIN, InMemory, hurry

FOLDER = "memory/global/"
INDEX = f"{FOLDER}MEMORY.md"
THERE = ("a.md", "b.md", "real.md", "b c.md", "team/a.md")
OF_A, OF_B = "- [A](a.md) — The codename\n", "- [B](b.md) — Otters\n"
# What people write into an index, and what daemons do not.
OWN = [
    "hand written: see docs/guide.md for more",
    "- see docs/guide.md: it says more",
    "- [Spec](https://example.com/spec.md)",
    "- [Abs](memory/global/real.md)",
    "- [Abs](memory/global/gone.md)",
    "- [Root](/gone.md)",
    "- [Up](../project/p/x.md)",
    "- [Down](team/../gone.md)",
    "- [Sp](my%20note.md)",
    "- [Quoted](gone.md 'of old')",
    "- [G](gone.md), [H](gone-too.md)",
    "- [G](gone.md) and more",
    "- gone.md and gone-too.md: both",
    "- gone.md",
    " - gone.md: deeper",
    "* gone.md: a star",
    "gone.md: no list",
    "- [G](gone.md",
    "- https://example.com/gone.md: away",
    "- ",
    "",
]


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def indexed(index: str | bytes) -> InMemory:
    work = InMemory({f"{FOLDER}{name}": b"x" for name in THERE}, indexes=True)
    work.files[INDEX] = index.encode() if isinstance(index, str) else index
    work.answers[Op.CONSOLIDATE] = lambda _: {"merged": 0}
    return work


async def consolidate(work: InMemory) -> None:
    assert await index_files.consolidate(work, {"brain": BRAIN}) == {"merged": 0}


async def remove(work: InMemory, name: str) -> None:
    assert await note_writes.remove(work, {"brain": BRAIN, "path": f"{FOLDER}{name}"}) == {"removed": True}


@pytest.mark.parametrize("line", OWN)
async def test_a_consolidation_leaves_the_lines_of_people_alone(line: str) -> None:
    work = indexed(f"{line}\n- gone.md: Gone\n{OF_A}")
    await consolidate(work)
    assert work.files[INDEX] == f"{line}\n{OF_A}".encode()


@pytest.mark.parametrize(
    "line",
    [
        "- [Gone](gone.md) — see [A](a.md)",
        "- [Gone](gone.md)",
        "- [[old] Gone](team/gone.md) — a: b",
        "- gone.md: see a.md",
        "- team/gone.md: [A](a.md) [stale]",
    ],
)
async def test_a_consolidation_takes_out_the_lines_of_daemons_by_the_note_that_they_are_of(line: str) -> None:
    work = indexed(f"{line}\n{OF_A}")
    await consolidate(work)
    assert work.files[INDEX] == OF_A.encode()


@pytest.mark.parametrize(
    "line", [*OWN, "- [A](a.md), [B](b.md)", "- b.md: see also a.md", "- [B](b.md) — see [A](a.md)", "- team/a.md: A"]
)
async def test_who_forgets_a_note_leaves_other_lines_alone(line: str) -> None:
    work = indexed(f"{line}\n{OF_A}- a.md: The codename\n")
    await remove(work, "a.md")
    assert work.files[INDEX] == f"{line}\n".encode()


@pytest.mark.parametrize("line", ["- b c.md: Otters", "- [B](b c.md) — Otters"])
async def test_a_note_with_spaces_in_its_name_is_forgotten(line: str) -> None:
    work = indexed(f"{line}\n{OF_A}")
    await remove(work, "b c.md")
    assert work.files[INDEX] == OF_A.encode()


async def test_an_index_that_is_no_text_is_left_alone() -> None:
    before = b"caf\xff\n- a.md: A\n- gone.md: Gone\n"
    work = indexed(before)
    await remove(work, "a.md")
    await consolidate(work)
    assert work.files[INDEX] == before
    assert Op.WRITE_DOCUMENT not in work.ops


def between(patch: pytest.MonkeyPatch, work: InMemory, op: Op, *happenings: Callable[[], None]) -> None:
    """What others do right after a request of this kind was answered, each once."""
    left, send = list(happenings), work.send

    async def interrupted(sent: Op, args: Args) -> JsonObject:
        answer = await send(sent, args)
        if sent is op and left and (op is not Op.READ_DOCUMENT or args["path"] == INDEX):
            left.pop(0)()
        return answer

    patch.setattr(work, "send", interrupted)


def adds(work: InMemory, line: str) -> Callable[[], None]:
    return lambda: work.files.update({INDEX: work.files[INDEX] + line.encode()})


async def test_what_a_daemon_writes_into_an_index_meanwhile_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    work = indexed(OF_A + OF_B)
    between(monkeypatch, work, Op.READ_DOCUMENT, adds(work, "- real.md: Real\n"))
    await remove(work, "a.md")
    assert work.files[INDEX] == f"{OF_B}- real.md: Real\n".encode()


async def test_an_index_that_is_written_again_and_again_is_left_to_its_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    work = indexed(OF_A)
    between(monkeypatch, work, Op.READ_DOCUMENT, *(adds(work, "- real.md: Real\n") for _ in range(100)))
    await remove(work, "a.md")
    assert Op.WRITE_DOCUMENT not in work.ops


@pytest.mark.parametrize("op", [Op.LIST_DOCUMENTS, Op.READ_DOCUMENT])
async def test_a_note_that_is_made_while_an_index_is_tidied_is_not_taken_for_gone(
    op: Op, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = indexed(f"{OF_A}- gone.md: Gone\n")

    def make() -> None:
        work.files[f"{FOLDER}new.md"] = b"x"
        adds(work, "- new.md: New\n")()

    between(monkeypatch, work, op, make)
    await consolidate(work)
    assert work.files[INDEX] == f"{OF_A}- new.md: New\n".encode()


async def test_an_index_that_cannot_be_read_keeps_no_other_from_being_tidied() -> None:
    work = indexed("- gone.md: Gone\n")
    other = "memory/project/p/MEMORY.md"
    work.files[other] = b"- gone.md: Gone\n"
    with capture_logs() as logs:
        await consolidate(work.fails(Op.READ_DOCUMENT, "forbidden"))
    assert (work.files[INDEX], work.files[other]) == (b"- gone.md: Gone\n", b"")
    assert [(line["event"], line["code"]) for line in logs] == [("index.not_tidied", "forbidden")]


@pytest.mark.parametrize("forget", [note_writes.remove, note_writes.move])
async def test_who_forgets_a_note_keeps_its_path_until_the_index_is_tidied(
    forget: Callable[[InMemory, Args], Awaitable[JsonObject]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So nobody of this process makes the note anew meanwhile, whose line would be taken out."""
    work, held = indexed(OF_A), []
    between(monkeypatch, work, Op.READ_DOCUMENT, lambda: held.append(f"{FOLDER}a.md" in work.locks._held))
    await forget(work, {"brain": BRAIN, "path": f"{FOLDER}a.md", "to": f"{FOLDER}_deleted/a.txt"})
    assert held == [True]
