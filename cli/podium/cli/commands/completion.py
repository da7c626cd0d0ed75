"""`podium completion`: scripts with which a shell, or kubectl, completes podium's commands and options.

click knows the possible values and the protocols of the shells. This module adds two things. A value that
click does not know may be a file, and kubectl asks a program beside the plugin for completions. No cluster is
contacted.
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

from podium.cli.main import COMPLETE, examples

# Directives of cobra, on which kubectl is built: what a shell does in addition to the listed values.
_FILES_TOO, _NO_FILES = ":0", ":4"


class _OrFile(ShellComplete):
    """Offers files if nothing else matches, as shells do."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        # For bash this is a separate word without a value.
        given = args[:-1] if args[-1:] == ["="] else args
        items = super().get_completions(given, incomplete)
        if items or not args or (incomplete.startswith("-") and "=" not in incomplete):
            return items
        return [CompletionItem(incomplete.rpartition("=")[2], type="file")]


class _Bash(_OrFile, BashComplete):
    pass


class _Zsh(_OrFile, ZshComplete):
    pass


class _Fish(_OrFile, FishComplete):
    pass


class _Kubectl(_OrFile):
    """The program `kubectl_complete-podium`: its arguments are the words so far, the last is incomplete."""

    name = "kubectl"
    source_template = '#!/bin/sh\n%(complete_var)s=kubectl_complete exec %(prog_name)s "$@"\n'

    def get_completion_args(self) -> tuple[list[str], str]:
        *args, incomplete = sys.argv[1:] or [""]
        return args, incomplete

    def complete(self) -> str:
        args, incomplete = self.get_completion_args()
        items = self.get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        before = option + equals if option.startswith("-") and equals else ""
        plain = [f"{before}{item.value}\t{item.help or ''}" for item in items if item.type == "plain"]
        return "\n".join([*plain, _NO_FILES if len(plain) == len(items) else _FILES_TOO])


_SHELLS = (_Bash, _Zsh, _Fish, _Kubectl)
for _shell in _SHELLS:
    add_completion_class(_shell)


@click.command(
    epilog=examples(
        ("Complete podium in this bash", "source <(podium completion bash)"),
        ("Write the completion plugin of kubectl", "podium completion kubectl >kubectl_complete-podium"),
    )
)
@click.argument("shell", type=click.Choice([shell_class.name for shell_class in _SHELLS]))
def command(shell: str) -> None:
    """Print the completion script of a shell, or the completion plugin of kubectl.

    \b
    bash (4.4 or later):
        source <(podium completion bash)
    zsh, after compinit:
        source <(podium completion zsh)
    fish:
        podium completion fish | source
    kubectl podium: an executable file on the PATH
        podium completion kubectl >kubectl_complete-podium
        chmod +x kubectl_complete-podium
    """  # noqa: D301 - \b keeps the lines of a paragraph
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    root = click.get_current_context().find_root().command
    click.echo(shell_class(root, {}, "podium", COMPLETE).source(), nl=False)
