"""Which requests meet which fault: a third of those that write, evenly over the points; a few of those that read."""

import random
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Collection

from tests.faults.faults import Fault, Kind, Request
from tests.faults.proof.shelves import MARK
from tests.faults.proof.workload import BRAIN, BRAINS

# The requests that carry a client's write, in both dialects.
_WRITING = re.compile(
    r"POST /v1/brains"
    r"|POST /v1/brains/[^/]+/(documents|documents/append|documents/batch-ops|(documents/)?ingest/(file|url))"
    r"|POST /v1/brains/[^/]+/sessions/[^/]+/messages"
    r"|PUT /v1/brains/[^/]+/documents"
)
# What a call looks with, before a write and after one in doubt.
_LOOKING = re.compile(r"(GET|HEAD) /v1/brains(/[^/]+(/documents(/read|/stat)?|/sessions/[^/]+/messages)?)?")
KINDS = (
    Kind.cut_before,
    Kind.cut_in_headers,
    Kind.cut_in_body,
    Kind.cut_after_request,
    Kind.drop_answer,
    Kind.cut_in_answer_headers,
    Kind.cut_after_answer_headers,
    Kind.cut_in_answer_body,
    Kind.reset,
    Kind.half_close,
    Kind.stall_before,
    Kind.stall_after,
    Kind.late,
    Kind.commit_then_500,
    Kind.commit_then_502,
    Kind.commit_then_503,
    Kind.commit_then_504,
    Kind.refuse_429,
    Kind.refuse_503,
    Kind.slow_accept,
    Kind.drip,
)
# These take a whole deadline each, so there are fewer of them.
_SLOW = frozenset({Kind.stall_before, Kind.stall_after, Kind.late})
# Answered on the way: the platform never hears of them.
_REFUSED = frozenset({Kind.refuse_429, Kind.refuse_503})


class Weather:
    """A plan for the proxy. It is called in the proxy's thread, and read in others."""

    def __init__(
        self, seed: int, *, writing: float = 1 / 3, looking: float = 0.02, without: Collection[Kind] = ()
    ) -> None:
        self._kinds = [kind for kind in KINDS if kind not in without]
        self._weights = [0.4 if kind in _SLOW else 1.0 for kind in self._kinds]
        self._random = random.Random(seed)
        self._writing, self._looking = writing, looking
        self._lock = threading.Lock()
        self.fair = True
        self.by_kind: Counter[str] = Counter()
        self.by_write: Counter[str] = Counter()
        self.by_request: dict[str, list[str]] = defaultdict(list)
        self._writers: set[str] = set()

    def plan(self, request: Request) -> Fault | None:
        if self.fair:
            return None
        named = _named(request)
        share = self._writing if _WRITING.fullmatch(named) else self._looking if _LOOKING.fullmatch(named) else 0
        with self._lock:
            meets = self._random.random() < share
            kind = self._random.choices(self._kinds, self._weights)[0] if meets else None
            if _WRITING.fullmatch(named) and kind not in _REFUSED:
                self._writers.add(request.headers.get("x-request-id", ""))
            if kind is None:
                return None
            self.by_kind[kind.value] += 1
            self.by_write[written_by(named)] += 1
            self.by_request[request.headers.get("x-request-id", "")].append(f"{kind.value} at {named}")
        return Fault(kind, seconds=self._seconds(kind), as_date=self._random.random() < 0.5)

    def wrote(self, request_id: str) -> bool:
        """Whether any request of a call was one that writes, and was not refused before it came to the platform."""
        return request_id in self._writers

    def met(self, request_id: str) -> str:
        """The faults of one call, in order."""
        return " then ".join(fault.partition(" ")[0] for fault in self.by_request.get(request_id, ())) or "none"

    def _seconds(self, kind: Kind) -> float:
        return 0.3 if kind is Kind.slow_accept else 1.0


def is_writing(request: Request) -> bool:
    """Whether a request carries a client's write."""
    return _WRITING.fullmatch(_named(request)) is not None


def _named(request: Request) -> str:
    return f"{request.method} {request.path.partition('?')[0]}"


def written_by(named: str) -> str:
    """The kind of write a request belongs to, told by its brain."""
    brain = (named.split("/") + [""] * 4)[3]
    return next((kind for kind, own in BRAINS.items() if own == brain), BRAIN if _makes_a_brain(named) else "")


def _makes_a_brain(named: str) -> bool:
    return named.endswith("/v1/brains") or MARK.search(named) is not None
