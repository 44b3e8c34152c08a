"""Memories that a platform only proposes: stored after the answer, once, under names that are safe."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.operations import names, notes
from gateway.operations.errors import Absent, Doubt, GatewayError
from gateway.operations.steps import documents, extraction, sessions
from gateway.operations.steps.session_log import read_log
from gateway.operations.table import Args, JsonObject, Op
from tests.gateway.operations.steps.inmemory import BRAIN, Fault, InMemory, lost, refusal

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
LOG = names.session_log_path("c0ffee", "s")


@dataclass
class Proposing(InMemory):
    """Proposes one memory for each message: that it was said. What is poison it refuses, and all sent with it."""

    poison: str | None = None
    looked_at: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answers[Op.EXTRACT] = self._extract

    def _extract(self, args: Args) -> JsonObject:
        said = [str(m["content"]) for m in args["messages"]]
        if self.poison in said:
            raise GatewayError("validation_error")
        self.looked_at += said
        return {
            "memories": [{"filename": f"{text[:9]}.md", "name": text[:9], "content": f"said {text}"} for text in said]
        }

    @property
    def memories(self) -> list[str]:
        found = [notes.parse(body).content for path, body in self.files.items() if "/extracted-" in path]
        return sorted(text.removeprefix("said ") for text in found)


async def say(work: InMemory, *contents: str, **other: Any) -> JsonObject:
    messages = [{"role": "user", "content": content} for content in contents]
    args = {"brain": BRAIN, "session_id": "s", "messages": messages, "actor_id": None, **other}
    return await sessions.append_to_log(work, args)


async def test_what_was_said_is_looked_at_after_the_answer_and_kept() -> None:
    work = Proposing()
    assert (await say(work, "a", "b"))["extraction"] == "started"
    assert work.memories == []
    await work.after_the_answer()
    assert work.memories == ["a", "b"]
    assert (await read_log(work, BRAIN, "s")).extracted == 2


async def test_what_was_said_in_a_session_of_ones_own_stays_in_ones_own_tree() -> None:
    """Of a transcript, which everybody of the brain may read, it stays where everybody may read it too."""
    work = Proposing(own_tree="u-ann")
    await say(work, "a")
    await extraction.transcript_by_put(work, transcript("b"))
    await work.after_the_answer()
    kept = {notes.parse(body).content: path for path, body in work.files.items() if "/extracted-" in path}
    assert kept["said a"].startswith("memory/agent/u-ann/extracted-")
    assert kept["said b"].startswith("memory/global/extracted-")


async def test_where_memories_were_kept_is_noted_in_the_log() -> None:
    work = Proposing()
    await say(work, "a")
    await work.after_the_answer()
    mark = json.loads(work.files[LOG].splitlines()[-1])
    assert mark["paths"] == [path for path in work.files if "/extracted-" in path]


async def test_a_platform_that_cannot_extract_is_not_asked_to() -> None:
    work = InMemory()
    assert (await say(work, "a"))["extraction"] == "unavailable"
    assert work.jobs == {}


async def test_what_was_looked_at_is_not_looked_at_again() -> None:
    work = Proposing()
    for said in ("a", "b"):
        await say(work, said)
        await work.after_the_answer()
    await extraction.extract_later(work, BRAIN, "s")
    await work.after_the_answer()
    assert work.looked_at == ["a", "b"]
    elsewhere = Proposing(work.files)
    await extraction.extract_later(elsewhere, BRAIN, "s")
    await elsewhere.after_the_answer()
    assert elsewhere.looked_at == []


@pytest.mark.parametrize(
    ("op", "fault"),
    [
        (Op.EXTRACT, "timeout"),
        (Op.EXTRACT, "upstream_error"),
        (Op.BATCH_WRITE, "upstream_unavailable"),
        (Op.BATCH_WRITE, lost(done=False, doubt=Doubt.ANSWERED)),
        (Op.APPEND_DOCUMENT, "timeout"),
        (Op.APPEND_DOCUMENT, lost(done=False, doubt=Doubt.LATE)),
    ],
    ids=lambda value: getattr(value, "value", None),
)
async def test_what_was_cut_short_is_taken_up_by_the_next_call(op: Op, fault: Fault | str) -> None:
    work = Proposing()
    await say(work, "a")
    work.fails(op, fault)
    await refusal(work.after_the_answer())
    assert (await read_log(work, BRAIN, "s")).extracted == 0
    await say(work, "b")
    await work.after_the_answer()
    assert work.memories == ["a", "b"], "the same names: what was kept before is not kept twice"
    assert (await read_log(work, BRAIN, "s")).extracted == 2


@pytest.mark.parametrize("op", [Op.BATCH_WRITE, Op.APPEND_DOCUMENT])
@pytest.mark.parametrize("done", [True, False])
async def test_an_answer_that_was_lost_on_the_way_cuts_nothing_short(op: Op, done: bool) -> None:
    work = Proposing()
    await say(work, "a")
    work.fails(op, lost(done=done))
    await work.after_the_answer()
    assert (work.memories, work.looked_at) == (["a"], ["a"])
    assert (await read_log(work, BRAIN, "s")).extracted == 1


async def test_only_what_was_not_marked_is_looked_at_after_a_crash() -> None:
    work = Proposing()
    await say(work, "a" * 400_000, "b" * 400_000, "c")
    work.fails(Op.APPEND_DOCUMENT, Fault(GatewayError("timeout"), passed_over=1))
    await refusal(work.after_the_answer())
    assert [text[0] for text in work.looked_at] == ["a", "b", "c"]
    await extraction.extract_later(work, BRAIN, "s")
    await work.after_the_answer()
    assert [text[0] for text in work.looked_at] == ["a", "b", "c", "b", "c"]


@pytest.mark.parametrize("messages", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("at", [0, 1, -1])
async def test_a_message_that_is_refused_is_passed_over_and_takes_no_other_with_it(messages: int, at: int) -> None:
    work = Proposing()
    said = [f"m{n:02}" for n in range(messages)]
    work.poison = said[at % messages]
    await say(work, *said)
    await work.after_the_answer()
    assert work.memories == [text for text in said if text != work.poison]
    assert (await read_log(work, BRAIN, "s")).extracted == messages


async def test_what_follows_a_message_that_is_refused_is_sent_together_again() -> None:
    work = Proposing()
    said = [f"m{n:02}" for n in range(20)]
    work.poison = said[0]
    await say(work, *said)
    await work.after_the_answer()
    assert [len(args["messages"]) for op, args in work.sent if op is Op.EXTRACT] == [20, 10, 5, 2, 1, 19]


async def test_a_conversation_that_is_refused_throughout_is_given_up_and_taken_up_with_the_next_call() -> None:
    work = Proposing(poison="bad")
    await say(work, *["bad"] * 500)
    await work.after_the_answer()
    assert [op for op, _ in work.sent].count(Op.EXTRACT) == 100
    reached = (await read_log(work, BRAIN, "s")).extracted
    assert 0 < reached < 500
    work.poison = None
    await say(work, "good")
    await work.after_the_answer()
    assert (await read_log(work, BRAIN, "s")).extracted == 501
    assert "good" in work.memories


async def test_who_has_a_role_that_no_platform_knows_is_taken_for_a_user() -> None:
    work = Proposing()
    said = [{"role": role, "content": f"as {role}"} for role in ("user", "partner", "tool")]
    await extraction.transcript_by_put(work, {**transcript("a"), "messages": said})
    await work.after_the_answer()
    args = next(args for op, args in work.sent if op is Op.EXTRACT)
    assert [message["role"] for message in args["messages"]] == ["user", "user", "tool"]


@pytest.mark.parametrize("code", ["unauthorized", "upstream_error", "rate_limited", "timeout", "not_found"])
async def test_any_other_failure_passes_nothing_over(code: str) -> None:
    work = Proposing().fails(Op.EXTRACT, code)
    await say(work, "a")
    assert (await refusal(work.after_the_answer())).code == code
    assert (await read_log(work, BRAIN, "s")).extracted == 0


async def test_a_message_longer_than_a_request_is_cut_to_fit() -> None:
    work = Proposing()
    await say(work, "ä" * 300_000)
    await work.after_the_answer()
    (text,) = work.looked_at
    assert text == "ä" * 250_000


@UNHURRIED
@given(st.lists(st.integers(0, 600_000), min_size=1, max_size=8))
def test_a_request_takes_as_many_messages_as_fit_and_at_least_one(sizes: list[int]) -> None:
    messages = [{"content": "x" * size} for size in sizes]
    first = extraction.first_that_fit(messages)
    assert 1 <= len(first) <= len(messages)
    assert first == messages[: len(first)]
    assert len(first) == 1 or sum(len(m["content"]) for m in first) <= 500_000


# The names that a model chooses.


def proposing(*memories: JsonObject) -> InMemory:
    return InMemory(answers={Op.EXTRACT: lambda _: {"memories": list(memories)}})


async def kept(work: InMemory, actor: str | None = None) -> list[str]:
    messages = [{"role": "user", "content": "x", "actor_id": actor}]
    return await extraction.keep_extracted(work, BRAIN, "s", messages)


SAFE = re.compile(r"memory/(global|project/[a-z0-9-]{1,64})/extracted-[a-z0-9-]{1,64}-[0-9a-f]{12}\.md")


@UNHURRIED
@given(
    st.text(), st.text(), st.text(min_size=1).filter(str.strip), st.sampled_from(["global", "project", "agent", None])
)
async def test_whatever_a_model_calls_a_memory_it_is_kept_at_a_safe_path(
    filename: str, name: str, content: str, scope: str | None
) -> None:
    work = proposing({"filename": filename, "name": name, "content": content, "scope": scope})
    (path,) = await kept(work, actor=name or None)
    assert SAFE.fullmatch(path)
    assert names.check_path(path) == path
    assert notes.parse(work.files[path]).content == content


@pytest.mark.parametrize(
    ("filename", "slug"),
    [
        ("../../x", "x"),
        ("../../../etc/passwd.md", "etc-passwd"),
        ("/absolute.md", "absolute"),
        ("C:\\windows\\x.md", "c-windows-x"),
        ("_index.md", "index"),
        ("a/b/c.md", "a-b-c"),
        ("", "run"),
        (None, "run"),
        ("日本.md", "memory"),
        ("....md", "memory"),
        ("x" * 10_000, "x" * 64),
        (["odd"], "odd"),
    ],
)
async def test_a_file_name_becomes_a_slug(filename: Any, slug: str) -> None:
    work = proposing({"filename": filename, "name": "Run", "content": "Ten miles."})
    assert await kept(work) == [f"memory/global/extracted-{slug}-{names.checksum('Ten miles.')[:12]}.md"]


async def test_two_memories_of_one_name_are_two() -> None:
    work = proposing({"filename": "x", "content": "one"}, {"filename": "x", "content": "two"})
    assert len(await kept(work)) == len(work.files) == 2


async def test_nothing_that_somebody_wrote_is_replaced() -> None:
    mine = {"memory/global/run.md": b"mine", "memory/global/extracted-run.md": b"mine", "run.md": b"mine"}
    work = proposing({"filename": "run.md", "content": "Ten miles."}, {"filename": "../../run.md", "content": "x"})
    work.files = dict(mine)
    await kept(work)
    assert {path: work.files[path] for path in mine} == mine
    assert len(work.files) == len(mine) + 2


@pytest.mark.parametrize("content", ["", " \n", None])
async def test_a_memory_that_says_nothing_is_not_kept(content: Any) -> None:
    work = proposing({"filename": "x", "content": content}, {"filename": "x"})
    assert await kept(work) == []
    assert work.ops == [Op.EXTRACT]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [(["a", 5], {"a", "5"}), ("a,b", set()), (7, set()), (None, set()), ({"a": 1}, set())],
)
async def test_tags_are_a_list_or_none(tags: Any, expected: set[str]) -> None:
    work = proposing({"filename": "x", "content": "x", "tags": tags})
    (path,) = await kept(work)
    assert notes.parse(work.files[path]).tags == expected


async def test_a_memory_says_where_it_comes_from() -> None:
    work = proposing({"name": " Ten\nmiles ", "content": "x", "type": "fact", "tags": ["sport"]})
    (path,) = await kept(work)
    note = notes.parse(work.files[path])
    assert note.title == "Ten miles"
    assert {key: note.front[key] for key in ("type", "session_id", "source")} == {
        "type": "fact",
        "session_id": "s",
        "source": "extract",
    }


@pytest.mark.parametrize(
    ("scope", "actor", "tree"),
    [
        ("project", "My Site", "memory/project/my-site/"),
        ("project", None, "memory/global/"),
        ("global", "My Site", "memory/global/"),
        (None, "My Site", "memory/global/"),
    ],
)
async def test_a_memory_of_a_project_is_kept_with_the_project(scope: str | None, actor: str | None, tree: str) -> None:
    (path,) = await kept(proposing({"name": "x", "content": "x", "scope": scope}), actor)
    assert path.startswith(f"{tree}extracted-")


async def test_without_batches_memories_are_written_one_by_one() -> None:
    work = proposing({"name": "a", "content": "a"}, {"name": "b", "content": "b"})
    work.gone = {Op.BATCH_WRITE}
    assert await kept(work) == list(work.files)
    assert work.made == [Op.EXTRACT, Op.WRITE_DOCUMENT, Op.WRITE_DOCUMENT]


# Transcripts.


def transcript(*contents: str) -> dict[str, Any]:
    return {
        "title": "Transcript",
        "content": "\n".join(contents),
        "path": "raw/documents/transcript-0123456789ab.md",
        "metadata": {"actor_id": "ada"},
        "source": "extract",
        "messages": [{"role": "user", "content": content} for content in contents],
        "brain": BRAIN,
    }


ways = pytest.mark.parametrize(
    ("store", "op"),
    [(extraction.transcript_by_put, Op.WRITE_DOCUMENT), (extraction.transcript_by_batch, Op.BATCH_WRITE)],
    ids=["put", "batch"],
)


@ways
async def test_a_transcript_is_stored_and_looked_at_once(store: Any, op: Op) -> None:
    work = Proposing()
    first = await store(work, transcript("a", "b"))
    assert (first["extraction"], work.memories) == ("started", [])
    assert work.ops == [Op.READ_DOCUMENT, op]
    await work.after_the_answer()
    again = await store(work, transcript("a", "b"))
    await work.after_the_answer()
    assert (again["reused"], again["path"]) == (True, first["path"])
    assert work.looked_at == ["a", "b"]
    assert work.memories == ["a", "b"]


@ways
async def test_a_transcript_where_nothing_is_extracted_says_so(store: Any, op: Op) -> None:
    work = InMemory()
    assert (await store(work, transcript("a")))["extraction"] == "unavailable"
    assert work.jobs == {}


async def test_a_transcript_goes_the_way_of_its_step_whatever_its_size() -> None:
    """Where there are no PUTs, a batch takes what a PUT would have taken."""
    work = Proposing(lacks={Op.WRITE_DOCUMENT})
    assert documents.fits_a_put(transcript("a"))
    with pytest.raises(Absent):
        await extraction.transcript_by_put(work, transcript("a"))
    assert (await extraction.transcript_by_batch(work, transcript("a")))["extraction"] == "started"


async def test_a_transcript_cut_short_is_looked_at_from_there() -> None:
    work = Proposing()
    long = transcript("a" * 400_000, "b" * 400_000)
    await extraction.transcript_by_put(work, long)
    work.fails(Op.EXTRACT, Fault(GatewayError("timeout"), passed_over=1))
    await refusal(work.after_the_answer())
    await extraction.transcript_by_put(work, long)
    await work.after_the_answer()
    assert [text[0] for text in work.looked_at] == ["a", "b"]


async def test_a_message_that_is_refused_keeps_no_transcript_from_being_looked_at() -> None:
    work = Proposing()
    work.poison = "bad"
    await extraction.transcript_by_put(work, transcript("a", "bad", "c"))
    await work.after_the_answer()
    assert work.memories == ["a", "c"]


async def test_a_transcript_of_another_actor_is_sent_with_its_actor() -> None:
    work = Proposing()
    await extraction.transcript_by_put(work, transcript("a"))
    await work.after_the_answer()
    args = next(args for op, args in work.sent if op is Op.EXTRACT)
    assert (args["actor_id"], args["messages"]) == ("ada", [{"role": "user", "content": "a"}])
