"""The matrix of docs/versions.md: the Kubernetes versions of each command, from doctor and the readers."""

import re
from collections.abc import Iterable, Iterator

import click
from tools.devcluster.controlplane.releases import BUILDABLE, RELEASES

from podium.api.minors import GROUP_MINORS, WORKLOAD_VERSIONS, named
from podium.cli.main import COMMANDS
from podium.cli.main import command as podium
from podium.minors.minor import FeatureGate, Minor, ServedKind
from podium.ops.doctor.server import MINIMA
from podium.text import listed

_MINORS = range(31, max(WORKLOAD_VERSIONS) + 1)
_CLI, _ADMISSION, _SCHEDULER = (minimum.minor for minimum in MINIMA)
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
    return f"{_matrix()}\n{_native()}\n{_gates()}\n{_options()}"


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
        f"| {named(number)} | {_kinds(minor)} | {_coded(minor.workload_gates)} | {_tested(minor)} |\n"
        for number, minor in GROUP_MINORS.items()
    )
    return (
        "### The native Workload API\n\n"
        "The version in bold is stored.\n\n"
        "| Kubernetes | Kinds and versions | Gates, off by default | Tests run on |\n|---|---|---|---|\n"
        f"{rows}"
    )


def _kinds(minor: Minor) -> str:
    """Return the versions of all kinds; kinds with the same versions are listed together."""
    kinds: dict[ServedKind, list[str]] = {}
    for kind, served in minor.kinds.items():
        kinds.setdefault(served, []).append(kind)
    return "; ".join(f"{listed(names)}: {_versions(served)}" for served, names in kinds.items())


def _versions(served: ServedKind) -> str:
    return ", ".join(f"**{version}**" if version == served.stored else version for version in served.versions)


def _tested(minor: Minor) -> str:
    version = BUILDABLE[minor.name].version
    return version if minor.name in RELEASES else f"{version}: admission, conversion, decisions"


def _coded(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _gates() -> str:
    names = dict.fromkeys(name for minor in GROUP_MINORS.values() for name in minor.gates)
    heads = "".join(f" {named(number)} |" for number in GROUP_MINORS)
    rows = "".join(
        f"| `{name}` |"
        + "".join(f" {_gate(minor.gates.get(name))} |" for minor in GROUP_MINORS.values())
        + f" {_coded(_needs(name))} |\n"
        for name in names
    )
    removed = "".join(
        f"| {named(number)} | {_coded(sorted(minor.removed_gates))} |\n"
        for number, minor in GROUP_MINORS.items()
    )
    return (
        "### Feature gates\n\n"
        f"| Gate |{heads} Needs |\n|---|{'---|' * len(GROUP_MINORS)}---|\n{rows}\n"
        "A component does not start with a gate that it does not know. These are unknown from a minor on:\n\n"
        f"| Kubernetes | Gates |\n|---|---|\n{removed}"
    )


def _gate(gate: FeatureGate | None) -> str:
    if gate is None:
        return "unknown"
    return f"{gate.stage}, {'on' if gate.on else 'off'}{', locked' if gate.locked else ''}"


def _needs(name: str) -> tuple[str, ...]:
    """Return the gates that a gate needs in the newest minor that knows it."""
    known = [minor.gates[name] for minor in GROUP_MINORS.values() if name in minor.gates]
    return known[-1].needs


def _options() -> str:
    rows = "".join(
        f"| `podium {name} {option}` | {', '.join(f'`{choice}`' for choice in choices)} |\n"
        for name, option, choices in _choices(podium, "")
    )
    return f"### Minors that can be asked for\n\n| Option | Values |\n|---|---|\n{rows}"


def _choices(of: click.Command, name: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the options with a minor, of a command and of its subcommands."""
    if isinstance(of, click.Group):
        for subcommand in of.list_commands(click.Context(of)):
            below = of.get_command(click.Context(of), subcommand)
            assert below is not None
            yield from _choices(below, f"{name} {subcommand}".strip())
    for parameter in of.params:
        choices = [str(choice) for choice in getattr(parameter.type, "choices", ())]
        if any(_VERSION.fullmatch(choice) for choice in choices):
            yield name, parameter.opts[0], choices
