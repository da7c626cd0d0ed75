"""The volume controller of Kubernetes, and a provisioner, on a server without other controllers.

The provisioner does what a CSI driver's does: for a claim with a selected node it creates a volume that names
the claim, or it removes the selected node. The volume controller completes the binding.
"""

import contextlib
import threading
from collections.abc import Collection, Iterator
from typing import Any

from tests.support.component import component
from tests.support.servers import Server

from podium.api.storage import BIND_COMPLETED, SELECTED_NODE

_CLAIMS = "/api/v1/persistentvolumeclaims"
_VOLUMES = "/api/v1/persistentvolumes"
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_MERGE = "application/merge-patch+json"
_POLL_SECONDS = 0.05
_COPIED = ("accessModes", "storageClassName", "volumeMode", "volumeAttributesClassName")
# A write that another one overtakes is repeated after so long, if no event comes before; the default is 15 s.
_SYNC_SECONDS = 5


@contextlib.contextmanager
def volume_controller(server: Server, *others: str) -> Iterator[None]:
    """Run the real volume controller of kube-controller-manager, and others of it, while the block runs."""
    # Without other controllers no service account has a token, so it acts as the administrator.
    only = (
        f"--controllers={','.join(('persistentvolume-binder-controller', *others))}",
        f"--pvclaimbinder-sync-period={_SYNC_SECONDS}s",
        "--use-service-account-credentials=false",
        f"--kubeconfig={server.kubeconfig}",
    )
    with component(server, "kube-controller-manager", lambda arguments: (*arguments, *only)):
        yield


class Provisioner:
    """A provisioner of every class; it gives up on the nodes in `refused`.

    If `only` is not None, it provisions for these claims alone, by namespace and name.
    """

    def __init__(self, server: Server) -> None:
        self.refused: set[str] = set()
        self.only: Collection[tuple[str, str]] | None = None
        # Its own connection, because it has its own thread.
        self._client = server.access.client()
        self._end = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator["Provisioner"]:
        """Provision while the block runs."""
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield self
        finally:
            self._end.set()
            thread.join()
            self._client.close()

    def _run(self) -> None:
        while not self._end.wait(_POLL_SECONDS):
            for claim in self._wanted(self.only):
                annotations = claim["metadata"].get("annotations", {})
                node = annotations.get(SELECTED_NODE)
                if node is not None and BIND_COMPLETED not in annotations:
                    self._provision(claim, node)

    def _wanted(self, only: Collection[tuple[str, str]] | None) -> Iterator[Any]:
        """Return the claims that it may provision for; a long list would load the server."""
        if only is None:
            yield from self._items(_CLAIMS)
            return
        for namespace, name in only:
            path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
            code, claim = self._client.request("GET", path)
            if code == 200:
                yield claim

    def _items(self, path: str) -> list[Any]:
        found: list[Any] = self._client.request("GET", path)[1].get("items", [])
        return found

    def _provision(self, claim: Any, node: str) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        if node in self.refused:
            path = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"
            patch = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            self._client.request("PATCH", path, patch, _MERGE)
            return
        (driver,) = (
            each["provisioner"]
            for each in self._items(_CLASSES)
            if each["metadata"]["name"] == spec["storageClassName"]
        )
        owner = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": metadata["namespace"]}
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        volume = {
            "metadata": {"name": f"pvc-{metadata['uid']}"},
            "spec": {
                "capacity": spec["resources"]["requests"],
                **{field: spec[field] for field in _COPIED if field in spec},
                "claimRef": {**owner, "name": metadata["name"], "uid": metadata["uid"]},
                "csi": {"driver": driver, "volumeHandle": metadata["uid"]},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            },
        }
        # It exists already if the volume controller has not bound it yet.
        code, answer = self._client.request("POST", _VOLUMES, volume)
        assert code in (201, 409), answer
