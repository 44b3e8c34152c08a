"""The failures a caller can see."""

import ast
from pathlib import Path

import pytest

from gateway.operations.errors import CATALOGUE, Absent, GatewayError, StreamBroken

SOURCES = sorted((Path(__file__).parents[3] / "gateway").rglob("*.py"))
CODES = {
    "no_brain",
    "not_found",
    "validation_error",
    "unauthorized",
    "forbidden",
    "insufficient_scope",
    "conflict",
    "file_too_large",
    "payload_too_large",
    "file_not_allowed",
    "fetch_blocked",
    "fetch_failed",
    "not_implemented",
    "rate_limited",
    "timeout",
    "outcome_unknown",
    "stream_truncated",
    "upstream_unavailable",
    "upstream_error",
}
WORTH_ANOTHER_TRY = {"fetch_failed", "rate_limited", "timeout", "stream_truncated", "upstream_unavailable"}


def test_the_codes_are_these_and_no_others() -> None:
    assert set(CATALOGUE) == CODES


def test_only_what_may_pass_by_itself_is_worth_another_try() -> None:
    assert {code for code in CATALOGUE if GatewayError(code).retryable} == WORTH_ANOTHER_TRY


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_message_is_a_whole_sentence(code: str) -> None:
    message = GatewayError(code).message
    assert message[0].isupper()
    assert message.endswith(".")
    assert "\n" not in message


def test_a_code_outside_the_list_cannot_be_raised() -> None:
    with pytest.raises(KeyError):
        GatewayError("internal_error")


def codes_raised(path: Path) -> set[str]:
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return {
        str(call.args[0].value)
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id in {"GatewayError", "StreamBroken"}
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_every_code_written_down_anywhere_is_in_the_list(path: Path) -> None:
    assert codes_raised(path) <= CODES


def test_the_codes_written_down_are_found() -> None:
    assert set.union(*map(codes_raised, SOURCES)) >= {"validation_error", "stream_truncated", "outcome_unknown"}


def test_an_error_is_told_by_code_message_and_whether_to_try_again() -> None:
    assert GatewayError("conflict").as_json("r1") == {
        "code": "conflict",
        "message": "Something else is stored under that name.",
        "retryable": False,
        "request_id": "r1",
    }


def test_an_error_can_be_worded_and_carry_more() -> None:
    error = GatewayError(
        "rate_limited", "Wait a little.", retryable=False, retry_after_seconds=0, extra={"appended": 2, "remaining": 1}
    )
    assert error.as_json("r2") == {
        "code": "rate_limited",
        "message": "Wait a little.",
        "retryable": False,
        "retry_after_seconds": 0,
        "request_id": "r2",
        "appended": 2,
        "remaining": 1,
    }
    assert str(error) == "rate_limited: Wait a little."


def test_what_one_error_carries_is_not_shared_with_the_next() -> None:
    shared = {"appended": 1}
    error = GatewayError("timeout", extra=shared)
    error.extra["appended"] = 2
    assert shared == {"appended": 1}
    assert GatewayError("timeout").extra == {}


def test_a_broken_stream_is_an_error_and_an_absence_is_not() -> None:
    assert issubclass(StreamBroken, GatewayError)
    assert not issubclass(Absent, GatewayError)
