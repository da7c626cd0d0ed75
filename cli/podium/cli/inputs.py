"""The input of commands that read files or a cluster: the option -f, and loading of files.

YAML and the client are imported only when needed, so that `--help` and small files stay fast.
"""

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from podium.answers.schedulersettings import OverridingSettings
from podium.api.inputnotes import InputNotes
from podium.api.reads import READS, Kind, Reads
from podium.cli import progress
from podium.cli.kubeoptions import KubeOptions
from podium.cli.live import load_live
from podium.cli.options import gathered
from podium.cli.render.words import amounts
from podium.documents.document import Document, DocumentPlace
from podium.documents.load import Loaded, Origins, load_state
from podium.documents.reading import objects_read
from podium.documents.scope import Scope
from podium.documents.sources import STDIN_NAME, InputFiles, read_documents
from podium.errors import NoKubeconfigError, PodiumError
from podium.text import count

if TYPE_CHECKING:
    from podium.planner.settings import Settings

# The end of a YAML document that another one follows.
_NEXT = re.compile(rb"\n---(?=\s|\Z)")
_MB = 1_000_000

__all__ = ["InputFiles", "Loaded", "Origins", "Scope", "load_state"]


def file_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add -f, -R and --strict as one parameter, `files`, and a hint at -f if there is no kubeconfig."""

    @functools.wraps(function)
    def hinting(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except NoKubeconfigError as error:
            raise PodiumError(f"{error}, or read a dump or manifests with -f FILE") from None

    return gathered(hinting, _FILE_OPTIONS, "files", InputFiles)


def stdin_once(names: Sequence[str]) -> Sequence[str]:
    """Return the names unchanged. Raises click.UsageError if standard input would be read twice."""
    if names.count(STDIN_NAME) > 1:
        raise click.UsageError("Standard input (-) is given twice. Give it once.")
    return names


_FILE_OPTIONS = (
    click.option(
        "-f",
        "--filename",
        "names",
        multiple=True,
        metavar="FILE|DIR|-",
        callback=lambda _context, _parameter, names: stdin_once(names),
        help="Input file, folder, glob or - for stdin; JSON, YAML or gzip. Can be repeated, or a comma list.",
    ),
    click.option("-R", "--recursive", is_flag=True, help="Read the subfolders of folders too."),
    click.option(
        "--strict",
        is_flag=True,
        help="Reject duplicate objects, kinds that Podium does not read, and files of folders that are not "
        "objects. Without it they are counted and skipped.",
    ),
)


def load(
    files: InputFiles,
    kube: KubeOptions,
    *,
    reads: Reads = READS,
    keep: Collection[Kind] = (),
) -> Loaded:
    """Return the content of the files if any are named, else of the live cluster.

    Whole documents are kept for the kinds in `keep`. stderr names the files that are skipped.
    """
    if not files.names:
        return load_live(kube, reads, keep)
    notes = InputNotes()
    scope = kube.scope_of_files()
    with progress.working("reading objects") as work:
        loaded = load_state(
            tracked(work, files.names, read_documents(files, notes)),
            strict=files.strict,
            reads=reads,
            keep=keep,
            notes=notes,
            scope=scope,
        )
    say_notes(notes)
    return loaded


class _FileProgress:
    """The bytes of a file whose documents were read."""

    def __init__(self, place: DocumentPlace) -> None:
        path = Path(place.file)
        self.name = place.file
        # A compressed file is smaller than its text.
        self.size = path.stat().st_size if path.is_file() else len(place.text)
        self._length = len(place.text)
        self._read = 0
        self._number = 0
        self._ends = (match.start() for match in _NEXT.finditer(place.text))

    def after(self, document: Document) -> int:
        """Return the bytes up to the end of a document, the next of the file."""
        if not isinstance(document.body, dict):
            self._read += len(memoryview(document.body))
        while isinstance(document.body, dict) and self._number < document.place.number:
            self._read = next(self._ends, self._length)
            self._number += 1
        return self.size * self._read // self._length


def tracked(work: progress.Work, names: Sequence[str], documents: Iterable[Document]) -> Iterator[Document]:
    """Yield the documents of input files, with their number and, of large files, the bytes that were read.

    The total is known unless a name is no file.
    """
    files = [Path(name) for name in {*names}]
    total = sum(file.stat().st_size for file in files) if all(file.is_file() for file in files) else 0
    of_total = f" of {total / _MB:,.0f}" if total else ""
    ended, current = 0, None
    for document in work.track(documents):
        if current is None or current.name != document.place.file:
            ended += current.size if current is not None else 0
            current = _FileProgress(document.place)
        read = ended + current.after(document)
        if max(read, total) >= _MB:
            work.note = f", {read / _MB:,.0f}{of_total} MB"
        yield document


def read_another(
    name: str, notes: InputNotes | None = None, files: InputFiles | None = None
) -> Iterator[Document]:
    """Yield the objects of a further file or folder of a command; stderr names what is skipped at the end.

    It is read like `files`, the command's own, if they are given. `notes` may have further notes of its
    reader. Raises PodiumError.
    """
    notes = InputNotes() if notes is None else notes
    yield from read_documents((files or InputFiles())._replace(names=[name]), notes)
    say_notes(notes)


def say_notes(notes: InputNotes) -> None:
    """Write to stderr which files a reading skipped, and which objects it replaced."""
    for line in notes.lines():
        progress.write_line(line)


def overriding_settings(config: str | None, plugins: Sequence[str]) -> OverridingSettings | None:
    """Return the settings of a WhatIfConfiguration, if a file is given, and of --plugin; None without both.

    The file is read when they are chosen.
    """
    if config is None and not plugins:
        return None

    def over(base: "Settings") -> "Settings":
        from podium.answers.schedulerfile import read_settings  # noqa: PLC0415 - pydantic takes 0.1 s to import

        base = base._replace(plugins=tuple(dict.fromkeys((*base.plugins, *plugins))))
        return base if config is None else read_settings(config, base)

    return OverridingSettings(config or "--plugin", over)


def check_read(loaded: Loaded, command: str) -> None:
    """Raise click.UsageError if files had no object that a command reads."""
    if not objects_read(loaded) and Kind.POD in loaded.state.unread:
        raise nothing_read(loaded.skipped, loaded.notes, command)


def nothing_read(skipped: Mapping[str, int], notes: InputNotes, command: str) -> click.UsageError:
    """Return the error of a command whose input has no object that it reads; `skipped` counts by kind."""
    parts = amounts(skipped)
    if notes.skipped:
        parts.append(f"{count(len(notes.skipped), 'document')}, such as {notes.skipped[0]}")
    why = f" (skipped: {', '.join(parts)})" if parts else ""
    return click.UsageError(f"The input has no object that {command} reads{why}. Check the path.")
