"""The pods that controllers would create: number, names, labels and owners."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.expand import (
    Document,
    add,
    cluster,
    job,
    jobset,
    labels_of,
    leader_worker_set,
    made,
    pods,
    role,
    template,
)

from podium.api.podkinds.created import generated
from podium.documents.document import ReadError
from podium.rules.names import object_name

INDEX = "batch.kubernetes.io/job-completion-index"
APPS = "apps/v1"


def _owners(expanded: dict[str, Any]) -> set[tuple[str, str]]:
    controllers = [pod.metadata.controller() for pod in expanded.values()]
    return {(each.kind, each.name) for each in controllers if each is not None}


RAY = {
    "headGroupSpec": {"template": template()},
    "workerGroupSpecs": [{"groupName": "gpu", "replicas": 2, "numOfHosts": 2, "template": template()}],
}
QUEUE = {"kueue.x-k8s.io/queue-name": "users"}
IN_ORDER = {"startupPolicyOrder": "InOrder"}
COUNTS: list[tuple[str, Document, int]] = [
    ("a Job has one pod", job(parallelism=None), 1),
    ("a Job has its parallelism", job(parallelism=5), 5),
    ("but no more than its completions", job(parallelism=5, completions=3), 3),
    ("a Job of parallelism 0 has none", job(parallelism=0), 0),
    ("a Deployment has one", made(APPS, "Deployment", "web", {"template": template()}), 1),
    ("or its replicas", made(APPS, "Deployment", "web", {"replicas": 3, "template": template()}), 3),
    ("so a ReplicaSet", made(APPS, "ReplicaSet", "web", {"replicas": 3, "template": template()}), 3),
    ("so a StatefulSet", made(APPS, "StatefulSet", "db", {"replicas": 2, "template": template()}), 2),
    ("a JobSet has those of all its Jobs", jobset(role("a"), role("b", 3)), 8),
    (
        "that wait for no other role",
        jobset(role("a"), role("b", 3, dependsOn=[{"name": "a", "status": "Ready"}])),
        2,
    ),
    ("the first role alone in order", jobset(role("a"), role("b"), startupPolicy=IN_ORDER), 2),
    ("a LeaderWorkerSet has size times replicas", leader_worker_set(2, 3), 6),
    ("leaders alone where workers wait for them", leader_worker_set(2, 3, startupPolicy="LeaderReady"), 2),
    ("leaders alone of size 1", leader_worker_set(2, 1), 2),
    ("none without replicas", leader_worker_set(0, 3), 0),
    ("a RayCluster has a head and its workers", made("ray.io/v1", "RayCluster", "r", RAY), 5),
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "number"), [case[1:] for case in COUNTS], ids=[case[0] for case in COUNTS]
)
def test_how_many_pods_there_are_at_once(document: Document, number: int) -> None:
    expansion = add(cluster(), document)
    found = pods(expansion)
    assert len(found) == number
    assert len({pod.metadata.uid for pod in found.values()}) == number


def test_the_pods_of_a_job() -> None:
    """Pods have its name, label and owner, with a suffix that is always the same."""
    found = pods(add(cluster(), job()))
    assert found == pods(add(cluster(), job()))
    for name, pod in found.items():
        assert name.startswith("train-")
        assert labels_of(pod, "job-name", "batch.kubernetes.io/job-name", INDEX) == ["train", "train", None]
    assert _owners(found) == {("Job", "train")}


def test_the_pods_of_an_indexed_job_are_numbered() -> None:
    """Their numbers are in the name and in a label."""
    found = pods(add(cluster(), job(completionMode="Indexed", completions=2)))
    assert [name[:8] for name in found] == ["train-0-", "train-1-"]
    assert [labels_of(pod, INDEX) for pod in found.values()] == [["0"], ["1"]]


def test_the_pods_of_a_deployment_are_those_of_a_replica_set() -> None:
    found = pods(add(cluster(), made(APPS, "Deployment", "web", {"replicas": 2, "template": template()})))
    ((kind, name),) = _owners(found)
    assert kind == "ReplicaSet"
    for pod in found.values():
        (digest,) = labels_of(pod, "pod-template-hash")
        assert name == f"web-{digest}"
        assert (pod.metadata.name or "").startswith(f"{name}-")


def test_the_pods_of_a_stateful_set_have_a_place_and_claims() -> None:
    """A claim replaces a volume of its name."""
    spec = {
        "replicas": 2,
        "ordinals": {"start": 5},
        "template": template(volumes=[{"name": "data", "emptyDir": {}}, {"name": "tmp"}]),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
    }
    found = pods(add(cluster(), made(APPS, "StatefulSet", "db", spec)))
    assert list(found) == ["db-5", "db-6"]
    pod = found["db-6"]
    assert labels_of(pod, "apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name") == [
        "6",
        "db-6",
    ]
    claims = [(each.name, each.persistentVolumeClaim) for each in pod.spec.volumes or ()]
    assert [(name, claim and claim.claimName) for name, claim in claims] == [
        ("data", "data-db-6"),
        ("tmp", None),
    ]


def test_the_pods_of_a_jobset() -> None:
    """Its Jobs are named <jobset>-<role>-<index>, and are Indexed by default."""
    plain = role("b")
    plain["template"]["spec"]["completionMode"] = "NonIndexed"
    found = pods(add(cluster(), jobset(role("a", 2), plain)))
    keys = [f"jobset.sigs.k8s.io/{key}" for key in ("jobset-name", "replicatedjob-name", "job-index")]
    assert [labels_of(pod, *keys, "job-name", INDEX) for pod in found.values()] == [
        ["js", "a", "0", "js-a-0", "0"],
        ["js", "a", "0", "js-a-0", "1"],
        ["js", "a", "1", "js-a-1", "0"],
        ["js", "a", "1", "js-a-1", "1"],
        ["js", "b", "0", "js-b-0", None],
        ["js", "b", "0", "js-b-0", None],
    ]
    assert _owners(found) == {("Job", "js-a-0"), ("Job", "js-a-1"), ("Job", "js-b-0")}


def test_the_pods_of_a_leader_worker_set() -> None:
    """Leaders belong to the StatefulSet of its name, workers to one with their leader's name."""
    document = leader_worker_set(2, 2)
    document["spec"]["leaderWorkerTemplate"]["leaderTemplate"] = template(schedulerName="other")
    found = pods(add(cluster(), document))
    keys = [f"leaderworkerset.sigs.k8s.io/{key}" for key in ("name", "group-index", "worker-index")]
    assert {name: labels_of(pod, *keys) for name, pod in found.items()} == {
        "serve-0": ["serve", "0", "0"],
        "serve-0-1": ["serve", "0", "1"],
        "serve-1": ["serve", "1", "0"],
        "serve-1-1": ["serve", "1", "1"],
    }
    assert _owners(found) == {("StatefulSet", name) for name in ("serve", "serve-0", "serve-1")}
    assert (found["serve-1"].spec.schedulerName, found["serve-1-1"].spec.schedulerName) == ("other", None)


