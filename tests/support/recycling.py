"""Used servers as good as new: the API server keeps running, and etcd gets the objects of its start back.

The start of an API server takes some 3 s of processor time, and a run of the tests wants hundreds of them. To
put etcd back takes a tenth of a second. The API server sees that in its watches, like the writes of another.
Idle servers are paused: each would take a fiftieth of a processor.
"""

import base64
import contextlib
import hashlib
import http.client
import json
import shutil
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.waiting import comes
from tools.devcluster.controlplane import process
from tools.devcluster.controlplane.cluster import WantedCluster
from tools.devcluster.controlplane.components import ETCD_SOCKET
from tools.devcluster.controlplane.state import Access, load

# Idle servers of all workers. Each has some 300 MiB.
_MOST_IDLE = 6
# A server with more changes has a large heap too, so it ends.
_MOST_CHANGES = 5_000
# etcd's limit of operations in a transaction.
_TRANSACTION = 128
# An API server looks for changed admission policies once a second.
_SETTLING_SECONDS = 1.5
# The leases that an API server renews for itself.
_OWN = b"/registry/leases/kube-system/"
# The definitions of custom resources.
_DEFINITIONS = b"/apiextensions.k8s.io/"
# An API server writes these some moments after it is ready.
_AWAITED = (
    *(f"/api/v1/namespaces/{name}" for name in ("default", "kube-node-lease", "kube-public", "kube-system")),
    "/api/v1/namespaces/default/services/kubernetes",
)


def take(wanted: WantedCluster, root: Path) -> Path | None:
    """Return the folder of an idle server of this kind, from now on the caller's, or None."""
    for offer in sorted(root.glob(f"idle-{_kind(wanted)}-*")):
        folder = _claimed(offer)
        if folder is not None:
            _signal(folder, signal.SIGCONT)
            comes(partial(_is_past, _settled(offer)))
            return folder
    return None


def give(wanted: WantedCluster, folder: Path, root: Path) -> Path | None:
    """Offer a server that was put back to later tests; return the oldest if there are too many now."""
    pause(root)
    _offer(folder, root / f"idle-{_kind(wanted)}-{time.monotonic() + _SETTLING_SECONDS}")
    offers = sorted(root.glob("idle-*"), key=_settled)
    return _claimed(offers[0]) if len(offers) > _MOST_IDLE else None


def pause(root: Path) -> None:
    """Stop the processes of the idle servers that are as new, until a server is taken."""
    for offer in root.glob("idle-*"):
        folder = _claimed(offer) if _is_past(_settled(offer)) else None
        if folder is not None:
            _signal(folder, signal.SIGSTOP)
            _offer(folder, offer)


def _signal(folder: Path, number: signal.Signals) -> None:
    state = load(folder)
    if state is not None:
        process.send_signal((component.process for component in state.components.values()), number)


def _offer(folder: Path, offer: Path) -> None:
    draft = folder.with_name("offer")
    draft.write_text(str(folder), encoding="utf-8")
    draft.rename(offer)


def _claimed(offer: Path) -> Path | None:
    """Return the folder of an offered server, or None if another worker was faster."""
    with contextlib.suppress(FileNotFoundError):
        folder = Path(offer.read_text(encoding="utf-8"))
        offer.unlink()
        return folder
    return None


def _settled(offer: Path) -> float:
    """Return when a server is as new (steady seconds), which is a part of the name of its offer."""
    return float(offer.name.rpartition("-")[2])


def rewinder(wanted: WantedCluster, folder: Path, reach: Access) -> Callable[[], bool]:
    """Return a function that puts a server back to its present state, and returns whether it could.

    It cannot after the restart of a component or very many changes. A cluster has controllers with a memory
    of their own, and an argument with a path names a file of one test.
    """
    if wanted.controllers or any("/" in argument for argument in wanted.apiserver):
        return lambda: False
    state = load(folder)
    with contextlib.closing(reach.client()) as client:
        comes(lambda: all(client.request("GET", path)[0] == 200 for path in _AWAITED))
        groups = client.request("GET", "/apis")
    files, contents = _files(folder), _contents(folder)

    def rewind() -> bool:
        if state is None or load(folder) != state or not all(map(state.runs, state.components)):
            return False
        for path in _files(folder) - files:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        try:
            with contextlib.closing(reach.client()) as client:
                return _put_back(folder, contents) and comes(lambda: client.request("GET", "/apis") == groups)
        except (OSError, http.client.HTTPException):  # A test has stopped it.
            return False

    return rewind


def etcd(folder: Path, call: str, body: dict[str, Any]) -> Any:
    """Make one call of the JSON gateway of the etcd in a cluster's folder."""
    with contextlib.closing(_ToSocket(folder / ETCD_SOCKET)) as connection:
        connection.request("POST", f"/v3/{call}", json.dumps(body))
        response = connection.getresponse()
        answer = json.loads(response.read())
    assert response.status == 200, answer
    return answer


class _ToSocket(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(self._path))


def _is_past(moment: float) -> bool:
    return time.monotonic() >= moment


def _kind(wanted: WantedCluster) -> str:
    return hashlib.sha256(repr(wanted).encode()).hexdigest()[:16]


def _files(folder: Path) -> set[Path]:
    return {*folder.iterdir(), *folder.glob("logs/*")}


def _contents(folder: Path) -> dict[str, str]:
    """Return all keys and values of etcd (base64), except what the API server renews by itself."""
    every = base64.b64encode(b"\0").decode()
    answer = etcd(folder, "kv/range", {"key": every, "range_end": every})
    pairs = {pair["key"]: pair["value"] for pair in answer["kvs"]}
    return {key: value for key, value in pairs.items() if not base64.b64decode(key).startswith(_OWN)}


def _put_back(folder: Path, contents: dict[str, str]) -> bool:
    """Give etcd these contents again; return False if too much has changed."""
    present = _contents(folder)
    # The key of a definition comes last among those that go: its objects go before it.
    gone = sorted(present.keys() - contents.keys(), key=lambda key: _DEFINITIONS in base64.b64decode(key))
    changes: list[dict[str, Any]] = [{"requestDeleteRange": {"key": key}} for key in gone]
    changes += [
        {"requestPut": {"key": key, "value": value}}
        for key, value in contents.items()
        if present.get(key) != value
    ]
    if len(changes) > _MOST_CHANGES:
        return False
    for first in range(0, len(changes), _TRANSACTION):
        etcd(folder, "kv/txn", {"success": changes[first : first + _TRANSACTION]})
    return True
