"""The start of a cluster of real nodes: first the network and the control plane, then node after node.

Every command and every file is planned by the other modules. This one runs and writes them, and records each
process before it starts the next.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from podium.controlplane import ports, process, readiness
from podium.controlplane import programs as controlplane_programs
from podium.controlplane.cluster import write_credentials
from podium.controlplane.components import commands, log
from podium.controlplane.nodes import node_name
from podium.controlplane.process import Process
from podium.controlplane.state import ControlPlaneState, Running, save
from podium.realnode import cgroups, entry, filesystem, identities, namespaces, network, nodefiles
from podium.realnode.cgroups import WORLD
from podium.realnode.filesystem import Programs

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# In a network of their own, these have the ports that Kubernetes documents.
_PORTS = {"kube-controller-manager": 10257, "kube-scheduler": 10259}
_ALL = ("mount", "net", "pid", "uts", "ipc", "cgroup")


class Start:
    """One start of a cluster; `state` is saved after each process."""

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
            chosen = {"kube-apiserver": ports.reserve(held, 0), **_PORTS}
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
        module = (sys.executable, "-m", "podium.realnode.gateway")
        argv = (*module, str(settings.ports["kube-apiserver"]), f"/proc/{pid}/ns/net")
        self._spawn("gateway", WORLD, [*namespaces.enter(pid, "pid"), *argv])

    def _start_control_plane(self) -> None:
        inside = namespaces.enter(entry.holder(self._state, WORLD).pid, "net", "pid")
        arguments = commands(self._state.settings, stages=Path())
        for name in CONTROL_PLANE:
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
        _write(folder / filesystem.UPPER, nodefiles.files(index))
        _write(
            folder / filesystem.UPPER, identities.node_files(self._folder, self._state.settings, index), 0o600
        )
        _write(folder, filesystem.sysctl_files())
        self._prepare(name, _ALL, filesystem.mounts(folder, self._programs, self._hierarchies))

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
