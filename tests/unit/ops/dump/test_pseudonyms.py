"""Pseudonyms: no text of any kind is left, and the references between objects of storage still match."""

import itertools
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.api.test_devices import DEVICES
from tests.unit.api.test_storage import OBJECTS

from podium.api.core import ClaimedAmount, RawQuantity
from podium.api.devices import (
    DEVICE_API,
    EXTENDED_RESOURCE_CLAIM,
    IMPLICIT_RESOURCE_PREFIX,
    CapacityRequirements,
    DeviceAttribute,
    DeviceCapacity,
)
from podium.api.schedulable import SCHEDULING_READS, SchedulableNode, Volume
from podium.api.storage import (
    BETA_CLASS,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    DEFAULT_CLASS,
    MIGRATED_PLUGINS,
    NO_PROVISIONER,
    SELECTED_NODE,
)
from podium.ops.share import Filter, pseudonyms
from podium.ops.sharedfields import NAMING_KEYS, PLAIN_FIELDS

RENAME = pseudonyms(b"key")
RENAMED, PLAIN = Filter(frozenset(), RENAME), Filter(frozenset(), None)
ZONE = "topology.kubernetes.io/zone"
# Annotations of which a value is in the dump.
_KEPT = (
    BETA_CLASS,
    SELECTED_NODE,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    MIGRATED_PLUGINS,
    *NAMING_KEYS,
)


def _shared(kind: str, stored: dict[str, Any], by: Filter = RENAMED) -> Any:
    (read,) = (read.type for (_, each), read in SCHEDULING_READS.items() if each == kind)
    return by.share(msgspec.convert(stored, read))


# Texts that hold a secret beside words of drivers or of the language.
_SPELLED: dict[str, Callable[[str], Any]] = {
    "expression": lambda word: f'device.driver == "{word}" // {word}',
    "matchAttribute": "{}/numa".format,
    "distinctAttribute": "{}/numa".format,
    "resourceName": "deviceclass.resource.kubernetes.io/{}".format,
}


