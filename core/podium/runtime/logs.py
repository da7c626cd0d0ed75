"""Logging for all our processes: one JSON object a line for machines, aligned lines for a terminal.

The libraries' records take the same path. Only their warnings and errors pass, at any level, because below
that they log secrets (kubernetes_asyncio: response bodies). Each record is one line; an event loop reports
unhandled errors this way too. If the traceback of an error passes through our code, it is logged too, because
the bug may be ours. Other errors are the library's own, as when uvloop closes a connection that was abandoned
during its set-up.
"""

import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

Format = Literal["json", "text"]

_FIRST = ("time", "level", "event")


def configure(style: Format, level: str, stream: TextIO = sys.stderr) -> FilteringBoundLogger:
    """Send every log of the process to `stream`; `level` is debug, info, warning or error."""
    render: tuple[Processor, ...] = (
        (structlog.processors.format_exc_info, _ordered, structlog.processors.JSONRenderer())
        if style == "json"
        else (_console(),)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            *render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    log = cast("FilteringBoundLogger", structlog.get_logger().bind())
    logging.basicConfig(handlers=[_Libraries(log)], level=logging.WARNING, force=True)
    return log


def event_logger(log: FilteringBoundLogger) -> Callable[[str, Mapping[str, object]], None]:
    """Return a function that logs an event with its fields: as a warning if there is an `error` field."""

    def log_event(event: str, fields: Mapping[str, object]) -> None:
        (log.warning if "error" in fields else log.info)(event, **fields)

    return log_event


def _console() -> Processor:
    return structlog.dev.ConsoleRenderer(
        colors=False,  # Standard error escapes them, as it does those in a name.
        sort_keys=False,
        timestamp_key="time",
        exception_formatter=structlog.dev.plain_traceback,
    )


def _ordered(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:  # noqa: ARG001 - a processor
    """Return the fields with time, level and event first."""
    return {key: event.pop(key) for key in _FIRST if key in event} | dict(event)


class _Libraries(logging.Handler):
    """Forwards the records of libraries to our own log."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record as an event."""
        event, *more = record.getMessage().splitlines() or [""]
        logged_fields: dict[str, Any] = {"logger": record.name}
        if more:
            logged_fields["more"] = "; ".join(more)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            write = traceback.format_exception if _is_ours(error) else traceback.format_exception_only
            logged_fields["error"] = "".join(write(error)).rstrip()
        self._log.log(record.levelno, event, **logged_fields)


def _is_ours(error: BaseException | None) -> bool:
    """Return whether the traceback of the error, or of one of its causes, passes through our code."""
    while error is not None:
        frames = traceback.walk_tb(error.__traceback__)
        if any(str(frame.f_globals.get("__name__")).startswith("podium.") for frame, _ in frames):
            return True
        error = error.__cause__ or error.__context__
    return False


# Limit log lines whose number a client controls: a few of each kind in a period, the others counted.
#
# Otherwise a client could fill the disk with logs.


# The lines of one kind that a process writes in a minute.
LINES_A_MINUTE = 10


class Seldom:
    """Decides which lines to write; `clock` is in seconds. Kinds must be a closed set."""

    def __init__(self, lines: int, period: float, clock: Callable[[], float]) -> None:
        self._lines = lines
        self._period = period
        self._clock = clock
        # By kind: the start of the period, the lines written in it, and the lines dropped since the last
        # written one.
        self._kinds: dict[str, tuple[float, int, int]] = {}

    def admit_line(self, kind: str) -> int | None:
        """Return the number of lines dropped before this one; None if this one must be dropped too."""
        now = self._clock()
        began, written, left_out = self._kinds.get(kind, (now, 0, 0))
        if now - began >= self._period:
            began, written = now, 0
        if written >= self._lines:
            self._kinds[kind] = (began, written, left_out + 1)
            return None
        self._kinds[kind] = (began, written + 1, 0)
        return left_out
