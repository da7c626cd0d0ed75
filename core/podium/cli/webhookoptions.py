"""The options that `podium webhook` and `podium manifests` share: the policy, and the failure policies."""

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
        """Return the parts around the equals sign."""
        if isinstance(value, tuple):
            return value
        family, _, policy = value.partition("=")
        if family not in _FAMILIES or policy not in ("Fail", "Ignore"):
            self.fail(f"{value} is not one of {', '.join(_FAMILIES)}, then =Fail or =Ignore", param, ctx)
        return family, policy


def policy_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --config and --on-failure, as the parameters `config` and `failure_policies`."""
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
    """Return the AdmissionPolicy in a file, or the default without a file. Raises PodiumError."""
    if path is None:
        from podium.rules.policy import Policy  # noqa: PLC0415 - `--help` does not need it

        return Policy()
    from podium.cli.policyfile import read_policy  # noqa: PLC0415 - pydantic is needed only for a file

    return read_policy(path)
