"""The shared parts of `podium install` and `podium upgrade`: their options, the dry run, and the output."""

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
    """A duration in Go's format (90s, 5m), in seconds."""

    name = "DURATION"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds; a text in another format is a usage error."""
        if isinstance(value, float):
            return value
        found = durations.seconds(value)
        if found is None:
            self.fail(f"{value} is not a duration such as 90s or 5m", param, ctx)
        return found


class Options(NamedTuple):
    """The options for what to write, the time limit, and the target cluster."""

    image: str | None
    dry_run: bool
    diff: bool
    force_conflicts: bool
    timeout: float
    kubeconfig: str | None
    context: str | None


class Planned(NamedTuple):
    """The wanted objects of a command with their mode, and the objects to remove."""

    mode: str
    documents: "Sequence[Document]"
    surplus: "Sequence[Outcome]" = ()


# Deleting is needed to undo the install, and to remove surplus objects.
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
    """Add all options, from --image to --context, as one parameter `options`: Options."""
    return inputs.gathered(function, _OPTIONS, "options", Options)


class Command(NamedTuple):
    """Install or upgrade: the largest mode it may write, and the advice `instead` if rights are missing.

    `planned` computes the objects from the existing ones and the AdmissionPolicy.
    """

    done: str
    mode: str
    instead: str
    planned: "Callable[[Sequence[Document], Policy], Planned]"


def carry_out(options: Options, command: Command) -> None:
    """Preview the changes and, unless a preview was requested or a change is refused, apply them.

    Then report. Exit code 3 if the server refuses a change. Raises PodiumError if it cannot be done, or takes
    too long.
    """
    import asyncio  # noqa: PLC0415 - `--help` does not need it

    outcomes, refused = asyncio.run(_carried_out(options, command))
    _tell(outcomes, command.done, options, refused=refused)


async def _carried_out(options: Options, command: Command) -> "tuple[list[Outcome], bool]":
    """Return the outcome for each object, real or previewed, and whether the server refuses any."""
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
        # With --force-conflicts the AdmissionPolicy is reset to that of the manifests too.
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
    """Show the changes, `done` or previewed; exit code 3 if the server refused any."""
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
    """Report a step on stderr, apart from the printed result."""
    click.echo(f"podium: {line}", err=True)


def _table(outcomes: "Sequence[Outcome]") -> None:
    table = layout(to_file=False)
    table.columns(("OBJECT", "WHAT"), [(str(each.key), each.action.value) for each in outcomes])
    for each in outcomes:
        if each.why:
            table.paragraph(f"{each.key}: {each.why}", hang="  ")
    deliver(table.text(), None)
