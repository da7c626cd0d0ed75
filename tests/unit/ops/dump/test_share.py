"""The data in a dump, and the data that is left out."""

import re
import typing
from typing import Any

import msgspec
import pytest

from podium.answers.expansion.additions import selected_keys, selections
from podium.api.core import Pod, PodDisruptionBudget, PriorityClass
from podium.api.events import PAST_READS, Event
from podium.api.foreigngroups import FOREIGN_KINDS
from podium.api.groups import GROUP_LABEL
from podium.api.meta import Condition, ObjectMeta, OwnerReference
from podium.api.podkinds.kind import OwnerKind
from podium.api.podkinds.table import KINDS
from podium.api.podkinds.workloads import TEMPLATE_HASH
from podium.api.reads import READS
from podium.api.records import Owner, Party, PreemptionRecord, RecordedPlan
from podium.api.schedulable import SCHEDULING_READS, Schedulable, SchedulableNode, SchedulableStatus
from podium.api.v1alpha2 import ControllerRef
from podium.groups import inferred
from podium.ops.share import Filter, known_kinds, pseudonyms
from podium.ops.sharedfields import CLASS_FIELD, FREE_TEXT_FIELDS, NAME_FIELDS, NAMING_KEYS, PLAIN_FIELDS

RENAME = pseudonyms(b"key")
PLAIN = Filter(frozenset(), None)
RENAMED = Filter(frozenset(), RENAME)


def _structs(found: Any, seen: dict[type[msgspec.Struct], dict[str, Any]]) -> dict[type[msgspec.Struct], Any]:
    """Return every Struct that a type can hold, with the types of its fields."""
    if isinstance(found, type) and issubclass(found, msgspec.Struct) and found not in seen:
        seen[found] = typing.get_type_hints(found)
        for hint in seen[found].values():
            _structs(hint, seen)
    for part in typing.get_args(found):
        _structs(part, seen)
    return seen


def _holds_text(hint: Any) -> bool:
    return hint is str or any(_holds_text(part) for part in typing.get_args(hint))


def _text_fields() -> list[tuple[type, str]]:
    seen: dict[type[msgspec.Struct], dict[str, Any]] = {}
    for read in (*READS.values(), *SCHEDULING_READS.values(), *PAST_READS.values()):
        _structs(read.type, seen)
    return [
        (found, field) for found, hints in seen.items() for field, hint in hints.items() if _holds_text(hint)
    ]


@pytest.mark.parametrize(
    ("found", "field"), _text_fields(), ids=lambda part: part if isinstance(part, str) else part.__name__
)
def test_every_text_of_every_read_is_judged(found: type, field: str) -> None:
    """A new field must be added to one of the tables: a name, free text, or neither."""
    tables = (NAME_FIELDS, FREE_TEXT_FIELDS, PLAIN_FIELDS, {CLASS_FIELD})
    judged = [field in table for table in tables]
    special = (found, field) in RENAMED.special
    assert special or sum(judged) == 1


def _labels_of(kind: OwnerKind) -> set[str]:
    """Return the labels by which the groups and owners of a kind's pods are found."""
    groups = {key for label in kind.groups for key in (label.key, label.role, label.needed, label.number)}
    return (groups | ({kind.owner.key} if kind.owner is not None else set())) - {""}


def test_every_key_that_groups_are_inferred_by_is_kept() -> None:
    """Otherwise the audit of a dump would find fewer groups than the audit of the cluster."""
    keys = {value for name, value in vars(inferred).items() if name.isupper() and isinstance(value, str)}
    # Kueue's queue decides whether an object waits, and only objects of manifests have it.
    keys -= {inferred.KUEUE_ROLE_HASH, TEMPLATE_HASH, inferred.KUEUE_QUEUE}
    keys |= {label for kind in KINDS for label in _labels_of(kind)}
    foreign = {key for each in FOREIGN_KINDS for key in each.keys}
    assert keys | foreign | {GROUP_LABEL} == NAMING_KEYS


POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train-0",
        "generateName": "train-",
        "namespace": "team",
        "uid": "1-2",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"job-name": "train", "owner-mail": "a@b.example", "app": "x"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "hunter2",
            "scheduling.k8s.io/group-name": "train",
        },
        "managedFields": [{"manager": "kubectl"}],
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "3", "controller": True}
        ],
        "finalizers": ["batch.kubernetes.io/job-tracking", "corp.example/hold"],
    },
    "spec": {
        "containers": [
            {
                "name": "secret-sauce",
                "image": "registry.example/secret",
                "args": ["--password=hunter2"],
                "env": [{"name": "TOKEN", "value": "hunter2"}],
                "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": 1}},
            }
        ],
        "nodeName": "node-1",
        "priority": 1000,
        "priorityClassName": "gold",
        "schedulerName": "default-scheduler",
        "serviceAccountName": "robot",
        "schedulingGroup": {"podGroupName": "train"},
        "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}, {"name": "corp.example/gate"}],
        "volumes": [{"name": "v", "secret": {"secretName": "hunter2"}}],
    },
    "status": {"phase": "Running", "podIP": "10.0.0.1", "message": "hunter2"},
}  # fmt: skip


def test_only_what_podium_reads_is_shared() -> None:
    """The dump has no environment, arguments, image, address, nor labels and annotations of others."""
    shared = PLAIN.share(msgspec.convert(POD, Pod))
    assert shared == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-0",
            "generateName": "train-",
            "namespace": "team",
            "uid": "1-2",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"job-name": "train"},
            "annotations": {"scheduling.k8s.io/group-name": "train"},
            "finalizers": ["batch.kubernetes.io/job-tracking", "corp.example/hold"],
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "3", "controller": True}
            ],
        },
        "spec": {
            "priorityClassName": "gold",
            "priority": 1000,
            "schedulerName": "default-scheduler",
            "schedulingGroup": {"podGroupName": "train"},
            "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}, {"name": "corp.example/gate"}],
            "nodeName": "node-1",
            "containers": [
                {"name": "secret-sauce", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": 1}}}
            ],
        },
        "status": {"phase": "Running"},
    }


def test_pseudonyms_replace_every_name_by_the_same() -> None:
    """References stay consistent: the owner, the label, the annotation and the group have one name."""
    shared = RENAMED.share(msgspec.convert(POD, Pod))
    train, metadata, spec = RENAME("train"), shared["metadata"], shared["spec"]
    assert metadata["labels"] == {"job-name": train}
    assert metadata["annotations"] == {"scheduling.k8s.io/group-name": train}
    assert metadata["ownerReferences"][0]["name"] == train
    assert metadata["generateName"] == f"{train}-"
    assert spec["schedulingGroup"]["podGroupName"] == train
    assert metadata["finalizers"] == ["batch.kubernetes.io/job-tracking", RENAME("corp.example/hold")]
    assert spec["schedulingGates"] == [
        {"name": "kueue.x-k8s.io/admission"}, {"name": RENAME("corp.example/gate")}
    ]  # fmt: skip
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["priority"] == 1000
    text = msgspec.json.encode(shared).decode()
    for name in ("train", "team", "gold", "node-1", "secret", "corp", "1-2"):
        assert name not in text


@pytest.mark.parametrize("name", ["a", "Team A", "x" * 253, "ä", "train-0"])
def test_a_pseudonym_is_a_name_and_a_label_value(name: str) -> None:
    assert re.fullmatch(r"n[a-z2-7]{12}", RENAME(name))
    assert RENAME(name) == RENAME(name)
    assert RENAME(name) != pseudonyms(b"other key")(name)


@pytest.mark.parametrize("name", ["", "7", "default", "kube-system", "system-node-critical", "worker"])
def test_names_that_tell_nothing_stay(name: str) -> None:
    assert RENAME(name) == name


def test_a_class_that_only_kubernetes_may_make_stays_one() -> None:
    """A rule reads the prefix."""
    pod = msgspec.convert({"spec": {"priorityClassName": "system-mine"}}, Pod)
    assert RENAMED.share(pod)["spec"]["priorityClassName"] == "system-mine"


def test_free_text_is_never_shared() -> None:
    """The field is left out even without pseudonyms, because no rule reads it."""
    found = msgspec.convert(
        {"metadata": {"name": "gold"}, "value": 1, "description": "for ACME only"}, PriorityClass
    )
    assert "description" not in PLAIN.share(found)


EVICTION = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 5Mi. "
    "Container secret-sauce was using 9Gi, request is 0. "
)


