"""Where a finished report goes: standard output, or a file that is either the old one or all new."""

import os
import secrets
import stat
import sys
from pathlib import Path

import click

from podium.errors import PodiumError


def deliver(text: str, output_file: str | None) -> None:
    """Write a report as UTF-8 to standard output, or to a file, whose path is then named on stderr.

    Raises PodiumError when the file cannot be written; what was there before is then still there.
    """
    # A file name from the command line may hold bytes that are no text: they are written as escapes.
    data = text.encode("utf-8", "backslashreplace")
    try:
        if output_file is None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            _replace(Path(output_file), data)
            click.echo(f"wrote {output_file}", err=True)
    except BrokenPipeError:
        raise  # the reader went away, which main() takes for what it is
    except OSError as error:
        if output_file is None:
            # What is left in the buffer would fail once more, with a traceback, when the process ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        where = output_file or "standard output"
        raise PodiumError(f"{where}: the report cannot be written there: {error.strerror}") from error


def _replace(path: Path, data: bytes) -> None:
    """Write beside the target, then rename over it; what is no regular file is written to as it is."""
    target = Path(os.path.realpath(path))  # a link keeps pointing where it did
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        target.write_bytes(data)
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(data)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
