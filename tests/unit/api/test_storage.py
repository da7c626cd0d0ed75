"""The reads of storage: objects as the API server stores them, and the class of a claim or volume."""

from typing import Any

import msgspec
import pytest

from podium.api.schedulable import SCHEDULING_READS, Volume
from podium.api.storage import (
    BETA_CLASS,
    BIND_COMPLETED,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

CLAIM = {
    "metadata": {"name": "data", "namespace": "team", "annotations": {BIND_COMPLETED: "yes"}},
    "spec": {
        "accessModes": ["ReadWriteOncePod"],
        "selector": {"matchLabels": {"tier": "fast"}},
        "resources": {"requests": {"storage": "10Gi"}},
        "volumeName": "pv-1",
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
        "volumeAttributesClassName": "gold",
    },
    "status": {"phase": "Bound"},
}
VOLUME = {
    "metadata": {"name": "pv-1"},
    "spec": {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "team", "name": "data", "uid": "7"},
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
        "volumeAttributesClassName": "gold",
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]
            }
        },
        "csi": {"driver": "csi.example", "volumeHandle": "vol-1"},
        "gcePersistentDisk": {"pdName": "d", "readOnly": True},
        "awsElasticBlockStore": {"volumeID": "aws://a/vol-1"},
        "azureDisk": {"diskURI": "/subscriptions/1", "kind": "Managed"},
        "cinder": {"volumeID": "v"},
        "portworxVolume": {"volumeID": "v"},
    },
    "status": {"phase": "Available"},
}
CLASS = {
    "metadata": {"name": "fast"},
    "provisioner": "csi.example",
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
}
NODE = {
    "metadata": {"name": "n1"},
    "spec": {"drivers": [{"name": "csi.example", "allocatable": {"count": 24}}, {"name": "other.example"}]},
}
DRIVER = {
    "metadata": {"name": "csi.example"},
    "spec": {"storageCapacity": True, "preventPodSchedulingIfMissing": True},
}
CAPACITY = {
    "metadata": {"name": "csisc-1", "namespace": "storage"},
    "nodeTopology": {"matchLabels": {"zone": "a"}},
    "storageClassName": "fast",
    "capacity": "1Ti",
    "maximumVolumeSize": "100Gi",
}
ATTACHMENT = {
    "metadata": {"name": "csi-1"},
    "spec": {"attacher": "csi.example", "nodeName": "n1", "source": {"persistentVolumeName": "pv-1"}},
}
CORE, STORAGE = "v1", "storage.k8s.io/v1"
OBJECTS: dict[tuple[str, str], dict[str, Any]] = {
    (CORE, "PersistentVolumeClaim"): CLAIM,
    (CORE, "PersistentVolume"): VOLUME,
    (STORAGE, "StorageClass"): CLASS,
    (STORAGE, "CSINode"): NODE,
    (STORAGE, "CSIDriver"): DRIVER,
    (STORAGE, "CSIStorageCapacity"): CAPACITY,
    (STORAGE, "VolumeAttachment"): ATTACHMENT,
}


def without_nulls(value: Any) -> Any:
    """Return a value without the fields that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("identity", "stored"), OBJECTS.items(), ids=[kind for _, kind in OBJECTS])
def test_every_field_that_is_stored_is_read(identity: tuple[str, str], stored: dict[str, Any]) -> None:
    api_version, kind = identity
    written = {"apiVersion": api_version, "kind": kind, **stored}
    read = msgspec.json.decode(msgspec.json.encode(written), type=SCHEDULING_READS[identity].type)
    assert without_nulls(msgspec.to_builtins(read)) == written


@pytest.mark.parametrize(
    "read",
    [PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, CSIStorageCapacity, VolumeAttachment],
)
def test_null_is_absent_in_every_field(read: type[msgspec.Struct]) -> None:
    nulls = {field.name: None for field in msgspec.structs.fields(read) if field.default is None}
    assert nulls
    assert msgspec.convert(nulls, read) == read()


@pytest.mark.parametrize("read", [PersistentVolumeClaim, PersistentVolume])
@pytest.mark.parametrize(
    ("annotations", "field", "wanted"),
    [
        (None, None, ""),
        (None, "new", "new"),
        ({BETA_CLASS: "old"}, None, "old"),
        ({BETA_CLASS: "old"}, "new", "old"),
        ({BETA_CLASS: ""}, "new", ""),
        ({"other": "x"}, "new", "new"),
    ],
)
def test_the_annotation_of_a_class_counts_before_the_field(
    read: type[PersistentVolumeClaim | PersistentVolume],
    annotations: dict[str, str] | None,
    field: str | None,
    wanted: str,
) -> None:
    """Source: GetPersistentVolumeClaimClass and GetPersistentVolumeClass."""
    found = msgspec.convert(
        {"metadata": {"annotations": annotations}, "spec": {"storageClassName": field}}, read
    )
    assert found.storage_class == wanted


def test_a_claim_or_volume_without_spec_has_no_class() -> None:
    assert (PersistentVolumeClaim().storage_class, PersistentVolume().storage_class) == ("", "")


DISKS = {
    "gcePersistentDisk": {"pdName": "d", "readOnly": True},
    "awsElasticBlockStore": {"volumeID": "vol-1"},
    "iscsi": {"iqn": "iqn.2026-01.example:disk", "readOnly": True},
    "rbd": {"monitors": ["10.0.0.1:6789"], "pool": "rbd", "image": "disk", "readOnly": True},
    "azureDisk": {"diskURI": "/subscriptions/1", "kind": "Managed"},
    "cinder": {"volumeID": "v"},
    "portworxVolume": {"volumeID": "v"},
}


@pytest.mark.parametrize(("field", "disk"), DISKS.items(), ids=DISKS)
def test_the_disk_of_a_pod_is_read_by_what_names_it(field: str, disk: dict[str, Any]) -> None:
    volume = msgspec.convert({"name": "data", field: {**disk, "fsType": "ext4"}}, Volume)
    assert without_nulls(msgspec.to_builtins(volume)) == {"name": "data", field: disk}
