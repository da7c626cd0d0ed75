"""Objects that create pods get their pods' verdict, with paths into the template."""

from typing import Any

import msgspec
import pytest
from tests.support.rules.scene import GANG, GOLD, Document, cluster, group, profile, stored

from podium.answers.admission import makes_pods, review_owner
from podium.api.groups import GROUP_LABEL
from podium.rules.admission import Operation, Request, Verdict, review

WRONG: Document = {"spec": {"priorityClassName": "nope"}}


def owner(api_version: str, kind: str, spec: Any) -> Document:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "o"}, "spec": spec}


def judge(document: Document, *objects: Document, rules: str = "podium") -> Verdict:
    request = Request(operation=Operation.CREATE, object=document)
    return review_owner(request, cluster(*objects), profile(rules=rules))


@pytest.mark.parametrize(
    "api_version, kind, spec, path",
    [
        ("apps/v1", "Deployment", {"template": WRONG}, "spec.template"),
        ("apps/v1", "StatefulSet", {"template": WRONG}, "spec.template"),
        ("apps/v1", "DaemonSet", {"template": WRONG}, "spec.template"),
        ("apps/v1", "ReplicaSet", {"template": WRONG}, "spec.template"),
        ("batch/v1", "Job", {"template": WRONG}, "spec.template"),
        (
            "batch/v1",
            "CronJob",
            {"jobTemplate": {"spec": {"template": WRONG}}},
            "spec.jobTemplate.spec.template",
        ),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [{"name": "a"}, {"name": "b", "template": {"spec": {"template": WRONG}}}]},
            "spec.replicatedJobs[1].template.spec.template",
        ),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"leaderTemplate": {"spec": {}}, "workerTemplate": WRONG}},
            "spec.leaderWorkerTemplate.workerTemplate",
        ),
    ],
)
def test_refusal_leads_into_the_template(api_version: str, kind: str, spec: Document, path: str) -> None:
    document = owner(api_version, kind, spec)
    assert makes_pods(document)
    verdict = judge(document)
    assert (verdict.allowed, verdict.code) == (False, 403)
    assert verdict.message == 'pods "o-" is forbidden: no PriorityClass with name nope was found'
    (finding,) = verdict.findings
    assert finding.field == f"{path}.spec.priorityClassName"
    assert str(finding.object) == f"{kind} default/o"
    assert verdict.admitted is None


def test_an_owner_is_stored_as_it_was_sent() -> None:
    document = owner("batch/v1", "Job", {"template": {"spec": {"priorityClassName": GOLD}}})
    verdict = judge(document)
    assert verdict.admitted == {**document, "metadata": {"name": "o", "namespace": "default"}}
    assert (verdict.code, verdict.patch) == (201, [])


def test_warnings_lead_into_the_template() -> None:
    member = {"metadata": {"labels": {GROUP_LABEL: "g"}, "typo": 1}, "spec": {}}
    state = stored(group({**GANG, "priorityClassName": GOLD}, native=False), by=profile(rules="podium"))
    verdict = judge(owner("batch/v1", "Job", {"template": member}), state)
    assert verdict.allowed
    (warning,) = verdict.warnings
    assert warning == (
        'spec.template.spec.priority: priority 0 (no class) differs from that of PodGroup "g", which is 1000 '
        f"(class {GOLD})"
    )


