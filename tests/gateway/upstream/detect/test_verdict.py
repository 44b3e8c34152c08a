"""What is known of a platform, and how the answer of no route is recognised."""

import json
import secrets

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.operations.errors import Absent
from gateway.operations.table import Op
from gateway.upstream.detect.verdict import ABSENT_SECONDS, Fingerprint, Verdict, fingerprint, names_no_route
from gateway.upstream.dialects.platform import PLATFORM
from tests.gateway.upstream.platforms import Clock

# A busy machine is no failure.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
ROOT = "https://platform.example"
IDS = st.one_of(st.uuids().map(str), st.from_regex(r"[A-Za-z0-9_-]{3,20}[0-9]", fullmatch=True), st.integers().map(str))


def answer(
    body: str | bytes,
    status: int = 404,
    media_type: str = "application/json",
    method: str = "POST",
    path: str = "/v1/brains/b/search",
) -> tuple[httpx.Response, bytes]:
    content = body.encode() if isinstance(body, str) else body
    request = httpx.Request(method, ROOT + path)
    return httpx.Response(status, headers={"content-type": media_type}, content=content, request=request), content


def mark(*args: object, **said: object) -> Fingerprint:
    return fingerprint(*answer(*args, **said))  # type: ignore[arg-type]  # passed on as they are


@pytest.mark.parametrize(
    "wording", ["no route for {m} {p}", '{{"path": "{p}", "method": "{m}"}}', "{p}", "Cannot {m} {p}"]
)
@pytest.mark.parametrize("prefix", ["", "/api", "/a/v1"])
def test_the_same_words_about_another_path_mean_the_same(wording: str, prefix: str) -> None:
    def said(method: str, path: str) -> Fingerprint:
        return mark(wording.format(m=method, p=path), method=method, path=prefix + path)

    ghost = f"/v1/brains/ghost-{secrets.token_hex(8)}"
    assert said("POST", f"{ghost}/{secrets.token_hex(8)}") == said("GET", "/v1/brains/notes/search")
    assert said("POST", f"{ghost}/documents/read") == said("PUT", "/v1/brains/größe/documents")


def test_a_path_may_be_written_with_escaped_slashes() -> None:
    body = json.dumps({"path": "/v1/brains/b/search"}).replace("/", "\\/")
    assert mark(body) == mark(json.dumps({"path": "/v1/brains/c/ask"}), path="/v1/brains/c/ask")


@UNHURRIED
@given(IDS, IDS)
def test_ids_numbers_and_times_make_no_difference(one: str, other: str) -> None:
    def said(value: str) -> Fingerprint:
        return mark(json.dumps({"error": "unknown endpoint", "request_id": value}))

    assert said(one) == said(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (mark("no such brain"), mark("no such route")),
        (mark("x", 404), mark("x", 403)),
        (mark("x", media_type="text/plain"), mark("x", media_type="application/json")),
        (mark("", media_type="text/html"), mark("", 500, media_type="text/html")),
        (mark('{"detail": "Not Found"}'), mark('{"detail": "brain not found: b"}')),
    ],
)
def test_other_words_kinds_and_statuses_mean_something_else(one: Fingerprint, other: Fingerprint) -> None:
    assert one != other


@pytest.mark.parametrize("media_type", ["text/html", "text/html; charset=utf-8", "TEXT/HTML"])
def test_a_page_is_a_page_whatever_it_holds(media_type: str) -> None:
    assert mark("<p>one</p>", media_type=media_type) == mark("<p>other</p>", media_type="text/html")


def test_a_body_is_compared_by_its_beginning() -> None:
    start = "nothing here " * 10_000
    assert mark(start + "a") == mark(start + "b")
    assert mark("a" + start) != mark("b" + start)


@pytest.mark.parametrize(
    "body", [b"a" * 200_000, b"-" * 200_000, b"a1" * 100_000, b"\xff" * 1000, b"", b"get" * 60_000]
)
def test_any_body_has_a_mark(body: bytes) -> None:
    status, media_type, rest = mark(body)
    assert (status, media_type) == (404, "application/json")
    assert len(rest) <= 64 * 1024