def _secret(hint: Any, field: str, words: Iterator[str]) -> Any:
    """Return a value of a type with a secret word in each text that is not of a fixed set."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is ClaimedAmount:
        return ClaimedAmount("example.com/gpu", "1")
    if hint == RawQuantity:
        return "1"
    if hint is CapacityRequirements:
        return CapacityRequirements({f"{next(words).partition('/')[0]}/numa": "1"})
    if origin is typing.Annotated:
        return _secret(parts[0], field, words)
    if origin in (typing.Union, types.UnionType):
        return _secret(next(each for each in parts if each is not type(None)), field, words)
    if origin is dict:
        if field in ("labels", "annotations"):
            return {key: next(words) for key in (next(words), *_KEPT)}
        if parts[1] in (DeviceAttribute, DeviceCapacity) or field == "consumedCapacity":
            return {f"{next(words).partition('/')[0]}/numa": _secret(parts[1], "", words)}
        return {next(words): next(words)} if parts[1] is str else {}
    if origin is list:
        return [_secret(parts[0], field, words)]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint)
        return hint(**{name: _secret(each, name, words) for name, each in hints.items()})
    if hint is str and field in _SPELLED:
        return _SPELLED[field](next(words).partition("/")[0])
    if hint is not str:
        return None
    return "x" if field in PLAIN_FIELDS else next(words)


_READS = {kind: read.type for (_, kind), read in SCHEDULING_READS.items()}


@pytest.mark.parametrize("kind", _READS)
def test_no_text_of_any_kind_is_left(kind: str) -> None:
    """Each text of each field is a secret, and so are the values of all annotations that are kept."""
    words = (f"hunter{number}/of.acme" for number in itertools.count())
    value = _secret(_READS[kind], "", words)
    text = msgspec.json.encode(RENAMED.share(value)).decode()
    assert "hunter" in msgspec.json.encode(value).decode()
    assert "acme" not in text
    assert "hunter" not in text


@given(
    st.dictionaries(st.sampled_from(_KEPT), st.text("acme/_, ", min_size=1).map(lambda text: f"hunter{text}"))
)
def test_no_value_of_an_annotation_is_left(annotations: dict[str, str]) -> None:
    """The keys are public, whatever a user writes under them."""
    for kind, stored in ((kind, each) for (_, kind), each in OBJECTS.items()):
        metadata = {**stored["metadata"], "annotations": annotations, "labels": annotations}
        assert "hunter" not in str(_shared(kind, {**stored, "metadata": metadata}))


def test_references_between_objects_of_storage_match() -> None:
    """Each name, node, handle and driver has one pseudonym wherever it is."""
    shared = {kind: _shared(kind, each) for (_, kind), each in OBJECTS.items()}
    claim, volume = shared["PersistentVolumeClaim"], shared["PersistentVolume"]
    assert volume["metadata"]["name"] == claim["spec"]["volumeName"] == RENAME("pv-1")
    assert volume["spec"]["claimRef"] == {
        "namespace": claim["metadata"]["namespace"],
        "name": claim["metadata"]["name"],
        "uid": "7",
    }
    attachment, storage_class = shared["VolumeAttachment"]["spec"], shared["StorageClass"]
    assert attachment["source"]["persistentVolumeName"] == volume["metadata"]["name"]
    assert attachment["nodeName"] == shared["CSINode"]["metadata"]["name"] == RENAME("n1")
    classes = (claim["spec"], volume["spec"], shared["CSIStorageCapacity"])
    assert {each["storageClassName"] for each in classes} == {storage_class["metadata"]["name"]}
    drivers = {
        volume["spec"]["csi"]["driver"],
        storage_class["provisioner"],
        shared["CSINode"]["spec"]["drivers"][0]["name"],
        shared["CSIDriver"]["metadata"]["name"],
        attachment["attacher"],
    }
    assert drivers == {RENAME("csi.example")}
    (term,) = storage_class["allowedTopologies"]
    zone = term["matchLabelExpressions"][0]
    capacity = shared["CSIStorageCapacity"]["nodeTopology"]["matchLabels"]
    assert (zone["key"], zone["values"][0]) == (RENAME("zone"), RENAME("a"))
    assert capacity == {zone["key"]: zone["values"][0]}
    assert volume["spec"]["csi"]["volumeHandle"] == RENAME("vol-1")
    assert volume["spec"]["awsElasticBlockStore"]["volumeID"] == RENAME("vol-1")


def test_references_between_objects_of_devices_match() -> None:
    """Each driver, pool, device, class and request has one pseudonym wherever it is."""
    shared = {kind: _shared(kind, each) for (_, kind), each in DEVICES.items()}
    offered, claim, device_class = shared["ResourceSlice"], shared["ResourceClaim"], shared["DeviceClass"]
    first, second = claim["spec"]["devices"]["requests"]
    result, other = claim["status"]["allocation"]["devices"]["results"]
    (state,) = claim["status"]["devices"]
    (device,) = offered["spec"]["devices"]
    driver, pool, name = RENAME("gpu.example"), RENAME("n1"), RENAME("gpu-0")
    assert (offered["spec"]["driver"], offered["spec"]["pool"]["name"], device["name"]) == (
        driver,
        pool,
        name,
    )
    for used in (result, state):
        assert (used["driver"], used["pool"], used["device"]) == (driver, pool, name)
    assert offered["spec"]["nodeName"] == pool
    assert device_class["metadata"]["name"] == first["exactly"]["deviceClassName"] == RENAME("gpu.example")
    assert result["request"] == first["name"]
    assert other["request"] == f"{second['name']}/{second['firstAvailable'][0]['name']}"
    same, distinct = claim["spec"]["devices"]["constraints"]
    assert same["requests"] == [first["name"], other["request"]]
    assert same["matchAttribute"] in device["attributes"]
    assert distinct["distinctAttribute"] == f"{driver}/index"
    assert device["attributes"]["model"]["string"] == RENAME("x100")
    assert [each["counterSet"] for each in device["consumesCounters"]] == [RENAME("card-0")]
    assert offered["spec"]["sharedCounters"][0]["name"] == RENAME("card-0")
    tolerated = first["exactly"]["tolerations"][0]
    assert tolerated["key"] == device["taints"][0]["key"] == RENAME("gpu.example/unhealthy")
    assert claim["metadata"]["ownerReferences"][0]["name"] == claim["status"]["reservedFor"][0]["name"]
    assert shared["ResourceClaimTemplate"]["spec"]["spec"] == claim["spec"]
    text = first["exactly"]["selectors"][0]["cel"]["expression"]
    assert text == f'device.attributes["{driver}"].model == "{RENAME("x100")}" && device.driver == "{driver}"'


def test_words_of_hardware_stay() -> None:
    """Names of attributes, capacities and counters, amounts, modes, and versions."""
    device = _shared("ResourceSlice", DEVICES[DEVICE_API, "ResourceSlice"])["spec"]["devices"][0]
    assert set(device["attributes"]) == {
        *("model", "resource.kubernetes.io/pcieRoot", "index", "ecc", "driverVersion"),
    }
    assert device["attributes"]["driverVersion"] == {"version": "1.2.3"}
    assert device["capacity"]["memory"]["value"] == "80Gi"
    assert device["consumesCounters"][0]["counters"] == {"memory": {"value": "80Gi"}}
    assert _shared("DeviceClass", DEVICES[DEVICE_API, "DeviceClass"])["spec"]["extendedResourceName"] == (
        "example.com/gpu"
    )


@pytest.mark.parametrize("by", [PLAIN, RENAMED], ids=["plain", "pseudonyms"])
def test_parameters_of_devices_are_left_out(by: Filter) -> None:
    """A driver may have secrets in them, and no plan reads them."""
    for (_, kind), stored in DEVICES.items():
        shared = msgspec.json.encode(_shared(kind, stored, by))
        assert b"sharing" not in shared
        assert b"parameters" not in shared
    assert _shared("DeviceClass", DEVICES[DEVICE_API, "DeviceClass"], by)["spec"]["config"] == [
        {"opaque": {"driver": by.name("gpu.example")}}
    ]


def test_the_extended_resource_of_a_class_is_renamed_as_the_class() -> None:
    """A pod may request each class by a resource that has the name of the class."""
    requests = {f"{IMPLICIT_RESOURCE_PREFIX}gpu": "1", "example.com/gpu": "1"}
    pod = _shared("Pod", {"spec": {"containers": [{"resources": {"requests": requests}}]}})
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {
        f"{IMPLICIT_RESOURCE_PREFIX}{RENAME('gpu')}": "1",
        "example.com/gpu": "1",
    }


@pytest.mark.parametrize(
    ("kind", "mark"), [("ResourceClaim", EXTENDED_RESOURCE_CLAIM), ("StorageClass", DEFAULT_CLASS[0])]
)
@pytest.mark.parametrize(
    ("value", "wanted"), [("true", "true"), ("false", "false"), ("hunter2", RENAME("hunter2"))]
)
def test_the_marks_of_claims_for_extended_resources_and_of_the_default_class_are_kept(
    kind: str, mark: str, value: str, wanted: str
) -> None:
    shared = _shared(kind, {"metadata": {"annotations": {mark: value, "note": "hunter2"}}})
    assert shared["metadata"]["annotations"] == {mark: wanted}


def test_sizes_modes_and_limits_stay() -> None:
    shared = {kind: _shared(kind, each) for (_, kind), each in OBJECTS.items()}
    claim, volume = shared["PersistentVolumeClaim"], shared["PersistentVolume"]
    assert (claim["spec"]["resources"], claim["status"]) == (
        {"requests": {"storage": "10Gi"}},
        {"phase": "Bound"},
    )
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert (volume["spec"]["capacity"], volume["spec"]["volumeMode"]) == ({"storage": "10Gi"}, "Filesystem")
    assert shared["StorageClass"]["volumeBindingMode"] == "WaitForFirstConsumer"
    assert shared["CSINode"]["spec"]["drivers"][0]["allocatable"] == {"count": 24}
    assert shared["CSIDriver"]["spec"] == OBJECTS["storage.k8s.io/v1", "CSIDriver"]["spec"]
    capacity = shared["CSIStorageCapacity"]
    assert (capacity["capacity"], capacity["maximumVolumeSize"]) == ("1Ti", "100Gi")


def test_a_volume_of_two_zones_is_in_the_zones_of_its_nodes() -> None:
    """Upstream joins the zones of a volume by `__`, and a node has one of them."""
    node = RENAMED.share(msgspec.convert({"metadata": {"labels": {ZONE: "a"}}}, SchedulableNode))
    volume = _shared("PersistentVolume", {"metadata": {"labels": {ZONE: "a__b"}}})
    zones = volume["metadata"]["labels"][ZONE].split("__")
    assert zones == [RENAME("a"), RENAME("b")]
    assert node["metadata"]["labels"][ZONE] == zones[0]


@pytest.mark.parametrize(
    "driver", ["ebs.csi.aws.com", "kubernetes.io/aws-ebs", "pd.csi.storage.gke.io", NO_PROVISIONER]
)
def test_a_driver_that_kube_scheduler_knows_stays(driver: str) -> None:
    """Otherwise a disk would no longer be translated to its driver, or a class would provision volumes."""
    assert _shared("StorageClass", {"provisioner": driver})["provisioner"] == driver
    assert _shared("CSIDriver", {"metadata": {"name": driver}})["metadata"]["name"] == driver


@pytest.mark.parametrize(
    "driver", ["csi.k8s.io", "acme.csi.k8s.io", "kubernetes.io/acme", "ebs.csi.aws.com.acme"]
)
def test_any_other_driver_is_renamed(driver: str) -> None:
    assert _shared("VolumeAttachment", {"spec": {"attacher": driver}})["spec"]["attacher"] == RENAME(driver)


@pytest.mark.parametrize("by", [PLAIN, RENAMED], ids=["plain", "pseudonyms"])
def test_of_annotations_those_of_plans_are_kept(by: Filter) -> None:
    """Of marks only the presence is kept, and of migrated plugins those that kube-scheduler knows."""
    annotations = {
        BIND_COMPLETED: "by hunter2",
        BOUND_BY_CONTROLLER: "hunter2",
        MIGRATED_PLUGINS: "kubernetes.io/aws-ebs,hunter2,kubernetes.io/cinder",
        BETA_CLASS: "fast",
        SELECTED_NODE: "n1",
        "volume.kubernetes.io/storage-provisioner": "hunter2",
    }
    shared = _shared("PersistentVolumeClaim", {"metadata": {"annotations": annotations}}, by)
    assert shared["metadata"]["annotations"] == {
        BIND_COMPLETED: "yes",
        BOUND_BY_CONTROLLER: "yes",
        MIGRATED_PLUGINS: "kubernetes.io/aws-ebs,kubernetes.io/cinder",
        BETA_CLASS: by.name("fast"),
        SELECTED_NODE: by.name("n1"),
    }


def test_the_disk_of_a_pod_and_of_a_volume_is_one() -> None:
    """The disk of an ID with its zone is the disk of the bare ID, as CSI handles have it."""
    disks = [
        RENAMED.share(msgspec.convert({"name": "d", "awsElasticBlockStore": {"volumeID": each}}, Volume))
        for each in ("vol-1", "aws:///vol-1", "aws://zone/vol-1")
    ]
    assert {each["awsElasticBlockStore"]["volumeID"] for each in disks} == {RENAME("vol-1")}
    image = {"monitors": ["10.0.0.1:6789", "mon"], "pool": "acme", "image": "disk", "readOnly": True}
    shared = RENAMED.share(msgspec.convert({"name": "d", "rbd": image}, Volume))["rbd"]
    assert shared == {
        "monitors": [RENAME("10.0.0.1:6789"), RENAME("mon")],
        "pool": RENAME("acme"),
        "image": RENAME("disk"),
        "readOnly": True,
    }
