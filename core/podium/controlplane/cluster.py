"""A cluster on this machine as one folder: started, looked at and taken down through that folder alone.

The folder holds the settings, the secrets, etcd's data, the logs and which processes are ours, so any later
command, or another process at the same time, can continue from it. `up` starts what does not run and waits
until all of it is ready: on a running cluster it does nothing, after a crash or a reboot it starts the same
cluster again.
"""

import contextlib
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from podium import data
from podium.controlplane import credentials, nodes, ports, process, programs, readiness
from podium.controlplane.client import Client
from podium.controlplane.components import (
    CERTIFICATES,
    SERVER_CERTIFICATE,
    Settings,
    commands,
    kubeconfig,
    listening,
    log,
    names,
)
from podium.controlplane.lock import alone
from podium.controlplane.process import Process, alive
from podium.controlplane.releases import NEWEST, Release
from podium.errors import PodiumError

DEFAULT_NODES = 3

# kube-apiserver drains its watches first; what is still there then has nothing to lose.
_GRACE_SECONDS = 10.0
_STATE = "cluster.json"
_KUBECONFIG = "kubeconfig"


class Running(msgspec.Struct, frozen=True):
    """A component that was started: its process, what it says it is, and when (seconds since the epoch)."""

    process: Process
    version: str
    since: float


class State(msgspec.Struct):
    """What a cluster's folder says of it, secrets apart."""

    settings: Settings
    components: dict[str, Running] = msgspec.field(default_factory=dict)


class Wanted(NamedTuple):
    """What `up` is asked for; None means as it is, or the default for a new cluster."""

    release: Release | None = None
    workload_api: bool | None = None
    nodes: int | None = None
    controllers: bool = True


class Access(NamedTuple):
    """How to reach a cluster as its administrator (group system:masters)."""

    url: str
    token: str
    authority: Path  # PEM
    kubeconfig: Path

    def client(self) -> Client:
        """A new connection."""
        return Client(self.url, self.token, self.authority)


class Row(NamedTuple):
    """One component as `status` shows it; `uptime` is in seconds, None where it does not run."""

    component: str
    pid: int
    version: str
    uptime: float | None


def up(folder: Path, wanted: Wanted, environ: Mapping[str, str], progress: IO[str]) -> tuple[State, bool]:
    """Start what does not run of the cluster in `folder`, building it if need be, and wait until it is ready.

    Answers the cluster and whether anything had to be started. PodiumError when the cluster there is another
    than the wanted one, and when a component does not start: then what was started is stopped again and the
    logs stay.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder, progress):
        state = load(folder)
        if state is None:
            state = State(_new_settings(folder.name, wanted))
        else:
            check_same(state.settings, wanted)
        idle = [name for name in names(controllers=wanted.controllers) if not _runs(state, name)]
        if idle:
            paths = programs.find(state.settings.release, idle, environ, progress)
            _start(folder, state, paths)
        if wanted.controllers:
            _add_nodes(folder, state.settings, wanted.nodes)
    return state, bool(idle)


def down(folder: Path, progress: IO[str]) -> bool:
    """Stop every process of the cluster in `folder` and remove the folder; False when there is none."""
    if not folder.is_dir():
        return False
    with _alone(folder, progress):
        state = load(folder)
        if state is not None:
            _stop(state, state.components)
        shutil.rmtree(folder, ignore_errors=True)
    return True


def status(state: State, now: float) -> list[Row]:
    """The components in the order they start; `now` is in seconds since the epoch."""
    return [
        Row(
            name,
            running.process.pid,
            running.version,
            max(0.0, now - running.since) if alive(running.process) else None,
        )
        for name, running in state.components.items()
    ]


def load(folder: Path) -> State | None:
    """What is known of the cluster in `folder`; None when there is none."""
    path = folder / _STATE
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise PodiumError(f"{path} is damaged ({error}): end its processes and remove {folder}") from None


def access(folder: Path, settings: Settings) -> Access:
    """How to reach the cluster in `folder`."""
    return Access(
        url=f"https://127.0.0.1:{settings.ports['kube-apiserver']}",
        token=credentials.tokens(folder)[credentials.ADMIN],
        authority=folder / SERVER_CERTIFICATE,
        kubeconfig=folder / _KUBECONFIG,
    )


def check_same(settings: Settings, wanted: Wanted) -> None:
    """PodiumError when the cluster that is there cannot be the wanted one."""
    asked = (
        ("kubernetes", settings.kubernetes, wanted.release and wanted.release.minor),
        ("workload-api", settings.workload_api, wanted.workload_api),
        ("controllers", settings.controllers, wanted.controllers),
    )
    for what, has, want in asked:
        if want is not None and want != has:
            raise PodiumError(
                f"cluster {settings.name} is there with {what} {has}, not {want}:"
                f" `podium cluster down --name {settings.name}` first, or choose another --name"
            )


def _new_settings(name: str, wanted: Wanted) -> Settings:
    return Settings(
        name=name,
        kubernetes=(wanted.release or NEWEST).minor,
        workload_api=wanted.workload_api is not False,
        controllers=wanted.controllers,
        ports={},
    )


def _runs(state: State, component: str) -> bool:
    running = state.components.get(component)
    return running is not None and alive(running.process)


def _start(folder: Path, state: State, paths: Mapping[str, Path]) -> None:
    """Start the components of `paths`, and only those; all of them or none stay."""
    with contextlib.ExitStack() as held:
        for name in listening(controllers=state.settings.controllers):
            if name in paths:
                state.settings.ports[name] = ports.reserve(held, state.settings.ports.get(name, 0))
        _prepare(folder, state)
        try:
            for component in commands(state.settings, data.folder("controlplane") / "kwok" / "stages.yaml"):
                if component.name not in paths:
                    continue
                program = paths[component.name]
                version = programs.version(program)
                started = process.spawn(
                    [str(program), *component.arguments], folder=folder, log=folder / log(component.name)
                )
                state.components[component.name] = Running(started, version, time.time())
                _save(folder, state)
                if component.name == "kube-apiserver":
                    _await(folder, state, "kube-apiserver")
                    _write_kubeconfigs(folder, state.settings)
            _await(folder, state, *state.components)
        except BaseException:
            _stop(state, paths)
            raise


def _stop(state: State, components: Iterable[str]) -> None:
    """Stop some components: etcd last, for the API server ends cleanly only while it is there."""
    chosen = {name: running.process for name, running in state.components.items() if name in components}
    etcd = chosen.pop("etcd", None)
    process.stop(chosen.values(), grace=_GRACE_SECONDS)
    process.stop([etcd] if etcd else [], grace=_GRACE_SECONDS)
