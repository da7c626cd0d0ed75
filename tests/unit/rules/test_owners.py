"""Objects that make pods get their pods' verdict, with paths into the template."""

from typing import Any

import pytest
from tests.support.rules.scene import GANG, GOLD, Document, cluster, group, profile, stored

from podium.api.groups import GROUP_LABEL
from podium.rules.admission import Operation, Request, Verdict
from podium.rules.owners import makes_pods, review_owner

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
