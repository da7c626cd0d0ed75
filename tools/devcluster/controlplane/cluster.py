"""A cluster on this machine as one folder, which alone is needed to start, inspect and stop it.

`up` starts the components that do not run and waits until all are ready, so on a running cluster it does
nothing. After a crash or a reboot it starts the same cluster again, with its data.
"""

import contextlib
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from tools.devcluster.controlplane import credentials, nodes, process, programs, readiness
from tools.devcluster.controlplane.components import (
    CERTIFICATES,
    SERVER_CERTIFICATE,
    TOKENS,
    ClusterSettings,
    commands,
    kubeconfig,
    listening,
    log,
    names,
)
from tools.devcluster.controlplane.folders import alone
from tools.devcluster.controlplane.process import alive
from tools.devcluster.controlplane.releases import NEWEST
from tools.devcluster.controlplane.state import ControlPlaneState, Running, access, load, save

from podium.errors import PodiumError

DEFAULT_NODES = 3

# kube-apiserver drains its watches first; processes that still run after that have nothing to lose.
_GRACE_SECONDS = 10.0


class WantedCluster(NamedTuple):
    """The options of `up`; None keeps the present value, or means the default for a new cluster.

    `kubernetes` is the minor of one of BUILDABLE.
    """

    kubernetes: str | None = None
    workload_api: bool | None = None
    nodes: int | None = None  # Fake nodes.
    real_nodes: int | None = 0
    controllers: bool = True
    apiserver: tuple[str, ...] = ()  # Further arguments of kube-apiserver, for a new cluster.


class ProcessRow(NamedTuple):
    """A component in the output of `status`; `uptime` is in seconds, None if it does not run."""

    component: str
    pid: int
    version: str
    uptime: float | None


