"""The options that `podium webhook` and `podium manifests` share: the policy, and the failure policies."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from podium.cli.options import Parsed

if TYPE_CHECKING:
    from podium.rules.policy import Policy

_FAMILIES = ("podium", "gangs", "pods", "native")


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
