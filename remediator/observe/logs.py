"""Structured logs: one JSON object a line on standard output, UTC, without secrets."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from remediator.clock import Clock, SystemClock, rfc3339
from remediator.observe.redact import clean

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str = "info", *, clock: Clock | None = None, stream: TextIO | None = None) -> None:
    """Send all logs, those of libraries too (from `warning` up), through one redacting JSON chain."""
    lowest = LEVELS[level]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _stamp(clock or SystemClock()),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
        logger_factory=structlog.WriteLoggerFactory(file=stream or sys.stdout),
    )
    logging.basicConfig(handlers=[_Library()], level=max(lowest, logging.WARNING), force=True)


def logger(**bound: Any) -> FilteringBoundLogger:
    """A logger that writes the `bound` fields with every record."""
    return cast(FilteringBoundLogger, structlog.get_logger(**bound))


def render(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """The record as one line of ASCII JSON: secrets hidden, control characters escaped."""
    first = {key: event.pop(key, None) for key in ("time", "level", "event")}
    line = json.dumps(clean({**first, **event}), separators=(",", ":"), allow_nan=False)
    return line.replace("\x7f", "\\u007f")  # the one control character that JSON leaves as it is


def _stamp(clock: Clock) -> Processor:
    def stamp(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["time"] = rfc3339(clock.now())
        return event

    return stamp


class _Library(logging.Handler):
    """Hands records of the standard `logging` module to the chain."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; its own level names are mapped to the four of ours."""
        name = next((name for name, least in reversed(LEVELS.items()) if record.levelno >= least), "debug")
        method = getattr(logger(library=record.name), name)
        method("%s", _message(record), exc_info=record.exc_info)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        return str(record.msg)  # arguments that do not fit: the text alone still says something
