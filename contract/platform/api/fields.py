"""Named values of a request, checked one by one; each refusal names the field."""

import math
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from contract.platform import names
from contract.platform.refusal import invalid
from contract.platform.wire import Scalar

METADATA_KEY_LIMIT: Final = 128


class Fields:
    def __init__(self, values: Mapping[str, object], repeated: Mapping[str, list[str]] | None = None) -> None:
        """`repeated` has every value of a name that may come more than once, as in a query string."""
        self._values = values
        self._repeated = repeated or {}

    @classmethod
    def of_query(cls, request: Request) -> "Fields":
        """The query string, read strictly: bytes that are no UTF-8 would make two paths one."""
        try:
            query: str = request.scope["query_string"].decode()
            pairs = parse_qsl(query, keep_blank_values=True, errors="strict")
        except ValueError as error:
            raise invalid("query string is not valid UTF-8") from error
        repeated: dict[str, list[str]] = {}
        for name, value in pairs:
            repeated.setdefault(name, []).append(value)
        return cls(dict(pairs), repeated)

    def get(self, name: str) -> object:
        return self._values.get(name)

    def optional_text(self, name: str, shortest: int, longest: int) -> str | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not shortest <= len(value) <= longest:
            raise invalid(f"{name} must be a string of {shortest} to {longest} characters")
        return value

    def text(self, name: str, shortest: int, longest: int) -> str:
        value = self.optional_text(name, shortest, longest)
        if value is None:
            raise invalid(f"{name} is required")
        return value

    def texts(self, name: str, most: int, shortest: int, longest: int) -> list[str]:
        """A list of strings: repeated in a query string, an array in a body."""
        value = self._repeated.get(name, self._values.get(name))
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > most:
            raise invalid(f"{name} must be a list of at most {most} strings")
        if not all(isinstance(text, str) and shortest <= len(text) <= longest for text in value):
            raise invalid(f"{name} must hold strings of {shortest} to {longest} characters")
        return value

    def path(self, name: str) -> str:
        # A leading slash is not part of the path, so it does not count against the limit.
        return names.path(self.text(name, 1, names.PATH_LIMIT + 1))

    def integer(self, name: str, least: int, most: int, default: int) -> int:
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
            value = int(value)
        elif isinstance(value, float) and value.is_integer():
            # In JSON 6.0 is as whole a number as 6, and some clients know no other numbers.
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise invalid(f"{name} must be an integer from {least} to {most}")
        return value

    def flag(self, name: str) -> bool:
        value = self._values.get(name, False)
        if value in ("true", "1", True):
            return True
        if value in ("false", "0", "", False):
            return False
        raise invalid(f"{name} must be true or false")

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self._values.get(name)
        if value is None:
            return default
        if value not in allowed:
            raise invalid(f"{name} must be one of {', '.join(allowed)}")
        return str(value)

    def mapping(self, name: str) -> dict[str, object]:
        value = self._values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise invalid(f"{name} must be an object")
        return value

    def metadata(self) -> dict[str, Scalar]:
        checked: dict[str, Scalar] = {}
        for key, value in self.mapping("metadata").items():
            if not 1 <= len(key) <= METADATA_KEY_LIMIT:
                raise invalid(f"metadata keys must have 1 to {METADATA_KEY_LIMIT} characters")
            if not (value is None or isinstance(value, str | int | float)):
                raise invalid("metadata values must be strings, numbers, booleans or null")
            if isinstance(value, float) and not math.isfinite(value):
                raise invalid("metadata numbers must be finite")
            checked[key] = value
        return checked
