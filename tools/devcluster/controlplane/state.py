"""The data in a cluster's folder: the settings, the processes, and the access to its API server.

Any later command, or another process at the same time, needs only the folder.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec
from tools.devcluster.controlplane import credentials
from tools.devcluster.controlplane.client import Client
from tools.devcluster.controlplane.components import AUTHORITY, ClusterSettings
from tools.devcluster.controlplane.process import Process, alive

from podium import jsontext
from podium.errors import PodiumError

_STATE = "cluster.json"
_KUBECONFIG = "kubeconfig"


class Running(msgspec.Struct, frozen=True):
    """A started component: its process, its reported version, and its start (seconds since 1970)."""

    process: Process
    version: str
    since: float


class ControlPlaneState(msgspec.Struct):
    """Everything known about a cluster, except secrets."""

    settings: ClusterSettings
    components: dict[str, Running] = msgspec.field(default_factory=dict)  # In starting order.

    def runs(self, component: str) -> bool:
        """Return whether the component was started and is still running."""
        running = self.components.get(component)
        return running is not None and alive(running.process)


class Access(NamedTuple):
    """The access to a cluster as its administrator (group system:masters)."""

    url: str
    token: str
    authority: Path  # PEM
    kubeconfig: Path

    def client(self) -> Client:
        """Return a new connection."""
        return Client(self.url, self.token, self.authority)


def load(folder: Path) -> ControlPlaneState | None:
    """Return the state of the cluster in `folder`, or None if there is none."""
    path = folder / _STATE
    try:
        return jsontext.parse(path.read_bytes(), ControlPlaneState)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise PodiumError(f"{path} is damaged ({error}): end its processes and remove {folder}") from None


def save(folder: Path, state: ControlPlaneState) -> None:
    """Write the state, completely or not at all."""
    text = msgspec.json.format(msgspec.json.encode(state)).decode()
    credentials.write_private(folder / _STATE, text)


def access(folder: Path, settings: ClusterSettings) -> Access:
    """Return the access to the cluster in `folder`, once its API server was started."""
    return Access(
        url=f"https://127.0.0.1:{settings.ports['kube-apiserver']}",
        token=credentials.tokens(folder)[credentials.ADMIN],
        authority=folder / AUTHORITY,
        kubeconfig=folder / _KUBECONFIG,
    )
