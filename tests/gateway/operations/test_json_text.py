"""How much of a platform's JSON is read, and that others have their turn meanwhile."""

import asyncio
import json
from typing import Any

import pytest

from gateway.operations import json_text
from gateway.operations.json_text import LISTED_VALUES, VALUES, TooLarge, parse_json, parse_list


def listing(count: int) -> bytes:
    items = [{"path": f"memory/[{n}].md", "size": n, "mtime": None, "is_dir": False} for n in range(count)]
    return json.dumps({"items": items, "next": None, "more": {"a": [1.5, "x"]}, "empty": []}).encode()


def many(item: str, count: int) -> str:
    return "[" + ",".join([item] * count) + "]"


@pytest.mark.parametrize("item", ["{}", "[]", "0", '""', '"\\\\"', "null", '{"a":1}'])
@pytest.mark.parametrize("encoded", [True, False])
def test_so_many_values_are_read_and_no_more(item: str, encoded: bool) -> None:
    signs = 1 + sum(map(item.count, ",[{"))
    for count, is_read in ((VALUES // signs - 1, True), (VALUES // signs + 2, False)):
        text = many(item, count)
        if is_read:
            assert len(parse_json(text.encode() if encoded else text)) == count
        else:
            with pytest.raises(TooLarge):
                parse_json(text.encode() if encoded else text)


@pytest.mark.parametrize(
    "text", [",[{" * VALUES, '",' * VALUES, "\\\\,[" * VALUES, 'a\\",\\\\' * VALUES, "é," * VALUES]
)
def test_what_stands_in_a_text_is_no_value(text: str) -> None:
    assert parse_json(json.dumps({"a": text, "b": [text[:9]]})) == {"a": text, "b": [text[:9]]}


def test_many_texts_are_many_values_however_they_end() -> None:
    with pytest.raises(TooLarge):
        parse_json(many(r'"\\"', 5 * VALUES))


@pytest.mark.parametrize("digits", [1, 308])
def test_a_number_is_read_that_one_can_reckon_with(digits: int) -> None:
    assert parse_json("9" * digits) == int("9" * digits)
    assert float(parse_json("9" * digits)) > 0


@pytest.mark.parametrize("text", ["9" * 309, "-" + "9" * 400, "9" * 5000, '{"score": ' + "1" * 4000 + "}"])
def test_a_number_nobody_can_reckon_with_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match="is not JSON") as caught:
        parse_json(text)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("count", [0, 10, VALUES // 2, pytest.param(LISTED_VALUES // 6 - 10, marks=pytest.mark.slow)])
async def test_a_long_list_is_read_as_a_short_one(count: int) -> None:
    body = listing(count)
    assert await parse_list(body) == json.loads(body)


@pytest.mark.not_quick
async def test_others_have_their_turn_while_a_long_list_is_read() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    body = listing(VALUES // 2)
    task = asyncio.create_task(other())
    await parse_list(body)
    task.cancel()
    assert turns > len(body) // 100_000


@pytest.mark.not_quick
async def test_a_list_that_is_far_too_long_is_not_read() -> None:
    with pytest.raises(TooLarge):
        await parse_list(listing(LISTED_VALUES // 4))


# Long enough to be read in turns, where few values are allowed at once.
FEW = 1000
LONG = many("0", FEW + 1)
DEEP = "[" * 103 + "]" * 103


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "VALUES", FEW)


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize(
    "text",
    [
        f"{LONG}",
        f'{{"a": {LONG}',
        f'{{"a": {LONG}}} 0',
        f'{{"a" {LONG}}}',
        f'{{"a": {LONG} "b": 0}}',
        f'{{"a": {LONG},}}',
        f'{{"a": {LONG}, 7: 0}}',
        f'{{"a": {LONG[:-1]},]}}',
        f'{{"a": {LONG[:-1]} 0]}}',
        f'{{"a": {LONG[:-1]}',
        f'{{"a": {LONG}, "b": }}',
        f'{{"a": {LONG}, "b": NaN}}',
        f'{{"a": {LONG}, "b": {DEEP}}}',
        f'{{"a": {LONG[:-1]}, {DEEP}]}}',
        f'{{"a": {LONG}, "b": {"[" * 100_000}}}',
    ],
    ids=range(15),
)
async def test_a_long_list_that_is_no_json_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        await parse_list(text.encode())


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (f' {{ "a" : {LONG} , "b" : [ ] }} \n', {"b": []}),
        (f'{{"b": 1, "a": {LONG}, "b": "cut \\ud83d"}}', {"b": "cut \ufffd"}),
        (f'\ufeff{{"a": {LONG}, "\\ud83d": [["\\ud83d"]]}}', {"\ufffd": [["\ufffd"]]}),
    ],
    ids=range(3),
)
async def test_a_long_list_may_have_anything_beside_it(text: str, rest: dict[str, Any]) -> None:
    assert await parse_list(text.encode()) == {"a": [0] * (FEW + 1), **rest}
