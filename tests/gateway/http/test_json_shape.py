"""Bodies are judged by what stands outside their strings, however they are cut into parts, before they are parsed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http import json_shape
from gateway.http.json_shape import BadShape, JsonShape

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab\\"{}[],:/ é😀\n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('a\\"{[,'), inner),
)


def shape_of(body: bytes, size: int) -> JsonShape:
    """Fed in parts of that size."""
    shape = JsonShape()
    for start in range(0, len(body), size):
        shape.add(body[start : start + size])
    return shape


def marks_of(value: Any) -> int:
    """What a JSON text of it has of brackets, commas and quotes, in its simplest spelling."""
    if isinstance(value, str):
        return 2
    if isinstance(value, dict):
        return 2 + max(len(value) - 1, 0) + sum(2 + marks_of(each) for each in value.values())
    if isinstance(value, list):
        return 2 + max(len(value) - 1, 0) + sum(map(marks_of, value))
    return 0


@given(JSON, st.booleans(), st.integers(1, 9))
def test_what_stands_in_strings_is_not_counted(value: Any, escaped: bool, size: int) -> None:
    body = json.dumps({"a": value}, ensure_ascii=escaped).encode()
    shape = shape_of(body, size)
    assert (shape._marks, shape._depth, shape._in_string) == (marks_of({"a": value}), 0, False)


@pytest.mark.parametrize("text", [",", "{", '"', "\\", '\\"', "\\\\", "é", "😀", "\n", "[{,}]"])
@pytest.mark.parametrize("escaped", [True, False])
def test_a_text_may_be_of_anything(text: str, escaped: bool) -> None:
    body = json.dumps({"a": text * 500_000}, ensure_ascii=escaped).encode()
    assert shape_of(body, 65_536)._marks == 6


def refusal(body: bytes, size: int) -> tuple[int, str]:
    with pytest.raises(BadShape) as bad:
        shape_of(body, size)
    return bad.value.code, bad.value.message


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"[]", -32600),
        (b" \n\t[{}]", -32600),
        (b"nonsense", -32700),
        (b'"{}"', -32700),
        (b"\xef\xbb\xbf{}", -32700),
        ("{}".encode("utf-16"), -32700),
        ("{}".encode("utf-16-le"), -32700),
        ("{}".encode("utf-16-be"), -32700),
        (' {"a": 1}'.encode("utf-32-le"), -32700),
    ],
)
def test_what_is_no_object_in_utf_8_is_refused_by_its_first_bytes(body: bytes, code: int, size: int) -> None:
    assert refusal(body, size)[0] == code


@pytest.mark.parametrize("body", [b"", b" \r\n", b"{", b'{"', b'{"a', b'{"\\', b'{"\\u00'])
def test_a_beginning_is_no_fault(body: bytes) -> None:
    shape_of(body, 1)


@pytest.mark.parametrize("size", [1000, 65_536, 10_000_000])
@pytest.mark.parametrize("values", [b"{},", b"1,", b'"",', b'"a":1,', b"[", b"]", b'"'])
def test_too_many_values_are_refused(values: bytes, size: int) -> None:
    code, message = refusal(b'{"a":[' + values * 400_000, size)
    assert code == -32600
    assert "too many values" in message or "nested" in message


@pytest.mark.parametrize("hiding", [b'{"\\\\":[', b'{"\\"":[', b'{"a\\\\\\"":[', b'{"":"\\\\","b":['])
@pytest.mark.parametrize("size", [1, 2, 3, 65_536])
def test_no_escape_hides_values(monkeypatch: pytest.MonkeyPatch, hiding: bytes, size: int) -> None:
    monkeypatch.setattr(json_shape, "_MARKS", 50)
    assert json.loads(hiding + b"0]}")
    assert "too many values" in refusal(hiding + b"{}," * 30, size)[1]


@pytest.mark.parametrize("size", [1, 1000])
def test_depth_is_bounded(size: int) -> None:
    assert shape_of(b'{"a":' + b"[" * 99 + b"]" * 99 + b"}", size)._depth == 0
    assert "nested more than 100 deep" in refusal(b'{"a":' + b"[" * 100, size)[1]
    wide = b'{"a":[' + b"[[]]," * 1000 + b"0]}"
    assert shape_of(wide, size)._depth == 0
