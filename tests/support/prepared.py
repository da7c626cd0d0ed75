"""Files for the folder of a new cluster that halve the processor time of its start.

An API server with empty storage writes some 300 objects, a third of its start. Each component without a
certificate generates two RSA keys, 0.1 s; a handshake with its key costs more than one with an ECDSA key.
"""

import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tools.devcluster.controlplane import cluster as local
from tools.devcluster.controlplane import process
from tools.devcluster.controlplane.components import CERTIFICATES, names
from tools.devcluster.controlplane.folders import alone

from podium.webhooks import certificates

# As in the certificate that an API server generates: its Service by name and address, and its own address.
_NAMES = ("127.0.0.1", "localhost", "kubernetes.default.svc", "10.0.0.1")
_VALID = timedelta(days=1)


def prepare(folder: Path, wanted: local.WantedCluster, root: Path) -> None:
    """Create the folder of a cluster before its start, with certificates and the data of an unused one.

    `root` keeps a copy of the data of each minor and kind. Arguments of the API server may change the data.
    """
    folder.mkdir(mode=0o700)
    _certify(folder / CERTIFICATES)
    if not wanted.apiserver:
        shutil.copytree(_unused(wanted, root), folder / "etcd")


def _certify(folder: Path) -> None:
    """Write a certificate of each component that serves, with its CA, under the names that they look for."""
    folder.mkdir()
    now = datetime.now(UTC)
    authority = certificates.authority(certificates.new_key(), now - _VALID, now + _VALID)
    for component in names(controllers=True):
        if component.startswith("kube-"):
            pair = certificates.leaf(authority, certificates.new_key(), _NAMES, now - _VALID, now + _VALID)
            file = folder / component.replace("kube-apiserver", "apiserver")
            file.with_suffix(".crt").write_bytes(pair.certificate + authority.certificate)
            file.with_suffix(".key").write_bytes(pair.key)


def _unused(wanted: local.WantedCluster, root: Path) -> Path:
    """Return etcd's folder of a server that was only started; the first caller starts it."""
    unused = root / f"unused-{wanted.kubernetes}{'' if wanted.workload_api else '-without'}"
    with alone(root / f"{unused.name}.lock", lambda: None):
        if not unused.exists():
            with tempfile.TemporaryDirectory(dir=root, ignore_cleanup_errors=True) as parent:
                folder = Path(parent) / "unused"
                server = wanted._replace(controllers=False)
                state, _ = local.up(folder, server, os.environ, sys.stderr)
                process.stop([state.components["kube-apiserver"].process], grace=0.0)
                # In good order, which writes all data to its files.
                process.stop([state.components["etcd"].process], grace=10.0)
                (folder / "etcd").rename(unused)
    return unused
