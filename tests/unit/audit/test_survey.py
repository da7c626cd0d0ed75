"""For each group, the survey's single walk has the same result as a walk over the group's members."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.audit.builders import NEW, NS, OLD, cluster, node, owner, pod, pod_group

from podium.api.core import Pod
from podium.audit.survey import Survey
from podium.groups.divergence import measure_divergence

pods = st.lists(
    st.builds(
        pod,
        st.integers(0, 9).map(str),
        group=st.sampled_from(["train", "ghost", ""]),
        podium=st.sampled_from(["train", "other", ""]),
        priority=st.sampled_from([None, 0, 1]),
        policy=st.sampled_from([None, "Never", "PreemptLowerPriority"]),
        class_name=st.sampled_from(["", "gold"]),
        scheduler=st.sampled_from([None, "default-scheduler", "other"]),
        phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        terminating=st.booleans(),
        created=st.sampled_from([OLD, NEW]),
        requests=st.sampled_from([{"cpu": "1"}, {"cpu": "1000m"}, {"cpu": "2"}]),
    ),
    max_size=10,
)


@given(pods, st.sampled_from([None, 0, 1]), st.sampled_from([None, "Never"]))
def test_the_walk_leaves_what_a_closer_look_finds(
    members: list[Pod], priority: int | None, policy: str | None
) -> None:
    state = cluster(
        *members, pod_group(priority=priority, policy=policy, min_count=1), node("n", {"cpu": "9"})
    )
    survey = Survey(state, 37)
    assert {each.key for each in survey.groups} >= state.referenced_groups().keys() - {
        key
        for key, referring in state.referenced_groups().items()
        if all(each.finished for each in referring.values())
    }
    for each in survey.groups:
        assert each.members == state.members(each.key)
        present, staying = each.present, each.staying
        assert (each.live, each.leaving) == (len(present), len(present) - len(staying))
        assert {(one.class_name, one.priority, one.policy, one.scheduler) for one in each.stored} == {
            (
                one.spec.priorityClassName or "",
                one.spec.priority,
                one.spec.preemptionPolicy,
                one.spec.schedulerName or "default-scheduler",
            )
            for one in staying
        }
        assert each.oldest == min((one.metadata.creationTimestamp or "" for one in staying), default="~")
        if each.group is not None:
            assert each.divergence is not None
            full = measure_divergence(each.group, present)
            assert each.divergence.priority.divergent == full.priority.divergent
            assert each.divergence.policy.divergent == full.policy.divergent
            if full.priority.divergent or full.policy.divergent:
                assert each.divergence == full
        if each.sized:
            cpus = sorted(
                shape.request["cpu"] // 1000 for shape in each.shapes for _ in range(each.shapes[shape])
            )
            assert cpus == sorted(_cpu(one) for one in present)
    assert sum(stored.pods for stored in survey.stored) == sum(
        not each.finished for each in state.pods.values()
    )


def _cpu(one: Pod) -> int:
    resources = (one.spec.containers or [])[0].resources
    assert resources is not None
    return 2 if (resources.requests or {})["cpu"] == "2" else 1


def test_the_topmost_owner_is_found_as_far_as_owners_were_read() -> None:
    job = owner("Job", "train-0", made_by=("jobset.x-k8s.io/v1alpha2", "JobSet", "train"))
    jobset = owner(
        "JobSet",
        "train",
        api_version="jobset.x-k8s.io/v1alpha2",
        made_by=("trainer.kubeflow.org/v1alpha1", "TrainJob", "train"),
    )
    member = pod("p", owner=("batch/v1", "Job", "train-0"))
    assert str(Survey(cluster(member), 37).owner(member)) == f"Job {NS}/train-0"
    assert str(Survey(cluster(member, job), 37).owner(member)) == f"JobSet {NS}/train"
    assert str(Survey(cluster(member, job, jobset), 37).owner(member)) == f"TrainJob {NS}/train"
    assert Survey(cluster(), 37).owner(pod("bare", owner=None)) is None


def test_a_loop_of_owners_ends() -> None:
    loop = owner("Job", "a", made_by=("batch/v1", "Job", "a"))
    assert str(Survey(cluster(loop), 37).owner(pod("p", owner=("batch/v1", "Job", "a")))) == f"Job {NS}/a"


TRAIN = {"jobset.sigs.k8s.io/jobset-name": "train"}
STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


@pytest.mark.parametrize(
    ("controller", "labels", "expected"),
    [
        (("batch/v1", "Job", "train-launcher-0"), TRAIN, "JobSet team-a/train"),
        (("batch/v1", "Job", "train-node-0"), TRAIN | STEP, "TrainJob team-a/train"),
        (
            ("apps/v1", "StatefulSet", "serve-0"),
            {"leaderworkerset.sigs.k8s.io/name": "serve"},
            "LeaderWorkerSet team-a/serve",
        ),
        (("apps/v1", "ReplicaSet", "web-5f7c"), {"pod-template-hash": "5f7c"}, "Deployment team-a/web"),
        (
            ("apps/v1", "ReplicaSet", "web-00001-deployment-5f7c"),
            {"pod-template-hash": "5f7c", "serving.knative.dev/service": "web"},
            "Service team-a/web",
        ),
        (("apps/v1", "ReplicaSet", "web"), {"pod-template-hash": "5f7c"}, "ReplicaSet team-a/web"),
        (("apps/v1", "ReplicaSet", "web-"), {}, "ReplicaSet team-a/web-"),
        (
            ("batch/v1", "Job", "mj-launcher"),
            {"training.kubeflow.org/job-name": "mj", "training.kubeflow.org/job-role": "launcher"},
            "MPIJob team-a/mj",
        ),
        (
            ("kubeflow.org/v1", "PyTorchJob", "pj"),
            {"training.kubeflow.org/job-name": "pj", "training.kubeflow.org/job-role": "master"},
            "PyTorchJob team-a/pj",
        ),
        (
            ("grove.io/v1alpha1", "PodClique", "gr-0-pl"),
            {"grove.io/podgang": "gr-0", "app.kubernetes.io/part-of": "gr"},
            "PodCliqueSet team-a/gr",
        ),
        (("apps/v1", "ReplicaSet", "web"), {"app.kubernetes.io/part-of": "shop"}, "ReplicaSet team-a/web"),
        (("batch/v1", "Job", "train"), {}, "Job team-a/train"),
    ],
)
def test_the_owner_of_a_generated_object_is_named_by_labels(
    controller: tuple[str, str, str], labels: dict[str, str], expected: str
) -> None:
    """A fix that names the generated object would be undone by its owner."""
    member = pod("a", owner=controller, labels=labels)
    assert str(Survey(cluster(member), 37).owner(member)) == expected


def test_an_owner_that_was_read_counts_more_than_labels() -> None:
    member = pod("a", owner=("batch/v1", "Job", "x"), labels=TRAIN)
    assert str(Survey(cluster(member, owner("Job", "x")), 37).owner(member)) == "Job team-a/x"