PROBLEM = json.dumps({"status": 404, "code": "not_found", "detail": "no route for POST /x"})
NO_BRAIN = json.dumps({"status": 404, "code": "not_found", "detail": "brain not found: b"})
NOT_FOUND = json.dumps({"detail": "Not Found"})


@pytest.mark.parametrize(
    ("nowhere", "said", "denied"),
    [
        ([], (PROBLEM, 404), True),
        ([], (NO_BRAIN, 404), False),
        ([], ("404 page not found", 404, "text/plain"), True),
        ([], ("{}", 200), False),
        ([], ("", 405), True),
        ([], ("", 501), True),
        ([], ("", 500), False),
        ([NOT_FOUND], (NOT_FOUND, 404), True),
        ([NOT_FOUND], (PROBLEM, 404), True),
        ([NOT_FOUND], (NO_BRAIN, 404), False),
        ([NOT_FOUND], ("404 page not found", 404, "text/plain"), False),
        ([NOT_FOUND], (NOT_FOUND, 403), False),
        ([NOT_FOUND], (NOT_FOUND, 200), False),
        ([NOT_FOUND], ("", 405), True),
        ([NOT_FOUND], ("", 501), True),
        ([NOT_FOUND], (NOT_FOUND, 503), False),
    ],
)
def test_an_answer_denies_a_route_by_what_was_learned(nowhere: list[str], said: tuple[str, int], denied: bool) -> None:
    verdict = Verdict(PLATFORM, nowhere=frozenset(mark(body) for body in nowhere))
    assert verdict.denies(*answer(*said)) is denied


def test_a_page_for_every_path_denies_a_route_with_success() -> None:
    verdict = Verdict(PLATFORM, nowhere=frozenset({mark("<p>home</p>", 200, "text/html")}))
    assert verdict.denies(*answer("<p>other</p>", 200, "text/html"))
    assert not verdict.denies(*answer('{"hits": []}', 200))
    assert not verdict.denies(*answer("<p>other</p>", 201, "text/html"))


@pytest.mark.parametrize(
    ("body", "status", "media_type", "said"),
    [
        (PROBLEM, 404, "application/problem+json", True),
        (PROBLEM.replace("no route", "No Route"), 404, "application/json", True),
        (PROBLEM, 400, "application/json", False),
        (PROBLEM, 404, "text/plain", False),
        (NO_BRAIN, 404, "application/json", False),
        ('{"detail": "there is no route for it"}', 404, "application/json", False),
        ('{"detail": ["no route for x"]}', 404, "application/json", False),
        ("no route for x", 404, "application/json", False),
    ],
)
def test_a_problem_may_say_in_words_that_there_is_no_route(body: str, status: int, media_type: str, said: bool) -> None:
    assert names_no_route(*answer(body, status, media_type)) is said


def test_a_lost_route_is_absent_for_a_while_and_then_tried_on_use() -> None:
    clock = Clock()
    search, ask = PLATFORM.routes[Op.SEARCH], PLATFORM.routes[Op.ASK]
    verdict = Verdict(PLATFORM, frozenset({search.name, ask.name}), clock=clock)
    assert verdict.route(Op.SEARCH) is search
    verdict.lose(search.name)
    assert (verdict.present, verdict.absent) == (frozenset({ask.name}), [search.name])
    for op in (Op.SEARCH, Op.SORTED_SEARCH, Op.AGENT_SEARCH):
        with pytest.raises(Absent):
            verdict.route(op)
    assert verdict.route(Op.ASK) is ask
    clock.now += ABSENT_SECONDS - 0.001
    with pytest.raises(Absent):
        verdict.route(Op.SEARCH)
    clock.now += 0.001
    assert verdict.route(Op.SEARCH) is search
    verdict.lose(search.name)
    with pytest.raises(Absent):
        verdict.route(Op.SEARCH)


def test_what_a_dialect_does_not_have_is_absent_for_good() -> None:
    with pytest.raises(Absent):
        Verdict(PLATFORM).route(Op.REFLECT)


def test_two_verdicts_share_nothing() -> None:
    one, other = Verdict(PLATFORM), Verdict(PLATFORM)
    one.lose(PLATFORM.routes[Op.ASK].name)
    assert (len(one.absent), other.absent) == (1, [])
