"""The entry point of `podium` and `kubectl podium`: lists the commands, imports only the one that runs.

Exit codes are the same for every command and every output format. They are 0 clean, 3 findings or refusals, 2
usage (click's own), 1 the tool failed, 4 no verdict, 130 Ctrl-C.
"""

import copy
import importlib
import io
import os
import re
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from podium.errors import PodiumError, PodiumUsageError
from podium.stderr import escape_stderr, say
from podium.text import visible
from podium.version import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_FINDINGS = 3
EXIT_NOT_JUDGED = 4
# As shells report a process that SIGINT has ended.
EXIT_INTERRUPTED = 130
# The variable with which a shell asks for completions.
COMPLETE = "_PODIUM_COMPLETE"
# click's message on an argument that a command does not take.
_EXTRA = re.compile(r"Got unexpected extra arguments? \((\S+?)[ )]")
_MODULES = "podium.cli.commands."
# Modules of Python that Windows lacks.
_UNIX_ONLY = ("fcntl", "pwd", "resource", "termios")


class CommandEntry(NamedTuple):
    """A command that is not imported yet: its section, its line in --help, and the extra with its packages.

    Commands on files need no extra. `live` is enough for every command that is not a server.
    """

    section: str
    help: str
    extra: str = "live"


_CHECK, _EXPLAIN, _DEPLOY, _SERVE, _FILES, _OTHER = (
    "Check",
    "Troubleshooting",
    "Deploy",
    "Server",
    "File",
    "Other",
)
# In the order of --help. The module of a command is podium.cli.commands.NAME.
COMMANDS: dict[str, CommandEntry] = {
    "audit": CommandEntry(_CHECK, "Find groups and pods that will not be scheduled"),
    "admit": CommandEntry(_CHECK, "Show what admission does to a manifest, and why"),
    "whatif": CommandEntry(_CHECK, "Show which pods a pod or group would preempt, and why"),
    "preflight": CommandEntry(_CHECK, "Show what a Kubernetes upgrade breaks, and what to do"),
    "why": CommandEntry(_EXPLAIN, "Show why a pod or group waits, and what preempted it"),
    "explain": CommandEntry(_EXPLAIN, "Explain a rule or a term"),
    "report": CommandEntry(_EXPLAIN, "Summarize recent preemptions"),
    "doctor": CommandEntry(_EXPLAIN, "Check a cluster and its Podium installation"),
    "ui": CommandEntry(_EXPLAIN, "Serve groups, divergences and preemptions as web pages"),
    "manifests": CommandEntry(_DEPLOY, "Print custom resources, webhook configurations and policies"),
    "migrate": CommandEntry(_DEPLOY, "Move groups between Podium's API and the native API"),
    "webhook": CommandEntry(_SERVE, "Serve admission and conversion webhooks", "server"),
    "controller": CommandEntry(_SERVE, "Maintain conditions, finalizers and automatic groups", "server"),
    "scheduler": CommandEntry(_SERVE, "Schedule and preempt whole groups, beside kube-scheduler", "server"),
    "convert": CommandEntry(_FILES, "Convert PodGroups and Workloads to another API version"),
    "dump": CommandEntry(_FILES, "Write the state of a cluster to a file that can be shared"),
    "completion": CommandEntry(_OTHER, "Print a shell completion script"),
}


