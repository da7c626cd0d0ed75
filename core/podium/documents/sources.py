"""Read the files, folders, globs and standard input that a command names.

A repository is read as it is. A file that the user names must hold objects. A folder also holds values, Helm
templates and kustomize patches: these are skipped and noted, unless the reading is strict.
"""

import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from podium.api.findings import group_of
from podium.api.inputnotes import InputNotes, SkippedInput, SkipReason
from podium.documents import textfile, yamldoc
from podium.documents.document import Document, ReadError, TemplateError
from podium.documents.split import RENDER, split
from podium.errors import PodiumError, PodiumUsageError

STDIN_NAME = "-"
STDIN = "<stdin>"
# A configuration of Podium in a repository, which is no manifest.
OWN_CONFIG = ".podium.yaml"
# The files of a folder that are read.
_EXTENSIONS = (".json", ".yaml", ".yml")
# The scheme that begins a URL.
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
# kustomize reads the first of these in a folder.
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
# The API of kustomizations and their components.
_KUSTOMIZE_GROUP = "kustomize.config.k8s.io"
# The lists of a kustomization whose files are parts of objects, or configure the build.
_KUSTOMIZE_PARTS = (
    *("patches", "patchesStrategicMerge", "patchesJson6902", "replacements"),
    *("transformers", "generators", "validators", "configurations", "crds"),
)
_BUILD = "is a kustomize source, not an object. Build it first: kubectl kustomize DIR | podium ... -f -"


class InputFiles(NamedTuple):
    """The input that a command names: files, folders, globs, `-`; empty is the live cluster.

    `recursive` reads subfolders too. `strict` refuses what is otherwise skipped or replaced.
    """

    names: Sequence[str] = ()
    recursive: bool = False
    strict: bool = False


class KustomizeError(ReadError):
    """A kustomization, or a part of an object that one names."""

    reason = SkipReason.KUSTOMIZE


class _File(NamedTuple):
    """A file to read; `found` in a folder or by a glob, not named by the user.

    `kustomize` and `chart` are files that a kustomization or a Helm chart builds objects from.
    """

    path: str
    found: bool = False
    kustomize: bool = False
    chart: bool = False


def read_documents(files: InputFiles, notes: InputNotes | None = None) -> Iterator[Document]:
    """Yield the objects of each file in the given order, each file once; `notes` receives what is skipped.

    Raises PodiumError for unreadable input, and PodiumUsageError for a URL or a folder without objects.
    """
    notes = InputNotes() if notes is None else notes
    seen: set[str] = set()
    for name in _names(files.names):
        named = list(_files(name, recursive=files.recursive))
        unseen = list(_unseen(named, seen))
        # A file that was read for an earlier name is not empty.
        empty, before = len(unseen) == len(named), len(notes.skipped)
        for file in unseen:
            for document in _documents(file, notes, strict=files.strict):
                empty = False
                yield document
        if empty:
            where = STDIN if name == STDIN_NAME else name
            why = _reason(notes.skipped[before:])
            # An empty file is most often a command that failed; a folder without objects was a wrong choice.
            mistake = PodiumError if Path(where).is_file() or where == STDIN else PodiumUsageError
            raise mistake(f"{where}: no Kubernetes object found{why}")


def _reason(skipped: Sequence[SkippedInput]) -> str:
    if not skipped:
        return ""
    return f" ({len(skipped):,} skipped, such as {skipped[0]})"


def _names(names: Sequence[str]) -> Iterator[str]:
    """Yield the names of comma lists one by one; a file may have a comma in its name."""
    for name in names:
        if _URL.match(name):
            raise PodiumUsageError(f"{name}: URLs are not read. Use: curl -sSfL {name} | podium ... -f -")
        yield from [name] if "," not in name or Path(name).exists() else name.split(",")


def _unseen(files: Iterable[_File], seen: set[str]) -> Iterator[_File]:
    for file in files:
        real = os.path.realpath(file.path)
        if real not in seen or not Path(real).is_file():
            seen.add(real)
            yield file


