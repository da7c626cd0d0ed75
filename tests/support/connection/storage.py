"""Objects of storage on a real server: one of each kind, with private data in fields that are not read."""

from typing import Any

from tests.support.connection.cluster import create
from tests.support.servers import Server

STORAGE = "/apis/storage.k8s.io/v1"
DRIVER = "csi.acme.example"
CLASS: dict[str, Any] = {
    "metadata": {"name": "fast-class"},
    "provisioner": DRIVER,
    "parameters": {"pool": "hunter2"},
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["east"]}]}],
}
CSI_NODE: dict[str, Any] = {
    "metadata": {"name": "storage-node", "annotations": {"note": "hunter2"}},
    "spec": {
        "drivers": [
            {
                "name": DRIVER,
                "nodeID": "hunter2",
                "topologyKeys": ["hunter2.example/zone"],
                "allocatable": {"count": 24},
            }
        ]
    },
}
CSI_DRIVER: dict[str, Any] = {
    "metadata": {"name": DRIVER},
    "spec": {"storageCapacity": True, "tokenRequests": [{"audience": "hunter2"}]},
}
CAPACITY: dict[str, Any] = {
    "metadata": {"name": "capacity"},
    "nodeTopology": {"matchLabels": {"zone": "east"}},
    "storageClassName": "fast-class",
    "capacity": "1Ti",
    "maximumVolumeSize": "100Gi",
}
ATTACHMENT: dict[str, Any] = {
    "metadata": {"name": "attachment", "annotations": {"note": "hunter2"}},
    "spec": {
        "attacher": DRIVER,
        "nodeName": "storage-node",
        "source": {"persistentVolumeName": "disk"},
    },
}
CLAIM: dict[str, Any] = {
    "metadata": {
        "name": "data",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes", "note": "hunter2"},
    },
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast-class",
        "volumeName": "disk",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
VOLUME: dict[str, Any] = {
    "metadata": {"name": "disk", "annotations": {"note": "hunter2"}},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast-class",
        "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "team", "name": "data"},
        "csi": {
            "driver": DRIVER,
            "volumeHandle": "vol-0123",
            "volumeAttributes": {"path": "/secret-project"},
            "nodeStageSecretRef": {"namespace": "hunter2", "name": "hunter2"},
        },
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}
                ]
            }
        },
    },
}


def create_storage(server: Server, namespace: str) -> None:
    """Create an object of each kind; the claim and the capacity are in a namespace."""
    objects: dict[str, dict[str, Any]] = {
        f"{STORAGE}/storageclasses": CLASS,
        f"{STORAGE}/csinodes": CSI_NODE,
        f"{STORAGE}/csidrivers": CSI_DRIVER,
        f"{STORAGE}/namespaces/{namespace}/csistoragecapacities": CAPACITY,
        f"{STORAGE}/volumeattachments": ATTACHMENT,
        f"/api/v1/namespaces/{namespace}/persistentvolumeclaims": CLAIM,
        "/api/v1/persistentvolumes": VOLUME,
    }
    for path, body in objects.items():
        create(server, path, body)
