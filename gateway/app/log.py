"""Logging: one structured line for each event, to stderr, because stdout belongs to MCP over stdio."""

import errno
import json
import logging
import sqlite3
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Final

import orjson
import structlog

_FRAMES = 12
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def is_text(format_: str) -> bool:
    """Whether the log is text for a person; else every line is JSON."""
    return format_ == "text" or (format_ == "auto" and sys.stderr.isatty())


def configure(level: str, format_: str) -> None:
    """Set up structlog, and send the libraries' own warnings the same way."""
    # One function for a line of JSON: each call writes one, and every further function would take time.
    structlog.configure(
        processors=[_add_facts, _printable, structlog.dev.ConsoleRenderer()] if is_text(format_) else [_as_json],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    _adopt_standard_logging(level)


_ENCODER: Final = json.JSONEncoder(default=repr)


def _as_json(logger: Any, method: str, event: structlog.typing.EventDict) -> str:
    event = _add_facts(logger, method, event)
    try:
        line = orjson.dumps(event, default=repr)
        # Beyond ASCII there are characters that some readers take for the end of a line.
        if line.isascii() and b"\x7f" not in line:
            return line.decode()
    except TypeError:
        # It has a number of more than 64 bits, or half a pair of surrogates.
        pass
    return _ENCODER.encode(event)


def _add_facts(_logger: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Adds the level, the time and, for an exception, its type and the places in the code.

    The message of an exception is left out: it may quote what a caller sent.
    """
    event["level"], event["timestamp"] = method, _now()
    said = event.pop("exc_info", None) if "exc_info" in event else None
    error = sys.exc_info()[1] if said is True else said
    if isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
        places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
        event["error"], event["where"] = type(error).__name__, places
        if reason := _reason(error):
            event["reason"] = reason
    return event


_SECOND: list[Any] = [0, ""]


def _now() -> str:
    """The time in UTC, to the microsecond; the second of it is written once."""
    second, fraction = divmod(time.time_ns() // 1000, 1_000_000)
    if _SECOND[0] != second:
        _SECOND[:] = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
    return f"{_SECOND[1]}.{fraction:06d}Z"


def _reason(error: BaseException) -> str | None:
    """The system's or SQLite's name for a failure. Such names never quote a caller."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorname", None)
    return errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else None


def _printable(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Removes characters that control a terminal."""
    return {name: _escaped(value) if isinstance(value, str) else value for name, value in event.items()}


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class _ToStructlog(logging.Handler):
    """Hands records of the standard library to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = {"logger": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            fields["exc_info"] = record.exc_info[1]
        # Libraries may have levels of their own; structlog knows the five.
        level = max(logging.DEBUG, min(logging.CRITICAL, record.levelno // 10 * 10))
        structlog.get_logger().log(level, _message(record), **fields)


def _message(record: logging.LogRecord) -> str:
    try:
        said = record.getMessage()
        # For a task that nothing awaited, the message goes on with the words of its failure, which are left out.
        return said.partition("\n")[0] if record.name == "asyncio" else said
    except (KeyError, TypeError, ValueError):  # a library's mistake in a log line must not fail a call
        return str(record.msg)


def _adopt_standard_logging(level: str) -> None:
    root = logging.getLogger()
    root.handlers[:] = [_ToStructlog()]
    # Libraries log from warning on, because at info they would add a line or more to each of ours.
    root.setLevel(max(_LEVELS[level], logging.WARNING))
