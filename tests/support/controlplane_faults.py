"""Faults of a real control plane: its API server stops and returns, and etcd drops its history."""

import base64
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from tests.support.recycling import etcd
from tests.support.servers import Server
from tools.devcluster.controlplane import cluster, process, state

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
    revision = int(etcd(server.folder, "kv/range", {"key": key, "limit": 1})["header"]["revision"])
    etcd(server.folder, "kv/compaction", {"revision": revision, "physical": True})
    return revision
