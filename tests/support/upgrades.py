"""One cluster through several minors: its API server and kube-scheduler are replaced, and etcd stays."""

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator

import msgspec
from tests.support.controlplane_faults import without_api_server
from tests.support.servers import TREES, Server
from tools.devcluster.controlplane import process, state
from tools.devcluster.controlplane.components import commands, log
from tools.devcluster.controlplane.releases import Release

_SCHEDULER = "kube-scheduler"
_GRACE_SECONDS = 2.0


def moved(server: Server, release: Release, *gates: str) -> Server:
    """Restart the API server as that of another release with all gates of trees, and further `gates`.

    Raises PodiumError if it does not become ready. etcd keeps running, and so does a move back work.
    """
    with without_api_server(server):
        known = state.load(server.folder)
        assert known is not None
        apiserver = (f"--feature-gates={','.join((TREES, *gates))}",)
        known.settings = msgspec.structs.replace(
            known.settings, kubernetes=release.minor, apiserver=apiserver
        )
        state.save(server.folder, known)
    # kubectl keeps the versions that the API server served before.
    shutil.rmtree(server.folder / "kubectl-cache", ignore_errors=True)
    return dataclasses.replace(server, settings=known.settings)


@contextlib.contextmanager
def scheduling(server: Server, *gates: str) -> Iterator[None]:
    """Run the kube-scheduler of a server's release beside it while the block runs."""
    settings = msgspec.structs.replace(server.settings, controllers=True)
    arguments = (*commands(settings)[_SCHEDULER], f"--feature-gates={','.join((TREES, *gates))}")
    argv = [str(server.program(_SCHEDULER)), *arguments]
    running = process.spawn(argv, folder=server.folder, log=server.folder / log(_SCHEDULER))
    try:
        yield
    finally:
        process.stop([running], grace=_GRACE_SECONDS)