WAITING = "orders its pods, which plans do not support. Add the pods themselves"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
PLACEMENT = {"type": "Exclusive", "topologyKey": "rack"}
REFUSED: list[tuple[str, Document, str]] = [
    (
        "Jobs that come later",
        made("batch/v1", "CronJob", "c", {"jobTemplate": {"spec": {"template": template()}}}),
        "spec.jobTemplate: creates its Jobs later. Add the Job instead",
    ),
    (
        "a JobSet with exclusive places",
        {**jobset(role("a")), "metadata": {"name": "js", "annotations": {EXCLUSIVE: "rack"}}},
        f"metadata.annotations[{EXCLUSIVE}]: {WAITING}",
    ),
    (
        "a LeaderWorkerSet with exclusive places",
        leader_worker_set(groupPlacementPolicy=PLACEMENT),
        f"spec.groupPlacementPolicy: {WAITING}",
    ),
    ("fewer pods than none", job(parallelism=-2), "spec.parallelism: is -2, which is less than 0"),
    (
        "a role with fewer than none",
        jobset(role("a", -1)),
        "spec.replicatedJobs[0].replicas: is -1, which is less than 0",
    ),
    (
        "a replica of no pods",
        leader_worker_set(10**9, 0),
        "spec.leaderWorkerTemplate.size: is 0, but the leader is a pod. Use at least 1",
    ),
    (
        "a StatefulSet that begins with a word",
        made(APPS, "StatefulSet", "db", {"ordinals": {"start": "a"}, "template": template()}),
        "spec.ordinals.start: is not an initial number of pods",
    ),
    (
        "a claim without a name",
        made(APPS, "StatefulSet", "db", {"volumeClaimTemplates": [7], "template": template()}),
        "spec.volumeClaimTemplates[0].metadata.name: is missing or not text",
    ),
    (
        "a Job without pods",
        made("batch/v1", "Job", "j", {}),
        "spec.template: is missing; its pods have no spec",
    ),
    (
        "a million pods",
        job(parallelism=1_000_000),
        "Job t/train brings the file to 1,000,000 pods. The maximum is 20,000",
    ),
    (
        "a billion replicas",
        leader_worker_set(10**9),
        "LeaderWorkerSet t/serve brings the file to 3,000,000,000 pods. The maximum is 20,000",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "expected"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_an_object_that_cannot_be_planned_for_is_refused_with_file_and_field(
    document: Document, expected: str
) -> None:
    with pytest.raises(ReadError) as refused:
        add(cluster(), document)
    where, _, what = str(refused.value).partition(": ")
    assert where == "new.json, document 1, items[0], line 1"
    assert what == expected


def test_unplanned_parts_are_reported() -> None:
    """The notes name roles and workers that come later."""
    later = jobset(role("a"), role("b", dependsOn=[{"name": "a"}]))
    notes = add(cluster(), later, leader_worker_set(startupPolicy="LeaderReady")).notes
    assert "JobSet t/js: not planned for, because they start after other roles: b" in notes
    assert (
        "LeaderWorkerSet t/serve: workers are not planned for, because they start after their leader" in notes
    )


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,250}[a-z0-9])?", fullmatch=True), st.integers(0, 20_000))
def test_generated_names_are_names_and_no_two_are_alike(base: str, index: int) -> None:
    name = generated(f"{base}-", "t", index)
    assert object_name(name) == []
    assert len(name) <= 63
    assert name != generated(f"{base}-", "t", index + 1)
    assert name == generated(f"{base}-", "t", index)