def test_every_template_is_judged() -> None:
    pair = {"leaderTemplate": WRONG, "workerTemplate": {"spec": {"priority": 7}}}
    verdict = judge(owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": pair}))
    assert [finding.rule for finding in verdict.findings] == ["pod-class-not-found", "pod-priority-mismatch"]
    assert "nope" in verdict.message


@pytest.mark.parametrize("spec", [None, {}, {"template": None}])
def test_no_template_no_verdict(spec: Any) -> None:
    assert judge(owner("batch/v1", "Job", spec)).allowed


def test_update_of_an_owner() -> None:
    document = owner("batch/v1", "Job", {"template": {"spec": {}}})
    request = Request(operation=Operation.UPDATE, object=document, old=document)
    assert review_owner(request, cluster(), profile()).code == 200


def test_other_kinds_make_no_pods() -> None:
    assert not makes_pods({"apiVersion": "v1", "kind": "Pod"})


@pytest.mark.parametrize(
    ("kubernetes", "part"),
    [("1.36", "Kubernetes 1.36 drops it;"), ("1.37", "unless the gate WorkloadWithJob is on")],
)
def test_a_field_that_the_server_may_drop_is_a_warning(kubernetes: str, part: str) -> None:
    scheduling: Document = {"schedulingPolicy": {"gang": {}}}
    job = owner("batch/v1", "Job", {"template": {"spec": {}}, "scheduling": scheduling})
    request = Request(operation=Operation.CREATE, object=job)
    (warning,) = review_owner(request, cluster(), profile(kubernetes=kubernetes)).warnings
    assert warning.startswith("spec.scheduling: ")
    assert part in warning


@pytest.mark.parametrize(
    ("kind", "gate"), [("Job", "WorkloadWithJob"), ("JobSet", "JobSetWorkloadAwareSchedulingAPI")]
)
def test_the_field_is_kept_with_its_gate(kind: str, gate: str) -> None:
    version = "batch/v1" if kind == "Job" else "jobset.x-k8s.io/v1alpha2"
    document = owner(version, kind, {"scheduling": {"schedulingPolicy": {"gang": {}}}})
    request = Request(operation=Operation.CREATE, object=document)
    for gates, number in ((frozenset[str](), 1), (frozenset((gate,)), 0)):
        server = msgspec.structs.replace(profile(), gates=gates)
        verdict = review_owner(request, cluster(), server)
        assert len(verdict.warnings) == number


@pytest.mark.parametrize(("kubernetes", "warned"), [("1.37", 1), ("1.38", 0)])
def test_before_1_38_a_job_of_a_cronjob_gets_no_group(kubernetes: str, warned: int) -> None:
    job: Document = {"template": {"spec": {}}, "scheduling": {"schedulingPolicy": {"gang": {}}}}
    document = owner("batch/v1", "CronJob", {"jobTemplate": {"spec": job}})
    server = msgspec.structs.replace(profile(kubernetes=kubernetes), gates=frozenset(("WorkloadWithJob",)))
    verdict = review_owner(Request(operation=Operation.CREATE, object=document), cluster(), server)
    text = "spec.jobTemplate.spec.scheduling: Kubernetes 1.37 creates no group for a Job with an owner; the "
    assert verdict.warnings == [f"{text}pods then have no group"] * warned


@pytest.mark.parametrize(
    ("completions", "rules", "warned"), [(5, "podium", 1), (8, "podium", 0), (5, "upstream", 0)]
)
def test_a_last_wave_that_is_smaller_than_min_count_is_a_warning(
    completions: int, rules: str, warned: int
) -> None:
    """kai-scheduler/KAI-Scheduler#1347: the last pod comes alone and waits forever."""
    template: Document = {"spec": {"schedulingGroup": {"podGroupName": "g"}}}
    spec = {"parallelism": 4, "completions": completions, "template": template}
    made = stored(group({"schedulingPolicy": {"gang": {"minCount": 4}}}))
    verdict = judge(owner("batch/v1", "Job", spec), made, rules=rules)
    message = (
        "spec.completions: the last wave of its pods has 1 pod, but minCount of PodGroup default/g is 4. If "
        "the pods of a wave end together, the last ones are never scheduled."
    )
    assert verdict.warnings == [message] * warned
    assert verdict.allowed


def test_fields_of_pods_are_named_where_the_kind_has_them() -> None:
    clique = {"name": "a", "spec": {"podSpec": {"priorityClassName": "nope", "containers": []}}}
    document = owner("grove.io/v1alpha1", "PodCliqueSet", {"template": {"cliques": [clique]}})
    assert [each.field for each in judge(document).findings] == [
        "spec.template.cliques[0].spec.podSpec.priorityClassName"
    ]


def test_a_priority_class_of_a_removed_version_is_refused() -> None:
    document = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PriorityClass", "metadata": {"name": "x"}}
    verdict = review(Request(operation=Operation.CREATE, object=document), cluster(), profile())
    assert (verdict.code, verdict.reason) == (404, "NotFound")
    assert verdict.message == 'no matches for kind "PriorityClass" in version "scheduling.k8s.io/v1beta1"'
    assert verdict.findings[0].fix == "Write apiVersion: scheduling.k8s.io/v1."
