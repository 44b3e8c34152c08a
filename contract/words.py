"""Shows values to people: short, on one line, and without characters that control a terminal."""

import json
import re
from typing import Any, Final

SHOWN: Final = 200
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def shown(value: Any, longest: int = SHOWN) -> str:
    """A value as JSON on one line, cut if it is long."""
    if isinstance(value, bytes):
        value = value[: longest * 2].decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        value = value[: longest * 2]
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = str(type(value).__name__)
    return cut(text, longest)


def cut(text: str, longest: int = SHOWN) -> str:
    text = CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def some(number: int, one: str, more: str) -> str:
    """A number with its noun: 1 brain, 2 brains."""
    return f"{number} {one if number == 1 else more}"
