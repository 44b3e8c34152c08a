"""Whether an answer is as a step expects it."""

import base64
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from contract.case import Event, Expect
from contract.exchange import NO_JSON, Answer, Frame
from contract.fill import filled
from contract.match import mismatches
from contract.words import shown


def with_names(expect: Expect, names: Mapping[str, Any]) -> Expect:
    """The expectation with its names filled in."""
    return Expect.model_validate(filled(expect.model_dump(by_alias=True, exclude_unset=True), names))


def faults(expect: Expect, answer: Answer) -> list[str]:
    """A sentence for everything that is not as expected."""
    return list(_faults(expect, answer))


def _faults(expect: Expect, answer: Answer) -> Iterator[str]:
    if answer.status not in expect.statuses:
        yield f"the status should be {' or '.join(map(str, expect.statuses))}, not {answer.status}"
        # All other expectations are for an answer with another status.
        return
    for name, pattern in expect.headers.items():
        value = answer.headers.get(name.lower())
        if value is None:
            yield f"the header {name} is missing"
        else:
            yield from mismatches(pattern, value, f"the header {name}")
    if expect.problem is not None:
        yield from _problem(expect.problem, answer)
    if "json_" in expect.model_fields_set:
        yield from _json(expect.json_, answer)
    if "text" in expect.model_fields_set:
        yield from mismatches(expect.text, answer.text, "the text")
    if expect.bytes_base64 is not None:
        yield from _bytes(expect.bytes_base64, answer)
    if expect.sse is not None:
        yield from _stream(expect, answer)


def _json(pattern: Any, answer: Answer) -> Iterator[str]:
    if answer.media_type != "application/json" and not answer.media_type.endswith("+json"):
        yield f"the answer should be JSON, not {answer.media_type or 'without a content type'}"
        return
    if (body := answer.json()) is NO_JSON:
        yield f"the answer should be JSON, and is not: {shown(answer.text)}"
        return
    yield from mismatches(pattern, body, "json")


def _problem(code: str | list[str], answer: Answer) -> Iterator[str]:
    """A refusal in the form of RFC 9457, with a code."""
    if answer.media_type != "application/problem+json":
        yield f"a refusal should be application/problem+json, not {answer.media_type or 'without a content type'}"
        return
    said = {"any": "string", "match": "."}
    codes = {"one_of": code} if isinstance(code, list) else code
    yield from _json({"status": answer.status, "title": said, "detail": said, "code": codes}, answer)


def _bytes(wanted: str, answer: Answer) -> Iterator[str]:
    if answer.body != base64.b64decode(wanted):
        yield f"the bytes should be {shown(base64.b64decode(wanted))}, not {shown(answer.body)}"


def _stream(expect: Expect, answer: Answer) -> Iterator[str]:
    if answer.media_type != "text/event-stream":
        yield f"the answer should be text/event-stream, not {answer.media_type or 'without a content type'}"
        return
    frames = answer.frames()
    yield from in_order(expect.sse or [], frames)
    for relation in expect.answer:
        yield from RELATIONS[relation](frames)


def in_order(wanted: list[Event], frames: list[Frame]) -> Iterator[str]:
    """The events in their order. Each expectation takes all that fit it, or the one it asks for."""
    at = 0
    for event in wanted:
        first = at
        while at < len(frames) and frames[at].event in event.names and (event.count != "one" or at == first):
            yield from mismatches(event.data, frames[at].data, f"event {at + 1} ({frames[at].event})")
            at += 1
        if at == first and event.count != "any":
            came = frames[at].event if at < len(frames) else "the end"
            yield f"event {at + 1} should be {' or '.join(event.names)}, and was {came}; {_names(frames)}"
            return
    if at < len(frames):
        yield f"the stream should have ended after event {at}; {_names(frames)}"


def _names(frames: list[Frame]) -> str:
    runs = [frame.event for frame in frames[:1]]
    runs += [after.event for before, after in pairwise(frames) if before.event != after.event]
    return f"the stream was: {', '.join(runs[:20]) or 'empty'}"


def _deltas_make_the_answer(frames: list[Frame]) -> Iterator[str]:
    said = _said(frames)
    done = next((frame.data for frame in frames if frame.event == "done" and isinstance(frame.data, dict)), {})
    # An answer in `done` is for clients that missed a delta, so it may be missing.
    if "answer" in done and done["answer"] != said:
        yield f"the deltas joined should be the answer {shown(done['answer'])}, and are {shown(said)}"
    if not said:
        yield "the deltas joined should be an answer, and are empty"


def _citations_point_into_the_answer(frames: list[Frame]) -> Iterator[str]:
    retrieved = {chunk.get("chunk_id") for chunk in _retrieved(frames)}
    said = ""
    for frame in frames:
        if not isinstance(frame.data, dict):
            continue
        if frame.event == "answer_delta":
            said += str(frame.data.get("delta", ""))
        elif frame.event == "citation":
            start, end = frame.data.get("answer_start"), frame.data.get("answer_end")
            if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= len(said)):
                yield f"a citation should be about the {len(said)} characters before it, not {start!r} to {end!r}"
            elif "".join(said[start:end].split()) not in "".join(str(frame.data.get("quote", "")).split()):
                yield f"{shown(said[start:end])} should be in the quote {shown(frame.data.get('quote'))}"
            if frame.data.get("chunk_id") not in retrieved:
                yield f"a citation should be of a chunk that was retrieved, not {shown(frame.data.get('chunk_id'))}"


def _said(frames: list[Frame]) -> str:
    deltas = (f.data for f in frames if f.event == "answer_delta" and isinstance(f.data, dict))
    return "".join(str(data.get("delta", data.get("text", ""))) for data in deltas)


def _retrieved(frames: list[Frame]) -> list[dict[str, Any]]:
    first = next((f.data for f in frames if f.event == "retrieve" and isinstance(f.data, dict)), {})
    chunks = first.get("chunks")
    return [chunk for chunk in chunks if isinstance(chunk, dict)] if isinstance(chunks, list) else []


RELATIONS = {
    "deltas_make_the_answer": _deltas_make_the_answer,
    "citations_point_into_the_answer": _citations_point_into_the_answer,
}
