"""What `podium webhook` and `podium manifests` are both told: by which policy, and what if we are gone."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from podium.rules.policy import Policy

_FAMILIES = ("podium", "gangs", "pods", "native")


class _FailurePolicy(click.ParamType[tuple[str, str]]):
    """KIND=Fail or KIND=Ignore."""

    name = "KIND=Fail|Ignore"

    def convert(
        self,
        value: str | tuple[str, str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, str]:
        """Split at the equals sign."""
        if isinstance(value, tuple):
            return value
        family, _, policy = value.partition("=")
        if family not in _FAMILIES or policy not in ("Fail", "Ignore"):
            self.fail(f"{value} is not one of {', '.join(_FAMILIES)}, then =Fail or =Ignore", param, ctx)
        return family, policy


def policy_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --config and --on-failure, which arrive as `config` and `failure_policies`."""
    function = click.option(
        "--on-failure",
        "failure_policies",
        multiple=True,
        type=_FailurePolicy(),
        help="What to do without an answer of ours; podium=Fail and the others Ignore unless told.",
    )(function)
    return click.option(
        "--config", metavar="FILE", help="An AdmissionPolicy: levels of the rules, allowed classes."
    )(function)


def policy_of(path: str | None) -> "Policy":
    """Read an AdmissionPolicy, or give the one that changes nothing. Raises PodiumError."""
    if path is None:
        from podium.rules.policy import Policy  # noqa: PLC0415 - `--help` needs none of it

        return Policy()
    from podium.cli.policyfile import read_policy  # noqa: PLC0415 - pydantic, only where a file is read

    return read_policy(path)
