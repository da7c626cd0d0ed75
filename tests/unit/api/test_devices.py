"""The reads of devices: objects as the API server stores them, in pods and groups too."""

from typing import Any

import msgspec
import pytest
from tests.unit.api.test_storage import without_nulls

from kubecel import PlainDevice
from podium.api.core import EntryStatus, ResourceClaimEntry
from podium.api.devices import (
    DEVICE_API,
    Device,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from podium.api.reads import READS
from podium.api.schedulable import SCHEDULING_READS, Schedulable

_ON_NODE = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
}
_TOLERATION = {
    "key": "gpu.example/unhealthy",
    "operator": "Exists",
    "effect": "NoSchedule",
    "tolerationSeconds": 5,
}
_SELECTOR = {
    "cel": {
        "expression": 'device.attributes["gpu.example"].model == "x100" && device.driver == "gpu.example"'
    }
}
_CLAIM_SPEC = {
    "devices": {
        "requests": [
            {
                "name": "gpus",
                "exactly": {
                    "deviceClassName": "gpu.example",
                    "selectors": [_SELECTOR],
                    "allocationMode": "ExactCount",
                    "count": 2,
                    "adminAccess": False,
                    "tolerations": [_TOLERATION],
                    "capacity": {"requests": {"memory": "10Gi"}},
                },
            },
            {
                "name": "net",
                "firstAvailable": [
                    {"name": "fast", "deviceClassName": "nic", "allocationMode": "All"},
                    {"name": "any", "deviceClassName": "nic", "allocationMode": "ExactCount", "count": 1},
                ],
            },
        ],
        "constraints": [
            {"requests": ["gpus", "net/fast"], "matchAttribute": "resource.kubernetes.io/pcieRoot"},
            {"distinctAttribute": "gpu.example/index"},
        ],
        "config": [
            {"requests": ["gpus"], "opaque": {"driver": "gpu.example", "parameters": {"sharing": "none"}}}
        ],
    }
}
CLAIM = {
    "metadata": {
        "name": "train-gpus-x7k2p",
        "namespace": "team",
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "u", "controller": True}
        ],
    },
    "spec": _CLAIM_SPEC,
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "gpus",
                        "driver": "gpu.example",
                        "pool": "n1",
                        "device": "gpu-0",
                        "adminAccess": False,
                        "tolerations": [_TOLERATION],
                        "bindingConditions": ["Ready"],
                        "bindingFailureConditions": ["Broken"],
                        "shareID": "a",
                        "consumedCapacity": {"memory": "10Gi"},
                    },
                    {"request": "net/fast", "driver": "nic.example", "pool": "n1", "device": "nic-0"},
                ],
                "config": [
                    {"source": "FromClaim", "requests": ["gpus"], "opaque": {"driver": "gpu.example",
                                                                           "parameters": {"sharing": "none"}}}
                ],
            },
            "nodeSelector": _ON_NODE,
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        },
        "reservedFor": [{"resource": "pods", "name": "train", "uid": "u"}],
        "devices": [
            {
                "driver": "gpu.example",
                "pool": "n1",
                "device": "gpu-0",
                "conditions": [{"type": "Ready", "status": "True"}],
            }
        ],
    },
}  # fmt: skip
TEMPLATE = {
    "metadata": {"name": "gpus", "namespace": "team"},
    "spec": {"metadata": {"labels": {"app": "train"}}, "spec": _CLAIM_SPEC},
}
CLASS = {
    "metadata": {"name": "gpu.example"},
    "spec": {
        "selectors": [_SELECTOR],
        "config": [{"opaque": {"driver": "gpu.example", "parameters": {"mode": 1}}}],
        "extendedResourceName": "example.com/gpu",
    },
}
SLICE: dict[str, Any] = {
    "metadata": {"name": "n1-gpu.example-abcde"},
    "spec": {
        "driver": "gpu.example",
        "pool": {"name": "n1", "generation": 3, "resourceSliceCount": 2},
        "nodeName": "n1",
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {
                    "model": {"string": "x100"},
                    "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
                    "index": {"int": 0},
                    "ecc": {"bool": True},
                    "driverVersion": {"version": "1.2.3"},
                },
                "capacity": {
                    "memory": {
                        "value": "80Gi",
                        "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}},
                    }
                },
                "consumesCounters": [{"counterSet": "card-0", "counters": {"memory": {"value": "80Gi"}}}],
                "taints": [{"key": "gpu.example/unhealthy", "value": "hot", "effect": "NoSchedule"}],
                "bindsToNode": True,
                "bindingConditions": ["Ready"],
                "bindingFailureConditions": ["Broken"],
                "allowMultipleAllocations": True,
            }
        ],
        "sharedCounters": [{"name": "card-0", "counters": {"memory": {"value": "80Gi"}}}],
    },
}
DEVICES: dict[tuple[str, str], dict[str, Any]] = {
    (DEVICE_API, "ResourceClaim"): CLAIM,
    (DEVICE_API, "ResourceClaimTemplate"): TEMPLATE,
    (DEVICE_API, "DeviceClass"): CLASS,
    (DEVICE_API, "ResourceSlice"): SLICE,
}


