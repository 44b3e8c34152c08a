"""The harm a network can do to one exchange of HTTP, as values a test can name."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What happens, and where. *Client* is who asks (the gateway), *target* who answers (the platform)."""

    cut_before = "cut_before"  # the client's connection is closed at the head; nothing is forwarded
    cut_in_headers = "cut_in_headers"  # half of the request's head is forwarded, then both sides are closed
    cut_in_body = "cut_in_body"  # the head and half of the body; without a body, as cut_after_request
    cut_after_request = "cut_after_request"  # all is forwarded, the client is closed at once; the target may finish
    drop_answer = "drop_answer"  # the target has answered in full, and the client is closed without a byte of it
    cut_in_answer_headers = "cut_in_answer_headers"  # half of the answer's head
    cut_after_answer_headers = "cut_after_answer_headers"  # the whole head of the answer, nothing of its body
    cut_in_answer_body = "cut_in_answer_body"  # head and half of the body; without one, as cut_in_answer_headers
    reset = "reset"  # as drop_answer, with a TCP reset
    half_close = "half_close"  # all is forwarded, the client gets an end of file; the connection ends when it leaves
    stall_before = "stall_before"  # nothing is forwarded and nothing answered until the client gives up
    late = "late"  # as stall_before, and once the client has given up the target gets the request after all
    stall_after = "stall_after"  # all is forwarded, the answer is withheld until the client gives up
    drip = "drip"  # the whole answer, in small pieces with pauses
    slow_accept = "slow_accept"  # a pause before anything is read, then all is well
    duplicate = "duplicate"  # the target gets the request twice, the second on a connection of its own
    double_answer = "double_answer"  # the answer is passed twice, in one write
    commit_then_500 = "commit_then_500"  # the target has done its work; the client is told this status
    commit_then_502 = "commit_then_502"
    commit_then_503 = "commit_then_503"
    commit_then_504 = "commit_then_504"
    refuse_429 = "refuse_429"  # nothing is forwarded; this status, with Retry-After
    refuse_503 = "refuse_503"
    hold = "hold"  # no harm: somebody is told at a point of the exchange, and may do harm of their own


class Point(StrEnum):
    """Where an exchange can be held."""

    connected = "connected"  # the client is there and nothing was read; in `on_connect` alone
    head = "head"  # the head of the request has arrived, nothing is forwarded
    body_half = "body_half"  # the head and half of the body are forwarded
    delivered = "delivered"  # the whole request is forwarded, nothing of an answer was read
    committed = "committed"  # the whole answer is there, and the client has no byte of it
    answer_head = "answer_head"  # the client has the head of the answer
    answer_half = "answer_half"  # the client has the head and half of the body
    answered = "answered"  # the client has the whole answer


@dataclass(frozen=True)
class Fault:
    """One kind of harm, with its options."""

    kind: Kind
    seconds: float = 0.2  # slow_accept: how long; refuse_429 and refuse_503: what Retry-After says
    delay: float = 0.0  # late: so many seconds after the client has given up
    as_date: bool = False  # refuse_429 and refuse_503: Retry-After as an HTTP date
    piece: int = 64  # drip: bytes at a time
    pause: float = 0.002  # drip: seconds between two pieces
    after: int | None = None  # cut_in_answer_body: so many bytes of the body, as they come, instead of half
    point: Point = Point.head  # hold: where
    reached: Callable[[], object] | None = None  # hold: called there, in a thread of its own; may block
    wait: bool = False  # hold: afterwards all stands still until the client gives up, instead of going on


def hold(point: Point | str, reached: Callable[[], object], wait: bool = False) -> Fault:
    """Tell somebody when an exchange has come to this point, and go on (or stand still) once they return."""
    return Fault(Kind.hold, point=Point(point), reached=reached, wait=wait)


@dataclass(frozen=True)
class Request:
    """The head of a request, as a plan sees it."""

    method: str
    path: str  # with the query
    headers: dict[str, str]  # names in lower case
    n: int  # the running number of the request, from 1


@dataclass(frozen=True)
class Passed:
    """A request that came by, and what it met."""

    request: Request
    fault: Fault | None


Plan = Callable[[Request], Fault | None]
OnConnect = Callable[[], Fault | None]
