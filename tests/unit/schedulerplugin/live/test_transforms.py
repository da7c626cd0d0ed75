"""The transform of cached objects keeps all that a decision reads, and shares equal values."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters import builders
from tests.support.filters.builders import empty_snapshot
from tests.support.preemption.scene import group, marked_for_deletion, node, scheduled
from tests.unit.api.test_storage import OBJECTS
from tests.unit.planner.preemption.test_engine_follows import pods

from podium.api.claims import claim_names
from podium.api.core import MIRROR
from podium.api.meta import Condition
from podium.api.reads import PODIUM_COMPOSITE
from podium.api.saving import CHECKPOINT, NO_CHECKPOINT, declared
from podium.api.schedulable import SCHEDULING_READS, Schedulable
from podium.api.storage import BETA_CLASS, BIND_COMPLETED, MIGRATED_PLUGINS, SELECTED_NODE, VolumeAttachment
from podium.planner.interning import Fingerprints
from podium.planner.plugins import PLUGINS
from podium.planner.preemption.inflight import is_leaving, stored_nomination
from podium.planner.preemption.protection import scheduled_at
from podium.planner.preemption.units import SHRINK
from podium.planner.shapes import shape_of
from podium.planner.sharing import LONGEST
from podium.planner.snapshot import Snapshot
from podium.schedulerplugin.live import transforms
from podium.schedulerplugin.live.transforms import transform

_TOKEN = {"name": "kube-api-access-x7k2p"}
_volumes = st.lists(
    st.sampled_from(
        [
            _TOKEN,
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "own", "ephemeral": {}},
            {"name": "disk", "gcePersistentDisk": {}},
        ]
    ),
    max_size=2,
)
_statuses = st.sampled_from(
    [
        scheduled(30),
        marked_for_deletion(),
        {"nominatedNodeName": "n1"},
        {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "3"}}]},
        {
            "conditions": [
                {"type": "PodResizePending", "status": "True", "reason": "Infeasible"},
                {"type": "Ready", "status": "True"},
            ],
            "allocatedResources": {"cpu": "2"},
        },
    ]
)


def pod(name: str = "p", **fields: Any) -> Schedulable:
    return builders.pod(name, {"cpu": 1}, **fields)


def kept(read: Schedulable) -> Schedulable:
    """Return the kept parts of a pod, which stays unchanged."""
    found = transform(msgspec.convert(msgspec.to_builtins(read), Schedulable))
    assert isinstance(found, Schedulable)
    return found


def read_of(pod: Schedulable) -> tuple[object, ...]:
    """Return all that decisions read of a pod."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    assert status is not None
    return (
        shape_of(pod, empty_snapshot().plugins),
        claim_names(pod),
        (meta.name, meta.namespace, meta.uid, meta.resourceVersion, meta.creationTimestamp),
        (meta.deletionTimestamp, meta.ownerReferences, meta.generation, meta.finalizers),
        (spec.nodeName, spec.priority, spec.priorityClassName, spec.preemptionPolicy, spec.schedulerName),
        (spec.schedulingGates, spec.schedulingGroup),
        (status.phase, status.reason, status.startTime, status.condition("DisruptionTarget")),
        (pod.finished, is_leaving(pod), stored_nomination(pod), scheduled_at(pod)),
    )


@given(fields=pods, status=_statuses, volumes=_volumes)
def test_decisions_read_the_same_of_what_is_kept(
    fields: dict[str, Any], status: dict[str, Any], volumes: list[dict[str, Any]]
) -> None:
    del fields["ago"], fields["cpu"]
    found = pod(**fields | {"status": status, "volumes": volumes})
    assert read_of(kept(found)) == read_of(found)


def test_copies_of_a_pod_share_all_but_identity_and_node() -> None:
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}]
    copies = []
    for at in range(2):
        document = msgspec.to_builtins(
            pod(
                f"web-{at}",
                node=f"n{at}",
                labels={"app": "web"},
                volumes=[{"name": f"kube-api-access-{at}"}],
                status=scheduled(30),
            )
        )
        document["metadata"] |= {"ownerReferences": owners, "annotations": {"at": str(at)}}
        copies.append(kept(msgspec.convert(document, Schedulable)))
    first, second = copies
    assert (first.spec.nodeName, second.spec.nodeName) == ("n0", "n1")
    assert first.spec.containers is second.spec.containers
    assert first.metadata.labels is second.metadata.labels
    assert first.metadata.namespace is second.metadata.namespace
    assert (first.apiVersion, first.kind) == ("v1", "Pod")
    assert first.kind is second.kind
    assert first.metadata.ownerReferences is second.metadata.ownerReferences
    assert first.status is not None
    assert second.status is not None
    assert first.status.conditions is second.status.conditions
    marks = Fingerprints(Snapshot(plugins=PLUGINS).plugins)
    assert marks.of(first, ()) == marks.of(second, ())


def test_pending_copies_share_their_whole_spec() -> None:
    assert kept(pod("a")).spec is kept(pod("b")).spec


