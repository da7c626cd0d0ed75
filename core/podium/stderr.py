"""Standard error: messages, progress, and the stream that escapes all that a process writes there.

A terminal obeys what it shows, and a runner of CI reads standard error as well as standard output. Names come
from files of strangers, so `say` keeps each message on one line. The stream is for texts that others write:
tracebacks, warnings, logs, and the errors of click.
"""

import io
import os
import sys
from types import TracebackType
from typing import IO

from podium.text import visible, visible_lines

# Moves to the start of a terminal's line and empties it.
_CLEAR = "\r\x1b[K"


class EscapedStream(io.TextIOWrapper):
    """A text stream that writes an escape for each active character, except line breaks."""

    def write(self, text: str, /) -> int:
        """Write a text, escaped."""
        self.control(visible_lines(text))
        return len(text)

    def control(self, text: str) -> None:
        """Write a text as it is."""
        super().write(text)


def escape_stderr() -> None:
    """Escape from now on what the process writes to standard error, as UTF-8."""
    sys.excepthook = _print_traceback
    if sys.stderr is None:  # closed before the start (`2>&-`)
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - open as long as the process
    elif isinstance(sys.stderr, io.TextIOWrapper):
        # The interpreter's own stream stays open, for its messages after the end of this one.
        binary = open(sys.stderr.fileno(), "wb", closefd=False)  # noqa: SIM115 - as above
        sys.stderr = EscapedStream(binary, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback without the colours of Python 3.13, which would be escaped too."""
    import traceback  # noqa: PLC0415 - few processes end with one

    traceback.print_exception(kind, error, trace)


def say(line: str) -> None:
    """Write a message as one line, whatever its names contain."""
    sys.stderr.write(f"{visible(line)}\n")
    sys.stderr.flush()


def overwrite(stream: IO[str], text: str) -> None:
    """Replace the last line of the terminal behind a stream, without a line break."""
    write = stream.control if isinstance(stream, EscapedStream) else stream.write
    write(_CLEAR + visible(text))
    stream.flush()
