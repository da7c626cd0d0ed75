"""The output of a finished report: standard output, or a file that is replaced completely or not at all."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from podium import files
from podium.cli.render.data import as_manifests
from podium.cli.render.text import Layout
from podium.errors import PodiumError
from podium.wording import some

# A table's width in columns: minimum, maximum (longer lines are hard to read), and default.
NARROWEST, WIDEST, USUAL = 60, 140, 100


class Terminal(NamedTuple):
    """The width of a table, and whether it has colour."""

    width: int
    colour: bool


def terminal(*, to_file: bool) -> Terminal:
    """Return the width of a table (from COLUMNS or the terminal), and whether it has colour.

    Only output to a terminal has colour.
    """
    plain = to_file or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb"
    columns = shutil.get_terminal_size((USUAL, 0)).columns
    return Terminal(min(max(columns, NARROWEST), WIDEST), colour=not plain and not os.environ.get("NO_COLOR"))


def layout(*, to_file: bool) -> Layout:
    """Return a layout for tables on the terminal."""
    width, colour = terminal(to_file=to_file)
    return Layout(width=width, colour=colour)


def deliver(text: str, output_file: str | None) -> None:
    """Write a report as UTF-8 to standard output, or to a file, whose path is then named on stderr.

    Raises PodiumError if the file cannot be written; its old content then stays.
    """
    # A file name from the command line may contain bytes that are not text: they are written as escapes.
    data = text.encode("utf-8", "backslashreplace")
    if output_file is None:
        to_stdout(data)
        return
    try:
        files.replace(Path(output_file), lambda file: file.write(data))
    except BrokenPipeError:
        raise  # The reader has exited; main() handles that.
    except OSError as error:
        raise _unwritten(output_file, error) from error
    click.echo(f"wrote {output_file}", err=True)


def write_manifests(folder: str, manifests: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """Write documents as YAML into a new folder, by file path in it, all or none; stderr names the folder.

    Without documents no folder is created. Raises PodiumError if it cannot be written, or is not empty.
    """
    if not manifests:
        click.echo(f"podium: there is no manifest to write; {folder} is not made", err=True)
        return
    contents = {name: as_manifests(each).encode() for name, each in manifests.items()}
    try:
        files.make_folder(Path(folder), contents)
    except OSError as error:
        raise PodiumError(
            f"--output-dir: {folder} cannot be written: {error.strerror}; name one that is new, or empty"
        ) from None
    click.echo(f"podium: wrote {some(contents)} to {folder}", err=True)


def to_stdout(data: bytes) -> None:
    """Write all data to standard output. Raises PodiumError if that fails."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise  # as above
    except OSError as error:
        # Data left in the buffer would fail again, with a traceback, at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise _unwritten("standard output", error) from error


def _unwritten(where: str, error: OSError) -> PodiumError:
    return PodiumError(f"{where}: the report cannot be written there: {error.strerror}")
