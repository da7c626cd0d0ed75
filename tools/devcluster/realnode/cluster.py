"""A cluster of real nodes on this machine: each has kubelet, containerd and kube-proxy in its own namespaces.

It is a cluster of the package `controlplane` with other nodes: the same folder, components, credentials and
kubeconfig. Its API server is reached through the gateway. `down` needs only the folder's name, because the
kernel knows which processes are in the cluster's cgroups.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec
from tools.devcluster.controlplane import process, readiness
from tools.devcluster.controlplane import programs as controlplane_programs
from tools.devcluster.controlplane.cluster import WantedCluster, check_same, locked, write_credentials
from tools.devcluster.controlplane.components import ClusterSettings, commands, log
from tools.devcluster.controlplane.folders import digest
from tools.devcluster.controlplane.nodes import node_name
from tools.devcluster.controlplane.process import Process, wait_until
from tools.devcluster.controlplane.releases import NEWEST
from tools.devcluster.controlplane.state import ControlPlaneState, Running, load, save
from tools.devcluster.realnode import (
    cgroups,
    entry,
    gateway,
    identities,
    namespaces,
    network,
    nodefiles,
    programs,
    requirements,
)
from tools.devcluster.realnode.cgroups import WORLD
from tools.devcluster.realnode.nodefiles import Programs

from podium.errors import PodiumError

DEFAULT_NODES = 2
# The addresses of network.py have room for more, one machine has not.
MOST_NODES = 9
_DOWN_SECONDS = 20.0
_CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# In a network of their own, these have the ports that Kubernetes documents.
_PORTS = {"kube-controller-manager": 10257, "kube-scheduler": 10259}
_ALL = ("mount", "net", "pid", "uts", "ipc", "cgroup")


def up(
    folder: Path, requested: WantedCluster, environ: Mapping[str, str], progress: IO[str]
) -> tuple[ControlPlaneState, bool]:
    """Start the cluster in `folder` until its nodes are ready; return it, and whether it was started.

    Programs that are missing are built first. Raises PodiumError if this machine cannot run it, if a cluster
    of another kind or with dead processes is in the folder, or if a component does not start. In the last
    case the cluster is ended and its logs stay.
    """
    requirements.check()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder, progress):
        state = load(folder)
        if state is not None:
            is_fake = not state.settings.real_nodes
            check_same(state.settings, requested._replace(real_nodes=DEFAULT_NODES) if is_fake else requested)
            _check_whole(state)
            return state, False
        settings = new_settings(folder.name, requested)
        release = settings.release
        control_plane = controlplane_programs.find(release, _CONTROL_PLANE, environ, progress)
        node_programs = programs.find(release, environ, progress)
        print(
            f"starting Kubernetes {release.version} with {settings.real_nodes} nodes",
            file=progress,
            flush=True,
        )
        state = ControlPlaneState(settings)
        try:
            _Start(folder, cgroup(folder), state, control_plane, node_programs).run()
        except BaseException:
            _end(folder)
            raise
    return state, True


def down(folder: Path, progress: IO[str]) -> bool:
    """End the cluster in `folder` and remove its cgroups and the folder; return False if there is none."""
    if not folder.is_dir():
        return False
    with locked(folder, progress):
        _end(folder)
        shutil.rmtree(folder)
    return True


def is_real(folder: Path) -> bool:
    """Return whether the cluster in `folder` has real nodes."""
    state = load(folder)
    return state is not None and state.settings.real_nodes > 0


def new_settings(name: str, requested: WantedCluster) -> ClusterSettings:
    """Return the properties of a new cluster, whose API server has no port yet."""
    return ClusterSettings(
        name=name,
        kubernetes=requested.kubernetes or NEWEST.minor,
        workload_api=requested.workload_api is not False,
        controllers=True,
        ports={},
        real_nodes=requested.real_nodes or DEFAULT_NODES,
        apiserver=(*identities.APISERVER, *requested.apiserver),
    )


def cgroup(folder: Path) -> str:
    """Return the name of a cluster's cgroups: equal names in other folders differ."""
    return f"podium-{folder.name}-{digest([os.fsencode(folder.resolve())])[:8]}"


