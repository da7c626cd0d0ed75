"""The transform of devices keeps all that is read of them, and shares equal values."""

from typing import Any

import msgspec
import pytest
from tests.unit.api.test_devices import CLAIM, DEVICES, SLICE

from podium.api.devices import EXTENDED_RESOURCE_CLAIM, ResourceClaim, ResourceSlice
from podium.api.reads import Kind
from podium.api.schedulable import SCHEDULING_READS
from podium.schedulerplugin.live import keep, keepdevices
from podium.schedulerplugin.live.keep import transform
from podium.schedulerplugin.live.process import KINDS
from podium.schedulerplugin.live.sharing import LONGEST

_METADATA = {
    "uid": "u",
    "resourceVersion": "7",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"app": "train"},
    "annotations": {EXTENDED_RESOURCE_CLAIM: "true", "own": "x" * 200_000},
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
    "finalizers": ["f"],
}
# Of the metadata beside the identity, the fields that are kept by kind.
_KEPT = {
    "ResourceClaim": {"annotations", "ownerReferences", "finalizers"},
    "DeviceClass": {"creationTimestamp"},
    "ResourceSlice": set[str](),
}
_WATCHED = {name: each for name, each in DEVICES.items() if name[1] in _KEPT}


def as_read(stored: dict[str, Any], type: type[Any]) -> Any:  # noqa: A002
    """Return an object as a server sends it, without a value in common with another one."""
    return msgspec.json.decode(msgspec.json.encode(stored), type=type)


def test_the_scheduler_watches_what_it_keeps() -> None:
    """Claims are made from templates by kube-controller-manager."""
    kinds = {str(SCHEDULING_READS[name].kind) for name in _WATCHED}
    assert kinds == {"ResourceClaim", "DeviceClass", "ResourceSlice"}
    assert set(KINDS) >= {Kind(each) for each in kinds}
    assert Kind.CLAIM_TEMPLATE not in KINDS


@pytest.mark.parametrize(("identity", "stored"), _WATCHED.items(), ids=[kind for _, kind in _WATCHED])
def test_of_devices_all_but_metadata_is_kept(identity: tuple[str, str], stored: dict[str, Any]) -> None:
    read = as_read({**stored, "metadata": stored["metadata"] | _METADATA}, SCHEDULING_READS[identity].type)
    before = msgspec.to_builtins(read)
    after = msgspec.to_builtins(transform(read))
    kept, whole = after.pop("metadata"), before.pop("metadata")
    assert after == before
    for field in ("labels", "annotations", "ownerReferences", "finalizers", "creationTimestamp"):
        assert (kept[field] is not None) is (field in _KEPT[identity[1]]), field
    for field in ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp"):
        assert kept[field] == whole[field]
    if kept["annotations"]:
        assert kept["annotations"] == {EXTENDED_RESOURCE_CLAIM: "true"}


def _of_node(node: str) -> ResourceSlice:
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "model": {"string": "x100"},
                "index": {"int": number},
                "first": {"bool": number == 0},
                "uuid": {"string": f"GPU-{node}-{number}"},
                "modes": {"strings": ["a", "b"]},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in range(2)
    ]
    stored: ResourceSlice = as_read(
        {
            "metadata": {"name": f"{node}-gpu"},
            "spec": {"driver": "gpu.example", "pool": {"name": node}, "nodeName": node, "devices": devices},
        },
        ResourceSlice,
    )
    assert transform(stored) is stored
    return stored


def test_devices_of_one_product_share_all_but_what_differs() -> None:
    slices = [_of_node("a"), _of_node("b")]
    first, second = ((each.spec.devices or [])[0] for each in slices)
    assert first.attributes is not None
    assert second.attributes is not None
    for name in ("model", "index", "first"):
        assert first.attributes[name] is second.attributes[name]
    assert first.attributes["index"].integer == 0
    assert first.attributes["first"].boolean is True
    assert first.attributes["uuid"] != second.attributes["uuid"]
    assert first.attributes["modes"] == second.attributes["modes"]
    for one, other in zip(first.attributes, second.attributes, strict=True):
        assert one is other
    assert first.capacity is second.capacity
    assert first.name is second.name
    spec = slices[0].spec
    assert spec.pool.name is spec.nodeName
    assert spec.driver is slices[1].spec.driver


def test_equal_devices_share_their_attributes() -> None:
    one, other = (as_read(SLICE, ResourceSlice) for _ in range(2))
    transform(one)
    transform(other)
    assert one.spec.devices[0].attributes is other.spec.devices[0].attributes
    assert one.spec.sharedCounters is other.spec.sharedCounters


def test_values_of_different_types_are_not_shared() -> None:
    """In Python 1 equals True."""
    kinds = ({"int": 1}, {"bool": True}, {"string": "1"}, {"version": "1"})
    devices = [{"name": "d", "attributes": {"a": kind}} for kind in kinds]
    stored = as_read({"spec": {"devices": devices}}, ResourceSlice)
    transform(stored)
    assert [
        msgspec.json.decode(msgspec.json.encode(each.attributes["a"])) for each in stored.spec.devices
    ] == [
        {"int": None, "bool": None, "string": None, "version": None}
        | dict.fromkeys(("ints", "bools", "strings", "versions"))
        | kind
        for kind in kinds
    ]


def test_claims_of_one_template_share_their_spec() -> None:
    one, other = (as_read(CLAIM, ResourceClaim) for _ in range(2))
    transform(one)
    transform(other)
    assert one.spec is other.spec
    first, second = one.status.allocation, other.status.allocation
    assert first.nodeSelector is second.nodeSelector
    assert first.devices.config is second.devices.config
    assert first.devices.results[0].device is second.devices.results[0].device


def test_devices_leave_the_parts_of_pods_in_their_cache() -> None:
    """Each device may have a number of its own, and pods of thousands of kinds share few parts."""
    before = keep._first_equal.cache_info().currsize, keep._first_text.cache_info().currsize
    transform(as_read(SLICE, ResourceSlice))
    transform(as_read(CLAIM, ResourceClaim))
    assert (keep._first_equal.cache_info().currsize, keep._first_text.cache_info().currsize) == before


def test_very_long_parts_of_devices_are_kept_and_not_shared() -> None:
    """A claim may have 32 configurations of 10 KiB each."""
    parameters = {"text": "x" * LONGEST}
    spec = {"devices": {"config": [{"opaque": {"driver": "d", "parameters": parameters}}]}}
    before = keepdevices._first_part.cache_info().currsize
    stored = as_read({"spec": spec}, ResourceClaim)
    transform(stored)
    assert stored.spec.devices.config[0].opaque.parameters == parameters
    assert keepdevices._first_part.cache_info().currsize == before


def test_a_chance_match_of_attributes_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of the cache is a hash."""
    monkeypatch.setattr(keepdevices, "_first_attributes", lambda _: [{"other": None}])
    stored = as_read(SLICE, ResourceSlice)
    assert transform(stored) == as_read(SLICE, ResourceSlice)
