"""Requests to the server of a differential, as its administrator; each must succeed."""

from typing import Any

from tests.support.preemption.differential.generator import Object
from tests.support.servers import Server

MERGE = "application/merge-patch+json"
_PLURALS = {
    "Pod": "pods",
    "Node": "nodes",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "PodGroup": "podgroups",
    "CompositePodGroup": "compositepodgroups",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "StorageClass": "storageclasses",
    "CSINode": "csinodes",
    "CSIDriver": "csidrivers",
    "VolumeAttachment": "volumeattachments",
    "CSIStorageCapacity": "csistoragecapacities",
    "ResourceSlice": "resourceslices",
    "DeviceClass": "deviceclasses",
    "ResourceClaim": "resourceclaims",
}


def collection_of(wanted: Object) -> str:
    """Return the path under which objects of this kind and namespace are created."""
    version = wanted["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = wanted["metadata"].get("namespace")
    plural = _PLURALS[wanted["kind"]]
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def items_at(server: Server, path: str) -> list[Object]:
    found: list[Object] = request_at(server, "GET", path)["items"]
    return found


def delete_at(server: Server, path: str) -> None:
    request_at(server, "DELETE", path)


def request_at(
    server: Server, method: str, path: str, body: Any = None, kind: str = "application/json"
) -> Any:
    code, answer = server.request(method, path, body, kind)
    assert code in (200, 201), (method, path, answer)
    return answer


def name_of(stored: Object) -> str:
    name: str = stored["metadata"]["name"]
    return name
