"""The shared parts of commands that read a cluster: -f, kubectl's flags, and loading of files.

YAML and the client are imported only when needed, so that `--help` and small files stay fast.
"""

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from podium.api.durations import seconds
from podium.api.inputnotes import InputNotes
from podium.api.reads import READS, Kind, Reads
from podium.api.selectors import parse_selector
from podium.cli.live import load_live
from podium.documents.load import Loaded, Origins, Scope, load_state
from podium.documents.sources import STDIN_NAME, InputFiles, read_documents
from podium.documents.split import Document
from podium.errors import NoKubeconfigError, PodiumError
from podium.text import some

if TYPE_CHECKING:
    from podium.kube.connection import RequestOptions

__all__ = ["InputFiles", "Loaded", "Origins", "Scope", "load_state"]

T = TypeVar("T")

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


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


class KubeOptions(NamedTuple):
    """The cluster, and the part of it, by kubectl's flags; None is not given."""

    kubeconfig: str | None = None
    context: str | None = None
    user: str | None = None
    groups: Sequence[str] = ()
    request_timeout: float | None = None
    namespace: str | None = None
    all_namespaces: bool = False
    selector: str | None = None

    @property
    def given(self) -> bool:
        """Return whether any flag was given."""
        return self != KubeOptions()

    @property
    def everything(self) -> "KubeOptions":
        """Return the options of a command that reads all namespaces unless -n names one."""
        return self._replace(all_namespaces=self.namespace is None)

    @property
    def requests(self) -> "RequestOptions":
        """Return the options of each request."""
        from podium.kube.connection import RequestOptions  # noqa: PLC0415 - files do without

        return RequestOptions(self.user or "", self.groups, self.request_timeout or 0.0)

    def scope_of_files(self) -> Scope:
        """Return the part of the files to read. Raises click.UsageError for a flag of a live cluster."""
        scope = KubeOptions(
            namespace=self.namespace, all_namespaces=self.all_namespaces, selector=self.selector
        )
        if self != scope:
            raise click.UsageError(
                "-f reads files and excludes the flags of a live cluster "
                "(--kubeconfig, --context, --as, --as-group, --request-timeout)."
            )
        return Scope(self.namespace or "", self.selector or "")


def gathered(
    function: Callable[..., Any],
    options: Sequence[Callable[..., Any]],
    parameter: str,
    made: type[tuple[Any, ...]],
) -> Callable[..., Any]:
    """Add options as one parameter: a NamedTuple, `made`, whose fields have their names.

    A field without an option keeps its default.
    """
    names: tuple[str, ...] = made._fields  # type: ignore[attr-defined] # no type says "a NamedTuple"

    @functools.wraps(function)
    def gathering(*args: Any, **kwargs: Any) -> Any:
        values = {name: kwargs.pop(name) for name in names if name in kwargs}
        return function(*args, **kwargs, **{parameter: made(**values)})

    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), gathering)


class Parsed(click.ParamType[T]):
    """An option's type whose values are parsed by a function; its ValueError is a usage error."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: str | T, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Return the parsed value; one that is parsed already stays."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class AliasChoice(click.Choice[str]):
    """A choice that also takes other spellings of its values, such as kubectl's names of a kind."""

    def __init__(self, choices: Sequence[str], alias: Callable[[str], str]) -> None:
        super().__init__(choices)
        self._alias = alias

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value; one that is spelt otherwise becomes the choice that it means."""
        return super().convert(self._alias(value), param, ctx)


def minor_choice(minors: Iterable[str]) -> AliasChoice:
    """Return the type of an option for a Kubernetes minor, which also takes `v1.37` and `1.37.0`."""
    return AliasChoice(tuple(minors), lambda text: re.sub(r"^v?(1\.\d+)(\.\d+.*)?$", r"\1", text))


def _namespace(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    if name and not _NAMESPACE.fullmatch(name):
        raise click.UsageError(f"-n: {name!r} is not a valid namespace name.")
    return name


def namespace_option(
    words: str, parameter: str = "namespace"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return -n/--namespace as a `parameter`; `words` are its help."""
    return click.option("-n", "--namespace", parameter, metavar="NAME", callback=_namespace, help=words)


def _selector(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    try:
        parse_selector(text or "")
    except ValueError as error:
        raise click.UsageError(f"-l: {error}.") from None
    return text


def everywhere_option(
    words: str, parameter: str = "all_namespaces"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return -A/--all-namespaces as a `parameter`; `words` are its help."""
    return click.option("-A", "--all-namespaces", parameter, is_flag=True, help=words)


def selector_option(
    words: str, parameter: str = "selector"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return -l/--selector as a `parameter`; `words` are its help."""
    return click.option("-l", "--selector", parameter, metavar="LABELS", callback=_selector, help=words)


def _request_seconds(text: str) -> float:
    """Return the seconds of kubectl's --request-timeout: a Go duration, or a number of seconds."""
    found = seconds(f"{text}s" if text.isdecimal() else text)
    if found is None:
        raise ValueError(f"{text!r} is not a duration, such as 30s or 2m.")
    return found


SERVER_OPTIONS = (
    click.option("--kubeconfig", metavar="FILE", help="Path of the kubeconfig."),
    click.option("--context", metavar="NAME", help="Context in the kubeconfig."),
)
_REQUEST_OPTIONS = (
    click.option("--as", "user", metavar="USER", help="User to impersonate."),
    click.option(
        "--as-group", "groups", multiple=True, metavar="GROUP", help="Group to impersonate. Can be repeated."
    ),
    click.option(
        "--request-timeout",
        type=Parsed("DURATION", _request_seconds),
        help="Time limit of each request, such as 30s; 0 for none.",
    ),
)


def server_options(*more: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the flags that select a cluster, and others of KubeOptions, as one parameter, `kube`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def checked(*args: Any, kube: KubeOptions, **kwargs: Any) -> Any:
            if kube.namespace is not None and kube.all_namespaces:
                raise click.UsageError("-n and -A exclude each other.")
            if kube.groups and not kube.user:
                raise click.UsageError("--as-group needs --as.")
            return function(*args, kube=kube, **kwargs)

        return gathered(checked, (*SERVER_OPTIONS, *_REQUEST_OPTIONS, *more), "kube", KubeOptions)

    return decorate


def scope_options(namespace: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add kubectl's flags for a cluster and a part of the input as one parameter, `kube`: KubeOptions.

    `namespace` is the help of -n.
    """
    return server_options(
        namespace_option(namespace),
        everywhere_option("Read all namespaces."),
        selector_option(
            "Label selector. Each namespaced object (pod, group, budget, owner) is read if its own labels "
            "match."
        ),
    )


kube_options = scope_options("Namespace to read. By default the context's, or all of the files.")


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
    loaded = load_state(
        read_documents(files, notes),
        strict=files.strict,
        reads=reads,
        keep=keep,
        notes=notes,
        scope=kube.scope_of_files(),
    )
    say_notes(notes)
    return loaded


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
        click.echo(f"podium: {line}", err=True)


def source(files: InputFiles, loaded: Loaded) -> str:
    """Return the source and the scope of the input in words."""
    words = {STDIN_NAME: "standard input", ".": "the current folder", "..": "the parent folder"}
    names = [words.get(name, name) for name in files.names]
    where = some(names) if names else f"the live cluster ({loaded.server})"
    return f"{where}, {loaded.scope.partial}" if loaded.scope.partial else where