@pytest.mark.parametrize(
    ("reason", "message", "plain", "renamed"),
    [
        ("Evicted", EVICTION, EVICTION, "The node was low on resource: memory."),
        ("Evicted", "Container secret-sauce exceeded", "Container secret-sauce exceeded", None),
        ("OutOfcpu", "Pod was rejected", None, None),
        (None, "hunter2", None, None),
    ],
)
def test_of_an_evicted_pod_the_kubelets_message_is_kept(
    reason: str | None, message: str, plain: str | None, renamed: str | None
) -> None:
    """It is the only field with the cause.

    It names containers, so pseudonyms shorten it.
    """
    status = SchedulableStatus(reason=reason, message=message)
    assert PLAIN.share(status).get("message") == plain
    assert RENAMED.share(status).get("message") == renamed


def test_custom_kinds_get_pseudonyms() -> None:
    """Their names would reveal the owner; well-known ones stay, because groups are inferred from them."""
    own = OwnerReference("acme.example/v1", "AcmeTrain", "a", "1", controller=True)
    known = OwnerReference("kubeflow.org/v1", "PyTorchJob", "a", "1")
    owners = RENAMED.share(ObjectMeta(ownerReferences=[own, known]))["ownerReferences"]
    assert owners[0] == {
        "apiVersion": f"{RENAME('acme.example')}.example/v1",
        "kind": RENAME("AcmeTrain"),
        "name": RENAME("a"),
        "uid": "1",
        "controller": True,
    }
    assert (owners[1]["apiVersion"], owners[1]["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    assert PLAIN.share(own)["kind"] == "AcmeTrain"
    assert RENAMED.share(ControllerRef("acme.example", "AcmeTrain", "a")) == {
        "apiGroup": f"{RENAME('acme.example')}.example",
        "kind": RENAME("AcmeTrain"),
        "name": RENAME("a"),
    }


BUDGET = msgspec.convert(
    {
        "metadata": {"name": "b"},
        "spec": {
            "selector": {
                "matchLabels": {"corp.example/app": "db"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}],
            },
            "minAvailable": "50%",
        },
        "status": {"disruptedPods": {"db-0": "2026-01-01T00:00:00Z"}},
    },
    PodDisruptionBudget,
)


def test_labels_that_budgets_select_by_are_kept() -> None:
    """Without them the pods of a budget would be unknown."""
    keys = selected_keys([BUDGET, PodDisruptionBudget()])
    assert keys == {"corp.example/app", "tier"}
    labels = {"corp.example/app": "db", "tier": "gold", "other": "x"}
    assert Filter(keys, None).share(ObjectMeta(labels=labels))["labels"] == {
        "corp.example/app": "db", "tier": "gold"
    }  # fmt: skip


def test_budgets_and_pods_still_meet_under_pseudonyms() -> None:
    renamed = Filter(selected_keys([BUDGET]), RENAME)
    labels = renamed.share(ObjectMeta(labels={"corp.example/app": "db", "tier": "gold"}))["labels"]
    shared = renamed.share(BUDGET)
    (key, value), *rest = labels.items()
    assert not rest or shared["spec"]["selector"]["matchExpressions"][0]["key"] == rest[0][0]
    assert shared["spec"]["selector"]["matchLabels"] == {key: value}
    assert rest[0][1] in shared["spec"]["selector"]["matchExpressions"][0]["values"]
    assert shared["spec"]["minAvailable"] == "50%"
    assert shared["status"]["disruptedPods"] == {RENAME("db-0"): "2026-01-01T00:00:00Z"}
    assert "corp" not in str(shared)


def test_annotations_about_saving_work_are_kept() -> None:
    """A plan for the dump needs them. With pseudonyms a value that is no time tells nothing."""
    declared = {
        "scheduling.podium.dev/saves-on-notice": "45s",
        "scheduling.podium.dev/checkpointed-at": "2026-01-01T00:00:00Z",
        "scheduling.podium.dev/save-requested": "2026-01-01T00:00:01Z",
        "scheduling.podium.dev/expected-run-time": "2h",
        "scheduling.podium.dev/longest-wait-for-room": "10m",
    }
    wrong = {"scheduling.podium.dev/restart-time": "hunter2"}
    metadata = ObjectMeta(name="x", annotations={**declared, **wrong})
    assert PLAIN.share(metadata)["annotations"] == {**declared, **wrong}
    renamed = RENAMED.share(metadata)["annotations"]
    assert renamed.pop("scheduling.podium.dev/restart-time") != "hunter2"
    assert renamed == declared


def test_a_node_is_its_room_its_version_and_what_pods_choose_it_by() -> None:
    """All its labels and taints are in the dump; no address, no other identity."""
    node = {
        "metadata": {
            "name": "n1.corp.example",
            "labels": {"kubernetes.io/hostname": "n1.corp.example", "corp.example/rack": "r7"},
            "annotations": {"corp.example/owner": "hunter2"},
        },
        "spec": {
            "unschedulable": True,
            "providerID": "aws:///i-123",
            "podCIDR": "10.0.0.0/24",
            "taints": [{"key": "corp.example/gold", "value": "team-a", "effect": "NoSchedule"}],
        },
        "status": {
            "allocatable": {"cpu": "4"},
            "declaredFeatures": ["VolumeBindMountOptions"],
            "addresses": [{"address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.36.3", "machineID": "abc"},
        },
    }
    name = RENAME("n1.corp.example")
    assert RENAMED.share(msgspec.convert(node, SchedulableNode)) == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, RENAME("corp.example/rack"): RENAME("r7")},
            "annotations": {},
        },
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": RENAME("corp.example/gold"), "value": RENAME("team-a"), "effect": "NoSchedule"}
            ],
        },
        "status": {
            "allocatable": {"cpu": "4"},
            "declaredFeatures": ["VolumeBindMountOptions"],
            "nodeInfo": {"kubeletVersion": "v1.36.3"},
        },
    }
    kept = PLAIN.share(msgspec.convert(node, SchedulableNode))["metadata"]["labels"]
    assert kept == {"kubernetes.io/hostname": "n1.corp.example", "corp.example/rack": "r7"}


