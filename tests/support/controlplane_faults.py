"""Faults of a real control plane: its API server stops and returns, and etcd drops its history."""

import base64
import http.client
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.support.servers import Server
from tools.devcluster.controlplane import cluster, process, state
from tools.devcluster.controlplane.components import ETCD_SOCKET

# kube-apiserver stops listening at once and then waits a minute for its watches; a kubelet does not wait.
_GRACE_SECONDS = 2.0


@contextmanager
def without_api_server(server: Server) -> Iterator[None]:
    """Stop the API server while the block runs; it comes back with the same port, certificate and data."""
    known = state.load(server.folder)
    assert known is not None
    process.stop([known.components["kube-apiserver"].process], grace=_GRACE_SECONDS)
    try:
        yield
    finally:
        wanted = cluster.WantedCluster(controllers=server.settings.controllers)
        cluster.up(server.folder, wanted, os.environ, sys.stderr)
        server.client.close()  # its connection was to the stopped server


def switch_gates(server: Server, *, on: bool) -> None:
    """Restart the API server with the gates of the Workload API on or off."""
    with without_api_server(server):
        known = state.load(server.folder)
        assert known is not None
        known.settings = msgspec.structs.replace(known.settings, workload_api=on)
        state.save(server.folder, known)


def compact(server: Server) -> int:
    """Compact etcd's history before now, as happens every few minutes; return the revision left."""
    key = base64.b64encode(b"/").decode()
    revision = int(etcd(server, "kv/range", {"key": key, "limit": 1})["header"]["revision"])
    etcd(server, "kv/compaction", {"revision": revision, "physical": True})
    return revision


class _ToSocket(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(self._path))


def etcd(server: Server, call: str, body: dict[str, Any]) -> Any:
    """Make one call of etcd's JSON gateway; components.py says where it listens."""
    with closing(_ToSocket(server.folder / ETCD_SOCKET)) as connection:
        connection.request("POST", f"/v3/{call}", json.dumps(body))
        response = connection.getresponse()
        answer = json.loads(response.read())
    assert response.status == 200, answer
    return answer
