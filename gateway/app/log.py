"""Logging: one structured line an event, to stderr, because stdout belongs to MCP over stdio."""

import errno
import logging
import sqlite3
import sys
import traceback
from pathlib import Path
from typing import Any

import structlog

_FRAMES = 12
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str, format_: str) -> None:
    """Set up structlog, and send the libraries' own warnings the same way."""
    readable = format_ == "text" or (format_ == "auto" and sys.stderr.isatty())
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_message,
        *([_printable, structlog.dev.ConsoleRenderer()] if readable else [structlog.processors.JSONRenderer()]),
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    _adopt_standard_logging(level)


def _without_message(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """An exception as its type and the places it came through; its message may quote what a caller sent."""
    said = event.pop("exc_info", None)
    error = sys.exc_info()[1] if said is True else said
    if isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
        places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
        event["error"], event["where"] = type(error).__name__, places
        if reason := _reason(error):
            event["reason"] = reason
    return event


def _reason(error: BaseException) -> str | None:
    """Why the system or SQLite would not do something, by the name that they have for it: such names quote nobody."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorname", None)
    return errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else None


def _printable(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Nothing that a terminal would act on."""
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
        # Of a task that nobody waited for it goes on with the words of its failure.
        return said.partition("\n")[0] if record.name == "asyncio" else said
    except (KeyError, TypeError, ValueError):  # a library's own slip must not fail the call it was made in
        return str(record.msg)


def _adopt_standard_logging(level: str) -> None:
    root = logging.getLogger()
    root.handlers[:] = [_ToStructlog()]
    # Libraries speak up from warning on: at info they would add a line or more to each of ours.
    root.setLevel(max(_LEVELS[level], logging.WARNING))