def _term(**fields: Any) -> dict[str, Any]:
    return {"topologyKey": "kubernetes.io/hostname", **fields}


CHOOSY = msgspec.convert(
    {
        "spec": {
            "affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        _term(
                            labelSelector={"matchLabels": {"a": "1"}},
                            namespaceSelector={"matchLabels": {"b": "1"}},
                        )
                    ]
                },
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": _term(matchLabelKeys=["c"], mismatchLabelKeys=["d"])}
                    ]
                },
            },
            "topologySpreadConstraints": [
                {
                    "topologyKey": "zone",
                    "matchLabelKeys": ["e"],
                    "labelSelector": {"matchExpressions": [{"key": "f", "operator": "Exists"}]},
                }
            ],
            "nodeSelector": {"not-of-pods": "x"},
        }
    },
    Schedulable,
)


def test_labels_that_pods_select_by_are_kept() -> None:
    """All selectors count except those of nodes, since a node keeps all its labels."""
    assert selected_keys([CHOOSY, Schedulable(), Pod()]) == set("abcdef")
    required, preferred = (
        f"{how}DuringSchedulingIgnoredDuringExecution[0]" for how in ("required", "preferred")
    )
    assert set(selections(CHOOSY.spec)) == {
        (f"affinity.podAffinity.{required}", "a"),
        (f"affinity.podAffinity.{required}", "b"),
        (f"affinity.podAntiAffinity.{preferred}", "c"),
        (f"affinity.podAntiAffinity.{preferred}", "d"),
        ("topologySpreadConstraints[0]", "e"),
        ("topologySpreadConstraints[0]", "f"),
    }


UNSCHEDULED = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes of ACME are available"}
DOOMED = "podium-scheduler: preempting to accommodate a higher priority podgroup (UID 7-8)"
MARKED = msgspec.convert(
    {
        "status": {
            "message": "hunter2",
            "conditions": [
                UNSCHEDULED,
                {"type": "DisruptionTarget", "status": "True", "message": DOOMED},
                {"type": "corp.example/gate", "status": "False", "message": "hunter2"},
            ],
        }
    },
    Schedulable,
)


def _messages(filtered: Filter, value: Any) -> list[str | None]:
    return [each.get("message") for each in filtered.share(value)["status"]["conditions"]]


