"""The options that all processes share: the cluster, the address of the probes, and logging."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from podium.rules.names import dns_label, dns_subdomain

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class ObjectName(click.ParamType[tuple[str, str]]):
    """NAMESPACE/NAME."""

    name = "NAMESPACE/NAME"

    def convert(
        self,
        value: str | tuple[str, str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, str]:
        """Return the parts around the slash; an invalid object name is a usage error."""
        if isinstance(value, tuple):
            return value
        namespace, _, name = value.partition("/")
        if dns_label(namespace) or dns_subdomain(name):
            self.fail(f"{value} is not NAMESPACE/NAME", param, ctx)
        return namespace, name


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def process_options(metrics_port: int) -> Decorator:
    """Add --kubeconfig, --context, --bind and --metrics-port; the argument is the default port."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option(
            "--metrics-port",
            type=click.IntRange(0, 65535),
            default=metrics_port,
            show_default=True,
            help="For /livez, /readyz, /metrics and /undecodable, without TLS.",
        )(function)
        function = click.option(
            "--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen."
        )(function)
        function = click.option("--context", metavar="NAME", help="The context in it.")(function)
        return click.option(
            "--kubeconfig", metavar="FILE", help="How to reach the API server; in a pod it is known."
        )(function)

    return decorate


def leader_options(component: str) -> Decorator:
    """Add --leader-elect/--no-leader-elect and --lease; `component` names the default Lease."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option(
            "--lease",
            type=ObjectName(),
            help=f"The Lease by which they agree on that.  [default: {component} in the context's namespace]",
        )(function)
        return click.option(
            "--leader-elect/--no-leader-elect",
            default=True,
            show_default=True,
            help="Whether there may be other replicas, of which one does the work.",
        )(function)

    return decorate


def check_lease(*, leader_elect: bool, lease: tuple[str, str] | None) -> None:
    """Raise a usage error for a Lease without leader election."""
    if lease is not None and not leader_elect:
        raise click.UsageError("--lease is of no use with --no-leader-elect")


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --log-format and --log-level, the arguments of `logger`."""
    function = click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="What is less is not logged.",
    )(function)
    return click.option(
        "--log-format",
        type=click.Choice(["json", "text"]),
        help="For programs or for people.  [default: text on a terminal, else json]",
    )(function)


def logger(log_format: str | None, log_level: str) -> "FilteringBoundLogger":
    """Configure all logging by the options, and return a logger."""
    from podium.service import logs  # noqa: PLC0415 - `--help` does not need it

    match log_format:
        case "json" | "text":
            return logs.configure(log_format, log_level)
        case _:
            return logs.configure("text" if sys.stderr.isatty() else "json", log_level)
