"""Replaces names by their values: `${brain}` in a case becomes the brain of this run."""

import re
from collections.abc import Mapping
from typing import Any, Final

NAME: Final = re.compile(r"\$\{([a-z_][a-z0-9_]*)\}")


class Unknown(Exception):
    """A name that nothing was saved under; the text is one sentence."""


def filled(value: Any, names: Mapping[str, Any]) -> Any:
    """The value with every `${name}` replaced, and every {repeat, times} written out.

    Raises: Unknown.
    """
    if isinstance(value, str):
        return _text(value, names)
    if isinstance(value, list):
        return [filled(item, names) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"repeat", "times"}:
            return _repeated(filled(value["repeat"], names), int(value["times"]))
        return {_text(key, names): filled(item, names) for key, item in value.items()}
    return value


def _text(text: str, names: Mapping[str, Any]) -> Any:
    if whole := NAME.fullmatch(text):
        # A name alone keeps its type: a number stays one.
        return _value(whole.group(1), names)
    return NAME.sub(lambda found: str(_value(found.group(1), names)), text)


def _value(name: str, names: Mapping[str, Any]) -> Any:
    if name not in names:
        raise Unknown(f"nothing was saved as {name}")
    return names[name]


def _repeated(value: Any, times: int) -> Any:
    return value * times if isinstance(value, str | list) else [value] * times


def found(place: str, within: Any) -> Any:
    """The value at a place such as `json.items.0.id`.

    Raises: Unknown.
    """
    value = within
    for part in place.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise Unknown(f"the answer has no {place} to save")
    return value
