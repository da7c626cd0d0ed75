"""The examples in the help of the commands, and where each one runs."""

import importlib
import re

import click

from podium.cli.main import COMMANDS


def _epilog(name: str) -> str:
    command = importlib.import_module(f"podium.cli.commands.{name}").command
    assert isinstance(command, click.Command)
    return command.epilog or ""


def offered(name: str) -> list[str]:
    """Return the descriptions of the examples of a command."""
    return re.findall(r"^  # (.+)$", _epilog(name), re.MULTILINE)


def _examples(name: str) -> list[str]:
    return re.findall(r"^  ([^#\s].*)$", _epilog(name), re.MULTILINE)


# The command lines by command.
EXAMPLES = {name: _examples(name) for name in COMMANDS}
_LINES = [line for lines in EXAMPLES.values() for line in lines]
_UI = re.compile(r"podium ui\b")
_PIPED = re.compile(r"\| kubectl ")
# Commands that neither read nor start a cluster.
_LOCAL = re.compile(r"(?:source <\()?podium (?:manifests|completion|convert|admit) ")
# Examples without a cluster, examples of `podium ui`, and examples that need a cluster.
UI = [line for line in _LINES if _UI.match(line)]
OFFLINE = [
    line
    for line in _LINES
    if line not in UI and (" -f " in line or _LOCAL.match(line)) and not _PIPED.search(line)
]
LIVE = [line for line in _LINES if line not in UI and line not in OFFLINE]
