"""The matrix of docs/versions.md: the Kubernetes versions of each command, from doctor and the readers."""

import re
from collections.abc import Iterator

import click
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.minors import WORKLOAD_VERSIONS
from podium.cli.main import COMMANDS
from podium.cli.main import command as podium
from podium.ops.doctor.server import MINIMA

_MINORS = range(31, max(WORKLOAD_VERSIONS) + 1)
_CLI, _ADMISSION, _SCHEDULER = (each.minor for each in MINIMA)
# The first minor of a cluster; commands not listed here read no cluster.
_FROM = {
    **dict.fromkeys(("audit", "admit", "whatif", "why", "preflight", "dump", "doctor", "report", "ui"), _CLI),
    **dict.fromkeys(("webhook", "controller", "manifests"), _ADMISSION),
    "migrate": min(WORKLOAD_VERSIONS),
    "scheduler": _SCHEDULER,
}
_LOCAL = ("convert", "explain", "completion")
_VERSION = re.compile(r"1\.\d\d")


def reference() -> str:
    """Return the tables in Markdown.

    Raises ValueError for a command that is in none.
    """
    return f"{_matrix()}\n{_native()}\n{_options()}"


def _matrix() -> str:
    if unknown := COMMANDS.keys() - _FROM.keys() - set(_LOCAL):
        raise ValueError(f"docs/versions.md says nothing of {', '.join(sorted(unknown))}")
    heads = "".join(f" 1.{minor} |" for minor in _MINORS)
    rows = "".join(
        f"| `podium {name}` |" + "".join(f" {_cell(_FROM[name], minor)} |" for minor in _MINORS) + "\n"
        for name in COMMANDS
        if name in _FROM
    )
    return f"### Commands\n\n| |{heads}\n|---|{'---|' * len(_MINORS)}\n{rows}"


def _cell(first: int, minor: int) -> str:
    if minor < first:
        return "no"
    if minor < _ADMISSION:
        return "pods"
    return "own, native" if minor in WORKLOAD_VERSIONS else "own"


def _native() -> str:
    rows = "".join(
        f"| 1.{minor} | {', '.join(f'`{each}`' for each in versions)} "
        f"| {', '.join(f'`{each}`' for each in RELEASES[f'1.{minor}'].feature_gates)} "
        f"| {RELEASES[f'1.{minor}'].version} |\n"
        for minor, versions in WORKLOAD_VERSIONS.items()
    )
    return (
        "### The native Workload API\n\n"
        f"| Kubernetes | Versions | Gates, off by default | Tests run on |\n|---|---|---|---|\n{rows}"
    )


def _options() -> str:
    rows = "".join(
        f"| `podium {name} {option}` | {', '.join(f'`{each}`' for each in choices)} |\n"
        for name, option, choices in _choices(podium, "")
    )
    return f"### Minors that can be asked for\n\n| Option | Values |\n|---|---|\n{rows}"


def _choices(of: click.Command, name: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the options with a minor, of a command and of its subcommands."""
    if isinstance(of, click.Group):
        for each in of.list_commands(click.Context(of)):
            below = of.get_command(click.Context(of), each)
            assert below is not None
            yield from _choices(below, f"{name} {each}".strip())
    for parameter in of.params:
        choices = [str(each) for each in getattr(parameter.type, "choices", ())]
        if any(_VERSION.fullmatch(each) for each in choices):
            yield name, parameter.opts[0], choices
