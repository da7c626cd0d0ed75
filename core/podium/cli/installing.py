"""What `podium install` and `podium upgrade` share: their options, the dry run, and what is told of it."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from podium.api import durations
from podium.cli import inputs
from podium.cli.main import EXIT_FINDINGS
from podium.cli.render.output import deliver, layout

if TYPE_CHECKING:
    from podium.ops.install import Document, Outcome
    from podium.rules.policy import Policy


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


class Options(NamedTuple):
    """What to write, how long it may take, and where."""

    image: str | None
    dry_run: bool
    diff: bool
    force_conflicts: bool
    timeout: float
    kubeconfig: str | None
    context: str | None


class Planned(NamedTuple):
    """What a command would have in the cluster, by the mode it is of, and what it would take away."""

    mode: str
    documents: "Sequence[Document]"
    surplus: "Sequence[Outcome]" = ()


# Deleting is for who has to undo it, or has surplus.
_VERBS = ("list", "get", "create", "patch", "delete")
_OPTIONS = (
    click.option("--image", metavar="REF", help="The image of every process, where your nodes pull from."),
    click.option("--dry-run", is_flag=True, help="Show what the server says it would do, and write nothing."),
    click.option("--diff", is_flag=True, help="Show the fields that would change, and write nothing."),
    click.option("--force-conflicts", is_flag=True, help="Take fields that somebody else has changed."),
    click.option(
        "--timeout", type=_Duration(), default="5m", show_default=True, help="How long all of it may take."
    ),
    *inputs.SERVER_OPTIONS,
)


def install_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add them all, from --image to --context, as one parameter `options`: Options."""
    return inputs.gathered(function, _OPTIONS, "options", Options)


class Command(NamedTuple):
    """One of the two: what it may have to write at most, by mode, and what who may not can do `instead`.

    What is `planned` follows from what installs have made there, and from the AdmissionPolicy.
    """

    done: str
    mode: str
    instead: str
    planned: "Callable[[Sequence[Document], Policy], Planned]"


def carry_out(options: Options, command: Command) -> None:
    """Ask what applying would do and, unless that is all that is asked or it is refused, do it; then tell.

    Exit code 3 where the server refuses some of it. Raises PodiumError when it cannot be done, or takes
    longer than it may.
    """
    import asyncio  # noqa: PLC0415 - `--help` needs none of it

    outcomes, refused = asyncio.run(_carried_out(options, command))
    _tell(outcomes, command.done, options, refused=refused)


async def _carried_out(options: Options, command: Command) -> "tuple[list[Outcome], bool]":
    """Give what became of each object, or would, and whether the server refuses some of it."""
    from podium.cli import installfit, installpolicies  # noqa: PLC0415 - as above
    from podium.kube.connection import connect  # noqa: PLC0415 - as above
    from podium.kube.discovery import server_version  # noqa: PLC0415 - as above
    from podium.ops import allowed, installing  # noqa: PLC0415 - as above
    from podium.ops.install import Action, key_of, manifests  # noqa: PLC0415 - as above
    from podium.rules.policy import Policy  # noqa: PLC0415 - as above

    async with connect(options.kubeconfig, options.context) as connection:
        say(f"context {connection.context}, server {connection.server}")
        version = str(await server_version(connection))
        keys = list(map(key_of, manifests(command.mode, options.image)))
        await allowed.check(connection, allowed.rights(keys, *_VERBS), command.instead)
        force = options.force_conflicts
        # With --force-conflicts the AdmissionPolicy becomes that of the manifests, too.
        policy = Policy() if force else await installpolicies.configured(connection)
        wanted = command.planned(await installing.inventory(connection), policy)
        await installfit.check(connection, version, wanted.mode, wanted.documents)
        outcomes = [*await installing.preview(connection, wanted.documents, force=force), *wanted.surplus]
        refused = any(each.action is Action.REFUSED for each in outcomes)
        if not (options.dry_run or options.diff or refused):
            installer = installing.Installer(
                connection, timeout=options.timeout, force=force, say=say, clock=time.monotonic
            )
            await installer.install(outcomes, wanted.documents)
        return outcomes, refused


def _tell(outcomes: "Sequence[Outcome]", done: str, options: Options, *, refused: bool) -> None:
    """Show what was `done`, or would be; exit code 3 where the server has refused some of it."""
    from podium.ops import install  # noqa: PLC0415 - as above

    if options.diff and not refused:
        deliver("".join(map(install.difference, outcomes)), None)
    elif options.dry_run or refused:
        _table(outcomes)
    if refused:
        say(
            "nothing was written, for the server refuses some of it; --force-conflicts is for conflicts, and "
            "a cluster-admin for what is forbidden"
        )
        sys.exit(EXIT_FINDINGS)
    say(f"{'would be' if options.dry_run or options.diff else done}: {install.counts(outcomes)}")


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
