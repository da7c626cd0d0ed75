"""Groups inferred from the labels that well-known projects set on pods: the members and their roles."""

import pytest
from tests.support.audit.builders import owner, pod

from podium.api.core import Pod
from podium.groups.inferred import infer, role

JOBSET = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "launcher"}
LWS = {"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": "3"}
TRAINER = "trainer.kubeflow.org/trainjob-ancestor-step"

CASES: list[tuple[str, Pod, str, str]] = [
    ("Job by label", pod("p", labels={"batch.kubernetes.io/job-name": "j"}), "batch/v1 Job team-a/j", ""),
    ("Job by its old label", pod("p", labels={"job-name": "j"}), "batch/v1 Job team-a/j", ""),
    ("Job by owner", pod("p", owner=("batch/v1", "Job", "j")), "batch/v1 Job team-a/j", ""),
    (
        "JobSet before its Job",
        pod("p", labels={**JOBSET, "job-name": "train-launcher-0"}),
        "jobset.x-k8s.io/v1alpha2 JobSet team-a/train",
        "launcher",
    ),
    (
        "TrainJob by its step",
        pod("p", labels={**JOBSET, TRAINER: "trainer"}),
        "trainer.kubeflow.org/v1alpha1 TrainJob team-a/train",
        "launcher",
    ),
    (
        "LeaderWorkerSet, the leader of a replica",
        pod("p", labels={**LWS, "leaderworkerset.sigs.k8s.io/worker-index": "0"}),
        "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet team-a/serve-3",
        "leader",
    ),
    (
        "LeaderWorkerSet, a worker that Kueue groups too",
        pod(
            "p",
            labels={
                **LWS,
                "leaderworkerset.sigs.k8s.io/worker-index": "2",
                "kueue.x-k8s.io/pod-group-name": "leaderworkerset-serve-3-abcde",
            },
        ),
        "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet team-a/serve-3",
        "worker",
    ),
    (
        "RayCluster",
        pod("p", labels={"ray.io/cluster": "r", "ray.io/group": "gpu"}),
        "ray.io/v1 RayCluster team-a/r",
        "gpu",
    ),
    (
        "Grove's gang",
        pod("p", labels={"grove.io/podgang": "pcs-0", "grove.io/podclique": "pcs-0-prefill"}),
        "scheduler.grove.io/v1alpha1 PodGang team-a/pcs-0",
        "pcs-0-prefill",
    ),
    (
        "KAI's group",
        pod("p", owner=None, annotations={"pod-group-name": "pg"}),
        "scheduling.run.ai/v2alpha2 PodGroup team-a/pg",
        "",
    ),
    (
        "Kueue pod group",
        pod("p", labels={"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/podset": "head"}),
        "kueue.x-k8s.io/v1beta1 Workload team-a/g",
        "head",
    ),
    (
        "Kueue pod group, role by hash",
        pod(
            "p",
            labels={"kueue.x-k8s.io/pod-group-name": "g"},
            annotations={"kueue.x-k8s.io/role-hash": "b54"},
        ),
        "kueue.x-k8s.io/v1beta1 Workload team-a/g",
        "b54",
    ),
    (
        "coscheduling before what made the pod",
        pod("p", labels={"scheduling.x-k8s.io/pod-group": "g", **JOBSET}),
        "scheduling.x-k8s.io/v1alpha1 PodGroup team-a/g",
        "launcher",
    ),
    (
        "Volcano Job by annotations",
        pod(
            "p",
            annotations={
                "volcano.sh/job-name": "v",
                "volcano.sh/task-spec": "ps",
                "scheduling.k8s.io/group-name": "v-1234",
            },
            owner=("batch.volcano.sh/v1alpha1", "Job", "v"),
        ),
        "batch.volcano.sh/v1alpha1 Job team-a/v",
        "ps",
    ),
    (
        "Volcano PodGroup by annotation",
        pod("p", annotations={"scheduling.k8s.io/group-name": "g"}, owner=None),
        "scheduling.volcano.sh/v1beta1 PodGroup team-a/g",
        "",
    ),
    (
        "YuniKorn's application",
        pod(
            "p",
            labels={"yunikorn.apache.org/app-id": "a", "job-name": "j"},
            annotations={"yunikorn.apache.org/task-group-name": "executors"},
        ),
        "yunikorn.apache.org/v1alpha1 Application team-a/a",
        "executors",
    ),
    (
        "YuniKorn's application by its older label",
        pod("p", owner=None, labels={"applicationId": "a"}, scheduler="yunikorn"),
        "yunikorn.apache.org/v1alpha1 Application team-a/a",
        "",
    ),
    (
        "training operator",
        pod(
            "p",
            labels={"training.kubeflow.org/job-name": "t", "training.kubeflow.org/replica-type": "master"},
            owner=("kubeflow.org/v1", "PyTorchJob", "t"),
        ),
        "kubeflow.org/v1 Job team-a/t",
        "master",
    ),
]


@pytest.mark.parametrize(
    ("member", "group", "part"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_pod_belongs_where_its_marks_say(member: Pod, group: str, part: str) -> None:
    groups = infer([member], {})
    assert [f"{ref.apiVersion} {ref}" for ref in groups] == [group]
    assert role(member) == part


@pytest.mark.parametrize(
    "alone",
    [
        pod("p", owner=None),
        pod("p", owner=("apps/v1", "ReplicaSet", "web-1")),
        pod("p", owner=("batch.example.com/v1", "Job", "other")),
        pod("p", owner=None, labels={"job-name": ""}),
        pod("p", owner=None, labels={"applicationId": "a"}),
        pod("p", owner=None, labels={"yunikorn.apache.org/app-id": "yunikorn-team-a-autogen"}),
        pod("p", owner=None, labels={"leaderworkerset.sigs.k8s.io/group-index": "1"}),
    ],
)
def test_a_pod_without_known_marks_is_in_no_group(alone: Pod) -> None:
    assert infer([alone], {}) == {}
    assert role(alone) == ""


def test_a_jobset_that_a_trainjob_made_is_the_trainjobs() -> None:
    made = owner(
        "JobSet",
        "train",
        api_version="jobset.x-k8s.io/v1alpha2",
        made_by=("trainer.kubeflow.org/v1alpha1", "TrainJob", "train"),
    )
    (ref,) = infer([pod("p", labels=JOBSET)], {made.ref: made})
    assert str(ref) == "TrainJob team-a/train"


def test_groups_are_of_one_namespace() -> None:
    pods = [pod("p", namespace=namespace, labels=JOBSET) for namespace in ("a", "b", "a")]
    assert {str(ref): len(members) for ref, members in infer(pods, {}).items()} == {
        "JobSet a/train": 2,
        "JobSet b/train": 1,
    }
