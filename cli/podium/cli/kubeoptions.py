"""kubectl's flags of commands: the cluster, the part of it to read, and the options of each request."""

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from podium.api.durations import seconds
from podium.api.selectors import parse_selector
from podium.cli.options import Parsed, gathered
from podium.documents.scope import Scope

if TYPE_CHECKING:
    from podium.kube.connection import RequestOptions

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


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
    duration = seconds(f"{text}s" if text.isdecimal() else text)
    if duration is None:
        raise ValueError(f"{text!r} is not a duration, such as 30s or 2m.")
    return duration


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
