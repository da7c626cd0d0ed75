"""`podium cluster`: a real control plane on this machine, for experiments and for tests of other projects.

The kubeconfig's path is the only output on stdout, so `export KUBECONFIG=$(podium cluster up)` works. All
other output of `up` goes to stderr.
"""

import os
import re
import sys
import time
from pathlib import Path

import click

from podium.cli.main import examples
from podium.cli.render.text import Layout
from podium.controlplane import cluster, folders, programs
from podium.controlplane.build import PROGRAMS
from podium.controlplane.releases import NEWEST, RELEASES
from podium.controlplane.state import access, load

DEFAULT_NAME = "podium"
_NOT_ALL_RUN = 3
_HEADINGS = ("CLUSTER", "COMPONENT", "PID", "STATE", "VERSION", "UPTIME")


def _name(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", value):
        raise click.BadParameter("a name is up to 40 lower case letters, digits and inner dashes")
    return value


name_option = click.option(
    "--name", default=DEFAULT_NAME, show_default=True, callback=_name, help="Name of the cluster."
)
kubernetes_option = click.option(
    "--kubernetes", type=click.Choice(list(RELEASES)), help=f"Kubernetes minor.  [default: {NEWEST.minor}]"
)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        ("Start a control plane of Kubernetes 1.36", "podium cluster up --kubernetes 1.36"),
        ("Stop it and remove its data", "podium cluster down"),
    ),
)
def command() -> None:
    """Start and stop a real control plane on this machine.

    A cluster is etcd and the released kube-apiserver, kube-controller-manager and kube-scheduler, on
    loopback, with fake nodes run by kwok.
    """


@command.command()
@name_option
@kubernetes_option
@click.option(
    "--nodes",
    type=click.IntRange(0),
    help=f"Minimum number of fake nodes.  [default: {cluster.DEFAULT_NODES} for a new cluster]",
)
@click.option(
    "--workload-api/--no-workload-api",
    default=None,
    help="Enable the feature gates of Workload and PodGroup.  [default: on]",
)
def up(name: str, kubernetes: str | None, nodes: int | None, workload_api: bool | None) -> None:
    """Start a cluster and print the path of its kubeconfig.

    Its programs are built first, which takes minutes, unless KUBEBUILDER_ASSETS names a folder that has them.
    """
    folder = folders.clusters() / name
    before = time.monotonic()
    wanted = cluster.WantedCluster(kubernetes=kubernetes, nodes=nodes, workload_api=workload_api)
    state, started = cluster.up(folder, wanted, os.environ, sys.stderr)
    what = f"cluster {name}: Kubernetes {state.settings.release.version}"
    without = "" if state.settings.workload_api else " without the Workload API"
    how = f"is ready after {time.monotonic() - before:.0f} s" if started else "is already running"
    click.echo(f"{what}{without} {how}. To stop it: `podium cluster down --name {name}`", err=True)
    click.echo(access(folder, state.settings).kubeconfig)


@command.command()
@name_option
def down(name: str) -> None:
    """Stop a cluster and remove all of its data."""
    gone = cluster.down(folders.clusters() / name, sys.stderr)
    click.echo(
        f"cluster {name} is stopped and removed" if gone else f"cluster {name} does not exist", err=True
    )


@command.command()
def status() -> None:
    """Show the processes of every cluster; exit 3 when there is none, or some do not run."""
    rows = [row for folder in _folders() for row in _rows(folder)]
    if rows:
        table = Layout(width=None, colour=False)
        table.columns(_HEADINGS, rows)
        click.echo(table.text(), nl=False)
    else:
        click.echo("no cluster. To start one: `podium cluster up`")
    if not rows or any(row[3] != "running" for row in rows):
        sys.exit(_NOT_ALL_RUN)


@command.command()
@kubernetes_option
def build(kubernetes: str | None) -> None:
    """Build a cluster's programs, by default for every minor, and print their folder."""
    for release in [RELEASES[kubernetes]] if kubernetes else RELEASES.values():
        found = programs.find(release, PROGRAMS, os.environ, sys.stderr)
        click.echo(found["kube-apiserver"].parent)


def _folders() -> list[Path]:
    root = folders.clusters()
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _rows(folder: Path) -> list[tuple[str, ...]]:
    state = load(folder)
    return [
        (
            folder.name,
            row.component,
            str(row.pid),
            "stopped" if row.uptime is None else "running",
            row.version,
            "" if row.uptime is None else _duration(row.uptime),
        )
        for row in (cluster.status(state, time.time()) if state else ())
    ]


def _duration(seconds: float) -> str:
    """Return a duration as kubectl prints an age: the two largest units at most."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = ((days, "d"), (hours, "h"), (minutes, "m"), (rest, "s"))
    largest = next((at for at, (number, _) in enumerate(units) if number), 0)
    return "".join(f"{number}{unit}" for number, unit in units[largest : largest + 2] if number) or "0s"