def _files(name: str, *, recursive: bool) -> Iterator[_File]:
    if not name:
        raise PodiumError("empty file name. Give a file, a folder, or - for stdin")
    path = Path(name)
    if path.is_dir():
        yield from _found(_folder(path, recursive=recursive))
    elif name == STDIN_NAME or not glob.has_magic(name) or path.exists():
        yield _File(name)
    else:
        # Path.glob takes no absolute pattern.
        matches = [Path(match) for match in sorted(glob.glob(name, recursive=True))]  # noqa: PTH207
        if not matches:
            raise PodiumError(f"{name}: no file matches")
        path_lists = [_folder(match, recursive=recursive) if match.is_dir() else [match] for match in matches]
        yield from _found([path for paths in path_lists for path in paths])


def _folder(folder: Path, *, recursive: bool) -> list[Path]:
    """Return the manifests of a folder in order; hidden subfolders and links to folders are left out."""

    def refuse(error: OSError) -> None:
        raise PodiumError(f"{error.filename or folder}: read failed: {error.strerror}") from None

    manifests = []
    for root, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if recursive and not name.startswith(".")]
        plain = [name for name in names if name.removesuffix(".gz").endswith(_EXTENSIONS)]
        plain = [name for name in plain if name != OWN_CONFIG]
        manifests += [path for path in (Path(root, name) for name in plain) if path.is_file()]
    return sorted(manifests)


def _found(paths: Sequence[Path]) -> Iterator[_File]:
    """Yield files that the user did not name, with the tool that builds objects from them."""
    folders = {path.parent for path in paths}
    parts = {path for folder in folders for path in _kustomize_parts(folder)}
    charts = {folder for folder in folders if _in_chart(folder)}
    for path in paths:
        kustomize = path.name in _KUSTOMIZATIONS or os.path.normpath(path) in parts
        yield _File(str(path), found=True, kustomize=kustomize, chart=path.parent in charts)


def _in_chart(folder: Path) -> bool:
    whole = folder.absolute()
    templates = [ancestor for ancestor in (whole, *whole.parents) if ancestor.name == "templates"]
    return any((template.parent / "Chart.yaml").is_file() for template in templates)


def _kustomize_parts(folder: Path) -> Iterator[str]:
    """Yield the paths that the folder's kustomization reads as patches or settings, not as objects."""
    for path in (folder / name for name in _KUSTOMIZATIONS):
        try:
            values = list(yamldoc.load_all(textfile.expand(_bytes(path)).tobytes())) if path.is_file() else []
        except (OSError, textfile.TextError, yamldoc.YamlError):
            continue
        for value in values:
            for name in _part_names(value):
                yield os.path.normpath(folder / name)


def _part_names(kustomization: Any) -> Iterator[str]:
    lists = [kustomization.get(key) for key in _KUSTOMIZE_PARTS] if isinstance(kustomization, dict) else []
    for entry in (entry for entries in lists if isinstance(entries, list) for entry in entries):
        name = entry.get("path") if isinstance(entry, dict) else entry
        # A patch may also be written into the kustomization itself.
        if isinstance(name, str) and "\n" not in name:
            yield name


def _documents(file: _File, notes: InputNotes, *, strict: bool) -> Iterator[Document]:
    """Yield the objects of one file. Of a file that was found, what is no object is noted."""

    def skip(error: ReadError) -> None:
        if strict:
            raise error
        notes.skipped.append(error.skipped())

    data = _read(file.path)
    if not file.found:
        if Path(file.path).name in _KUSTOMIZATIONS:
            raise KustomizeError(file.path, _BUILD)
        for document in split(data, STDIN if file.path == STDIN_NAME else file.path):
            if group_of(document.apiVersion) == _KUSTOMIZE_GROUP:
                raise document.error(_BUILD)
            yield document
        return
    try:
        if file.kustomize:
            raise KustomizeError(file.path, _BUILD)
        if file.chart and b"{{" in data:
            raise TemplateError(file.path, RENDER)
        # A file that ends in an error is skipped as a whole.
        documents = list(split(data, file.path, skip))
    except ReadError as error:
        skip(error)
        return
    yield from documents


def _read(name: str) -> bytearray:
    try:
        return textfile.read(sys.stdin.buffer) if name == STDIN_NAME else _bytes(Path(name))
    except textfile.TextError as error:
        raise PodiumError(f"{STDIN if name == STDIN_NAME else name}: {error.problem}") from None
    except OSError as error:
        raise PodiumError(f"{error.filename or name}: read failed: {error.strerror}") from None


def _bytes(path: Path) -> bytearray:
    with path.open("rb") as file:
        return textfile.read(file)