@pytest.mark.parametrize(
    "one,other", [({"labels": {"a": "b"}}, {"labels": {"a": "c"}}), ({"priority": 1}, {})]
)
def test_parts_that_differ_are_not_shared(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = kept(pod("a", **one)), kept(pod("b", **other))
    assert (first.spec, first.metadata.labels) != (second.spec, second.metadata.labels)


def test_fields_that_no_decision_reads_are_not_kept() -> None:
    document = msgspec.to_builtins(
        pod(volumes=[_TOKEN], status={"conditions": [{"type": "Ready", "status": "True"}]})
    )
    document["metadata"]["annotations"] = {"checksum/config": "0" * 64}
    found = kept(msgspec.convert(document, Schedulable))
    assert (found.metadata.annotations, found.spec.volumes) == (None, None)
    assert found.status is not None
    assert found.status.conditions is None
    machine = node()
    machine.metadata.annotations = {"csi.volume.kubernetes.io/nodeid": "{}"}
    assert machine.status is not None
    machine.status.conditions = [Condition("Ready", "True")]
    assert transform(machine).metadata.annotations is None
    assert machine.status.conditions is None


def test_of_a_composite_group_the_same_annotations_are_kept_as_of_a_group() -> None:
    stored = {
        "apiVersion": PODIUM_COMPOSITE,
        "kind": "CompositePodGroup",
        "metadata": {"name": "g", "namespace": "team", "annotations": {SHRINK: "true", "team": "x"}},
    }
    read = SCHEDULING_READS[PODIUM_COMPOSITE, "CompositePodGroup"]
    kept_group = transform(read.neutral(msgspec.convert(stored, read.type)))
    assert kept_group.metadata.annotations == {SHRINK: "true"}


def test_of_annotations_only_the_start_of_those_that_are_read_is_kept() -> None:
    """A tenant may write 256 KiB in each pod and group, which the process would otherwise store."""
    long = "2026-01-01T00:00:00Z" + "x" * 200_000
    running = msgspec.to_builtins(pod())
    running["metadata"]["annotations"] = {CHECKPOINT: long, MIRROR: long, "team": long}
    (metadata, grouped) = kept(msgspec.convert(running, Schedulable)).metadata, group("g", 1, 2)
    grouped.metadata.annotations = {SHRINK: "true", CHECKPOINT: long, "team": long}
    of_group = transform(grouped).metadata.annotations or {}
    assert (set(metadata.annotations or ()), set(of_group)) == ({CHECKPOINT, MIRROR}, {SHRINK, CHECKPOINT})
    assert max(map(len, [*(metadata.annotations or {}).values(), *of_group.values()])) == 1_024
    assert (declared(metadata.annotations, None, None).saved, of_group[SHRINK]) == (NO_CHECKPOINT, "true")


def test_very_long_parts_are_not_shared() -> None:
    """Otherwise deleted pods of a megabyte each would stay in the cache, up to gigabytes."""
    for text in ("x" * LONGEST, "x" * (LONGEST + 1)):
        parts, texts = transforms._CACHE.first_part.cache_info, transforms._CACHE.first_text.cache_info
        before = parts().currsize, texts().currsize
        transforms._shared([text])
        transforms._shared_text(text)
        assert (parts().currsize, texts().currsize) == (
            before[0],
            before[1] + (len(text) <= LONGEST),
        )


_LABELS = {"topology.kubernetes.io/zone": "a"}
_OWNERS = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}]
_ANNOTATIONS = {
    BIND_COMPLETED: "yes",
    SELECTED_NODE: "n1",
    BETA_CLASS: "c",
    MIGRATED_PLUGINS: "m",
    "own": "x",
}
# The kept parts of the metadata beside the identity, by kind: labels, annotations, owners.
_OF_METADATA: dict[str, tuple[bool, set[str], bool]] = {
    "PersistentVolumeClaim": (False, {BIND_COMPLETED, SELECTED_NODE, BETA_CLASS}, True),
    "PersistentVolume": (True, {BETA_CLASS}, False),
    "StorageClass": (False, set(), False),
    "CSINode": (False, {MIGRATED_PLUGINS}, False),
    "CSIDriver": (False, set(), False),
    "CSIStorageCapacity": (False, set(), False),
    "VolumeAttachment": (False, set(), False),
}


@pytest.mark.parametrize(("identity", "stored"), OBJECTS.items(), ids=[kind for _, kind in OBJECTS])
def test_of_storage_all_but_metadata_is_kept(identity: tuple[str, str], stored: dict[str, Any]) -> None:
    metadata = {
        **stored["metadata"],
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": _LABELS,
        "annotations": _ANNOTATIONS,
        "ownerReferences": _OWNERS,
        "finalizers": ["f"],
    }
    read: Any = msgspec.convert({**stored, "metadata": metadata}, SCHEDULING_READS[identity].type)
    before = msgspec.to_builtins(read)
    after: dict[str, Any] = msgspec.to_builtins(transform(read))
    kept, whole = after.pop("metadata"), before.pop("metadata")
    assert after == before
    labels, annotations, owners = _OF_METADATA[identity[1]]
    assert kept["labels"] == (_LABELS if labels else None)
    assert set(kept["annotations"] or ()) == annotations
    assert bool(kept["ownerReferences"]) is owners
    assert [kept[field] for field in ("creationTimestamp", "finalizers")] == [None, None]
    for field in ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp"):
        assert kept[field] == whole[field]


def test_attachments_share_driver_and_node() -> None:
    """There may be a hundred thousand, and each has a volume of its own."""

    def attached(volume: str) -> VolumeAttachment:
        spec = {
            "attacher": "csi." + "example",
            "nodeName": "n" + "1",
            "source": {"persistentVolumeName": volume},
        }
        read = msgspec.json.decode(msgspec.json.encode({"spec": spec}), type=VolumeAttachment)
        assert transform(read) is read
        return read

    first, second = attached("a").spec, attached("b").spec
    assert first is not None
    assert second is not None
    assert first.attacher is second.attacher
    assert first.nodeName is second.nodeName
