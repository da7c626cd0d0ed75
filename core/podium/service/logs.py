"""Logs of any of our processes: one JSON object a line for machines, aligned lines for a terminal.

Everything goes one way, the libraries' records too. Of those only warnings and worse are let through at any
level, since below it they write what must never be logged (kubernetes_asyncio: the bodies of responses). Each
is one line; that is also how an event loop tells of an error that reached nobody. With its traceback where
that leads through code of ours, for then the bug may be ours, too; else a library stumbled by itself, as
uvloop does over a connection that is given up while it is made.
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
    """Make every log of the process go to `stream`; `level` is debug, info, warning or error."""
    render: tuple[Processor, ...] = (
        (structlog.processors.format_exc_info, _ordered, structlog.processors.JSONRenderer())
        if style == "json"
        else (_console(stream),)
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


def teller(log: FilteringBoundLogger) -> Callable[[str, Mapping[str, object]], None]:
    """Give what says an event with its fields: as a warning where they tell of an error."""

    def say(event: str, fields: Mapping[str, object]) -> None:
        (log.warning if "error" in fields else log.info)(event, **fields)

    return say


def _console(stream: TextIO) -> Processor:
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty(),
        sort_keys=False,
        timestamp_key="time",
        exception_formatter=structlog.dev.plain_traceback,
    )


def _ordered(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:  # noqa: ARG001 - a processor
    """Put first what a reader looks for first."""
    return {key: event.pop(key) for key in _FIRST if key in event} | dict(event)


class _Libraries(logging.Handler):
    """Passes what libraries log on to our own logs."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record as an event."""
        event, *more = record.getMessage().splitlines() or [""]
        said: dict[str, Any] = {"logger": record.name}
        if more:
            said["more"] = "; ".join(more)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            write = traceback.format_exception if _is_ours(error) else traceback.format_exception_only
            said["error"] = "".join(write(error)).rstrip()
        self._log.log(record.levelno, event, **said)


def _is_ours(error: BaseException | None) -> bool:
    """Say whether code of ours was being run when it was raised, or one that it came from."""
    while error is not None:
        frames = traceback.walk_tb(error.__traceback__)
        if any(str(frame.f_globals.get("__name__")).startswith("podium.") for frame, _ in frames):
            return True
        error = error.__cause__ or error.__context__
    return False
