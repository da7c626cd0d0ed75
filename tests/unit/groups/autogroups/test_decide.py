"""The controller's part of auto groups: when it creates a group, the group's fields, and later changes."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.support.autogroups import (
    GROUP_LABEL,
    NAMESPACE,
    Document,
    leader,
    namespace,
    of_job,
    of_jobset,
    owner,
    read_pod,
    worker,
)

from podium.api.core import Pod, PriorityClass
from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.api.reads import READS
from podium.cluster.state import ClusterState
from podium.controllers.actions import ApplyGroup, CreateGroup
from podium.controllers.autogroups import decide

KEY = GroupKey(False, NAMESPACE, "train-job")
V1BETA1 = "scheduling.podium.dev/v1beta1"


def member(document: Document, group: str = "train-job", priority: int | None = 0, **rest: Any) -> Pod:
    """Return a pod with the webhook's labels; `rest` is metadata, class and phase."""
    class_name, phase = rest.pop("class_name", None), rest.pop("phase", None)
    metadata = document["metadata"] | {"labels": document["metadata"]["labels"] | {GROUP_LABEL: group}} | rest
    spec = {"priority": priority, "priorityClassName": class_name}
    return read_pod(document | {"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def priority_class(name: str, value: int) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=value)


def stored(name: str = "train-job", count: int | None = 4, uid: str = "uid-of-train", **rest: Any) -> Any:
    """Return a stored group of a gang; `rest` is metadata and the class."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    spec: Document = {"schedulingPolicy": {"basic": {}} if count is None else {"gang": {"minCount": count}}}
    class_name = rest.pop("class_name", None)
    if class_name:
        spec["priorityClassName"] = class_name
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": "uid-of-group",
        "resourceVersion": "7",
        "ownerReferences": [reference],
        **rest,
    }
    read = READS[V1BETA1, "PodGroup"]
    document = {"apiVersion": V1BETA1, "kind": "PodGroup", "metadata": metadata, "spec": spec}
    return read.neutral(msgspec.convert(document, read.type))


def job(**spec: Any) -> Any:
    return owner("Job", "train", {"parallelism": 4, **spec})


def state(*objects: Any, native_served: bool = False) -> ClusterState:
    """Return a cluster of these objects."""
    made = ClusterState(native_served=native_served)
    for each in objects:
        made.apply(each)
    return made


def wanted(view: ClusterState, key: GroupKey = KEY) -> Document | None:
    """Return the created or applied document, None without one."""
    decision = decide(view, key)
    assert decision.again is None
    if not decision.actions:
        return None
    (action,) = decision.actions
    assert isinstance(action, ApplyGroup if key in view.groups else CreateGroup)
    assert action.ref == ObjectRef(V1BETA1, "PodGroup", key.namespace, key.name)
    return dict(action.document)


def test_a_group_is_made_for_its_owner() -> None:
    """The first pod creates the group, with the owner's count, the pods' class, and an owner reference."""
    view = state(
        namespace(), job(), priority_class("gold", 100), member(of_job(), priority=100, class_name="gold")
    )
    assert wanted(view) == {
        "apiVersion": V1BETA1,
        "kind": "PodGroup",
        "metadata": {
            "name": "train-job",
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "podium", "scheduling.podium.dev/gang": "auto"},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": "train",
                    "uid": "uid-of-train",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 4}},
            "priorityClassName": "gold",
            "disruptionMode": {"all": {}},
        },
    }


JOBSET = owner(
    "JobSet", "train", {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 3}}}]}
)
LWS = owner("LeaderWorkerSet", "serve", {"replicas": 2, "leaderWorkerTemplate": {"size": 3}})
OTHERS = {
    "a JobSet": (JOBSET, of_jobset(), "train-jobset", 6),
    "a replica by its leader": (LWS, leader(index=1), "serve-1-lws", 3),
    "a replica by a worker": (LWS, worker(index=1), "serve-1-lws", 3),
}


@pytest.mark.parametrize(("made_by", "pod", "name", "count"), OTHERS.values(), ids=OTHERS)
def test_every_kind_of_owner(made_by: Any, pod: Document, name: str, count: int) -> None:
    document = wanted(state(namespace(), made_by, member(pod, name)), GroupKey(False, NAMESPACE, name))
    assert document is not None
    assert document["spec"]["schedulingPolicy"] == {"gang": {"minCount": count}}
    (reference,) = document["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"]) == (made_by.ref.kind, made_by.ref.name)


GONE = "2026-01-01T00:00:00Z"
NOTHING: dict[str, Callable[[], tuple[Any, ...]]] = {
    "no pod": lambda: (namespace(), job()),
    "no owner": lambda: (namespace(), member(of_job())),
    "an owner that goes": lambda: (
        namespace(),
        owner("Job", "train", {"parallelism": 4}, deletionTimestamp=GONE),
        member(of_job()),
    ),
    "an owner that is suspended": lambda: (namespace(), job(suspend=True), member(of_job())),
    "an owner of no pods": lambda: (namespace(), job(parallelism=0), member(of_job())),
    "an unknown namespace": lambda: (job(), member(of_job())),
    "a namespace that does not let it": lambda: (namespace(labels={}), job(), member(of_job())),
    "a namespace that goes": lambda: (namespace(deletionTimestamp=GONE), job(), member(of_job())),
    "a pod that does not ask": lambda: (
        namespace(),
        job(),
        member(of_job() | {"metadata": of_job()["metadata"] | {"labels": {}}}),
    ),
    "a pod of another gang": lambda: (namespace(), job(), member(of_job("other"))),
    "pods that have run": lambda: (
        namespace(),
        job(),
        member(of_job(pod="a"), phase="Succeeded"),
        member(of_job(pod="b"), phase="Failed"),
    ),
    "a pod that goes": lambda: (namespace(), job(), member(of_job(), deletionTimestamp=GONE)),
    "a group that is right": lambda: (namespace(), job(), member(of_job()), stored()),
    "a group that goes": lambda: (
        namespace(),
        job(),
        member(of_job()),
        stored(count=9, deletionTimestamp=GONE),
    ),
    "a group that a user made": lambda: (
        namespace(),
        job(),
        member(of_job()),
        stored(count=9, ownerReferences=[]),
    ),
    "the group of a Job of this name that is no more": lambda: (
        namespace(),
        job(),
        member(of_job()),
        stored(count=9, uid="an-older-uid"),
    ),
    "a group with another policy": lambda: (
        namespace(),
        job(),
        member(of_job()),
        stored(count=None),
    ),
    "an owner that is suspended and a group": lambda: (
        namespace(),
        job(suspend=True),
        member(of_job()),
        stored(count=9),
    ),
}


@pytest.mark.parametrize("objects", NOTHING.values(), ids=NOTHING)
def test_nothing_is_written(objects: Callable[[], tuple[Any, ...]]) -> None:
    """The controller writes nothing for others' objects, without a request, or during deletion."""
    assert wanted(state(*objects())) is None


def test_a_native_key_is_the_api_servers() -> None:
    """If the native field counts, it wins: the pod is no member of our group."""
    native = of_job()
    pod = member(native)
    pod.spec = msgspec.convert({"schedulingGroup": {"podGroupName": "train-job"}}, type(pod.spec))
    view = state(namespace(), job(), pod, native_served=True)
    assert wanted(view) is None
    assert wanted(view, GroupKey(True, NAMESPACE, "train-job")) is None


def test_the_count_follows_the_owner() -> None:
    """Nothing else changes: the applied fields are sent again, for the group of the decision.

    The disruption mode stays, which in groups of earlier releases differs from today's.
    """
    pods = member(of_job(), priority=100, class_name="gold"), priority_class("gold", 100)
    view = state(namespace(), job(parallelism=6), *pods, stored(class_name="silver"))
    document = wanted(view)
    assert document is not None
    assert document["spec"] == {"schedulingPolicy": {"gang": {"minCount": 6}}, "priorityClassName": "silver"}
    assert (document["metadata"]["uid"], document["metadata"]["resourceVersion"]) == ("uid-of-group", "7")
    assert document["metadata"]["ownerReferences"][0]["uid"] == "uid-of-train"
    view.apply(stored(count=6, class_name="silver"))
    assert wanted(view) is None


CLASSES: dict[str, tuple[list[tuple[int | None, str | None]], str | None]] = {
    "one class": ([(100, "gold"), (100, "gold")], "gold"),
    "no class": ([(0, None), (None, None)], None),
    "most pods' class": ([(100, "gold"), (5, "low"), (5, "low")], "low"),
    "the lowest of as many": ([(100, "gold"), (5, "low")], "low"),
    "most pods' name of one integer": ([(5, "low"), (5, "lower"), (5, "lower")], "lower"),
    "a class that is gone": ([(7, "gone")], None),
    "a class that no group may have": ([(2_000_001_000, "system-node-critical")], None),
}


@pytest.mark.parametrize(("pods", "name"), CLASSES.values(), ids=CLASSES)
def test_the_class_of_most_pods(pods: list[tuple[int | None, str | None]], name: str | None) -> None:
    """The integers decide; divergent pods gain nothing by it, and the group is never refused."""
    classes = [priority_class(*each) for each in (("gold", 100), ("low", 5), ("lower", 5))]
    members = [
        member(of_job(pod=f"p{number}"), priority=value, class_name=each)
        for number, (value, each) in enumerate(pods)
    ]
    document = wanted(state(namespace(), job(), *classes, *members))
    assert document is not None
    assert document["spec"].get("priorityClassName") == name


DISRUPTION = "scheduling.podium.dev/gang-disruption"
MODES: dict[str, tuple[list[str | None], str]] = {
    "no pod asks": ([None, None], "all"),
    "every pod asks": (["single", "single"], "single"),
    "one pod asks": (["single", None], "all"),
    "another value": (["one-by-one"], "all"),
}


@pytest.mark.parametrize(("labels", "mode"), MODES.values(), ids=MODES)
def test_a_gang_is_preempted_as_a_whole_unless_all_its_pods_ask_for_single(
    labels: list[str | None], mode: str
) -> None:
    members = []
    for number, value in enumerate(labels):
        document = of_job(pod=f"p{number}")
        document["metadata"]["labels"] |= {DISRUPTION: value} if value else {}
        members.append(member(document))
    document = wanted(state(namespace(), job(), *members)) or {}
    assert document["spec"]["disruptionMode"] == {mode: {}}
