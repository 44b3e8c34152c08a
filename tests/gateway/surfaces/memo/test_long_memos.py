"""All memos that were found are told: where that is too much for one result, each of them is shortened."""

import json
from typing import Any

import pytest

from gateway.mcp.bounds import RESULT_LENGTH
from gateway.surfaces.memo import text

MEMO: dict[str, Any] = {
    "id": "6f0b8a4e-53a1-4c8a-9d7a-0a0c1f1b2c3d",
    "content": "Otters hold hands.",
    "episode_type": "other",
    "created_at": "2026-04-14T00:00:00Z",
    "source": "manual",
    "similarity": 0.5,
    "tags": ["otters"],
    "extra_metadata": {"river": "Elbe"},
}


def nested(depth: int) -> dict[str, Any]:
    value: Any = [1] * 1_000
    for _ in range(depth):
        value = [value]
    return {"deep": value}


def test_long_memos_are_cut_where_all_are_too_much_and_none_is_left_out() -> None:
    memos = [{"id": str(n), "content": "x" * length} for n, length in enumerate((900_000, 200_000, 10))]
    told = text.searched(memos)
    first, *others = json.loads(told)
    assert len(told) < RESULT_LENGTH
    assert first["content"].startswith("x" * 333_000)
    assert first["content"].endswith("x … (cut: 900,000 characters in all)")
    assert others == memos[1:]
    assert json.loads(text.searched(memos[1:])) == memos[1:]


@pytest.mark.parametrize(
    "long",
    [
        {"extra_metadata": {"x": "y" * 50_000}},
        {"extra_metadata": {str(n): n for n in range(10_000)}},
        {"extra_metadata": nested(200)},
        {"tags": ["otters"] * 10_000},
        {"source": "x" * 50_000},
        {"content": "\x01" * 9_000},
        {"content": '"' * 9_000, "extra_metadata": {"x": '"' * 4_000}},
        {"of the platform": "x" * 50_000},
        {f"of the platform {n}": n for n in range(5_000)},
    ],
    ids=lambda long: ", ".join(list(long)[:2]),
)
@pytest.mark.not_quick
def test_whatever_is_long_in_a_hundred_memos_they_fit_in_one_result(long: dict[str, Any]) -> None:
    told = text.searched([{**MEMO, **long}] * 100)
    memos = json.loads(told)
    assert len(told) <= RESULT_LENGTH
    assert len(memos) == 100
    for memo in memos:
        assert MEMO.keys() <= memo.keys()
        assert memo["content"].startswith(long.get("content", MEMO["content"])[:1_000])
        same = MEMO.keys() - long.keys() - {"content"}
        assert {name: memo[name] for name in same} == {name: MEMO[name] for name in same}


def test_what_is_left_out_of_a_memo_is_said_in_its_content() -> None:
    long = {**MEMO, "tags": ["t" * 600_000], "extra_metadata": {"x": "y" * 600_000}}
    (told,) = json.loads(text.searched([long]))
    said = "Otters hold hands. … (left out as too long: tags, extra_metadata)"
    assert told == {**MEMO, "tags": [], "extra_metadata": {}, "content": said}


def test_a_short_memo_among_long_ones_stays_as_it_is() -> None:
    long = {**MEMO, "content": "x" * 400_000}
    *_, short = json.loads(text.searched([long, long, long, MEMO]))
    assert short == MEMO
