"""A cluster of real nodes on this machine: each has kubelet, containerd and kube-proxy in its own namespaces.

It is a cluster of podium.controlplane with other nodes: the same folder, components, credentials and
kubeconfig. Its API server is reached through the gateway. `down` needs only the folder's name, because the
kernel knows which processes are in the cluster's cgroups.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from podium.controlplane import programs as controlplane_programs
from podium.controlplane.cached import digest
from podium.controlplane.cluster import WantedCluster, check_same, locked
from podium.controlplane.components import ClusterSettings
from podium.controlplane.process import wait_until
from podium.controlplane.releases import NEWEST
from podium.controlplane.state import ControlPlaneState, load
from podium.errors import PodiumError
from podium.realnode import cgroups, identities, programs, requirements
from podium.realnode.start import CONTROL_PLANE, Start

DEFAULT_NODES = 2
# The addresses of network.py have room for more, one machine has not.
MOST_NODES = 9
_DOWN_SECONDS = 20.0


def up(
    folder: Path, wanted: WantedCluster, environ: Mapping[str, str], progress: IO[str]
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
            check_same(state.settings, wanted._replace(real_nodes=DEFAULT_NODES) if is_fake else wanted)
            _check_whole(state)
            return state, False
        settings = new_settings(folder.name, wanted)
        release = settings.release
        control_plane = controlplane_programs.find(release, CONTROL_PLANE, environ, progress)
        node_programs = programs.find(release, environ, progress)
        print(
            f"starting Kubernetes {release.version} with {settings.real_nodes} nodes",
            file=progress,
            flush=True,
        )
        state = ControlPlaneState(settings)
        try:
            Start(folder, cgroup(folder), state, control_plane, node_programs).run()
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


def new_settings(name: str, wanted: WantedCluster) -> ClusterSettings:
    """Return the properties of a new cluster, whose API server has no port yet."""
    return ClusterSettings(
        name=name,
        kubernetes=wanted.kubernetes or NEWEST.minor,
        workload_api=wanted.workload_api is not False,
        controllers=True,
        ports={},
        real_nodes=wanted.real_nodes or DEFAULT_NODES,
        apiserver=(*identities.APISERVER, *wanted.apiserver),
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
            f"cluster {name} cannot be used, because {which}: `podium cluster down --name {name}` first"
        )