@pytest.mark.parametrize(("identity", "stored"), DEVICES.items(), ids=[kind for _, kind in DEVICES])
def test_every_field_of_devices_is_read(identity: tuple[str, str], stored: dict[str, Any]) -> None:
    api_version, kind = identity
    written = {"apiVersion": api_version, "kind": kind, **stored}
    read = msgspec.json.decode(msgspec.json.encode(written), type=SCHEDULING_READS[identity].type)
    encoded = msgspec.json.decode(msgspec.json.encode(read))
    assert _without_defaults(without_nulls(encoded)) == _without_defaults(written)


def _without_defaults(value: Any) -> Any:
    """Return a value without empty texts, which reads have for absent ones."""
    if isinstance(value, dict):
        return {key: _without_defaults(each) for key, each in value.items() if each != ""}
    return [_without_defaults(each) for each in value] if isinstance(value, list) else value


def test_kubecel_reads_the_same_of_a_device_as_of_its_json() -> None:
    lists: dict[str, dict[str, Any]] = {
        "ints": {"ints": [1]},
        "bools": {"bools": [True]},
        "strings": {"strings": ["a"]},
        "versions": {"versions": ["1.0.0"]},
    }
    stored = [*SLICE["spec"]["devices"], {"attributes": lists, "allowMultipleAllocations": True}]
    read = msgspec.convert(stored, list[Device])
    expected = msgspec.convert(stored, list[PlainDevice])
    assert msgspec.convert(read, list[PlainDevice], from_attributes=True) == expected


@pytest.mark.parametrize("read", [ResourceClaim, ResourceClaimTemplate, DeviceClass, ResourceSlice])
def test_an_object_of_devices_may_have_a_name_alone(read: type[msgspec.Struct]) -> None:
    stored = {"metadata": {"name": "x"}}
    found: Any = msgspec.convert(stored, read)
    assert found.metadata.name == "x"


def test_the_claims_of_a_pod_are_read() -> None:
    pod = {
        "spec": {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}, {"name": "none"}]},
        "status": {
            "resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "x"}, {"name": "none"}],
            "extendedResourceClaimStatus": {
                "resourceClaimName": "y",
                "requestMappings": [
                    {
                        "containerName": "main",
                        "resourceName": "example.com/gpu",
                        "requestName": "container-0-request-0",
                    }
                ],
            },
        },
    }
    read = msgspec.to_builtins(msgspec.convert(pod, Schedulable))
    for part, fields in pod.items():
        for field, value in fields.items():  # type: ignore[attr-defined] # both parts are objects
            assert without_nulls(read[part][field]) == value


@pytest.mark.parametrize(
    "api_version",
    [api_version for api_version, kind in READS if kind == "PodGroup"],
)
def test_the_claims_of_a_group_are_read_in_every_version(api_version: str) -> None:
    stored = {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "spec": {
            "resourceClaims": [
                {"name": "gpus", "resourceClaimTemplateName": "gpus"},
                {"name": "net", "resourceClaimName": "net-1"},
            ]
        },
        "status": {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "g-gpus-x"}]},
    }
    read = READS[api_version, "PodGroup"]
    group = read.neutral(msgspec.convert(stored, read.type))
    assert group.claims == (
        ResourceClaimEntry("gpus", resourceClaimTemplateName="gpus"),
        ResourceClaimEntry("net", "net-1"),
    )
    assert group.created == (EntryStatus("gpus", "g-gpus-x"),)
    # No controller creates claims for other groups.
    assert group.demands == (() if group.native else ("resource claims",))
    bare = read.neutral(msgspec.convert({"apiVersion": api_version, "kind": "PodGroup"}, read.type))
    assert (bare.claims, bare.created, bare.demands) == ((), (), ())
