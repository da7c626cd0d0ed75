"""Objects of devices on a real server: one of each kind, with private data in fields that are not read."""

from typing import Any

from tests.support.connection.cluster import create
from tests.support.servers import Server

DEVICES = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.acme.example"
_SELECTORS = [
    {
        "cel": {
            "expression": f'device.driver == "{DRIVER}"'
            f' && device.attributes["{DRIVER}"].model in ["secret-model"]'
        }
    }
]
SLICE: dict[str, Any] = {
    "metadata": {"name": "device-node-gpu", "annotations": {"note": "hunter2"}},
    "spec": {
        "driver": DRIVER,
        "nodeName": "device-node",
        "pool": {"name": "device-node", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {
                    "model": {"string": "secret-model"},
                    "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
                    "index": {"int": 0},
                    "driverVersion": {"version": "1.2.3"},
                },
                "capacity": {"memory": {"value": "80Gi"}},
                "taints": [{"key": f"{DRIVER}/hot", "value": "yes", "effect": "NoSchedule"}],
            }
        ],
    },
}
CLASS: dict[str, Any] = {
    "metadata": {"name": "acme-class"},
    "spec": {
        "selectors": _SELECTORS,
        "config": [{"opaque": {"driver": DRIVER, "parameters": {"token": "hunter2"}}}],
        "extendedResourceName": "example.com/gpu",
    },
}
_REQUESTS: dict[str, Any] = {
    "devices": {
        "requests": [
            {
                "name": "gpus",
                "exactly": {
                    "deviceClassName": "acme-class",
                    "selectors": _SELECTORS,
                    "tolerations": [{"key": f"{DRIVER}/hot", "operator": "Exists"}],
                },
            }
        ],
        "constraints": [{"requests": ["gpus"], "matchAttribute": f"{DRIVER}/model"}],
    }
}
CLAIM: dict[str, Any] = {
    "metadata": {"name": "gpu-claim", "annotations": {"note": "hunter2"}},
    "spec": _REQUESTS,
}
TEMPLATE: dict[str, Any] = {
    "metadata": {"name": "gpu-template"},
    "spec": {"metadata": {"annotations": {"note": "hunter2"}}, "spec": _REQUESTS},
}
ALLOCATED: dict[str, Any] = {
    "status": {
        "allocation": {
            "devices": {
                "results": [{"request": "gpus", "driver": DRIVER, "pool": "device-node", "device": "gpu-0"}]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["device-node"]}]}
                ]
            },
        },
        "reservedFor": [{"resource": "pods", "name": "device-pod", "uid": "1"}],
    }
}


def create_devices(server: Server, namespace: str) -> None:
    """Create an object of each kind; the claim is allocated."""
    objects: dict[str, dict[str, Any]] = {
        f"{DEVICES}/resourceslices": SLICE,
        f"{DEVICES}/deviceclasses": CLASS,
        f"{DEVICES}/namespaces/{namespace}/resourceclaimtemplates": TEMPLATE,
        f"{DEVICES}/namespaces/{namespace}/resourceclaims": CLAIM,
    }
    for path, body in objects.items():
        create(server, path, body)
    path = f"{DEVICES}/namespaces/{namespace}/resourceclaims/gpu-claim/status"
    code, answer = server.request("PATCH", path, ALLOCATED, "application/merge-patch+json")
    assert code == 200, answer
