"""A plan from a dump is the plan of the cluster, with pseudonyms too."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.unit.api.test_devices import DEVICES
from tests.unit.api.test_storage import OBJECTS

from podium.api.claims import AUDIT_READS
from podium.api.reads import Kind
from podium.api.schedulable import SCHEDULING_READS
from podium.documents.clusterinfo import ClusterInfo
from podium.documents.load import (
    DEVICE_KINDS,
    NOT_FOR_DEVICES,
    NOT_FOR_SCHEDULING,
    NOT_FOR_VOLUMES,
    NOT_IN_INPUT,
    STORAGE_KINDS,
    Loaded,
    load_state,
)
from podium.documents.split import split
from podium.kube.discovery import Served
from podium.kube.listing import Page
from podium.ops.dump import DumpRecorder, lines
from podium.ops.share import pseudonyms
from podium.planner import Plan, plan

NOW = datetime(2026, 11, 21, tzinfo=UTC)
RENAME = pseudonyms(b"key")
Document = dict[str, Any]

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def _node(name: str, zone: str, **spec: Any) -> Document:
    labels = {ZONE: zone, HOSTNAME: name, "corp.example/gpu": f"kind-{name}"}
    status: Document = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    if name == "d":
        status["declaredFeatures"] = ["RestartAllContainersOnContainerExits"]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
            "status": status}  # fmt: skip


def _pod(name: str, node: str | None = None, namespace: str = "team", **spec: Any) -> Document:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}, **spec.pop("container", {})}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": spec.pop("labels", {})}
    spec = {"containers": [container], "priority": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": spec | ({"nodeName": node} if node else {}),
            "status": {"phase": "Running" if node else "Pending"}}  # fmt: skip


def _near(how: str, key: str, **term: Any) -> Document:
    return {
        "affinity": {how: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, **term}]}}
    }


def _node_term(**term: Any) -> Document:
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


WEB = {"matchLabels": {"corp.example/app": "web"}}
TOLERATES = {"tolerations": [{"key": "corp.example/team", "value": "vision", "effect": "NoSchedule"}]}
SPREAD = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
# The requests of each pending pod; of the nodes a to d, a is tainted, and b holds a web pod with a host port.
PENDING: dict[str, Document] = {
    "plain": {},
    "tolerant": {**TOLERATES, "nodeSelector": {"corp.example/gpu": "kind-a"}},
    "selective": {"nodeSelector": {"corp.example/gpu": "kind-c"}},
    "lost": {"nodeSelector": {"corp.example/gpu": "kind-x"}},
    "by-name": _node_term(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["d"]}]),
    "by-zone": _node_term(matchExpressions=[{"key": ZONE, "operator": "NotIn", "values": ["west"]}]),
    "beside": _near("podAffinity", HOSTNAME, labelSelector=WEB, namespaces=["other"]),
    "beside-by-label": _near(
        "podAffinity", HOSTNAME, labelSelector=WEB, namespaceSelector={"matchLabels": {"tier": "front"}}
    ),
    "apart": _near("podAntiAffinity", ZONE, labelSelector=WEB, namespaces=["other"]),
    "spread": {"topologySpreadConstraints": [SPREAD], "labels": {"corp.example/app": "web"}},
    "port": {"container": {"ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}]}},
    "claimed": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    "unclaimed": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "gone"}}]},
    "preempting": {"priority": 10, "container": {"resources": {"requests": {"cpu": "4"}}}},
    "restarting": {"container": {"restartPolicyRules": [{"action": "RestartAllContainers"}]}},
    "too-large": {"container": {"resources": {"requests": {"cpu": "9"}}}},
}  # fmt: skip
PORT = {"ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}]}
CLUSTER: list[Document] = [
    _node("a", "east", taints=[{"key": "corp.example/team", "value": "vision", "effect": "NoSchedule"}]),
    _node("b", "east"),
    _node("c", "west"),
    _node("d", "west", unschedulable=False),
    _pod("web", "b", "other", labels={"corp.example/app": "web", "secret": "hunter2"}, container=PORT),
    *(_pod(f"low-{node}", node, labels={"corp.example/app": "batch"}) for node in "cd"),
    *(_pod(name, **json.loads(json.dumps(spec))) for name, spec in PENDING.items()),
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {"tier": "front"}}},
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "team",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"volumeName": "disk", "accessModes": ["ReadWriteOnce"]},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk", "labels": {ZONE: "west"}},
        "spec": {
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "corp.example/gpu", "operator": "In", "values": ["kind-c"]}
                            ]
                        }
                    ]
                }
            }
        },
    },
    *(
        {"apiVersion": api_version, "kind": kind, **stored}
        for (api_version, kind), stored in OBJECTS.items()
        if api_version == "storage.k8s.io/v1"
    ),
    *({"apiVersion": api_version, "kind": kind, **stored} for (api_version, kind), stored in DEVICES.items()),
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "team"},
        "spec": {"selector": {"matchLabels": {"corp.example/app": "batch"}}},
        "status": {"disruptionsAllowed": 1},
    },
]


def _load(text: bytes) -> Loaded:
    return load_state(split(text, "f"), strict=True, reads=SCHEDULING_READS)


def _original() -> Loaded:
    return _load(json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER}).encode())


def _dumped(rename: Callable[[str], str] | None) -> bytes:
    recorder = DumpRecorder(None)  # type: ignore[arg-type] # only other collectors read the served versions
    documents = list(split(json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER}).encode(), "f"))
    for (api_version, kind), read in SCHEDULING_READS.items():
        found = [each for each in documents if (each.apiVersion, each.kind) == (api_version, kind)]
        if found:
            recorder.add_page(Page(Served(api_version, kind, read, read.plural, namespaced=True), found))
    return b"".join(lines(recorder, ClusterInfo(scheduling=True, storage=True, devices=True), rename))


def _kind(made: Plan) -> tuple[Any, ...]:
    """Return the parts of a plan that have no names in them."""
    places = len(made.placements)
    reasons = sorted(each.count for each in made.nodes)
    victims = [(each.priority, each.violatesBudget, len(each.pods)) for each in made.victims]
    return made.outcome, made.minimalPriority, places, reasons, victims


# Pods that only one node can take.
ONE_NODE = ("tolerant", "selective", "by-name", "claimed", "beside", "beside-by-label")
OUTCOMES = {
    "lost": "DoesNotFit",
    "too-large": "DoesNotFit",
    "unclaimed": "DoesNotFit",
    "preempting": "FitsAfterPreemption",
}


@pytest.mark.parametrize("name", PENDING)
def test_a_plan_from_a_dump_is_the_clusters(name: str) -> None:
    """The plans are equal."""
    of_cluster = plan(_original().state, ("team", name), NOW)
    assert of_cluster.outcome == OUTCOMES.get(name, "Fits")
    assert plan(_load(_dumped(None)).state, ("team", name), NOW) == of_cluster


@pytest.mark.parametrize("name", PENDING)
def test_a_plan_under_pseudonyms_is_the_same_but_for_names(name: str) -> None:
    """If names break ties, another node may be chosen; the outcome and its cost are the same."""
    of_cluster = plan(_original().state, ("team", name), NOW)
    renamed = plan(_load(_dumped(RENAME)).state, (RENAME("team"), RENAME(name)), NOW)
    assert _kind(renamed) == _kind(of_cluster)
    if len(set(of_cluster.placements)) == 1 and name in (
        "tolerant",
        "selective",
        "by-name",
        "claimed",
        "beside",
    ):
        assert renamed.placements[0].node == RENAME(of_cluster.placements[0].node)


def test_fields_that_no_plan_needs_are_not_in_a_dump() -> None:
    """The dump has no label that nothing selects by, and under pseudonyms no name."""
    assert b"hunter2" not in _dumped(None)
    text = _dumped(RENAME)
    for name in (b"corp", b'"vision', b"kind-", b"web", b"10.0.0.1", b"disk", b"front"):
        assert name not in text


def test_a_dump_says_which_labels_it_has() -> None:
    """The header lists the labels of pods and namespaces; those of nodes are complete.

    Pseudonyms allow no selection.
    """
    labels = _load(_dumped(None)).labels
    assert labels is not None
    assert {"corp.example/app", "tier"} < labels
    assert "secret" not in labels
    assert _load(_dumped(RENAME)).labels == frozenset()
    assert _original().labels is None


def test_a_dump_of_former_times_says_that_it_is_none_for_plans() -> None:
    """The dump has neither constraints nor labels, so a plan would be wrong; an audit does not need them."""
    info = {"apiVersion": "cli.podium.dev/v1", "kind": "ClusterInfo", "server": "v1.37.0"}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [info, *CLUSTER]}).encode()
    unread = _load(text).state.unread
    assert (unread["Pod"], unread["Node"]) == (NOT_FOR_SCHEDULING, NOT_FOR_SCHEDULING)
    audited = load_state(split(text, "f"), strict=True)
    assert "Pod" not in audited.state.unread
    assert not {"PersistentVolume", "Namespace"} & set(audited.state.unread)
    assert audited.skipped == {}
    # The audit's rules on claims do not run.
    unread = load_state(split(text, "f"), strict=True, reads=AUDIT_READS).state.unread
    assert "Pod" not in unread
    assert {kind for kind, why in unread.items() if why == NOT_FOR_VOLUMES} == {Kind.CLAIM, Kind.VOLUME}
    # The objects of the list are there, however it was written.
    assert not set(DEVICE_KINDS) & set(unread)


def _of_former_times(*further: Document) -> Loaded:
    """Return a dump of the version before the kinds of storage and devices, with further files."""
    info = {"apiVersion": "cli.podium.dev/v1", "kind": "ClusterInfo", "scheduling": True}
    dumped = [each for each in CLUSTER if not each["apiVersion"].startswith(("storage.", "resource."))]
    return _load(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [info, *dumped, *further]}).encode()
    )


def test_a_dump_without_storage_says_so() -> None:
    """Its claims and volumes lack fields. Plans of pods without them are as before."""
    loaded = _of_former_times()
    assert {kind: why for kind, why in loaded.state.unread.items() if why != NOT_IN_INPUT} == {
        **dict.fromkeys(STORAGE_KINDS, NOT_FOR_VOLUMES),
        **dict.fromkeys(DEVICE_KINDS, NOT_FOR_DEVICES),
    }
    assert set(loaded.state.claims) == {("team", "data")}
    assert plan(loaded.state, ("team", "plain"), NOW) == plan(_original().state, ("team", "plain"), NOW)


def test_a_kind_of_another_file_is_not_lacking() -> None:
    classes = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClassList", "items": []}
    unread = _of_former_times(classes).state.unread
    assert Kind.STORAGE_CLASS not in unread
    assert unread[Kind.CSI_NODE] == NOT_FOR_VOLUMES


def test_storage_comes_back_from_a_dump() -> None:
    """Without pseudonyms each object of storage is the cluster's, and no kind is missing."""
    loaded, original = _load(_dumped(None)).state, _original().state
    for index in ("storage_classes", "csi_nodes", "csi_drivers", "storage_capacities", "attachments"):
        assert getattr(loaded, index) == getattr(original, index)
        assert len(getattr(loaded, index)) == 1
    assert not set(STORAGE_KINDS) & set(loaded.unread)


def test_devices_come_back_from_a_dump() -> None:
    """Without pseudonyms each object is the cluster's, but for the parameters of drivers."""
    loaded, original = _load(_dumped(None)).state, _original().state
    for index in ("resource_slices", "resource_claims", "claim_templates", "device_classes"):
        restored, stored = getattr(loaded, index), getattr(original, index)
        assert len(restored) == 1
        assert _without_parameters(restored) == _without_parameters(stored)
    assert not set(DEVICE_KINDS) & set(loaded.unread)


def _without_parameters(objects: Document) -> Any:
    """Return objects by name without the annotations and labels that no plan reads, and parameters."""
    left_out = ("parameters", "labels", "annotations")

    def pruned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: pruned(each) for key, each in value.items() if key not in left_out}
        return [pruned(each) for each in value] if isinstance(value, list) else value

    return [pruned(msgspec.json.decode(msgspec.json.encode(each))) for each in objects.values()]
