"""The conditions for a ready cluster, and the one-line reason if it is not ready.

There are no fixed sleeps: each component is polled until it answers, it dies, or the deadline passes. The
deadline is generous for slow machines, and a dead process is noticed at once.
"""

import contextlib
import http.client
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tools.devcluster.controlplane.client import Client
from tools.devcluster.controlplane.components import CERTIFICATES, ETCD_SOCKET, SERVER_CERTIFICATE, log
from tools.devcluster.controlplane.process import wait_until
from tools.devcluster.controlplane.state import ControlPlaneState, access

from podium.errors import PodiumError

# Ready after about 4 s on an idle machine; a machine that builds at the same time needs much longer.
_READY_SECONDS = 120.0
_LAST_LINES = 3
_LINE_CHARACTERS = 300

# The prefixes of important log lines in klog, cobra, the Go runtime and etcd.
_ERROR_LINE = re.compile(
    r'^(F\d{4} |E\d{4} |[Ee]rror: |panic: |fatal error: |\{"level":"(error|panic|fatal)")'
)


def wait_for(folder: Path, state: ControlPlaneState, component: str) -> None:
    """Wait until a started component is ready. Raises PodiumError if it ends or takes too long."""
    with contextlib.ExitStack() as held:
        wait_while_alive(folder, state, component, _probe(held, folder, state, component))


def wait_for_pods(folder: Path, state: ControlPlaneState, count: int = 0, keeper: str = "kwok") -> None:
    """Wait until the default namespace admits pods and every node can take them, `count` nodes at least.

    `keeper` is the component that makes nodes ready.
    """
    with contextlib.closing(access(folder, state.settings).client()) as client:

        def account_exists() -> bool:
            return client.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == 200

        def nodes_are_ready() -> bool:
            existing = client.request("GET", "/api/v1/nodes")[1]["items"]
            return len(existing) >= count and not unready(existing)

        wait_while_alive(folder, state, "kube-controller-manager", account_exists)
        wait_while_alive(folder, state, keeper, nodes_are_ready)


def wait_while_alive(
    folder: Path, state: ControlPlaneState, component: str, ready: Callable[[], bool]
) -> None:
    """Wait until `ready` returns True. Raises PodiumError if any component of the cluster ends first."""
    dead: list[str] = []

    def settled() -> bool:
        dead[:] = [name for name in state.components if not state.runs(name)]
        return bool(dead) or ready()

    if not wait_until(settled, seconds=_READY_SECONDS):
        raise PodiumError(
            f"{component} is not ready after {_READY_SECONDS:.0f} s: {_last_words(folder, component)}"
        )
    if dead:
        raise PodiumError(f"{dead[0]} ended while starting: {_last_words(folder, dead[0])}")


def unready(nodes: Iterable[dict[str, Any]]) -> list[str]:
    """Return the names of the nodes on which the scheduler would not place a pod yet."""
    return [
        node["metadata"]["name"]
        for node in nodes
        if node["spec"].get("taints")
        or not any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node.get("status", {}).get("conditions", ())
        )
    ]


def grave_lines(lines: Iterable[str]) -> list[str]:
    """Return the last lines of a log that report an error, or just the last ones if none does."""
    filled = [line.strip()[:_LINE_CHARACTERS] for line in lines if line.strip()]
    return ([line for line in filled if _ERROR_LINE.match(line)] or filled)[-_LAST_LINES:]


def _last_words(folder: Path, component: str) -> str:
    path = folder / log(component)
    lines = grave_lines(path.read_text(encoding="utf-8", errors="replace").splitlines())
    return f"{' | '.join(lines) or 'it wrote nothing'}; log: {path}"


def _probe(
    held: contextlib.ExitStack, folder: Path, state: ControlPlaneState, component: str
) -> Callable[[], bool]:
    if component == "etcd":
        return (folder / ETCD_SOCKET).exists
    if component == "kube-apiserver":
        reach = access(folder, state.settings)._replace(authority=folder / SERVER_CERTIFICATE)
        return held.enter_context(contextlib.closing(_RepeatedRequest(reach.client, "/readyz"))).answers
    url = f"https://127.0.0.1:{state.settings.ports[component]}"
    authority = folder / CERTIFICATES / f"{component}.crt"
    probe = _RepeatedRequest(lambda: Client(url, "", authority), "/healthz")
    return held.enter_context(contextlib.closing(probe)).answers


class _RepeatedRequest:
    """A request that is repeated on one connection, because each handshake delays the server's start."""

    def __init__(self, connect: Callable[[], Client], path: str) -> None:
        self._connect = connect
        self._path = path
        self._client: Client | None = None

    def answers(self) -> bool:
        """Return whether the server answers with 200; after an error the next call connects again."""
        # Not ready: no certificate, no listener, or a connection that is closed during start-up.
        try:
            self._client = self._client or self._connect()
            return self._client.request("GET", self._path)[0] == 200
        except (OSError, http.client.HTTPException):
            self.close()
            return False

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._client is not None:
            self._client.close()
            self._client = None
