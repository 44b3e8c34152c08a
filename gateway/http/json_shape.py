"""Counts the values of a JSON body as it comes, before it is parsed, because a parser makes an object of each value."""

from typing import Final

# The largest list that a tool takes, of 5,000 messages, has 55,000: two quotes a text, a comma, a bracket.
_MARKS: Final = 150_000
_DEPTH: Final = 100
_COUNTED: Final = (b",", b"[", b"]", b"{", b"}")
_NO_BRACKET: Final = bytes(set(range(256)) - set(b"[]{}"))
_OPENING: Final = frozenset(b"[{")

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600


class BadShape(Exception):
    """The body is not a request, or would take too long to parse; with the error that JSON-RPC has for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def check_whole(body: bytes) -> None:
    """Look at a body that came in one part.

    Raises:
        BadShape: it cannot be a request.
    """
    # Most bodies are so small that they cannot hold too many values.
    if len(body) > _MARKS or not body.startswith(b"{") or b"\0" in body or body.count(b"{") + body.count(b"[") > _DEPTH:
        JsonShape().add(body)


class JsonShape:
    """Counts signs outside the strings of a body. Up to the first error none is missed, and parsers stop at the error.

    Everything that takes time in proportion to the body is one call into C, on one part of it.
    """

    def __init__(self) -> None:
        self._began = self._in_string = False
        self._backslash = b""
        self._marks = self._depth = 0

    def add(self, part: bytes) -> None:
        """The next part of the body.

        Raises:
            BadShape: it cannot be a request any more.
        """
        if not self._began:
            part = part.lstrip(b" \t\r\n")
            self._check_first(part)
            self._began = bool(part)
        if b"\0" in part:
            # UTF-16 and UTF-32 have them, and the parser would read these too.
            raise BadShape(PARSE_ERROR, "The body must be JSON in UTF-8.")
        outside = self._outside_strings(part)
        self._count(sum(map(outside.count, _COUNTED)))
        self._check_depth(outside)

    def _check_first(self, part: bytes) -> None:
        if part.startswith(b"["):
            raise BadShape(INVALID_REQUEST, "The body must be one JSON-RPC message. Send those of a batch one by one.")
        if part and not part.startswith(b"{"):
            raise BadShape(PARSE_ERROR, "The body must be a JSON object in UTF-8.")

    def _outside_strings(self, part: bytes) -> bytes:
        part = self._backslash + part
        # A backslash that is left over at the end belongs to the next part.
        is_odd = (len(part) - len(part.rstrip(b"\\"))) % 2
        self._backslash = b"\\" if is_odd else b""
        part = part[: len(part) - is_odd].replace(b"\\\\", b"").replace(b'\\"', b"")
        quotes = part.count(b'"')
        self._count(quotes)
        outside = b"".join(part.split(b'"')[self._in_string :: 2])
        self._in_string ^= bool(quotes % 2)
        return outside

    def _count(self, marks: int) -> None:
        self._marks += marks
        if self._marks > _MARKS:
            raise BadShape(INVALID_REQUEST, "The body has too many values. Send fewer in one call, and call again.")

    def _check_depth(self, outside: bytes) -> None:
        for bracket in outside.translate(None, _NO_BRACKET):
            self._depth += 1 if bracket in _OPENING else -1
            if self._depth > _DEPTH:
                raise BadShape(INVALID_REQUEST, f"The body is nested more than {_DEPTH} deep. Make it flatter.")
