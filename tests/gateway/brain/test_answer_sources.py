"""Nothing of an answer is passed on before all that it draws on is known to be the caller's."""

from collections.abc import Iterable
from typing import Any

import pytest

from gateway.brain.answer_sources import NotTheirs, Sources
from gateway.brain.visibility import View
from gateway.operations.errors import StreamBroken

LIMITED = View("u-ann", "0123456789abcdef", {"orion": "orion"})
ONE_TENANT = View("u-ann", "0123456789abcdef")
DELTA = {"type": "answer_delta", "delta": "x"}
DONE = {"type": "done", "answer": "x"}
HERS = {"chunk_id": "a", "path": "memory/project/orion/a.md"}
HIDDEN = {"chunk_id": "b", "path": "memory/project/vega/b.md"}


def retrieve(*chunks: Any, **more: Any) -> dict[str, Any]:
    return {"type": "retrieve", "chunks": list(chunks), **more}


async def check(view: View, *frames: dict[str, Any], gone: Iterable[str] = ()) -> None:
    async def over(paths: Iterable[str], told_of: Iterable[str]) -> set[str]:
        return {*paths, *told_of} & set(gone)

    async def paths() -> dict[str, str]:
        return {"known": "memory/global/a.md", "hidden": "memory/project/vega/b.md"}

    sources = Sources(view, over, paths)
    for frame in frames:
        await sources.check(dict(frame))


@pytest.mark.parametrize(
    "frames",
    [
        [retrieve(HERS), DELTA, DONE],
        [retrieve({"chunk_id": "known"}), DELTA, DONE],
        [retrieve(), retrieve(HERS), DELTA, DONE],
        [retrieve(HERS), DELTA, {"type": "citation", "chunk_id": "a"}, DONE],
        [retrieve()],
    ],
)
async def test_an_answer_from_what_is_theirs_passes(frames: list[dict[str, Any]]) -> None:
    await check(LIMITED, *frames)


@pytest.mark.parametrize(
    "frames",
    [
        [DELTA],
        [DONE],
        # Nothing is said of its sources, whether it has none or does not name them.
        [retrieve(), DELTA],
        [retrieve(), DONE],
        [{"type": "retrieve", "chunks": None}, DONE],
        [retrieve(HERS, HIDDEN)],
        [retrieve(HERS, HIDDEN, live=True)],
        [retrieve({"chunk_id": "hidden"})],
        [retrieve({"chunk_id": "nowhere"})],
        [retrieve({"chunk_id": "b", "path": ["memory/project/vega/b.md"]})],
        [retrieve({"chunk_id": "b", "path": {"of": "memory/project/vega/b.md"}})],
        # The last of very many are not told.
        [retrieve(HERS, is_cut=True)],
        [retrieve(HERS), {"type": "citation", "chunk_id": "b"}],
        [retrieve(HERS), {"type": "citation", "path": "memory/project/vega/b.md"}],
    ],
)
async def test_an_answer_from_anything_else_is_not_passed_on(frames: list[dict[str, Any]]) -> None:
    with pytest.raises(NotTheirs):
        await check(LIMITED, *frames)


async def test_an_answer_that_has_begun_is_ended_in_words() -> None:
    with pytest.raises(StreamBroken, match="that you may not see"):
        await check(LIMITED, retrieve(HERS), DELTA, retrieve(HIDDEN))


async def test_where_there_is_one_tenant_an_answer_need_not_name_its_sources() -> None:
    await check(ONE_TENANT, retrieve(), DELTA, DONE)
    await check(ONE_TENANT, retrieve(HERS, HIDDEN, is_cut=True), DELTA, {"type": "citation", "chunk_id": "c"}, DONE)


INDEX = {"chunk_id": "i", "path": "memory/global/MEMORY.md"}
LINES = "- team/tea.md: Tea\n- [Otters](otters.md) — see readme.md\n"


@pytest.mark.parametrize("view", [LIMITED, ONE_TENANT], ids=["limited", "one tenant"])
async def test_an_index_that_tells_of_a_note_that_is_gone_is_not_drawn_on(view: View) -> None:
    index = {**INDEX, "content": LINES}
    await check(view, retrieve(index), DELTA, DONE)
    # Only named in passing.
    await check(view, retrieve(index), DELTA, DONE, gone=["memory/global/readme.md"])
    for gone in ("memory/global/team/tea.md", "memory/global/MEMORY.md"):
        with pytest.raises(NotTheirs):
            await check(view, retrieve(index), gone=[gone])
