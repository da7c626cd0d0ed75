"""`podium completion`: what makes a shell, or kubectl, complete podium's commands, options and values.

click knows what can be written, and the protocols of the shells. What it lacks is here: that a value which
it knows nothing of may be a file, and kubectl, which asks a program beside the plugin for what may follow.
Nothing is asked of a cluster.
"""

import sys

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
)

from podium.cli.main import COMPLETE

# Of cobra, which kubectl is made with: what a shell does beside offering what is listed.
_FILES_TOO, _NO_FILES = ":0", ":4"


class _OrFile(ShellComplete):
    """Offers files where nothing else is known, as shells do."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        # A word of its own to bash, and no value.
        given = args[:-1] if args[-1:] == ["="] else args
        found = super().get_completions(given, incomplete)
        if found or not args or (incomplete.startswith("-") and "=" not in incomplete):
            return found
        return [CompletionItem(incomplete.rpartition("=")[2], type="file")]


class _Bash(_OrFile, BashComplete):
    pass


class _Zsh(_OrFile, ZshComplete):
    pass


class _Fish(_OrFile, FishComplete):
    pass


class _Kubectl(_OrFile):
    """The program `kubectl_complete-podium`: its arguments are what was written, and the last is not done."""

    name = "kubectl"
    source_template = '#!/bin/sh\n%(complete_var)s=kubectl_complete exec %(prog_name)s "$@"\n'

    def get_completion_args(self) -> tuple[list[str], str]:
        *args, incomplete = sys.argv[1:] or [""]
        return args, incomplete

    def complete(self) -> str:
        args, incomplete = self.get_completion_args()
        found = self.get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        before = option + equals if option.startswith("-") and equals else ""
        plain = [f"{before}{item.value}\t{item.help or ''}" for item in found if item.type == "plain"]
        return "\n".join([*plain, _NO_FILES if len(plain) == len(found) else _FILES_TOO])


_SHELLS = (_Bash, _Zsh, _Fish, _Kubectl)
for _shell in _SHELLS:
    add_completion_class(_shell)


@click.command("completion", short_help="Print what completes podium in a shell, or under kubectl.")
@click.argument("shell", type=click.Choice([each.name for each in _SHELLS]))
def command(shell: str) -> None:
    """Print what completes podium in a shell, or under kubectl.

    \b
    bash (4.4 or later):
        source <(podium completion bash)
    zsh, after compinit:
        source <(podium completion zsh)
    fish:
        podium completion fish | source
    kubectl podium, in any shell that completes kubectl: a program on the PATH
        podium completion kubectl >kubectl_complete-podium
        chmod +x kubectl_complete-podium
    """  # noqa: D301 - click's mark of a part whose lines stay
    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "podium", COMPLETE).source(), nl=False)
