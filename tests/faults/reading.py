"""What an answer stream says, read strictly and by itself: the judge of the relay, with nothing of the relay in it.

The events are read as the WHATWG standard has it (HTML, 9.2.5 and 9.2.6): the bytes whole, no chunks, no clocks. What
they mean is the contract's: `done` alone makes an answer, and `error` ends it whatever follows.
"""

import json
import re
import zlib
from dataclasses import dataclass, field
from typing import Any

_LINE_END = re.compile("\r\n|\n|\r")
_HALF = re.compile("[\ud800-\udfff]")
_CITATION = {"chunk_id": "", "document_id": "", "answer_start": 0, "answer_end": 0, "quote": ""}
_RETRIEVED = {"chunk_id": "", "document_id": "", "score": 0.0, "preview": ""}
_PREVIEW_LENGTH = 512
_KINDS = ("retrieve", "answer_delta", "citation", "done", "error")


class Unreadable(Exception):
    """It is not what the contract says."""


@dataclass
class Reading:
    """What a stream adds up to. Without `complete` there is no answer, whatever was said."""

    complete: bool = False
    answer: str = ""
    deltas: list[str] = field(default_factory=list)
    citations: list[dict[str, Any]] = field(default_factory=list)
    retrieved: list[dict[str, Any]] | None = None
    events: int = 0
    why: str = "ended"


def unpacked(body: bytes, encoding: str) -> tuple[bytes, bool]:
    """The bytes under a content encoding, and whether all of them could be had."""
    if encoding != "gzip":
        return body, True
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        return unpacker.decompress(body), True
    except zlib.error:
        return b"", False


def events_of(body: bytes) -> list[tuple[str, str]]:
    """Each event that is dispatched: its name and its data."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    # What follows the last line end is no line.
    lines = _LINE_END.split(text)[:-1]
    found: list[tuple[str, str]] = []
    name, data = "", ""
    for line in lines:
        if line == "":
            if data != "":
                found.append((name or "message", data[:-1]))
            elif name == "error":
                # No event by the standard; whoever names an error and says no more is not taken to be well.
                found.append(("error", ""))
            name, data = "", ""
            continue
        key, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if key == "event":
            name = value
        elif key == "data":
            data += value + "\n"
    return found


def read(body: bytes, *, daemon: bool = False) -> Reading:
    """The answer a stream holds, up to its `done`; and else what it said before it broke."""
    reading = Reading()
    try:
        for name, data in events_of(body):
            if data == "" and name != "error":
                continue
            reading.events += 1
            kind, said = _frame(name, data)
            if _taken(reading, kind, said, daemon=daemon):
                return reading
    except Unreadable as error:
        reading.why = str(error)
    return reading


def _frame(name: str, data: str) -> tuple[str, dict[str, Any]]:
    if name not in _KINDS and name != "message":
        return "", {}
    try:
        said = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise Unreadable("no JSON") from None
    if not isinstance(said, dict):
        raise Unreadable("no object")
    kind = name if name != "message" else said.get("type")
    return (kind, said) if isinstance(kind, str) and kind in _KINDS else ("", {})


def _refuse(name: str) -> None:
    raise ValueError(name)


def _taken(reading: Reading, kind: str, said: dict[str, Any], *, daemon: bool) -> bool:
    """Whether the answer is complete with this frame."""
    if kind == "error":
        raise Unreadable("error")
    if kind == "retrieve":
        _take_retrieved(reading, said.get("chunks") or [], daemon=daemon)
    elif kind == "answer_delta":
        reading.deltas.append(_piece(said, daemon=daemon))
    elif kind == "citation":
        reading.citations.append({"type": "citation"} | ({} if daemon else _fields(said, _CITATION)))
    elif kind == "done":
        if daemon and said.get("ok") is False:
            raise Unreadable("not ok")
        answer = said.get("answer")
        reading.answer = whole_text(answer) if isinstance(answer, str) else "".join(reading.deltas)
        reading.complete = True
    return reading.complete


def _take_retrieved(reading: Reading, chunks: Any, *, daemon: bool) -> None:
    if not isinstance(chunks, list) or not all(isinstance(chunk, dict) for chunk in chunks):
        raise Unreadable("no list")
    if reading.retrieved is not None:
        return
    reading.retrieved = [{} if daemon else _fields(chunk, _RETRIEVED) for chunk in chunks]
    for chunk in reading.retrieved:
        chunk["preview"] = chunk.get("preview", "")[:_PREVIEW_LENGTH]


def _piece(said: dict[str, Any], *, daemon: bool) -> str:
    pieces = {key: said[key] for key in ("delta", "text") if said.get(key) is not None}
    if not all(isinstance(piece, str) for piece in pieces.values()):
        raise Unreadable("no text")
    piece = (pieces.get("text") if daemon else None) or pieces.get("delta", "")
    return whole_text(piece)


def _fields(said: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of the contract, empty where nothing is said."""
    found = {}
    for name, empty in fields.items():
        value = empty if said.get(name) is None else said[name]
        fits = type(value) in (int, float) if isinstance(empty, float) else type(value) is type(empty)
        if not fits:
            raise Unreadable(f"{name} is something else")
        found[name] = whole_text(value) if isinstance(value, str) else value
    return found


def whole_text(text: str) -> str:
    """Half a surrogate pair is no character: each is replaced. JSON can say one, UTF-8 cannot."""
    return _HALF.sub("\ufffd", text)