def test_pods_of_a_training_job_carry_its_labels_and_name_it_as_their_owner() -> None:
    workers = {"Worker": {"replicas": 2, "template": template()}}
    training = made("kubeflow.org/v1", "PyTorchJob", "pt", {"pytorchReplicaSpecs": workers})
    expanded = pods(add(cluster(), training))
    assert set(expanded) == {"pt-worker-0", "pt-worker-1"}
    assert _owners(expanded) == {("PyTorchJob", "pt")}
    keys = ("training.kubeflow.org/job-name", "training.kubeflow.org/replica-type")
    assert labels_of(expanded["pt-worker-0"], *keys) == ["pt", "worker"]


UNPLANNED = [
    (
        made("trainer.kubeflow.org/v1alpha1", "TrainJob", "t", {"runtimeRef": {"name": "r"}}),
        "spec.runtimeRef",
    ),
    (
        made("argoproj.io/v1alpha1", "Workflow", "w", {"templates": [{"container": {}}]}),
        "depends on its steps",
    ),
]


@pytest.mark.parametrize(("document", "problem"), UNPLANNED, ids=["TrainJob", "Workflow"])
def test_pods_that_an_object_does_not_tell_are_an_error(document: Document, problem: str) -> None:
    with pytest.raises(ReadError, match=problem):
        add(cluster(), document)


NONE = "it is suspended and has no pods. Remove the field to plan for them"
SUSPENDED: list[tuple[str, Document, str]] = [
    ("a Job", job(suspend=True), f"spec.suspend: {NONE}"),
    ("a JobSet", jobset(role("a"), suspend=True), f"spec.suspend: {NONE}"),
    ("a RayCluster", made("ray.io/v1", "RayCluster", "r", {**RAY, "suspend": True}), f"spec.suspend: {NONE}"),
    (
        "a PyTorchJob",
        made("kubeflow.org/v1", "PyTorchJob", "pt", {"runPolicy": {"suspend": True}}),
        f"spec.runPolicy.suspend: {NONE}",
    ),
    (
        "a Job that Kueue holds back",
        {**job(suspend=True), "metadata": {"name": "train", "namespace": "t", "labels": QUEUE}},
        "spec.suspend: it waits for Kueue in queue users and has no pods. Remove the field to plan for them",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "problem"), [case[1:] for case in SUSPENDED], ids=[case[0] for case in SUSPENDED]
)
def test_a_suspended_object_has_no_plan(document: Document, problem: str) -> None:
    expansion = add(cluster(), document, made("v1", "Pod", "p", template()["spec"]))
    assert list(pods(expansion)) == ["p"]
    assert [text.partition(": ")[2] for text in expansion.unplanned.values()] == [problem]


def test_a_workload_with_a_queue_is_planned_as_if_kueue_had_admitted_it() -> None:
    queued = {**job(), "metadata": {"name": "train", "namespace": "t", "labels": QUEUE}}
    assert "Job t/train: planned as if Kueue had admitted it (queue users)" in add(cluster(), queued).notes
