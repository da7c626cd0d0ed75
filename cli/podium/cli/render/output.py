"""The output of a finished report: standard output, or a file that is replaced completely or not at all."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from podium.cli.options import gathered
from podium.cli.render.data import as_text
from podium.cli.render.text import Layout
from podium.documents import files
from podium.documents.yamlwriter import dump_all
from podium.errors import PodiumError
from podium.stderr import say
from podium.text import some

# A table's width in columns: minimum, maximum (longer lines are hard to read), and default.
NARROWEST, WIDEST, USUAL = 60, 140, 100


class Terminal(NamedTuple):
    """The width of a table, and whether it has colour."""

    width: int
    colour: bool


class Output(NamedTuple):
    """The options of a report: its format, its file instead of stdout, column headers, and colour."""

    format: str = "table"
    file: str | None = None
    no_headers: bool = False
    color: str = "auto"

    @property
    def terminal(self) -> Terminal:
        """Return the width of a table (from COLUMNS or the terminal), and whether it has colour."""
        columns = shutil.get_terminal_size((USUAL, 0)).columns
        return Terminal(min(max(columns, NARROWEST), WIDEST), colour=self._colour())

    def _colour(self) -> bool:
        """Return whether to use colour: by --color, else NO_COLOR, FORCE_COLOR, and the kind of stdout."""
        if self.color != "auto":
            return self.color == "always"
        if self.file is not None or os.environ.get("NO_COLOR"):
            return False
        shows = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        return shows or bool(os.environ.get("FORCE_COLOR"))

    def report(
        self,
        table: Callable[[Layout], str],
        document: Callable[[], dict[str, Any]],
        **others: Callable[[], str],
    ) -> None:
        """Write a report in its format alone; `others` are by format. Raises PodiumError."""
        if self.format in ("json", "yaml"):
            text = as_text(document(), self.format)
        elif self.format in others:
            text = others[self.format]()
        else:
            width, colour = self.terminal
            wide = self.format == "wide"
            text = table(Layout(width=None if wide else width, colour=colour, headers=not self.no_headers))
        deliver(text, self.file)


def output_options(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add -o/--output (the first format is the default) and --output-file as one parameter, `output`.

    Commands with a table also have the format `wide`, --no-headers and --color.
    """
    if "table" in formats:
        formats = tuple(dict.fromkeys(("table", "wide", *formats)))
    options = [
        click.option(
            "-o",
            "--output",
            "format",
            type=click.Choice(formats),
            default=formats[0],
            show_default=True,
            help="Output format.",
        ),
        click.option(
            "--output-file",
            "file",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help="Output file instead of stdout.",
        ),
    ]
    if "table" in formats:
        options += [
            click.option("--no-headers", is_flag=True, help="Print columns without headers."),
            click.option(
                "--color",
                type=click.Choice(["auto", "always", "never"]),
                default="auto",
                show_default=True,
                help="Use colour. By default on a terminal, as NO_COLOR and FORCE_COLOR say.",
            ),
        ]
    return lambda function: gathered(function, options, "output", Output)


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
    say(f"wrote {output_file}")


def write_manifests(folder: str, manifests: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """Write documents as YAML into a new folder, by file path in it, all or none; stderr names the folder.

    Without documents no folder is created. Raises PodiumError if it cannot be written, or is not empty.
    """
    if not manifests:
        say(f"podium: no manifest to write; {folder} is not created")
        return
    contents = {name: dump_all(manifest).encode() for name, manifest in manifests.items()}
    try:
        files.make_folder(Path(folder), contents)
    except OSError as error:
        raise PodiumError(
            f"--output-dir: {folder}: write failed: {error.strerror}. Use a new or empty folder"
        ) from None
    say(f"podium: wrote {some(contents)} to {folder}")


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
    return PodiumError(f"{where}: write failed: {error.strerror}")
