"""From a platform's refusal to ours."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.operations.errors import CATALOGUE, Doubt, Unsure
from gateway.operations.table import Op
from gateway.upstream.detect.refusal import from_refusal, is_own_answer, problem_of, retry_after, says_no_such_route

# A busy machine is no failure.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

CODE_BY_STATUS = {
    300: "upstream_error",
    302: "upstream_error",
    304: "upstream_error",
    400: "validation_error",
    401: "unauthorized",
    402: "upstream_error",
    403: "forbidden",
    404: "no_brain",
    408: "timeout",
    409: "conflict",
    410: "upstream_error",
    413: "payload_too_large",
    415: "validation_error",
    418: "upstream_error",
    422: "validation_error",
    425: "upstream_error",
    429: "rate_limited",
    500: "upstream_error",
    502: "upstream_unavailable",
    503: "upstream_unavailable",
    504: "timeout",
    520: "upstream_error",
    599: "upstream_error",
}
WRITES = sorted(op for op in Op if op.writes)
PROBLEM = {"status": 404, "title": "Not Found", "code": "not_found", "detail": "brain not found: secret-brain"}


def response(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, headers=headers)


@pytest.mark.parametrize(("status", "code"), CODE_BY_STATUS.items())
def test_a_refused_read_is_told_by_its_status(status: int, code: str) -> None:
    error = from_refusal(Op.SEARCH, response(status), None)
    assert (error.code, error.retryable) == (code, CATALOGUE[code][1])


@pytest.mark.parametrize(("status", "code"), CODE_BY_STATUS.items())
def test_a_refused_write_is_told_likewise_unless_it_may_have_been_made(status: int, code: str) -> None:
    """A proxy may have lost any of them; what fails on the platform may be stored all the same."""
    for op in WRITES:
        error = from_refusal(op, response(status), None)
        is_in_doubt = status in {502, 504} or (status >= 500 and op.stores)
        # What is moved or removed may be missing itself, and where memos are recorded there are no brains.
        may_miss = {Op.RENAME_DOCUMENT, Op.DELETE_DOCUMENT, Op.RECORD_MEMO}
        told = "not_found" if status == 404 and op in may_miss else code
        expected = "outcome_unknown" if is_in_doubt else told
        assert (error.code, error.retryable) == (expected, CATALOGUE[expected][1]), op
        assert isinstance(error, Unsure) is is_in_doubt
        if isinstance(error, Unsure):
            assert (error.failure.code, error.failure.retryable) == (code, CATALOGUE[code][1])


@pytest.mark.parametrize(
    ("status", "doubt"),
    [
        (500, Doubt.ANSWERED),
        (502, Doubt.LOST),
        (503, Doubt.ANSWERED),
        # A proxy that gave up waiting: the platform may be at it still.
        (504, Doubt.LATE),
        (520, Doubt.ANSWERED),
    ],
)
def test_why_a_write_is_in_doubt_is_read_from_its_status(status: int, doubt: Doubt) -> None:
    error = from_refusal(Op.CREATE_DOCUMENT, response(status), None)
    assert isinstance(error, Unsure)
    assert error.doubt is doubt


@pytest.mark.parametrize("op", WRITES)
def test_a_write_that_was_told_to_wait_was_not_made(op: Op) -> None:
    error = from_refusal(op, response(503, **{"retry-after": "7"}), None)
    assert (error.code, error.retry_after_seconds) == ("upstream_unavailable", 7)


@pytest.mark.parametrize("code", ["fetch_blocked", "fetch_failed", "payload_too_large", "conflict", "rate_limited"])
@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_write_that_failed_for_a_reason_we_share_was_not_made(status: int, code: str) -> None:
    assert from_refusal(Op.INGEST_URL, response(status), {"code": code}).code == code


@pytest.mark.parametrize(
    ("code", "is_own"),
    [("fetch_failed", True), ("conflict", True), ("not_found", False), (None, False), (3, False), ([], False)],
    ids=str,
)
def test_an_answer_in_a_code_that_we_share_is_the_platforms_own(code: Any, is_own: bool) -> None:
    answer = httpx.Response(502, json={"code": code})
    assert is_own_answer(answer, answer.content) is is_own
    assert is_own_answer(httpx.Response(502), b"<html>Bad Gateway</html>") is False


@pytest.mark.parametrize("status", [400, 415, 422])
def test_a_file_or_page_the_platform_cannot_read_is_said_to_be_so(status: int) -> None:
    words = "The platform cannot read this as what it is said to be: markdown, text, JSON or PDF."
    for op in (Op.INGEST_FILE, Op.INGEST_URL):
        assert from_refusal(op, response(status), None).message == words
    assert from_refusal(Op.CREATE_DOCUMENT, response(status), None).message != words
    assert from_refusal(Op.INGEST_FILE, response(413), None).message != words


def test_an_answer_is_no_write() -> None:
    assert from_refusal(Op.ASK, response(504), None).code == "timeout"


@pytest.mark.parametrize("op", [Op.STAT_DOCUMENT, Op.READ_DOCUMENT])
@pytest.mark.parametrize(
    ("detail", "code"),
    [
        ("brain not found: b", "no_brain"),
        ("brain: not found: a.md", "not_found"),
        ("not found: a.md", "not_found"),
        ("pt: read a.md: brain: not found", "not_found"),
    ],
)
def test_a_missing_document_is_told_from_a_missing_brain(op: Op, detail: str, code: str) -> None:
    assert from_refusal(op, response(404), {"code": "not_found", "detail": detail}).code == code


@pytest.mark.parametrize("code", ["fetch_blocked", "fetch_failed", "payload_too_large", "conflict", "rate_limited"])
@pytest.mark.parametrize("status", [400, 422, 502])
def test_a_code_that_means_the_same_here_is_taken_over(code: str, status: int) -> None:
    assert from_refusal(Op.INGEST_URL, response(status), {"code": code}).code == code


@pytest.mark.parametrize(
    "code", ["internal_error", "outcome_unknown", "unauthorized", "", None, 7, ["conflict"], {"conflict": 1}, True]
)
def test_any_other_code_is_read_by_its_status(code: Any) -> None:
    assert from_refusal(Op.CREATE_DOCUMENT, response(400), {"code": code}).code == "validation_error"


@pytest.mark.parametrize("status", CODE_BY_STATUS)
def test_no_word_of_the_platform_is_passed_on(status: int) -> None:
    problem = {"code": "hunter2", "title": "hunter2", "detail": "hunter2 at http://inside", "message": "hunter2"}
    error = from_refusal(Op.SEARCH, response(status, **{"x-debug": "hunter2"}), problem)
    assert "hunter2" not in repr(error.as_json("r")) + str(error)


@pytest.mark.parametrize(
    ("status", "problem", "absent"),
    [
        (405, None, True),
        (405, {"code": "method_not_allowed"}, True),
        (501, None, True),
        (404, None, True),
        (404, {"code": "not_found", "detail": "no route for POST /v1/brains/x/ask"}, True),
        (404, {"code": "not_found", "detail": "No route for GET /x"}, True),
        (404, PROBLEM, False),
        (404, {"code": "not_found", "detail": "there is no route for that"}, False),
        (404, {}, False),
        (404, {"detail": None}, False),
        (400, None, False),
        (401, None, False),
        (403, None, False),
        (410, None, False),
        (429, None, False),
        (500, None, False),
        (503, {"detail": "no route for POST /x"}, False),
        (302, None, False),
    ],
)
def test_only_a_routers_own_words_are_an_absent_route(
    status: int, problem: dict[str, Any] | None, absent: bool
) -> None:
    assert says_no_such_route(response(status), problem) is absent


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0),
        ("-0.5", None),
        ("1", 1),
        ("120", 120),
        (" 5 ", 5),
        ("0.2", 1),
        ("86399", 86_399),
        ("86400", None),
        ("1e9", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("9" * 400, None),
        ("", None),
        ("soon", None),
        ("1, 2", None),
        ("Mon, 01 Jan 2001 00:00:00 GMT", None),
        ("Mon, 01 Jan 2999 00:00:00 GMT", None),
        ("Mon, 99 Jan 2024 00:00:00 GMT", None),
        ("Mon, 01 Jan 2024 00:00:00 -0000", None),
        ("Mon, 01 Jan 2024 00:00:00 +9999", None),
        ("Mon, 01 Jan 2024 00:00:00 +99999999999999999999", None),
    ],
)
def test_how_long_to_wait_is_read_in_seconds_or_not_at_all(header: str | None, seconds: int | None) -> None:
    assert retry_after(header) == seconds


def test_how_long_to_wait_is_read_from_a_date_too() -> None:
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    seconds = retry_after(format_datetime(in_an_hour, usegmt=True))
    assert seconds is not None
    assert 3500 < seconds <= 3600


@UNHURRIED
@given(st.text())
def test_no_header_makes_it_fail(header: str) -> None:
    seconds = retry_after(header)
    assert seconds is None or 0 <= seconds <= 86_400


@UNHURRIED
@given(
    st.from_regex(r"[A-Z][a-z]{2}, [0-9]{1,4} [A-Z][a-z]{2} [0-9]{1,6} [0-9:]{1,12} [+-][0-9]{1,25}", fullmatch=True)
)
def test_no_date_makes_it_fail(header: str) -> None:
    seconds = retry_after(header)
    assert seconds is None or 0 <= seconds <= 86_400


def test_how_long_to_wait_is_told_to_the_caller() -> None:
    error = from_refusal(Op.SEARCH, response(429, **{"retry-after": "7"}), None)
    assert (error.code, error.retryable, error.retry_after_seconds) == ("rate_limited", True, 7)
    assert from_refusal(Op.SEARCH, response(429), None).retry_after_seconds is None


@pytest.mark.parametrize("body", [b"[" * 100_000, b"[" * 600 + b'"\\ud83d"' + b"]" * 600, b"\xff", b"", b"[]", b"7"])
def test_a_refusal_that_explains_nothing_has_no_problem(body: bytes) -> None:
    answer = httpx.Response(400, headers={"content-type": "application/problem+json"}, content=body)
    assert problem_of(answer, body) is None


def test_a_problem_is_read_from_any_kind_of_json_and_from_nothing_else() -> None:
    body = b'{"code": "conflict"}'
    for media_type, found in (
        ("application/problem+json", True),
        ("application/json; x=y", True),
        ("text/plain", False),
    ):
        answer = httpx.Response(409, headers={"content-type": media_type}, content=body)
        assert problem_of(answer, body) == ({"code": "conflict"} if found else None)


@pytest.mark.parametrize(
    ("detail", "code"),
    [
        ("fetch https://nosuch.invalid/: fetch failed", "fetch_failed"),
        ("request to private network blocked", "fetch_blocked"),
        ("disk full", "upstream_error"),
    ],
)
def test_a_page_that_a_daemon_could_not_fetch_is_told_as_that(detail: str, code: str) -> None:
    problem = {"status": 500, "code": "internal_error", "detail": detail}
    error = from_refusal(Op.INGEST_URL, httpx.Response(500), problem)
    assert (error.failure if isinstance(error, Unsure) else error).code == code
    assert isinstance(error, Unsure) is (code == "upstream_error"), "a page that was not fetched was not stored"
    assert from_refusal(Op.SEARCH, httpx.Response(500), problem).code == "upstream_error"


@pytest.mark.parametrize(
    ("status", "said"), [(507, None), (507, "internal_error"), (403, "quota_exceeded"), (429, "insufficient_storage")]
)
def test_a_platform_that_is_full_says_so_and_has_stored_nothing(status: int, said: str | None) -> None:
    error = from_refusal(Op.WRITE_DOCUMENT, response(status), None if said is None else {"code": said})
    assert (error.code, error.retryable) == ("payload_too_large", False)
    assert "quota" in error.message
    assert not isinstance(error, Unsure)


def test_a_token_that_may_not_even_list_brains_is_named() -> None:
    assert "BRAINS_UPSTREAM_TOKEN" in from_refusal(Op.LIST_BRAINS, httpx.Response(403), None).message
    assert "BRAINS_UPSTREAM_TOKEN" not in from_refusal(Op.SEARCH, httpx.Response(403), None).message
