"""Kubernetes clusters on this machine, for people and tests: `make cluster`, or `python -m tools.devcluster`.

The kubeconfig's path is the only output of `up` on stdout, so `export KUBECONFIG=$(make -s cluster)` works.
All other output of `up` goes to stderr.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import click
from tools.devcluster.controlplane import cluster, folders, programs
from tools.devcluster.controlplane.programs import PROGRAMS
from tools.devcluster.controlplane.releases import BUILDABLE, NEWEST, RELEASES
from tools.devcluster.controlplane.state import ControlPlaneState, access, load
from tools.devcluster.realnode import cluster as real
from tools.devcluster.realnode import entry, requirements
from tools.devcluster.realnode import programs as node_programs

from podium.cli.render.text import Layout
from podium.errors import PodiumError
from podium.stderr import say

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
    "--kubernetes", type=click.Choice(list(BUILDABLE)), help=f"Kubernetes minor.  [default: {NEWEST.minor}]"
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Start and stop Kubernetes clusters on this machine.

    A cluster is etcd and the released kube-apiserver, kube-controller-manager and kube-scheduler, on
    loopback, with fake nodes run by kwok. With --real, its nodes run containers.
    """


@command.command()
@name_option
@kubernetes_option
@click.option(
    "--nodes",
    type=click.IntRange(0),
    help="Minimum number of fake nodes, or number of real nodes."
    f"  [default: {cluster.DEFAULT_NODES} fake or {real.DEFAULT_NODES} real nodes for a new cluster]",
)
@click.option(
    "--real", "is_real", is_flag=True, help="Run kubelet and containerd on each node (Linux, root)."
)
@click.option(
    "--workload-api/--no-workload-api",
    default=None,
    help="Enable the feature gates of Workload and PodGroup.  [default: on]",
)
def up(
    name: str, kubernetes: str | None, nodes: int | None, is_real: bool, workload_api: bool | None
) -> None:
    """Start a cluster and print the path of its kubeconfig.

    Its programs are built first, which takes minutes, unless KUBEBUILDER_ASSETS names a folder that has them.
    With --real, the programs of nodes are built too, and nothing is changed on the machine outside of the
    cluster's namespaces and cgroups.
    """
    folder = folders.clusters() / name
    before = time.monotonic()
    requested = cluster.WantedCluster(kubernetes=kubernetes, workload_api=workload_api)
    if is_real:
        if nodes is not None and not 1 <= nodes <= real.MOST_NODES:
            raise click.UsageError(f"--nodes with --real is 1 to {real.MOST_NODES}")
        state, started = real.up(folder, requested._replace(real_nodes=nodes), os.environ, sys.stderr)
    else:
        state, started = cluster.up(folder, requested._replace(nodes=nodes), os.environ, sys.stderr)
    title = f"cluster {name}: Kubernetes {state.settings.release.version}"
    without = "" if state.settings.workload_api else " without the Workload API"
    how = f"is ready after {time.monotonic() - before:.0f} s" if started else "is already running"
    say(f"{title}{without} {how}. To stop it: `make cluster-down NAME={name}`")
    click.echo(access(folder, state.settings).kubeconfig)


@command.command()
@name_option
def down(name: str) -> None:
    """Stop a cluster and remove all of its data."""
    folder = folders.clusters() / name
    gone = (real if real.is_real(folder) else cluster).down(folder, sys.stderr)
    say(f"cluster {name} is stopped and removed" if gone else f"cluster {name} does not exist")


@command.command()
def status() -> None:
    """Show the processes of every cluster; exit 3 when there is none, or some do not run."""
    rows = [row for folder in _folders() for row in _rows(folder)]
    if rows:
        table = Layout(width=None, colour=False)
        table.columns(_HEADINGS, rows)
        click.echo(table.text(), nl=False)
    else:
        click.echo("no cluster. To start one: `make cluster`")
    if not rows or any(row[3] != "running" for row in rows):
        sys.exit(_NOT_ALL_RUN)


@command.command()
@click.argument("minors", nargs=-1, type=click.Choice(list(BUILDABLE)))
@click.option("--real", "is_real", is_flag=True, help="Also build the programs of real nodes (Linux, root).")
def build(minors: tuple[str, ...], is_real: bool) -> None:
    """Build a cluster's programs, by default for every released minor, and print their folders."""
    for release in [BUILDABLE[minor] for minor in minors or RELEASES]:
        paths = programs.find(release, PROGRAMS, os.environ, sys.stderr)
        click.echo(paths["kube-apiserver"].parent)
        if is_real:
            requirements.check()
            click.echo(node_programs.find(release, os.environ, sys.stderr).kubernetes)


@command.command("load")
@name_option
@click.argument(
    "archives", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
def load_images(name: str, archives: tuple[Path, ...]) -> None:
    """Import image archives into every real node, such as those of `docker save`."""
    _, state = _real(name)
    for archive in archives:
        entry.load(state, archive)
    say(f"cluster {name}: {len(archives)} archives imported into each node")


@command.command(context_settings={"ignore_unknown_options": True})
@name_option
@click.option("--node", help="Node in which to run it, with the node's files.  [default: the network alone]")
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED)
def run(name: str, node: str | None, arguments: tuple[str, ...]) -> None:
    """Run a command in the network of a cluster with real nodes, where Services and pods can be reached.

    KUBECONFIG is set for the command, and kubectl is on its PATH. Its exit code is the exit code.
    """
    folder, state = _real(name)
    if node is None:
        begin, variables = entry.network_command(folder, state)
        kubectl = programs.find(state.settings.release, ["kubectl"], os.environ, sys.stderr)["kubectl"]
        variables["PATH"] = f"{kubectl.parent}:{os.environ['PATH']}"
    else:
        begin, variables = entry.node_command(state, node), {}
    done = subprocess.run([*begin, *arguments], env={**os.environ, **variables}, check=False)
    sys.exit(done.returncode)


def _real(name: str) -> tuple[Path, ControlPlaneState]:
    folder = folders.clusters() / name
    state = load(folder)
    if state is None or not state.settings.real_nodes:
        raise PodiumError(f"cluster {name} has no real nodes. To start one: `make cluster-real`")
    return folder, state


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


if __name__ == "__main__":
    try:
        command(prog_name="python -m tools.devcluster")
    except PodiumError as error:
        say(f"devcluster: {error}")
        sys.exit(1)
