"""What `podium install` and `podium upgrade` share: their options, the dry run, and what is told of it."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from podium.api import durations
from podium.cli.main import EXIT_FINDINGS
from podium.cli.render.output import deliver, layout

if TYPE_CHECKING:
    from podium.kube.connection import Connection
    from podium.ops.install import Document, Outcome


class _Duration(click.ParamType[float]):
    """A time as Go writes it (90s, 5m), in seconds."""

    name = "DURATION"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it; what is none is refused here."""
        if isinstance(value, float):
            return value
        found = durations.seconds(value)
        if found is None:
            self.fail(f"{value} is not a duration such as 90s or 5m", param, ctx)
        return found


_OPTIONS = (
    click.option("--image", metavar="REF", help="The image of every process, where your nodes pull from."),
    click.option("--dry-run", is_flag=True, help="Show what the server says it would do, and write nothing."),
    click.option("--diff", is_flag=True, help="Show the fields that would change, and write nothing."),
    click.option("--force-conflicts", is_flag=True, help="Take fields that somebody else has changed."),
    click.option(
        "--timeout", type=_Duration(), default="5m", show_default=True, help="How long all of it may take."
    ),
    click.option("--kubeconfig", metavar="FILE", help="The kubeconfig of the cluster."),
    click.option("--context", metavar="NAME", help="The context in it."),
)


def install_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add them all, from --image to --context."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


async def carry_out(
    connection: "Connection",
    documents: "Sequence[Document]",
    surplus: "Sequence[Outcome]" = (),
    *,
    dry: bool,
    force: bool,
    seconds: float,
) -> "list[Outcome]":
    """Ask what applying would do and, unless it is a `dry` run or refused, do it.

    Raises PodiumError when that fails, or takes longer than some seconds.
    """
    from podium.ops import installing  # noqa: PLC0415 - `--help` needs none of it
    from podium.ops.install import Action  # noqa: PLC0415 - as above

    outcomes = [*await installing.preview(connection, documents, force=force), *surplus]
    if not dry and all(each.action is not Action.REFUSED for each in outcomes):
        installer = installing.Installer(
            connection, timeout=seconds, force=force, say=say, clock=time.monotonic
        )
        await installer.install(outcomes, documents)
    return outcomes


def tell(outcomes: "Sequence[Outcome]", done: str, *, dry_run: bool, diff: bool) -> None:
    """Show what was `done`, or would be; exit code 3 where the server refuses some of it."""
    from podium.ops import install  # noqa: PLC0415 - as above

    refused = any(each.action is install.Action.REFUSED for each in outcomes)
    if diff and not refused:
        deliver("".join(map(install.difference, outcomes)), None)
    elif dry_run or refused:
        _table(outcomes)
    if refused:
        say("nothing was written, for the server refuses some of it; --force-conflicts is for conflicts")
        sys.exit(EXIT_FINDINGS)
    say(f"{'would be' if dry_run or diff else done}: {install.counts(outcomes)}")


def say(line: str) -> None:
    """Tell of a step, where it does not get among what is printed."""
    click.echo(f"podium: {line}", err=True)


def _table(outcomes: "Sequence[Outcome]") -> None:
    table = layout(to_file=False)
    table.columns(("OBJECT", "WHAT"), [(str(each.key), each.action.value) for each in outcomes])
    for each in outcomes:
        if each.why:
            table.paragraph(f"{each.key}: {each.why}", hang="  ")
    deliver(table.text(), None)
