"""The entry point of `podium` and `kubectl podium`: lists the commands, imports only the one that runs.

Exit codes are the same for every command and every output format. They are 0 clean, 3 findings or refusals, 2
usage (click's own), 1 the tool failed.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from podium.errors import PodiumError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXIT_FAILED = 1
EXIT_FINDINGS = 3
# The variable with which a shell asks for completions.
COMPLETE = "_PODIUM_COMPLETE"


class Entry(NamedTuple):
    """A command that is not imported yet: the module with its `command`, and its line in --help."""

    module: str
    help: str


COMMANDS: dict[str, Entry] = {
    "audit": Entry(
        "podium.cli.audit", "Find groups and pods whose priorities keep them from being scheduled."
    ),
    "admit": Entry("podium.cli.admit", "Show what admission would do to a manifest, and why."),
    "whatif": Entry("podium.cli.whatif", "Show who would be preempted for a pod or group, and why."),
    "why": Entry("podium.cli.why", "Say why a pod or group waits, and who preempted it."),
    "ui": Entry("podium.cli.ui", "Show groups, divergences and preemptions as pages in your browser."),
    "preflight": Entry("podium.cli.preflight", "Show what an upgrade of Kubernetes breaks, and what to do."),
    "migrate": Entry("podium.cli.migrate", "Move groups between Podium's resources and the native ones."),
    "convert": Entry("podium.cli.convert", "Rewrite PodGroups and Workloads for another API version."),
    "webhook": Entry("podium.cli.webhook", "Serve admission and conversion to an API server."),
    "controller": Entry(
        "podium.cli.controller", "Keep PodsNotMatchingPriority true, protect groups and make auto groups."
    ),
    "scheduler": Entry(
        "podium.cli.scheduler", "Schedule gangs and preempt as workloads, beside kube-scheduler."
    ),
    "report": Entry("podium.cli.report", "Sum up who was preempted for whom, and what would have been."),
    "install": Entry("podium.cli.install", "Install Podium into a cluster, or show what that would change."),
    "upgrade": Entry(
        "podium.cli.upgrade", "Bring an installed Podium to this version, or back if that fails."
    ),
    "uninstall": Entry(
        "podium.cli.uninstall", "Take Podium away from a cluster; groups are kept unless asked."
    ),
    "manifests": Entry(
        "podium.cli.manifests", "Print the webhooks' manifests and policies, for your policy."
    ),
    "doctor": Entry("podium.cli.doctor", "Check a cluster for Podium; each line a fact and a fix."),
    "dump": Entry("podium.cli.dump", "Write what Podium reads of a cluster to a file, fit to share."),
    "cluster": Entry("podium.cli.cluster", "Start and stop a real control plane on this machine."),
    "completion": Entry("podium.cli.completion", "Print what completes podium in a shell, or under kubectl."),
}


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called, so `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return one command after importing it, or None for click's own "no such command"."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = importlib.import_module(entry.module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the requested command; for an unknown name, fail with the closest known one."""
        if args[0] not in COMMANDS:
            from difflib import get_close_matches  # noqa: PLC0415 - few calls are wrong

            for meant in get_close_matches(args[0], COMMANDS, n=1):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {meant}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[Any]]":
        """Return completions of commands from the table alone, and of options as click does."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only when a shell asks

        found = [
            CompletionItem(name, help=entry.help)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="podium-k8s", prog_name="podium")
def command() -> None:
    """Admission, priority and preemption for Kubernetes workloads."""


def main() -> None:
    """Run the command line; a PodiumError becomes one line and exit code 1."""
    _open_closed_streams()
    try:
        if COMPLETE in os.environ:
            importlib.import_module(COMMANDS["completion"].module)
        command(prog_name=_program_name(sys.argv[0]), complete_var=COMPLETE)
    except PodiumError as error:
        click.echo(f"podium: {error}", err=True)
        sys.exit(EXIT_FAILED)
    except OSError as error:
        # Either the reader of our output exited (`podium ... | head`), which needs no message, or a disk is
        # full. Data left in the buffer would fail again at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            click.echo(f"podium: {error}", err=True)
        sys.exit(EXIT_FAILED)


def _open_closed_streams() -> None:
    """Replace streams that were closed before the start (`>&-`), for which Python has None.

    Standard input becomes empty. Standard output becomes unwritable, because requested output that cannot be
    written is an error.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 - open as long as the process
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")  # noqa: SIM115, PTH123 - as above


def _program_name(argv0: str) -> str:
    return "kubectl podium" if os.path.basename(argv0).startswith("kubectl-") else "podium"  # noqa: PTH119
