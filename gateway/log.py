"""Logging: one structured line an event, to stderr, because stdout belongs to MCP over stdio."""

import logging
import sys
from typing import Any

import structlog

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str, format_: str) -> None:
    """Set up structlog, and send the libraries' own warnings the same way."""
    readable = format_ == "text" or (format_ == "auto" and sys.stderr.isatty())
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if readable:
        processors.append(structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback))
    else:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    _adopt_standard_logging(level)


class _ToStructlog(logging.Handler):
    """Hands records of the standard library to structlog. Tracebacks stay out: they quote arguments."""

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = {"logger": record.name}
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = record.exc_info[0].__name__
        # Libraries may have levels of their own; structlog knows the five.
        level = max(logging.DEBUG, min(logging.CRITICAL, record.levelno // 10 * 10))
        structlog.get_logger().log(level, _message(record), **fields)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (KeyError, TypeError, ValueError):  # a library's own slip must not fail the call it was made in
        return str(record.msg)


def _adopt_standard_logging(level: str) -> None:
    root = logging.getLogger()
    root.handlers[:] = [_ToStructlog()]
    # Libraries speak up from warning on: at info they would add a line or more to each of ours.
    root.setLevel(max(_LEVELS[level], logging.WARNING))