def up(
    folder: Path, requested: WantedCluster, environ: Mapping[str, str], progress: IO[str]
) -> tuple[ControlPlaneState, bool]:
    """Start the idle components of the cluster in `folder`, building it if necessary, until it is ready.

    Returns the cluster and whether any component was started. Raises PodiumError if the existing cluster
    differs from the wanted one, or if a component does not start. In the latter case the started components
    are stopped again and the logs stay.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder, progress):
        state = load(folder)
        is_new = state is None
        if state is None:
            state = ControlPlaneState(_new_settings(folder.name, requested))
        check_same(state.settings, requested)
        idle = [name for name in names(controllers=requested.controllers) if not state.runs(name)]
        if idle:
            paths = programs.find(state.settings.release, idle, environ, progress)
            print(f"starting Kubernetes {state.settings.release.version}", file=progress, flush=True)
            _start(folder, state, paths)
        count = DEFAULT_NODES if requested.nodes is None and is_new else requested.nodes or 0
        if requested.controllers:
            _add_nodes(folder, state, count)
    return state, bool(idle)


def down(folder: Path, progress: IO[str]) -> bool:
    """Stop every process of the cluster in `folder` and remove the folder; return False if there is none."""
    if not folder.is_dir():
        return False
    with locked(folder, progress):
        state = load(folder)
        if state is not None:
            _stop(state, state.components)
        shutil.rmtree(folder, ignore_errors=True)
    return True


def status(state: ControlPlaneState, now: float) -> list[ProcessRow]:
    """Return the components in starting order; `now` is in seconds since 1970."""
    started = names(controllers=state.settings.controllers)
    return [
        ProcessRow(
            name,
            running.process.pid,
            running.version,
            max(0.0, now - running.since) if alive(running.process) else None,
        )
        for name in (state.components if state.settings.real_nodes else started)
        if (running := state.components.get(name)) is not None
    ]


def check_same(settings: ClusterSettings, requested: WantedCluster) -> None:
    """Raise PodiumError if the existing cluster cannot be the wanted one."""
    asked = (
        ("Kubernetes", settings.kubernetes, requested.kubernetes),
        ("real nodes", settings.real_nodes, requested.real_nodes),
        ("the Workload API", settings.workload_api, requested.workload_api),
        ("controllers", settings.controllers, requested.controllers),
    )
    for label, has, want in asked:
        if want is not None and want != has:
            raise PodiumError(
                f"cluster {settings.name} was started with {label} {_word(has)}, not {_word(want)}:"
                f" `make cluster-down NAME={settings.name}` first, or choose another name"
            )


def _word(value: object) -> str:
    return ("off", "on")[value] if isinstance(value, bool) else str(value)


def locked(folder: Path, progress: IO[str]) -> contextlib.AbstractContextManager[None]:
    """Return the lock of the cluster in `folder`, for one command at a time."""
    # The lock is beside the folder, because the folder is removed while the lock is held.
    waiting = f"waiting for another command on cluster {folder.name} to end"
    return alone(folder.with_name(f".{folder.name}.lock"), lambda: print(waiting, file=progress, flush=True))


def _new_settings(name: str, requested: WantedCluster) -> ClusterSettings:
    return ClusterSettings(
        name=name,
        kubernetes=requested.kubernetes or NEWEST.minor,
        workload_api=requested.workload_api is not False,
        controllers=requested.controllers,
        ports={},
        apiserver=requested.apiserver,
    )


def _start(folder: Path, state: ControlPlaneState, paths: Mapping[str, Path]) -> None:
    """Start the components of `paths` and wait for them; all of them stay, or none."""
    with contextlib.ExitStack() as held:
        reserved = {
            name: process.reserve_port(held, state.settings.ports.get(name, 0))
            for name in listening(controllers=state.settings.controllers)
            if name in paths
        }
        state.settings = msgspec.structs.replace(state.settings, ports={**state.settings.ports, **reserved})
        for name in paths:
            state.components.pop(name, None)
        _prepare(folder, state)
        try:
            for name, arguments in commands(state.settings).items():
                if name in paths:
                    _spawn(folder, state, name, [str(paths[name]), *arguments])
                if name in ("etcd", "kube-apiserver"):
                    readiness.wait_for(folder, state, name)
                if name == "kube-apiserver":
                    write_credentials(folder, state.settings)
            for name in listening(controllers=state.settings.controllers):
                readiness.wait_for(folder, state, name)
        except BaseException:
            _stop(state, paths)
            raise


def _prepare(folder: Path, state: ControlPlaneState) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / CERTIFICATES).mkdir(exist_ok=True)
    (folder / log("etcd")).parent.mkdir(exist_ok=True)
    if not (folder / TOKENS).exists():
        credentials.write(folder)
    save(folder, state)


def _spawn(folder: Path, state: ControlPlaneState, name: str, argv: list[str]) -> None:
    version = programs.version(Path(argv[0]))
    started = process.spawn(argv, folder=folder, log=folder / log(name))
    state.components[name] = Running(started, version, time.time())
    # Saved at once, so that `down` knows this process whatever happens next.
    save(folder, state)


def _stop(state: ControlPlaneState, components: Iterable[str]) -> None:
    """Stop some components, etcd last, because the API server needs it to end cleanly."""
    chosen = {name: running.process for name, running in state.components.items() if name in components}
    etcd = [chosen.pop("etcd")] if "etcd" in chosen else []
    process.stop(chosen.values(), grace=_GRACE_SECONDS)
    process.stop(etcd, grace=_GRACE_SECONDS)


def write_credentials(folder: Path, settings: ClusterSettings) -> None:
    """Write the CA, and a kubeconfig for the administrator and each component.

    The CA is the last certificate of the server's own chain.
    """
    reach = access(folder, settings)
    authority = credentials.last_certificate((folder / SERVER_CERTIFICATE).read_text(encoding="ascii"))
    credentials.write_private(reach.authority, authority)
    for user, token in credentials.tokens(folder).items():
        path = reach.kubeconfig if user == credentials.ADMIN else folder / kubeconfig(user)
        text = credentials.kubeconfig(
            cluster=settings.name, user=user, url=reach.url, token=token, authority=authority
        )
        credentials.write_private(path, text)


def _add_nodes(folder: Path, state: ControlPlaneState, count: int) -> None:
    """Create the missing nodes 0 to count-1, and wait until every node accepts pods."""
    with contextlib.closing(access(folder, state.settings).client()) as client:
        for index in range(count):
            code, answer = client.request(
                "POST", "/api/v1/nodes", nodes.node(index, version=state.settings.release.version)
            )
            if code not in (201, 409):  # 409: the node exists.
                raise PodiumError(
                    f"node {index} of cluster {state.settings.name} was refused: {answer['message']}"
                )
    readiness.wait_for_pods(folder, state)
