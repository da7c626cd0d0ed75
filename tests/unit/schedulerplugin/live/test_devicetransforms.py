"""The transform of devices keeps all that is read of them, and shares equal values."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.unit.api.test_devices import CLAIM, DEVICES, SLICE

from podium.api.devices import EXTENDED_RESOURCE_CLAIM, ResourceClaim, ResourceSlice
from podium.api.reads import Kind
from podium.api.schedulable import SCHEDULING_READS
from podium.planner.plugins.devices import transforms as devicetransforms
from podium.planner.sharing import LONGEST
from podium.schedulerplugin.live import transforms
from podium.schedulerplugin.live.process import KINDS
from podium.schedulerplugin.live.transforms import transform

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
    if identity[1] == "ResourceClaim":
        # A claim with devices.
        assert [each["name"] for each in after["spec"]["devices"]["requests"]] == [
            each["name"] for each in before["spec"]["devices"]["requests"]
        ]
        del before["status"]["allocation"]["devices"]["config"]
        del after["spec"], before["spec"]
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


def test_of_a_claim_without_devices_all_but_parameters_is_kept() -> None:
    read = as_read({**CLAIM, "status": None}, ResourceClaim)
    before = msgspec.to_builtins(read.spec)
    transform(read)
    after = msgspec.to_builtins(read.spec)
    for at, each in enumerate(before["devices"]["config"]):
        each["opaque"]["parameters"] = at
    assert before["devices"]["config"]
    assert after == before


def test_of_many_owners_the_controller_is_kept() -> None:
    """A tenant may write thousands."""
    others = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{at}", "uid": f"u{at}"} for at in range(3_000)]
    owners = [*others, {**others[0], "controller": True}]
    read = transform(as_read({"metadata": {"name": "c", "ownerReferences": owners}}, ResourceClaim))
    assert [each.uid for each in read.metadata.ownerReferences or ()] == ["u0"]


# The most of a claim: 32 configurations with 10 KiB of parameters.
_PARAMETERS = {"text": "x" * 10_000}
_CONFIGURED = [{"requests": ["r"], "opaque": {"driver": "d", "parameters": _PARAMETERS}}] * 32
_SELECTED = {"cel": {"expression": "device.driver == 'd' " + "&& true " * 1_000}}
_REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1, "selectors": [_SELECTED] * 4}}
_RESULT = {"request": "r", "driver": "d", "pool": "n", "device": "gpu-0"}
_ALLOCATED = {"devices": {"results": [_RESULT], "config": [{"source": "FromClaim", **_CONFIGURED[0]}] * 32}}
_LARGE = {
    "a claim without devices": ({"config": _CONFIGURED, "requests": [{"name": "r"}]}, None, 8_000),
    "a claim with devices": (
        {"config": _CONFIGURED, "requests": [_REQUEST]},
        {"allocation": _ALLOCATED, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]},
        3_000,
    ),
}


def _kept_bytes(stored: dict[str, Any], kept: Callable[[ResourceClaim], ResourceClaim]) -> float:
    """Return the memory of a claim among some that share nothing, in bytes."""
    number = 20
    raw = [
        msgspec.json.encode({**stored, "metadata": {"name": f"c{at}", "namespace": f"n{at}"}})
        .replace(b"xxxxxxxx", b"%08d" % at)
        .replace(b"true", b"%d>0" % at)
        for at in range(number)
    ]
    tracemalloc.start()
    try:
        found = [kept(msgspec.json.decode(each, type=ResourceClaim)) for each in raw]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == number
    return size / number


@pytest.mark.parametrize(("devices", "status", "most"), _LARGE.values(), ids=_LARGE)
def test_a_large_claim_takes_little_memory(
    devices: dict[str, Any], status: dict[str, Any] | None, most: int
) -> None:
    stored = {"spec": {"devices": devices}, "status": status}
    assert _kept_bytes(stored, lambda each: each) > 320_000
    assert _kept_bytes(stored, transform) < most  # type: ignore[arg-type]  # it returns what it is given


def test_claims_of_one_template_share_their_spec() -> None:
    one, other = (as_read(CLAIM, ResourceClaim) for _ in range(2))
    transform(one)
    transform(other)
    assert one.spec is other.spec
    first, second = one.status.allocation, other.status.allocation
    assert first.nodeSelector is second.nodeSelector
    assert first.devices.results[0].device is second.devices.results[0].device


def test_devices_leave_the_parts_of_pods_in_their_cache() -> None:
    """Each device may have a number of its own, and pods of thousands of kinds share few parts."""
    parts, texts = transforms._CACHE.first_part.cache_info, transforms._CACHE.first_text.cache_info
    before = parts().currsize, texts().currsize
    transform(as_read(SLICE, ResourceSlice))
    transform(as_read(CLAIM, ResourceClaim))
    assert (parts().currsize, texts().currsize) == before


def test_very_long_parts_of_devices_are_kept_and_not_shared() -> None:
    """A request may have 32 selectors of 10 KiB each."""
    expression = "true" + " " * LONGEST
    exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    before = devicetransforms._CACHE.first_part.cache_info().currsize
    stored = as_read({"spec": spec}, ResourceClaim)
    transform(stored)
    assert stored.spec.devices.requests[0].exactly.selectors[0].cel.expression == expression
    assert devicetransforms._CACHE.first_part.cache_info().currsize == before


def test_a_chance_match_of_attributes_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of the cache is a hash."""
    monkeypatch.setattr(devicetransforms, "_first_attributes", lambda _: [{"other": None}])
    stored = as_read(SLICE, ResourceSlice)
    assert transform(stored) == as_read(SLICE, ResourceSlice)