def _end(folder: Path) -> None:
    """Kill every process of a cluster and remove its cgroups. Raises PodiumError if some stay.

    The first processes of the namespaces are among them, and the kernel ends the rest with them.
    """
    mounted = cgroups.mounted()
    name = cgroup(folder)

    def gone() -> bool:
        for pid in cgroups.members(mounted, name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return cgroups.remove(mounted, name)

    if not wait_until(gone, seconds=_DOWN_SECONDS):
        left = ", ".join(map(str, sorted(cgroups.members(mounted, name)))) or "none"
        raise PodiumError(f"the cgroups {name} cannot be removed; processes in them: {left}")


def _check_whole(state: ControlPlaneState) -> None:
    dead = [name for name in state.components if not state.runs(name)]
    if dead or not state.components:
        name = state.settings.name
        which = f"{dead[0]} does not run" if dead else "it was not started completely"
        raise PodiumError(
            f"cluster {name} cannot be used, because {which}: `make cluster-down NAME={name}` first"
        )


class _Start:
    """One start of a cluster: first the network and the control plane, then node after node.

    Every command and every file is planned by other modules. This class runs and writes them, and records
    each process before it starts the next.
    """

    def __init__(
        self,
        folder: Path,
        cgroup: str,
        state: ControlPlaneState,
        control_plane: Mapping[str, Path],
        node_programs: Programs,
    ) -> None:
        """Prepare the start, without doing anything; `cgroup` is the name of the cluster's cgroups."""
        self._folder = folder
        self._cgroup = cgroup
        self._state = state
        self._control_plane = control_plane
        self._programs = node_programs
        self._hierarchies = cgroups.mounted()
        self._nodes = state.settings.real_nodes

    def run(self) -> None:
        """Start everything and wait until every node is ready. Raises PodiumError if that fails."""
        identities.write(self._folder, self._nodes)
        with contextlib.ExitStack() as held:
            chosen = {"kube-apiserver": process.reserve_port(held, 0), **_PORTS}
            self._state.settings = msgspec.structs.replace(self._state.settings, ports=chosen)
            save(self._folder, self._state)
            self._make_world()
            self._start_control_plane()
        for index in range(self._nodes):
            self._make_node(index)
        for index in range(self._nodes):
            self._start_node(index)
        keeper = _component("kubelet", node_name(0))
        readiness.wait_for_pods(self._folder, self._state, self._nodes, keeper)

    def _make_world(self) -> None:
        """Make the network of the control plane, and the gateway to it."""
        self._hold(WORLD, namespaces.world(self._programs.toolbox))
        settings = self._state.settings
        self._prepare(WORLD, ("net", "uts"), network.world(f"podium-{settings.name}", self._nodes))
        pid = entry.holder(self._state, WORLD).pid
        argv = (
            sys.executable,
            "-I",
            gateway.__file__,
            str(settings.ports["kube-apiserver"]),
            f"/proc/{pid}/ns/net",
        )
        self._spawn("gateway", WORLD, [*namespaces.enter(pid, "pid"), *argv])

    def _start_control_plane(self) -> None:
        inside = namespaces.enter(entry.holder(self._state, WORLD).pid, "net", "pid")
        arguments = commands(self._state.settings)
        for name in _CONTROL_PLANE:
            program = self._control_plane[name]
            version = controlplane_programs.version(program)
            self._spawn(name, WORLD, [*inside, str(program), *arguments[name]], version)
            if name in ("etcd", "kube-apiserver"):
                readiness.wait_for(self._folder, self._state, name)
            if name == "kube-apiserver":
                write_credentials(self._folder, self._state.settings)
                identities.write_inside(self._folder, self._state.settings)

    def _make_node(self, index: int) -> None:
        """Make a node's namespaces, network and file system."""
        name = node_name(index)
        world = entry.holder(self._state, WORLD).pid
        self._hold(name, namespaces.node(world, self._programs.toolbox, network=index > 0))
        self._prepare(name, ("uts",), [network.line("hostname", name)])
        if index:
            self._prepare(WORLD, ("net",), network.cable(index, entry.holder(self._state, name).pid))
            self._prepare(name, ("net",), network.node(index, self._nodes))
        folder = self._folder / name
        _write(folder / nodefiles.UPPER, nodefiles.files(index))
        _write(
            folder / nodefiles.UPPER, identities.node_files(self._folder, self._state.settings, index), 0o600
        )
        _write(folder, nodefiles.sysctl_files())
        self._prepare(name, _ALL, nodefiles.mounts(folder, self._programs, self._hierarchies))

    def _start_node(self, index: int) -> None:
        """Start a node's programs; kubelet only when containerd has the sandbox image."""
        name = node_name(index)
        inside = entry.node_command(self._state, name)
        for program, argv in nodefiles.commands(index).items():
            component = _component(program, name)
            version = controlplane_programs.version(self._programs.path(program))
            self._spawn(component, name, [*inside, *argv], version)
            if program == "containerd":
                readiness.wait_while_alive(
                    self._folder, self._state, component, lambda: _succeeds([*inside, "ctr", "version"])
                )
                entry.load(self._state, self._programs.sandbox, [name])

    def _hold(self, part: str, argv: Sequence[str]) -> None:
        """Make the cgroups and namespaces of a part, and record the process that holds them."""
        planned = cgroups.create(self._hierarchies, self._cgroup, part)
        namespaces.run([], planned, f"making the cgroups of {part}")
        folders = cgroups.folders(self._hierarchies, self._cgroup, part)
        started = process.spawn(
            cgroups.entering(folders, argv), folder=self._folder, log=self._folder / log(part)
        )
        self._record(part, namespaces.holder(started, self._folder / log(part)), "")
        planned = cgroups.delegate(self._hierarchies, self._cgroup, part)
        namespaces.run([], planned, f"delegating the cgroups of {part}")

    def _prepare(self, part: str, kinds: tuple[str, ...], plan: Sequence[str]) -> None:
        """Run planned commands in some namespaces of a part."""
        inside = namespaces.enter(entry.holder(self._state, part).pid, *kinds)
        namespaces.run(inside, plan, f"preparing {part}")

    def _spawn(self, component: str, part: str, argv: Sequence[str], version: str = "") -> None:
        homes = cgroups.homes(self._hierarchies, self._cgroup, part)
        path = self._folder / log(component)
        started = process.spawn(cgroups.entering(homes, argv), folder=self._folder, log=path)
        self._record(component, started, version)

    def _record(self, component: str, started: Process, version: str) -> None:
        # Saved at once, so that a command at any later time knows this process.
        self._state.components[component] = Running(started, version, time.time())
        save(self._folder, self._state)


def _component(program: str, node: str) -> str:
    return f"{program}-{node}"


def _write(folder: Path, files: Mapping[str, str], mode: int = 0o644) -> None:
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        place.chmod(mode)


def _succeeds(argv: Iterable[str]) -> bool:
    return process.capture(list(argv), os.environ).returncode == 0
