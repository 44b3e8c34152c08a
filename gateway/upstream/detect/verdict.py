"""What is known of a platform: its dialect, the routes it has, and how it answers where it has none."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import httpx

from gateway.operations.errors import Absent
from gateway.operations.table import Op
from gateway.upstream.detect.refusal import problem_of, says_no_such_route
from gateway.upstream.dialects.dialect import Dialect, Route

ABSENT_SECONDS: Final = 90.0
_COMPARED_BYTES: Final = 64 * 1024
_METHOD: Final = re.compile(rb"\b(?:GET|HEAD|POST|PUT|DELETE)\b", re.IGNORECASE)
_TOKEN: Final = re.compile(rb"[\w-]+")
_ID_LIKE: Final = re.compile(rb"[a-fA-F-]{6,}|[^\d]*\d.*")

Fingerprint = tuple[int, str, bytes]


def fingerprint(response: httpx.Response, body: bytes) -> Fingerprint:
    """An answer without the parts that differ from one request to the next, so that answers can be compared."""
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == "text/html":
        # This is a proxy's page with any content. No route answers like that.
        return response.status_code, media_type, b""
    url = response.request.url
    blank = body[:_COMPARED_BYTES].replace(b"\\/", b"/")
    for path in (url.raw_path.partition(b"?")[0], url.path.encode()):
        # A proxy may have cut off the beginning of the path before the platform saw it, so the rest is looked for too.
        segments = path.split(b"/")
        for cut in range(1, max(2, len(segments) - 1)):
            blank = blank.replace(b"/" + b"/".join(segments[cut:]), b"")
    return response.status_code, media_type, _TOKEN.sub(_unless_id, _METHOD.sub(b"", blank)).strip()


def _unless_id(token: re.Match[bytes]) -> bytes:
    """Removes words that may be an id, a number or a time: all have a digit, or are hexadecimal."""
    return b"" if _ID_LIKE.fullmatch(token.group()) else token.group()


@dataclass(slots=True)
class Verdict:
    """A route that is not known, or was found absent long ago, is tried on use."""

    dialect: Dialect
    present: frozenset[str] = frozenset()
    nowhere: frozenset[Fingerprint] = frozenset()
    """The answers of the platform to a path that no route has; empty if none was seen."""
    blurred: bool = False
    """Whether it answers the same for a brain that it does not have."""
    until: float = float("inf")
    clock: Callable[[], float] = time.monotonic
    since: float = 0.0
    _absent: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.since = self.clock()

    @property
    def absent(self) -> list[str]:
        return sorted(self._absent)

    def route(self, op: Op) -> Route:
        """The route for an operation.

        Raises:
            Absent: the dialect has none, or this platform was seen not to have it.
        """
        route = self.dialect.routes.get(op)
        if route is None or (self._absent and self._absent.get(route.name, 0.0) > self.clock()):
            raise Absent
        return route

    def lose(self, *names: str) -> None:
        """Remember for a while that these routes do not exist. Not for ever, because a platform may be upgraded."""
        self.present -= set(names)
        self._absent |= dict.fromkeys(names, self.clock() + ABSENT_SECONDS)

    def denies(self, response: httpx.Response, body: bytes) -> bool:
        """Whether an answer means that there is no such route, as opposed to no such brain or document."""
        if response.status_code < 300 and not any(status == response.status_code for status, _, _ in self.nowhere):
            return False
        if self.nowhere and response.status_code not in {405, 501}:
            return names_no_route(response, body) or fingerprint(response, body) in self.nowhere
        return says_no_such_route(response, problem_of(response, body))


def names_no_route(response: httpx.Response, body: bytes) -> bool:
    """Whether a refusal says in so many words that there is no such route."""
    problem = problem_of(response, body)
    return problem is not None and says_no_such_route(response, problem)
