"""Reading a platform's JSON within bounds.

A few megabytes can hold millions of values, and once it is read each of them takes far more than its bytes.
"""

import asyncio
import codecs
import json
import math
import re
from typing import Final

import orjson
from pydantic_core import to_json

from gateway.operations.table import JsonObject, JsonValue

# This many are read in about 50 ms, while no other call is served.
VALUES: Final = 100_000
# The limit for a list that is read in turns with other work: enough for some 140,000 documents.
LISTED_VALUES: Final = 1_000_000
_TURN: Final = 32 * 1024
# JSON that is nested deeper could be read but not written again, so the answer could not be sent to the caller.
_DEEPEST: Final = 100
# As many digits as a float can have. Longer numbers are no scores or sizes, and calculations with them fail.
_DIGITS: Final = 308
# Every value except the first comes after one of these signs.
_BEFORE_VALUES: Final = b",[{"
_OTHER_BYTES: Final = bytes(byte for byte in range(256) if byte not in _BEFORE_VALUES)
# Integers of more than 64 bits are larger. orjson makes floats of them.
_EXACT: Final = 2.0**62
_GAP: Final = re.compile(r"[ \t\n\r]*")
_HALF_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")
_HALF: Final = re.compile("[\ud800-\udfff]")


class TooLarge(ValueError):
    """The JSON has more values than allowed."""


def parse_json(text: bytes | str) -> JsonValue:
    """A platform's JSON that can be passed on.

    Raises:
        TooLarge: it holds too many values.
        ValueError: it is not JSON, or nested too deeply.
    """
    if len(text) > VALUES and _is_too_much(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")):
        raise TooLarge("too many values")
    if isinstance(text, bytes):
        try:
            if _is_simple(value := orjson.loads(text)):
                return value
        except ValueError:
            # orjson refuses some texts that can be passed on: half a pair of surrogates, a byte order mark.
            pass
        text = _decode(text)
    try:
        value = _READER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return _passable(value, text)


async def parse_list(body: bytes) -> JsonValue:
    """The same for an object that may hold a long list. Between its items, other tasks get their turn.

    Raises:
        TooLarge: it holds too many values.
        ValueError: it is not JSON, or nested too deeply.
    """
    count = _count(body)
    if count <= VALUES:
        return parse_json(body)
    if count > LISTED_VALUES:
        raise TooLarge("too many values")
    return await _InTurns(_decode(body)).read()


class _InTurns:
    """An object, read one value at a time. Its lists are read one item at a time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = self._paused = 0

    async def read(self) -> JsonObject:
        found: JsonObject = {}
        self._expect("{")
        while not self._took("}"):
            if found:
                self._expect(",")
            if not isinstance(key := self._value(), str):
                raise ValueError("a name is no text")
            self._expect(":")
            found[key] = await self._items() if self._took("[") else self._value()
        if self._next():
            raise ValueError("more than one value")
        return found

    async def _items(self) -> list[JsonValue]:
        items: list[JsonValue] = []
        while not self._took("]"):
            if items:
                self._expect(",")
            items.append(self._value())
            if self._place - self._paused > _TURN:
                self._paused = self._place
                await asyncio.sleep(0)
        return items

    def _next(self) -> str:
        match = _GAP.match(self._text, self._place)
        self._place = match.end() if match else self._place
        return self._text[self._place : self._place + 1]

    def _took(self, sign: str) -> bool:
        is_next = self._next() == sign
        self._place += is_next
        return is_next

    def _expect(self, sign: str) -> None:
        if not self._took(sign):
            raise ValueError(f"no {sign}")

    def _value(self) -> JsonValue:
        self._next()
        start = self._place
        try:
            value, self._place = _READER.raw_decode(self._text, start)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        return _passable(value, self._text[start : self._place]) if isinstance(value, dict | list | str) else value


def _decode(body: bytes) -> str:
    return body.removeprefix(codecs.BOM_UTF8).decode()


def _count(raw: bytes) -> int:
    """At least as many as there are values: text may hold these signs too."""
    return len(raw.translate(None, _OTHER_BYTES))


def _is_too_much(raw: bytes) -> bool:
    if _count(raw) <= VALUES:
        return False
    # Signs inside texts do not count. Outside, there are at most two for each value: its own and that of its name.
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    return plain.count(b'"') > 4 * VALUES or _count(b"".join(plain.split(b'"')[::2])) > VALUES


def write_json(value: JsonValue) -> bytes:
    """What can be passed on, as JSON."""
    try:
        # NaN and the infinities, which are no JSON, become null.
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        # It has integers of any length.
        return to_json(value, inf_nan_mode="null")
    except ValueError:
        # Half of a surrogate pair can only be written as an escape.
        return json.dumps(value, separators=(",", ":")).encode()


def _is_simple(value: JsonValue) -> bool:
    """Whether it is nested no deeper than it may be, and no integer in it was made a float."""
    level: list[JsonValue] = [value] if type(value) is dict or type(value) is list else []
    for _ in range(_DEEPEST if level else 0):
        inner: list[JsonValue] = []
        for holder in level:
            for one in holder.values() if type(holder) is dict else holder:
                kind = type(one)
                # First, because most values are texts.
                if kind is str:
                    continue
                if kind is dict or kind is list:
                    inner.append(one)
                elif kind is float and not -_EXACT < one < _EXACT:
                    return False
        if not inner:
            return True
        level = inner
    return False


def _passable(value: JsonValue, text: str) -> JsonValue:
    if text.count("[") + text.count("{") > _DEEPEST and _is_deep(value):
        raise ValueError("nested too deeply")
    return _whole(value) if "\\u" in text and _HALF_PAIR.search(text) else value


def _no_number(name: str) -> JsonValue:
    """NaN and the infinities are not JSON, so a value that holds them could not be passed on."""
    raise ValueError(f"{name[:20]} is not JSON")


def _finite(text: str) -> float:
    """1e999 is JSON, and no number that could be passed on."""
    return number if math.isfinite(number := float(text)) else _no_number(text)


def _integer(text: str) -> int:
    return int(text) if len(text) <= _DIGITS else _no_number(text)


# One decoder for all: json.loads would make one for each text.
_READER: Final = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite, parse_int=_integer)


def _is_deep(value: JsonValue) -> bool:
    level = [value]
    for _ in range(_DEEPEST + 1):
        holders = [held for held in level if isinstance(held, dict | list)]
        if not holders:
            return False
        level = [inner for held in holders for inner in (held.values() if isinstance(held, dict) else held)]
    return True


def _whole(value: JsonValue) -> JsonValue:
    """Without halves of surrogate pairs: platforms cut text inside an emoji, and no JSON we write may hold that."""
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value
