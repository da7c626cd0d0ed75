"""The shared parts of `podium install` and `podium upgrade`: their options, the dry run, and the output."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from podium.api import durations
from podium.cli import kubeoptions, options
from podium.cli.main import EXIT_FINDINGS
from podium.cli.render.output import Output, deliver
from podium.stderr import say
from podium.text import visible_lines

if TYPE_CHECKING:
    from podium.ops.install import Document, InstallOutcome
    from podium.rules.policy import Policy


def _duration(text: str) -> float:
    """Return the seconds of a duration in Go's format (90s, 5m)."""
    found = durations.seconds(text)
    if found is None:
        raise ValueError(f"{text} is not a duration, such as 90s or 5m")
    return found


class InstallOptions(NamedTuple):
    """The options for what to write, the time limit, and the target cluster."""

    image: str | None
    dry_run: bool
    diff: bool
    force_conflicts: bool
    timeout: float
    kubeconfig: str | None
    context: str | None


class InstallPlan(NamedTuple):
    """The wanted objects of a command with their mode, and the objects to remove."""

    mode: str
    documents: "Sequence[Document]"
    surplus: "Sequence[InstallOutcome]" = ()


# Deleting is needed to undo the install, and to remove surplus objects.
_VERBS = ("list", "get", "create", "patch", "delete")
_OPTIONS = (
    click.option(
        "--image", metavar="REF", help="Image of all processes, in a registry that the nodes can reach."
    ),
    click.option(
        "--dry-run", is_flag=True, help="List the changes by a server-side dry run. Writes nothing."
    ),
    click.option("--diff", is_flag=True, help="Show the changed fields as a diff. Writes nothing."),
    click.option("--force-conflicts", is_flag=True, help="Overwrite fields that another field manager owns."),
    click.option(
        "--timeout",
        type=options.Parsed("DURATION", _duration),
        default="5m",
        show_default=True,
        help="Time limit of the whole command.",
    ),
    *kubeoptions.SERVER_OPTIONS,
)


def install_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options, from --image to --context, as one parameter `options`: Options."""
    return options.gathered(function, _OPTIONS, "options", InstallOptions)


class Command(NamedTuple):
    """Install or upgrade: the largest mode it may write, and the advice `instead` if rights are missing.

    `planned` computes the objects from the existing ones and the AdmissionPolicy.
    """

    done: str
    mode: str
    instead: str
    planned: "Callable[[Sequence[Document], Policy], InstallPlan]"


def carry_out(options: InstallOptions, command: Command) -> None:
    """Preview the changes and, unless a preview was requested or a change is refused, apply them.

    Then report. Exit code 3 if the server refuses a change. Raises PodiumError if it cannot be done, or takes
    too long.
    """
    import asyncio  # noqa: PLC0415 - `--help` does not need it

    outcomes, refused = asyncio.run(_carried_out(options, command))
    _tell(outcomes, command.done, options, refused=refused)


async def _carried_out(options: InstallOptions, command: Command) -> "tuple[list[InstallOutcome], bool]":
    """Return the outcome for each object, real or previewed, and whether the server refuses any."""
    from podium.cli import installfit, installpolicies  # noqa: PLC0415 - as above
    from podium.kube.connection import connect  # noqa: PLC0415 - as above
    from podium.kube.discovery import server_version  # noqa: PLC0415 - as above
    from podium.ops import allowed, installing  # noqa: PLC0415 - as above
    from podium.ops.install import Action, key_of, manifests  # noqa: PLC0415 - as above
    from podium.rules.policy import Policy  # noqa: PLC0415 - as above

    async with connect(options.kubeconfig, options.context) as connection:
        echo(f"context {connection.context}, server {connection.server}")
        version = str(await server_version(connection))
        keys = list(map(key_of, manifests(command.mode, options.image)))
        await allowed.require_rights(connection, allowed.rights(keys, *_VERBS), command.instead)
        force = options.force_conflicts
        # With --force-conflicts the AdmissionPolicy is reset to that of the manifests too.
        policy = Policy() if force else await installpolicies.configured(connection)
        wanted = command.planned(await installing.inventory(connection), policy)
        await installfit.require_fit(connection, version, wanted.mode, wanted.documents)
        outcomes = [*await installing.preview(connection, wanted.documents, force=force), *wanted.surplus]
        refused = any(each.action is Action.REFUSED for each in outcomes)
        if not (options.dry_run or options.diff or refused):
            installer = installing.Installer(connection, timeout=options.timeout, force=force, echo=echo)
            await installer.install(outcomes, wanted.documents)
        return outcomes, refused


def _tell(outcomes: "Sequence[InstallOutcome]", done: str, options: InstallOptions, *, refused: bool) -> None:
    """Show the changes, `done` or previewed; exit code 3 if the server refused any."""
    from podium.ops import install  # noqa: PLC0415 - as above

    if options.diff and not refused:
        deliver(visible_lines("".join(map(install.difference, outcomes))), None)
    elif options.dry_run or refused:
        _table(outcomes)
    if refused:
        echo("nothing was written: the API server refuses the objects above")
        for line in install.advice(outcomes):
            echo(line)
        sys.exit(EXIT_FINDINGS)
    echo(f"{'would be' if options.dry_run or options.diff else done}: {install.counts(outcomes)}")


def echo(line: str) -> None:
    """Report a step on stderr, apart from the printed result."""
    say(f"podium: {line}")


def _table(outcomes: "Sequence[InstallOutcome]") -> None:
    table = Output().layout()
    table.columns(("OBJECT", "WHAT"), [(str(each.key), each.action.value) for each in outcomes])
    for each in outcomes:
        if each.why:
            table.paragraph(f"{each.key}: {each.why}", hang="  ")
    deliver(table.text(), None)