def examples(*pairs: tuple[str, str]) -> str:
    """Return the epilog of a command's help: per example a comment and a command line."""
    lines = (f"  # {comment}\n  {line}" for comment, line in pairs)
    return "\b\nExamples:\n" + "\n".join(lines)


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called, so `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return one command after importing it, or None for click's own "no such command"."""
        if cmd_name not in COMMANDS:
            return None
        # click sets it after the import, which fails if a package is missing.
        ctx.invoked_subcommand = cmd_name
        command = importlib.import_module(_MODULES + cmd_name).command
        assert isinstance(command, click.Command)
        if ctx.command_path != "podium":
            command = copy.copy(command)
            command.epilog = (command.epilog or "").replace("podium ", f"{ctx.command_path} ")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the requested command; for an unknown name, fail with the closest known one."""
        if args[0] == "help":
            return super().resolve_command(ctx, [*args[1:2], "--help"]) if args[1:] else self._help(ctx)
        if args[0] == "version":
            click.echo(f"podium, version {VERSION}")
            ctx.exit()
        if args[0] not in COMMANDS:
            from difflib import get_close_matches  # noqa: PLC0415 - few calls are wrong

            for meant in get_close_matches(args[0], COMMANDS, n=1):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {meant}?")
        return super().resolve_command(ctx, args)

    def _help(self, ctx: click.Context) -> NoReturn:
        click.echo(ctx.get_help())
        ctx.exit()

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error names the extra of a missing package, or the hint for a usual slip."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)
        except ModuleNotFoundError as error:
            raise _incomplete(ctx.invoked_subcommand or "", error) from None
        except click.UsageError as error:
            # click repeats the arguments, which a shell may take from the names of a stranger's files.
            message, hint = error.format_message(), visible(_hint(error))
            # The message on a missing option is a list of choices, and repeats nothing.
            missing = isinstance(error, click.MissingParameter)
            message = message.expandtabs(2) if missing else visible(message)
            message = f"{message.rstrip('.')}. {hint}" if hint else message
            raise click.UsageError(message, error.ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands of each section from the table alone, in columns of one width."""
        widest = max(map(len, COMMANDS))
        for section, entries in groupby(COMMANDS.items(), key=lambda item: item[1].section):
            with formatter.section(f"{section} Commands"):
                formatter.write_dl([(name.ljust(widest), entry.help) for name, entry in entries])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[Any]]":
        """Return completions of commands from the table alone, and of options as click does."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only when a shell asks

        items = [
            CompletionItem(name, help=entry.help)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)


def _incomplete(name: str, error: ModuleNotFoundError) -> Exception:
    """Return the usage error for a package that is not installed; the error itself for a module of Podium."""
    package = (error.name or "podium").partition(".")[0]
    entry = COMMANDS.get(name)
    if package in ("podium", "kubecel") or entry is None:
        return error
    if package in _UNIX_ONLY or (package == "uvloop" and sys.platform == "win32"):
        return PodiumUsageError(f"podium {name} does not run on Windows. Use Linux, macOS or WSL")
    return PodiumUsageError(
        f"podium {name} needs the package {package}. Run: pip install 'podium-k8s[{entry.extra}]'"
    )


def _hint(error: click.UsageError) -> str:
    """Return what to write instead of a usual slip, or an empty text."""
    if isinstance(error, click.BadParameter) and error.param is not None and error.param.name == "format":
        return "To write a file, use --output-file FILE. To select fields, use -o json and jq"
    context = error.ctx
    options = {name for parameter in context.command.params for name in parameter.opts} if context else set()
    extra = _EXTRA.match(error.message)
    if context is None or "--filename" not in options:
        return ""
    if isinstance(error, click.NoSuchOption) and error.option_name in ("-k", "--kustomize"):
        return f"Build it first: kubectl kustomize DIR | {context.command_path} -f -"
    if extra is None:
        return ""
    word = extra[1]
    if word == "help":
        return f"Use {context.command_path} --help"
    kind, slash, name = word.partition("/")
    if slash and "--pod" in options and kind.lower() in ("pod", "pods", "po"):
        return f"To plan for a pod, use --pod {name}"
    return f"To read a file or folder, use -f {word}"


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="podium")
def command() -> None:
    """Admission, priority and preemption for Kubernetes workloads."""


def main() -> None:
    """Run the command line; a PodiumError becomes one line and exit code 1 or 2."""
    _open_closed_streams()
    _write_utf8()
    try:
        if COMPLETE in os.environ:
            importlib.import_module(_MODULES + "completion")
        command(prog_name=_program_name(sys.argv[0]), complete_var=COMPLETE)
    except PodiumError as error:
        say(f"podium: {error}")
        sys.exit(EXIT_USAGE if isinstance(error, PodiumUsageError) else EXIT_FAILED)
    except OSError as error:
        # Either the reader of our output exited (`podium ... | head`), which needs no message, or a disk is
        # full. Data left in the buffer would fail again at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            say(f"podium: {error}")
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


def _write_utf8() -> None:
    """Write UTF-8 to both streams, as reports do. Windows would use the code page, which lacks characters."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    escape_stderr()
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415 - only here

        # STD_OUTPUT_HANDLE and STD_ERROR_HANDLE get ENABLE_VIRTUAL_TERMINAL_PROCESSING, so that consoles show
        # colours. The call fails without effect for a file or a pipe.
        for handle in (-11, -12):
            ctypes.windll.kernel32.SetConsoleMode(ctypes.windll.kernel32.GetStdHandle(handle), 0b111)


def _program_name(argv0: str) -> str:
    return "kubectl podium" if os.path.basename(argv0).startswith("kubectl-") else "podium"  # noqa: PTH119
