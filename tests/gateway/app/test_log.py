"""Logging: one line an event, on stderr, with nothing in it that is not ours to tell."""

import errno
import json
import logging
import sqlite3
import sys
from contextlib import closing
from typing import Any

import pytest
import structlog

from gateway.app import log


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.out == "", "stdout belongs to MCP over stdio"
    return [json.loads(line) for line in captured.err.splitlines()]


def test_an_event_is_one_line_of_json_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "json")
    structlog.get_logger().info("call.served", tool="memory_search", ms=1.5)

    (line,) = lines(capsys)
    timestamp = line.pop("timestamp")
    assert line == {"event": "call.served", "tool": "memory_search", "ms": 1.5, "level": "info"}
    assert timestamp.endswith("Z")


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", '"}\n{"event":"forged', "\x1b[31mred", "a\u2028b", "größe", "\x00"])
def test_no_value_can_begin_a_line_of_its_own(capsys: pytest.CaptureFixture[str], text: str) -> None:
    log.configure("info", "json")
    structlog.get_logger().warning("note.stored", brain=text)
    logging.getLogger("library").warning("said %s", text)

    own, library = lines(capsys)
    assert own["brain"] == text
    assert library["event"] == f"said {text}"


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_what_is_below_the_level_is_not_logged(
    capsys: pytest.CaptureFixture[str], level: str, heard: list[str]
) -> None:
    log.configure(level, "json")
    for method in ("debug", "info", "warning", "error"):
        getattr(structlog.get_logger(), method)("x.done")
    assert [line["level"] for line in lines(capsys)] == heard


@pytest.mark.parametrize(("level", "heard"), [("debug", ["warning", "error"]), ("error", ["error"])])
def test_libraries_speak_up_from_warning_on_and_the_same_way(
    capsys: pytest.CaptureFixture[str], level: str, heard: list[str]
) -> None:
    log.configure(level, "json")
    for method in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger("httpx"), method)("%s of theirs", "word")
    found = lines(capsys)
    assert [line["level"] for line in found] == heard
    assert {(line["event"], line["logger"]) for line in found} == {("word of theirs", "httpx")}


def test_a_traceback_of_a_library_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "json")
    try:
        raise ValueError("hunter2")
    except ValueError:
        logging.getLogger("library").exception("Exception in ASGI application")

    (line,) = lines(capsys)
    assert line["error"] == "ValueError"
    assert "hunter2" not in json.dumps(line)


@pytest.mark.parametrize(("number", "name"), [(35, "warning"), (49, "error"), (50, "critical"), (99, "critical")])
def test_a_level_of_a_librarys_own_making_is_rounded_down(
    capsys: pytest.CaptureFixture[str], number: int, name: str
) -> None:
    log.configure("info", "json")
    logging.getLogger("library").log(number, "unusual")
    assert [line["level"] for line in lines(capsys)] == [name]


def test_a_slip_in_a_librarys_message_fails_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "json")
    logging.getLogger("library").warning("%d of %d", "one")
    assert [line["event"] for line in lines(capsys)] == ["%d of %d"]


def test_a_failure_of_ours_is_logged_with_its_place_and_not_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "json")
    try:
        raise KeyError("hunter2")
    except KeyError:
        structlog.get_logger().exception("call.crashed")

    (line,) = lines(capsys)
    assert line["level"] == "error"
    assert line["error"] == "KeyError"
    assert line["where"][-1].startswith("test_log.py:")
    assert "hunter2" not in json.dumps(line)


def test_text_is_for_terminals_and_asked_for_or_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.configure("info", "text")
    structlog.get_logger().info("call.served", tool="memory_search")
    asked_for = capsys.readouterr()
    assert "call.served" in asked_for.err
    assert not asked_for.err.startswith("{")
    assert asked_for.out == ""

    log.configure("info", "auto")
    structlog.get_logger().info("call.served")
    assert capsys.readouterr().err.startswith("{"), "what is captured is no terminal"

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    log.configure("info", "auto")
    structlog.get_logger().info("call.served")
    assert not capsys.readouterr().err.startswith("{")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/home/someone/secret"), "ENOSPC"),
        (OSError("no number"), None),
        (ValueError("secret"), None),
    ],
)
def test_a_failure_of_the_system_is_logged_with_its_name_for_it(
    capsys: pytest.CaptureFixture[str], error: Exception, reason: str | None
) -> None:
    log.configure("info", "json")
    structlog.get_logger().error("failed", exc_info=error)
    (line,) = lines(capsys)
    assert line.get("reason") == reason
    assert "secret" not in str(line)


def test_a_failure_of_sqlite_is_logged_with_its_name_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "json")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(sqlite3.OperationalError) as caught:
            connection.execute("CREATE TABLE secret (b)")
    logging.getLogger("library").error("failed", exc_info=caught.value)
    (line,) = lines(capsys)
    assert (line["error"], line["reason"]) == ("OperationalError", "SQLITE_FULL")
    assert "secret" not in str(line)
