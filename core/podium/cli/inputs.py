"""What every command that reads a cluster shares: -f, the kubectl flags, -o, and loading.

Click and the standard library only at import: YAML and the client are imported where they are needed.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from podium.documents import Document, split
from podium.errors import PodiumError
from podium.load import Loaded, Origins, Scope, load_state

__all__ = ["Loaded", "Origins", "Scope", "load_state"]

Function = TypeVar("Function", bound=Callable[..., Any])

STDIN = "<stdin>"
_EXTENSIONS = (".json", ".yaml", ".yml")


def file_options(function: Function) -> Function:
    """Add -f/--filename (`filenames`) and --strict (`strict`)."""
    function = click.option(
        "--strict", is_flag=True, help="Refuse input of kinds Podium does not read, instead of counting it."
    )(function)
    return click.option(
        "-f",
        "--filename",
        "filenames",
        multiple=True,
        metavar="FILE|DIR|-",
        help="Read objects from a file, the manifests directly in a folder, or stdin (JSON, YAML, gzip). "
        "May be given several times.",
    )(function)


def output_options(*formats: str) -> Callable[[Function], Function]:
    """Add -o/--output (`output`, the first format is the default) and --output-file (`output_file`)."""

    def decorate(function: Function) -> Function:
        function = click.option(
            "--output-file",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help="Write there, not to stdout.",
        )(function)
        return click.option(
            "-o",
            "--output",
            type=click.Choice(formats),
            default=formats[0],
            show_default=True,
            help="Format.",
        )(function)

    return decorate


def read_documents(filenames: Sequence[str]) -> Iterator[Document]:
    """Give the objects of every file, folder (not deeper, as kubectl) and stdin, in the order given.

    Raises PodiumError for what cannot be read, and for a file or folder that holds no object.
    """
    for filename in filenames:
        empty = True
        for name, data in _files(filename):
            for document in split(data, name):
                empty = False
                yield document
        if empty:
            raise PodiumError(f"{STDIN if filename == '-' else filename}: holds no Kubernetes object")


def _files(filename: str) -> Iterator[tuple[str, bytes]]:
    if filename == "-":
        yield STDIN, sys.stdin.buffer.read()
        return
    path = Path(filename)
    try:
        if not path.is_dir():
            yield filename, path.read_bytes()
            return
        for entry in sorted(path.iterdir()):
            plain = entry.name.removesuffix(".gz")
            if plain.endswith(_EXTENSIONS) and entry.is_file():
                yield str(entry), entry.read_bytes()
    except OSError as error:
        raise PodiumError(f"{error.filename or filename}: cannot be read: {error.strerror}") from None