def test_messages_of_schedulers_are_shared_with_the_past_only() -> None:
    """A dump with the past has the messages of waits and evictions only."""
    assert _messages(PLAIN, MARKED) == [None, None, None]
    past = Filter(frozenset(), None, past=True)
    assert _messages(past, MARKED) == [UNSCHEDULED["message"], DOOMED, None]
    assert "message" not in past.share(MARKED)["status"]


def test_under_pseudonyms_a_message_keeps_preemptor_and_victim_only() -> None:
    """The UIDs still match; other texts of a scheduler may hold any name."""
    renamed = Filter(frozenset(), RENAME, past=True)
    doomed = DOOMED.replace("7-8", RENAME("7-8"))
    assert _messages(renamed, MARKED) == [None, doomed, None]
    named = {"type": "DisruptionTarget", "message": f"{DOOMED}, team/train"}
    assert renamed.share(msgspec.convert(named, Condition))["message"] == doomed
    unnamed = {"type": "DisruptionTarget", "message": "corp: preempting to accommodate a higher priority pod"}
    renamed_words = renamed.share(msgspec.convert(unnamed, Condition))["message"]
    assert renamed_words == f"{RENAME('corp')}: preempting to accommodate a higher priority pod"
    event = msgspec.convert(
        {
            "metadata": {"name": "train-0.17", "namespace": "team"},
            "involvedObject": {"kind": "Pod", "namespace": "team", "name": "train-0", "uid": "1-2"},
            "reason": "Preempted",
            "message": "Preempted by pod 7-8 on node node-1, 2 pods in 1 unit, team/train",
            "source": {"component": "corp-scheduler"},
            "reportingComponent": "kubelet",
        },
        Event,
    )
    assert renamed.share(event) | {"metadata": None} == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": None,
        "involvedObject": {
            "kind": "Pod",
            "namespace": RENAME("team"),
            "name": RENAME("train-0"),
            "uid": RENAME("1-2"),
        },
        "reason": "Preempted",
        "message": f"Preempted by pod {RENAME('7-8')} on node {RENAME('node-1')}",
        "source": {"component": RENAME("corp-scheduler")},
        "reportingComponent": "kubelet",
    }
    event.message = "The node was low on memory. Container secret was using 10Gi"
    assert "message" not in renamed.share(event)


def test_an_owner_in_a_record_has_the_kind_that_pods_say() -> None:
    """A record does not hold the API group of an owner; the owner references of pods do."""
    own = OwnerReference("acme.example/v1", "AcmeTrain", "a", "1")
    known = OwnerReference("kubeflow.org/v1", "PyTorchJob", "b", "2")
    pods = [Pod(metadata=ObjectMeta(ownerReferences=[each])) for each in (own, known)]
    owners = [Owner("AcmeTrain", "a", "1"), Owner("PyTorchJob", "b", "2")]
    shared = Filter(frozenset(), RENAME, past=True, kinds=known_kinds(pods))
    for pod, recorded in zip(pods, owners, strict=True):
        (owner,) = shared.share(pod)["metadata"]["ownerReferences"]
        assert shared.share(recorded) == {key: owner[key] for key in ("kind", "name", "uid")}


def test_a_record_under_pseudonyms_has_no_name() -> None:
    owner = Owner("AcmeTrain", "train", "3")
    preemptor = Party("PodGroup", "team", "train", "1-2", 5, 4, owner)
    unit = Party("Pod", "other", "web-0", "9", 1, owner=Owner("ReplicaSet", "web"))
    plan = RecordedPlan(
        time="2026-01-01T00:00:00Z",
        mode="Enforced",
        result="Failed",
        message="node-1 is gone",
        preemptor=preemptor,
        domain="node-1",
        units=(unit,),
        accelerators={"nvidia.com/gpu": 8},
    )
    shared = Filter(frozenset(), RENAME, past=True).share(PreemptionRecord(plans=[plan]))
    text = msgspec.json.encode(shared).decode()
    for name in ("team", "train", "AcmeTrain", "other", "web", "node-1", "1-2"):
        assert name not in text
    (found,) = shared["plans"]
    assert (found["units"][0]["owner"]["kind"], found["accelerators"]) == (
        "ReplicaSet",
        {"nvidia.com/gpu": 8},
    )
    assert found["domain"] == RENAME("node-1")
    assert (
        Filter(frozenset(), None).share(msgspec.structs.replace(plan, domain="cluster"))["domain"]
        == "cluster"
    )
