"""Every fault at every tool: what is called stored is there, once; what is not, is not; and no answer is another's."""

import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path

import httpx._transports.default
import pytest

from gateway.mcp.schema import input_schema
from tests.faults import reads
from tests.faults.matrix import FAULTS, FEW, FILE, FILED, LATER, WRITES, all_of, complaints, written
from tests.faults.reads import LIBRARY, LIBRARY_SLUG, READS, asked
from tests.faults.worlds import World, world

Worlds = Callable[[str], World]

SAYINGS = {"say", "say_last"}
# A message may arrive after everybody has stopped looking for it.
MAY_BE_UNKNOWN = {
    (platform, say, fault)
    for platform in ("platform", "T", "Y", "G")
    for say in SAYINGS
    for fault in ("late", "stall_before")
}
# What the network itself doubles: the platform appends whatever comes, and nobody can take it back.
MAY_BE_DOUBLE = {("platform", say, "duplicate") for say in SAYINGS}


@pytest.fixture(scope="module", autouse=True)
def _quick_starts() -> Iterator[None]:
    """Every case has gateways of its own; reading certificates and drawing up schemas takes longer than most cases."""
    context = cache(lambda: ssl.create_default_context())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.mcp.run.input_schema", cache(input_schema))
        patch.setattr(httpx._transports.default, "create_ssl_context", lambda **_kwargs: context())
        yield


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    running: dict[str, World] = {}
    with ExitStack() as stack:

        def started(name: str) -> World:
            if name not in running:
                running[name] = stack.enter_context(world(name, tmp_path_factory.mktemp(name)))
            return running[name]

        yield started


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    (made / FILE).write_text(FILED, encoding="utf-8")
    return made


def cells(*rows: tuple[str, str, str]) -> list[object]:
    """One test for each platform and tool; its cases run side by side and are reported one by one."""
    return [
        pytest.param(platform, tool, list(FEW if few == "few" else FAULTS), id=f"{platform}-{tool}")
        for platform, tools, few in rows
        for tool in tools.split()
    ]


ALL_WRITES = cells(
    ("platform", "remember ingest_file ingest_url say create_brain", "all"),
    ("platform", "remember_at say_last transcript create_brain_as", "few"),
    ("platform", "put put_over delete", "all"),
    ("T", "remember ingest_file ingest_url say create_brain", "all"),
    ("T", "remember_at transcript create_brain_as", "few"),
    ("T", "put put_over delete", "all"),
    ("Y", "remember ingest_file say create_brain put_over delete", "few"),
    ("G", "remember ingest_file say create_brain put_over delete", "few"),
)


@pytest.mark.parametrize(("platform", "tool", "faults"), ALL_WRITES)
@pytest.mark.sampled(19)
async def test_a_write_that_is_harmed_is_made_once(
    platform: str, tool: str, faults: list[str], worlds: Worlds, root: Path, subtests: pytest.Subtests
) -> None:
    there, write = worlds(platform), WRITES[tool]
    stories = await all_of([partial(written, there, write, FAULTS[name], root) for name in faults])
    for name, story in zip(faults, stories, strict=True):
        key = (platform, tool, name)
        found = complaints(story, may_be_unknown=key in MAY_BE_UNKNOWN, may_be_double=key in MAY_BE_DOUBLE)
        with subtests.test("-".join(key)):
            assert not found, [str(told) for told in story.told]


@pytest.mark.parametrize("platform", ["platform", "T"])
@pytest.mark.sampled(2)
async def test_a_write_that_arrives_after_its_repeat_is_the_same_write(
    platform: str, worlds: Worlds, root: Path, subtests: pytest.Subtests
) -> None:
    there, writes = worlds(platform), [write for name, write in WRITES.items() if name != "say_last"]
    stories = await all_of([partial(written, there, write, LATER, root) for write in writes])
    for write, story in zip(writes, stories, strict=True):
        is_said = write.name in SAYINGS
        # Nobody can take back what a platform has appended.
        found = complaints(story, may_be_unknown=is_said, may_be_double=is_said and platform == "platform")
        with subtests.test(f"{platform}-{write.name}"):
            assert not found, [str(told) for told in story.told]


ONE_BRAIN = re.compile(r"(?<=/v1/brains/)[^/]+")
BESIDE = ["stall_after", "cut_before", "drop_answer", "cut_in_answer_body", "double_answer", "commit_then_503"]
BESIDE_CELLS = [(platform, tool) for platform in ("platform", "T") for tool in WRITES if tool != "say_last"]


@pytest.mark.parametrize(("platform", "tool"), BESIDE_CELLS, ids=map("-".join, BESIDE_CELLS))
@pytest.mark.sampled(7)
async def test_a_write_is_made_once_whichever_other_request_of_it_is_harmed(
    platform: str, tool: str, worlds: Worlds, root: Path, subtests: pytest.Subtests
) -> None:
    there, write = worlds(platform), WRITES[tool]
    requests = (await written(there, write, None, root)).requests
    beside = [n for n, request in enumerate(requests, 1) if request.startswith("GET ")]
    keys = [(n, fault) for n in beside for fault in BESIDE]
    stories = await all_of([partial(written, there, write, FAULTS[fault], root, n) for n, fault in keys])
    for (n, fault), story in zip(keys, stories, strict=True):
        with subtests.test(f"{platform}-{tool}-{fault} at request {n}, {re.sub(ONE_BRAIN, 'b', requests[n - 1])}"):
            assert not complaints(story, may_be_unknown=False, may_be_double=False), [str(t) for t in story.told]


READ_CELLS = [(platform, tool) for platform in ("platform", "T") for tool in READS]


@pytest.mark.parametrize(("platform", "tool"), READ_CELLS, ids=map("-".join, READ_CELLS))
@pytest.mark.sampled(9)
async def test_a_read_gets_its_own_answer_or_a_failure(
    platform: str, tool: str, tmp_path: Path, root: Path, subtests: pytest.Subtests
) -> None:
    read = READS[tool]
    # A platform of its own: the others are full of brains, and a daemon's have to be asked for their names.
    with world(platform, tmp_path) as there:
        there.begin(LIBRARY_SLUG, LIBRARY)
        right = (await asked(there, read, None, root)).got
        stories = await all_of([partial(asked, there, read, fault, root) for fault in FAULTS.values()])
    assert None not in right
    for name, story in zip(FAULTS, stories, strict=True):
        may_fail = not read.repeats or name in {*reads.MAY_FAIL, "double_answer"}
        with subtests.test(f"{platform}-{tool}-{name}"):
            assert not reads.complaints(story, right, may_fail=may_fail, next_may_fail=name == "double_answer")
