"""Whether the reply to a call is as a step expects it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from contract import schemas
from contract.call import CallExpect
from contract.exchange import NO_JSON
from contract.fill import Unknown, filled, found
from contract.match import mismatches
from contract.rpc import Reply
from contract.words import shown


def with_names(expect: CallExpect, names: Mapping[str, Any]) -> CallExpect:
    """The expectation with its names filled in."""
    return CallExpect.model_validate(filled(expect.model_dump(by_alias=True, exclude_unset=True), names))


def faults(expect: CallExpect, reply: Reply) -> list[str]:
    """A sentence for everything that is not as expected."""
    return list(_faults(expect, reply))


def json_of(text: str) -> Any:
    """The text as JSON, or NO_JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return NO_JSON


def _faults(expect: CallExpect, reply: Reply) -> Iterator[str]:
    wrong = list(_outcome(expect, reply))
    yield from wrong
    if wrong:
        # All other expectations are for another outcome.
        return
    if "structured" in expect.model_fields_set:
        yield from mismatches(expect.structured, reply.structured, "structuredContent")
    if "text" in expect.model_fields_set:
        yield from mismatches(expect.text, reply.text, "the text")
    if "result" in expect.model_fields_set:
        yield from mismatches(expect.result, reply.result, "the result")
    if "json_" in expect.model_fields_set:
        yield from _json(expect.json_, reply)
    if expect.defines is not None:
        yield from schemas.faults(expect.defines, (reply.result or {}).get("tools"))
    for place in expect.tells:
        yield from _told(place, reply)
    for relation in expect.progress:
        yield from RELATIONS[relation](reply)


def _outcome(expect: CallExpect, reply: Reply) -> Iterator[str]:
    if expect.refused:
        if not reply.is_error:
            yield "the call should be refused, and was not"
        return
    if reply.error is not None:
        yield "there should be a result, and not an error of the protocol"
    elif expect.error is False:
        if reply.is_error:
            yield "the call should succeed, and is an error"
    elif not reply.is_error:
        yield "the result should be an error (isError), and is none"
    elif expect.error is not True:
        codes = [expect.error] if isinstance(expect.error, str) else expect.error
        if not any(code in reply.text for code in codes):
            yield f"the text should name the code {' or '.join(codes)}, and is {shown(reply.text)}"


def _json(pattern: Any, reply: Reply) -> Iterator[str]:
    if (value := json_of(reply.text)) is NO_JSON:
        yield f"the text should be JSON, and is {shown(reply.text)}"
    else:
        yield from mismatches(pattern, value, "json")


def _told(place: str, reply: Reply) -> Iterator[str]:
    name = place.removesuffix("?")
    try:
        value = found(name, {"structured": reply.structured, "result": reply.result})
    except Unknown:
        if name == place:
            yield f"there is no {name} for the text to tell"
        return
    if str(value) not in reply.text:
        yield f"the text should tell {name}, {shown(value)}, and is {shown(reply.text)}"


def _none(reply: Reply) -> Iterator[str]:
    if reply.progress:
        yield f"there should be no progress, and there were {len(reply.progress)} notifications"


def _bears_the_token(reply: Reply) -> Iterator[str]:
    if not reply.progress:
        yield "there should be progress, and there was none"
    for told in reply.progress:
        if told.get("progressToken") != reply.token:
            yield f"the token should be {shown(reply.token)}, and is {shown(told.get('progressToken'))}"
            return


def _counts_by_one(reply: Reply) -> Iterator[str]:
    counted = [told.get("progress") for told in reply.progress]
    # JSON knows one kind of number: 0.0 is 0.
    if not counted or not all(isinstance(number, int | float) and float(number).is_integer() for number in counted):
        yield f"progress should be whole numbers, and is {shown(counted)}"
    elif counted != list(range(len(counted))):
        yield f"progress should begin at 0 and grow by 1, and is {shown(counted)}"


def _has_no_total(reply: Reply) -> Iterator[str]:
    if any(told.get("total") is not None for told in reply.progress):
        yield "progress should have no total"


def _makes_the_answer(reply: Reply) -> Iterator[str]:
    said = "".join(str(told.get("message", "")) for told in reply.progress)
    answer = reply.structured.get("answer") if isinstance(reply.structured, dict) else None
    if not said or said != answer:
        yield f"the messages joined should be the answer {shown(answer)}, and are {shown(said)}"


RELATIONS = {
    "none": _none,
    "bears_the_token": _bears_the_token,
    "counts_by_one": _counts_by_one,
    "has_no_total": _has_no_total,
    "makes_the_answer": _makes_the_answer,
}
