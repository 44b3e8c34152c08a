"""All metrics: names, labels, and what they say. `docs/metrics.md` is made from this."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Final

from gateway.app.metrics.figures import Family
from gateway.operations.errors import CATALOGUE
from gateway.operations.table import Kind, Op
from gateway.surfaces.catalog import EXTRA_TOOLS, SURFACES
from gateway.upstream.dialects.catalog import DIALECTS

# All names that no tool has are one value, whatever a caller sends.
UNKNOWN: Final = "unknown"
UNKNOWN_OUTCOME: Final = "validation_error"
OUTCOMES: Final = ("ok", *CATALOGUE, "cancelled", "crashed")
# How a request to the platform ended: with a status, or without an answer.
ANSWERS: Final = (
    "2xx",
    "3xx",
    "4xx",
    "429",
    "5xx",
    "timeout",
    "unreachable",
    "cut_off",
    "too_large",
    "given_up",
    "other",
)
STATUSES: Final = tuple(map(str, (200, 202, 204, 400, 401, 403, 404, 405, 406, 408, 413, 415, 421, 429, 431, 500, 503)))
OTHER: Final = "other"
LIMITS: Final = ("calls", "calls_at_once", "answers_at_once", "fetches", "fetches_at_once", "bytes")
NO_DIALECT: Final = "none"
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

CALLS: Final = "brains_calls"
CALL_SECONDS: Final = "brains_call_seconds"
IN_FLIGHT: Final = "brains_calls_in_flight"
REQUESTS: Final = "brains_upstream_requests"
REQUEST_SECONDS: Final = "brains_upstream_request_seconds"
SENT_THERE: Final = "brains_upstream_sent_bytes"
RECEIVED_THERE: Final = "brains_upstream_received_bytes"
RETRIES: Final = "brains_upstream_retries"
NO_BUDGET: Final = "brains_upstream_retries_denied"
LEFT_ALONE: Final = "brains_upstream_left_alone"
DETECTIONS: Final = "brains_detections"
ABSENT: Final = "brains_upstream_routes_absent"
FIRST_PIECE: Final = "brains_answer_first_piece_seconds"
PIECES: Final = "brains_answer_pieces"
REACHED: Final = "brains_limits_reached"
HTTP_REQUESTS: Final = "brains_http_requests"
RECEIVED: Final = "brains_http_received_bytes"
SENT: Final = "brains_http_sent_bytes"
JOBS: Final = "brains_background_jobs"
JOBS_ENDED: Final = "brains_background_jobs_ended"
SPANS: Final = "brains_spans"


def tool_names() -> dict[str, list[str]]:
    """The tools of every surface, by the names that they have without a prefix."""
    named = {name: _tools_of(name, kind) for name, kind in SURFACES.items()}
    named["memory"] += EXTRA_TOOLS
    return named


def _tools_of(name: str, kind: str) -> list[str]:
    surface = getattr(import_module(f"gateway.surfaces.{name}.surface"), kind)
    return [member.spec.name for member in vars(surface).values() if hasattr(member, "spec")]


def _rows(values: Iterable[str]) -> tuple[tuple[str], ...]:
    return tuple((value,) for value in values)


_TOOLS: Final = [(surface, tool) for surface, names in tool_names().items() for tool in names]
_BY_OUTCOME: Final = (
    *((*tool, outcome) for tool in _TOOLS for outcome in OUTCOMES),
    *((surface, UNKNOWN, UNKNOWN_OUTCOME) for surface in SURFACES),
)
_OPS: Final = _rows(op.value for op in Op if op is not Op.FETCH_PAGE)
_KINDS: Final = _rows(kind.value for kind in Kind)
_BY_ANSWER: Final = tuple((*op, answer) for op in _OPS for answer in ANSWERS)
# Every metric that processes count or measure while they serve.
FAMILIES: Final = (
    Family(
        CALLS,
        "counter",
        "Tool calls that ended. outcome is ok, the code of an error, cancelled or crashed.",
        ("surface", "tool", "outcome"),
        _BY_OUTCOME,
    ),
    Family(
        CALL_SECONDS,
        "histogram",
        "How long a tool call took, from when its arguments were read until its result was there.",
        ("surface", "tool"),
        tuple(_TOOLS),
        SECONDS,
    ),
    Family(IN_FLIGHT, "gauge", "Tool calls that are being served now.", ("surface",), _rows(SURFACES)),
    Family(
        REQUESTS,
        "counter",
        "Requests to the platform, each attempt of its own. outcome is the class of the status, or why none came.",
        ("operation", "outcome"),
        _BY_ANSWER,
    ),
    Family(
        REQUEST_SECONDS,
        "histogram",
        "How long a request to the platform took, until its answer was read; of an answer that streams, until it "
        "began.",
        ("operation",),
        _OPS,
        SECONDS,
    ),
    Family(SENT_THERE, "counter", "Bytes of bodies that were sent to the platform."),
    Family(RECEIVED_THERE, "counter", "Bytes of bodies that came from the platform, unpacked."),
    Family(RETRIES, "counter", "Requests that were sent to the platform again after a failure.", ("kind",), _KINDS),
    Family(
        NO_BUDGET,
        "counter",
        "Requests that were worth another attempt, which the budget of a tenth did not allow.",
        ("kind",),
        _KINDS,
    ),
    Family(
        LEFT_ALONE,
        "gauge",
        "In how many processes the breaker is open: the platform failed, and is left alone for the moment.",
        ("kind",),
        _KINDS,
    ),
    Family(
        DETECTIONS,
        "counter",
        "How often it was found out which dialect the platform speaks; none: that did not succeed.",
        ("dialect",),
        _rows((*DIALECTS, NO_DIALECT)),
    ),
    Family(ABSENT, "gauge", "How many routes the platform is known to lack.", is_largest=True),
    Family(
        FIRST_PIECE,
        "histogram",
        "How long the first piece of an answer took, from when the platform was asked.",
        buckets=SECONDS,
    ),
    Family(PIECES, "counter", "Pieces of answers that came from the platform; mostly a piece is a token."),
    Family(REACHED, "counter", "Calls that were refused because of a limit of one caller.", ("limit",), _rows(LIMITS)),
    Family(
        HTTP_REQUESTS,
        "counter",
        "HTTP requests by the status they were answered with, refusals included.",
        ("status",),
        _rows((*STATUSES, OTHER)),
    ),
    Family(RECEIVED, "counter", "Bytes of request bodies that callers sent."),
    Family(SENT, "counter", "Bytes of bodies that were sent to callers."),
    Family(
        JOBS,
        "gauge",
        "Work that goes on after an answer: what runs, and what waits to be run once more.",
        ("state",),
        _rows(("running", "waiting")),
    ),
    Family(
        JOBS_ENDED,
        "counter",
        "Work after answers that came to an end.",
        ("outcome",),
        _rows(("done", "failed", "crashed")),
    ),
    Family(
        SPANS,
        "counter",
        "Spans that a collector took (sent), that it did not take (failed), or for which the queue was full (dropped).",
        ("outcome",),
        _rows(("sent", "failed", "dropped")),
    ),
)
# Computed when somebody reads the page: name -> what it says.
AT_SCRAPE: Final[Mapping[str, str]] = {
    "brains_build_info": "1, with the version of the gateway.",
    "brains_processes": "How many processes serve.",
    "brains_embedded_file_bytes": "Size of the file of the embedded brain.",
    "brains_embedded_wal_bytes": "Size of the write-ahead log beside it.",
    "brains_embedded_notes": "Notes in the embedded brain.",
    "brains_embedded_chunks": "Chunks of notes in the embedded brain, which searches find.",
    "brains_embedded_vectors": "Vectors in the embedded brain, by which meanings are compared.",
}


def sample_names() -> set[str]:
    """Every name that a query can ask for."""
    endings = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
    return {*AT_SCRAPE, *(family.name + ending for family in FAMILIES for ending in endings[family.kind])}
