"""The options of processes: the cluster, the address of the probes, leader election, logging, the policy.

The webhook shares the policy, and the failure policies, with `podium manifests` and `podium admit`.
"""

import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from podium.cli.options import Parsed, gathered
from podium.rules.names import dns_label, dns_subdomain
from podium.runtime.host import listen

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from podium.rules.policy import Policy

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_FAMILIES = ("podium", "gangs", "pods", "native")


def _object_name(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if dns_label(namespace) or dns_subdomain(name):
        raise ValueError(f"{text} is not of the form NAMESPACE/NAME")
    return namespace, name


OBJECT_NAME = Parsed("NAMESPACE/NAME", _object_name)


class ProcessOptions(NamedTuple):
    """The cluster, and the address of the probes."""

    kubeconfig: str | None
    context: str | None
    bind: str
    metrics_port: int

    def listen(self) -> socket.socket:
        """Open the port of the probes for as long as the command runs. Raises PodiumError."""
        return click.get_current_context().with_resource(listen(self.bind, self.metrics_port))


class ElectionOptions(NamedTuple):
    """Whether the process takes part in leader election, and its Lease; fields as in ManagerOptions."""

    elects: bool
    lease: tuple[str, str] | None

    def check(self) -> None:
        """Raise a usage error for a Lease without leader election."""
        if self.lease is not None and not self.elects:
            raise click.UsageError("--lease has no effect with --no-leader-elect. Drop one of them.")


class LogOptions(NamedTuple):
    """The format (None: by the kind of stderr) and the minimum level of logs."""

    log_format: str | None
    log_level: str

    def logger(self) -> "FilteringBoundLogger":
        """Configure all logging by the options, and return a logger."""
        from podium.runtime import logs  # noqa: PLC0415 - `--help` does not need it

        as_text = sys.stderr.isatty() if self.log_format is None else self.log_format == "text"
        return logs.configure("text" if as_text else "json", self.log_level)


def process_options(metrics_port: int) -> Decorator:
    """Add --kubeconfig, --context, --bind and --metrics-port as `process`; the argument is the default."""
    options = (
        click.option(
            "--kubeconfig",
            metavar="FILE",
            help="Path of the kubeconfig. In a pod the service account is used by default.",
        ),
        click.option("--context", metavar="NAME", help="Context in the kubeconfig."),
        click.option(
            "--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on."
        ),
        click.option(
            "--metrics-port",
            type=click.IntRange(0, 65535),
            default=metrics_port,
            show_default=True,
            help="Port of /livez, /readyz, /startupz, /metrics and /undecodable, without TLS.",
        ),
    )
    return lambda function: gathered(function, options, "process", ProcessOptions)


def leader_options(component: str) -> Decorator:
    """Add --leader-elect/--no-leader-elect and --lease as `election`; `component` names the default Lease."""
    options = (
        click.option(
            "--leader-elect/--no-leader-elect",
            "elects",
            default=True,
            show_default=True,
            help="Elect a leader among the replicas; only the leader works.",
        ),
        click.option(
            "--lease",
            type=OBJECT_NAME,
            help=f"Lease of the leader election.  [default: {component} in the context's namespace]",
        ),
    )
    return lambda function: gathered(function, options, "election", ElectionOptions)


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --log-format and --log-level as one parameter, `log`."""
    options = (
        click.option(
            "--log-format",
            type=click.Choice(["json", "text"]),
            help="Log format.  [default: text on a terminal, else json]",
        ),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
            help="Minimum log level.",
        ),
    )
    return gathered(function, options, "log", LogOptions)


def _failure_policy(text: str) -> tuple[str, str]:
    family, _, policy = text.partition("=")
    if family not in _FAMILIES or policy not in ("Fail", "Ignore"):
        raise ValueError(f"{text} is not KIND=Fail or KIND=Ignore. KIND is one of {', '.join(_FAMILIES)}")
    return family, policy


def policy_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --config and --on-failure, as the parameters `config` and `failure_policies`."""
    function = click.option(
        "--on-failure",
        "failure_policies",
        multiple=True,
        type=Parsed("KIND=Fail|Ignore", _failure_policy),
        help="failurePolicy of a webhook family. Can be repeated.  [default: podium=Fail, the others Ignore]",
    )(function)
    return click.option(
        "--config", metavar="FILE", help="File with an AdmissionPolicy (rule levels, allowed classes)."
    )(function)


def policy_of(path: str | None) -> "Policy":
    """Return the AdmissionPolicy in a file, or the default without a file. Raises PodiumError."""
    if path is None:
        from podium.rules.policy import Policy  # noqa: PLC0415 - `--help` does not need it

        return Policy()
    from podium.cli.config.policyfile import read_policy  # noqa: PLC0415 - pydantic is needed only for a file

    return read_policy(path)
