"""Patterns: what a case expects of a value. Each difference becomes one sentence.

A pattern is plain YAML. A scalar or a list must be equal; an object needs the keys that it names, and ignores others;
a key that ends with `?` may be missing. An object that has only the words below is a test instead:

    any: string        its type: string, integer, number, boolean, object, list, null, value, time, hex
    match: "^ab"       a regular expression, found anywhere in the text
    contains: [a, b]   each is in the text, or is matched by an item of the list
    lacks: [a, b]      none is in the text, is a key of the object, or is matched by an item of the list
    each: pattern      every item matches
    least, most: 3     bounds of a number
    length: 3          of a text or list; or {least: 1, most: 5}
    one_of: [a, b]     one of these patterns
    all_of: [a, b]     each of these patterns
    not: pattern       anything else
    only: {...}        an object with these keys and no others
    equal: {...}       exactly this, words or not
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from contract.words import shown

HEX: Final = re.compile(r"[0-9a-f]+")
ABSENT: Final = object()


def mismatches(pattern: Any, seen: Any, at: str = "value") -> list[str]:
    """A sentence for every place where the value does not match the pattern."""
    return list(_compare(pattern, seen, at))


def problems(pattern: Any, at: str = "pattern") -> Iterator[str]:
    """What is wrong with the pattern itself."""
    if isinstance(pattern, list):
        for number, item in enumerate(pattern):
            yield from problems(item, f"{at}[{number}]")
    elif isinstance(pattern, dict):
        yield from _object_problems(pattern, at)


def is_question(pattern: Any) -> bool:
    return isinstance(pattern, dict) and bool(pattern) and all(key in QUESTIONS for key in pattern)


def _compare(pattern: Any, seen: Any, at: str) -> Iterator[str]:
    if is_question(pattern):
        for word, argument in pattern.items():
            yield from QUESTIONS[word](argument, seen, at)
    elif isinstance(pattern, dict):
        yield from _object(pattern, seen, at)
    elif isinstance(pattern, list):
        yield from _list(pattern, seen, at)
    elif not _same(pattern, seen):
        yield f"{at} should be {shown(pattern)}, not {shown(seen)}"


def _object(pattern: Mapping[str, Any], seen: Any, at: str) -> Iterator[str]:
    if not isinstance(seen, dict):
        yield f"{at} should be an object, not {shown(seen)}"
        return
    for key, wanted in pattern.items():
        name = key.removesuffix("?")
        if name in seen:
            yield from _compare(wanted, seen[name], f"{at}.{name}")
        elif not key.endswith("?"):
            yield f"{at}.{name} is missing; there are {', '.join(map(str, seen)) or 'no keys'}"


def _list(pattern: list[Any], seen: Any, at: str) -> Iterator[str]:
    if not isinstance(seen, list):
        yield f"{at} should be a list, not {shown(seen)}"
    elif len(seen) != len(pattern):
        yield f"{at} should have {len(pattern)} items, not {len(seen)}: {shown(seen)}"
    else:
        for number, (wanted, item) in enumerate(zip(pattern, seen, strict=True)):
            yield from _compare(wanted, item, f"{at}[{number}]")


def _same(pattern: Any, seen: Any) -> bool:
    # In Python true is 1, in JSON it is not.
    if isinstance(pattern, bool) or isinstance(seen, bool):
        return pattern is seen
    return bool(pattern == seen)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_time(value: Any) -> bool:
    """RFC 3339 with an offset."""
    if not isinstance(value, str) or "T" not in value.upper():
        return False
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
    "value": lambda value: True,
    "time": _is_time,
    "hex": lambda value: isinstance(value, str) and HEX.fullmatch(value) is not None,
}
NAMES: Final = {
    "integer": "a whole number",
    "object": "an object",
    "time": "a time with offset (RFC 3339)",
    "hex": "lower-case hex digits",
    "null": "null",
}


def _any(name: str, seen: Any, at: str) -> Iterator[str]:
    if not TYPES[name](seen):
        yield f"{at} should be {NAMES.get(name, f'a {name}')}, not {shown(seen)}"


def _match(expression: str, seen: Any, at: str) -> Iterator[str]:
    if not isinstance(seen, str) or not re.search(expression, seen):
        yield f"{at} should match {expression!r}, and is {shown(seen)}"


def _contains(wanted: list[Any], seen: Any, at: str) -> Iterator[str]:
    for part in wanted:
        if _holds(part, seen):
            continue
        if (item := _namesake(part, seen)) is not None:
            # A sentence on the alternative that was probably meant helps more than the whole list.
            yield from _compare(part, item, f"{at}[{item['name']}]")
        else:
            yield f"{at} should contain {shown(part)}, and is {shown(seen)}"


def _namesake(part: Any, seen: Any) -> dict[str, Any] | None:
    """The item of a list with the name that is asked for."""
    name = part.get("name") if isinstance(part, dict) else None
    if not isinstance(name, str) or not isinstance(seen, list):
        return None
    return next((item for item in seen if isinstance(item, dict) and item.get("name") == name), None)


def _lacks(unwanted: list[Any], seen: Any, at: str) -> Iterator[str]:
    if not isinstance(seen, str | dict | list):
        yield f"{at} should be a text, an object or a list, not {shown(seen)}"
        return
    for part in unwanted:
        if _holds(part, seen):
            yield f"{at} should not contain {shown(part)}, and is {shown(seen)}"


def _holds(part: Any, seen: Any) -> bool:
    if isinstance(seen, str | dict):
        return isinstance(part, str) and part in seen
    return isinstance(seen, list) and any(not mismatches(part, item) for item in seen)


def _each(pattern: Any, seen: Any, at: str) -> Iterator[str]:
    if not isinstance(seen, list):
        yield f"{at} should be a list, not {shown(seen)}"
        return
    for number, item in enumerate(seen):
        yield from _compare(pattern, item, f"{at}[{number}]")


def _least(bound: float, seen: Any, at: str) -> Iterator[str]:
    if not _is_number(seen) or seen < bound:
        yield f"{at} should be at least {bound}, not {shown(seen)}"


def _most(bound: float, seen: Any, at: str) -> Iterator[str]:
    if not _is_number(seen) or seen > bound:
        yield f"{at} should be at most {bound}, not {shown(seen)}"


def _length(pattern: Any, seen: Any, at: str) -> Iterator[str]:
    if not isinstance(seen, str | list):
        yield f"{at} should be a text or a list, not {shown(seen)}"
    else:
        yield from _compare(pattern, len(seen), f"the length of {at}")


def _one_of(patterns: list[Any], seen: Any, at: str) -> Iterator[str]:
    if all(mismatches(pattern, seen) for pattern in patterns):
        yield f"{at} should be one of {', '.join(map(shown, patterns))}, not {shown(seen)}"


def _all_of(patterns: list[Any], seen: Any, at: str) -> Iterator[str]:
    for pattern in patterns:
        yield from _compare(pattern, seen, at)


def _not(pattern: Any, seen: Any, at: str) -> Iterator[str]:
    if not mismatches(pattern, seen):
        yield f"{at} should not be {shown(pattern)}, and is {shown(seen)}"


def _only(pattern: dict[str, Any], seen: Any, at: str) -> Iterator[str]:
    yield from _object(pattern, seen, at)
    if isinstance(seen, dict):
        allowed = {key.removesuffix("?") for key in pattern}
        if more := [key for key in seen if key not in allowed]:
            yield f"{at} should have no other keys, and has {', '.join(map(str, more))}"


def _equal(value: Any, seen: Any, at: str) -> Iterator[str]:
    if not _same(value, seen):
        yield f"{at} should be {shown(value)}, not {shown(seen)}"


QUESTIONS: Final[dict[str, Callable[[Any, Any, str], Iterator[str]]]] = {
    "any": _any,
    "match": _match,
    "contains": _contains,
    "lacks": _lacks,
    "each": _each,
    "least": _least,
    "most": _most,
    "length": _length,
    "one_of": _one_of,
    "all_of": _all_of,
    "not": _not,
    "only": _only,
    "equal": _equal,
}


def _object_problems(pattern: dict[str, Any], at: str) -> Iterator[str]:
    if not is_question(pattern):
        if words := [key for key in pattern if key in QUESTIONS]:
            yield f"{at} mixes keys with {', '.join(words)}: part them with all_of, or say equal"
        for key, value in pattern.items():
            yield from problems(value, f"{at}.{key}")
        return
    for word, argument in pattern.items():
        place = f"{at}.{word}"
        match word:
            case "any":
                if argument not in TYPES:
                    yield f"{place}: there is no type {shown(argument)}; there are {', '.join(TYPES)}"
            case "match":
                yield from _expression_problems(argument, place)
            case "contains" | "lacks" | "one_of" | "all_of":
                if isinstance(argument, list):
                    yield from problems(argument, place)
                else:
                    yield f"{place} should be a list"
            case "only":
                if isinstance(argument, dict):
                    for key, value in argument.items():
                        yield from problems(value, f"{place}.{key}")
                else:
                    yield f"{place} should be an object"
            case "least" | "most":
                if not _is_number(argument):
                    yield f"{place} should be a number"
            case "each" | "not" | "length":
                yield from problems(argument, place)


def _expression_problems(expression: Any, place: str) -> Iterator[str]:
    try:
        re.compile(expression)
    except (re.error, TypeError) as error:
        yield f"{place} is not a regular expression: {error}"
