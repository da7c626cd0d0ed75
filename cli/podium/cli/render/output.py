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
from podium.cli.render.text import IN_JSON, Layout
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


def terminal(*, to_file: bool) -> Terminal:
    """Return the width of a table (from COLUMNS or the terminal), and whether it has colour.

    Only output to a terminal has colour.
    """
    plain = to_file or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb"
    columns = shutil.get_terminal_size((USUAL, 0)).columns
    return Terminal(min(max(columns, NARROWEST), WIDEST), colour=not plain and not os.environ.get("NO_COLOR"))


class Output(NamedTuple):
    """The options of a report: its format, its file instead of stdout, and whether columns lack headers."""

    format: str = "table"
    file: str | None = None
    no_headers: bool = False

    def layout(self, complete: str = IN_JSON) -> Layout:
        """Return a layout for a table, or for one of the format `wide`."""
        width, colour = terminal(to_file=self.file is not None)
        wide = self.format == "wide"
        return Layout(
            width=None if wide else width, colour=colour, complete=complete, headers=not self.no_headers
        )

    def report(
        self, table: Callable[[Layout], str], document: Callable[[], dict[str, Any]], complete: str = IN_JSON
    ) -> None:
        """Write a report as JSON, YAML or a table, and make no other form. Raises PodiumError."""
        match self.format:
            case "json" | "yaml":
                text = as_text(document(), self.format)
            case _:
                text = table(self.layout(complete))
        deliver(text, self.file)


def output_options(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add -o/--output (the first format is the default) and --output-file as one parameter, `output`.

    Commands with a table also have --no-headers.
    """
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
        options.append(click.option("--no-headers", is_flag=True, help="Print columns without headers."))
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
    contents = {name: dump_all(each).encode() for name, each in manifests.items()}
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
