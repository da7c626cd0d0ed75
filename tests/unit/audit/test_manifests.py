"""`podium audit` of manifests: a repository shows the errors of its groups before they are applied."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.calling import Podium

from podium.text import count

JOB_AGAINST_GROUP = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 10
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: g, namespace: a}
spec:
  priorityClassName: high
  schedulingPolicy: {gang: {minCount: 8}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j, namespace: a}
spec:
  parallelism: 4
  template:
    spec:
      priorityClassName: low
      schedulerName: other
      schedulingGroup: {podGroupName: g}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: r, namespace: a}
spec:
  template:
    spec:
      schedulingGroup: {podGroupName: typo}
"""


def test_templates_are_judged_against_their_groups_and_located_in_the_file(podium: Podium) -> None:
    Path("deploy.yaml").write_text(JOB_AGAINST_GROUP, "utf-8")
    run = podium("-f", "deploy.yaml", "-o", "json")
    assert run.code == 3
    assert [(each["rule"], each["object"]["name"]) for each in run.json["findings"]] == [
        ("template-group-missing", "r"),
        ("template-priority-differs", "j"),
        ("template-too-few-pods", "g"),
        ("template-scheduler-unknown", "j"),
    ]
    annotated = podium("-f", "deploy.yaml", "-o", "github").stdout
    lines = JOB_AGAINST_GROUP.splitlines()
    for wrong in ("      priorityClassName: low", "      schedulingGroup: {podGroupName: typo}"):
        assert f"line={lines.index(wrong) + 1}," in annotated


GANG = {"schedulingPolicy": {"gang": {"minCount": 4}}}
NATIVE = {"schedulingGroup": {"podGroupName": "g"}}
OLDEST = {"workloadRef": {"name": "g", "podGroup": "workers"}}
LABEL = "scheduling.podium.dev/pod-group"


def group(version: str = "scheduling.k8s.io/v1beta1", least: int = 4) -> dict[str, Any]:
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


def job(
    spec: dict[str, Any], pod: dict[str, Any] | None = NATIVE, name: str = "j", **fields: Any
) -> dict[str, Any]:
    """Make a Job; `pod` is None for a template with Podium's label."""
    labels = {LABEL: "g"} if pod is None else {}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [], **(pod or {})}}
    whole = {"completions": 5, "parallelism": 4, **spec, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": whole, **fields}


def automatic(labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """Make a Job that asks for a group of Podium's."""
    made = job({}, {}, **fields)
    made["spec"]["template"]["metadata"]["labels"] = {"scheduling.podium.dev/gang": "auto", **(labels or {})}
    return made


def jobset(*jobs: dict[str, Any], replicas: int = 1, **spec: Any) -> dict[str, Any]:
    roles = [
        {"name": f"r{at}", "replicas": replicas, "template": {"spec": each["spec"]}}
        for at, each in enumerate(jobs)
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "s"},
        "spec": {**spec, "replicatedJobs": roles},
    }


def member(name: str, phase: str) -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    metadata = {"name": name, "uid": name, "ownerReferences": [owner]}
    spec = {**NATIVE, "containers": [], **({"nodeName": "n"} if phase != "Pending" else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


V1ALPHA1 = {
    "apiVersion": "scheduling.k8s.io/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "g"},
    "spec": {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 4}}}]},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {"replicas": 3, "template": {"spec": {"containers": [], **NATIVE}}},
}
CRON_JOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "c"},
    "spec": {"jobTemplate": {"spec": job({})["spec"]}},
}
OF_JOBSET = {
    "name": "s-r0-0",
    "ownerReferences": [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "name": "s",
            "uid": "s",
            "controller": True,
        }
    ],
}
GROUP = "PodGroup default/g is 4"
# kai-scheduler/KAI-Scheduler#1347; kube-scheduler 1.37.0: the last pod of such a Job waits for ever.
# By name: the objects, the field, the pods of the last wave, the place of minCount.
LAST_WAVES: dict[str, tuple[list[dict[str, Any]], str, int, str]] = {
    "Indexed": ([group(), job({"completionMode": "Indexed"})], "spec.completions", 1, GROUP),
    "NonIndexed": ([group(), job({"completionMode": "NonIndexed"})], "spec.completions", 1, GROUP),
    "two pods are left": ([group(), job({"completions": 10})], "spec.completions", 2, GROUP),
    "suspended": ([group(), job({"suspend": True})], "spec.completions", 1, GROUP),
    "v1alpha2": ([group("scheduling.k8s.io/v1alpha2"), job({})], "spec.completions", 1, GROUP),
    "v1alpha3": ([group("scheduling.k8s.io/v1alpha3"), job({})], "spec.completions", 1, GROUP),
    "Podium's label": ([group("scheduling.podium.dev/v1beta1"), job({}, None)], "spec.completions", 1, GROUP),
    "spec.scheduling": ([job({"scheduling": GANG}, {})], "spec.completions", 1, "spec.scheduling is 4"),
    "spec.scheduling without minCount": (
        [job({"scheduling": {"schedulingPolicy": {"gang": {}}}}, {})],
        *("spec.completions", 1, "spec.scheduling is 4"),
    ),
    "some have succeeded": (
        [group(), job({"completions": 9}, status={"succeeded": 4})],
        *("spec.completions", 1, GROUP),
    ),
    "a stored Job in its first wave": (
        [group(), job({}), *(member(f"p{at}", "Running") for at in range(4))],
        *("spec.completions", 1, GROUP),
    ),
    "a stored Job before its last wave": (
        [group(), job({}, status={"succeeded": 4}), *(member(f"p{at}", "Succeeded") for at in range(4))],
        *("spec.completions", 1, GROUP),
    ),
    "a role of a JobSet": (
        [group(), jobset(job({}))],
        *("spec.replicatedJobs[0].template.spec.completions", 1, GROUP),
    ),
    "a longer role of a JobSet": (
        [group(least=8), jobset(job({"completions": 4}), job({"completions": 8}))],
        *("spec.replicatedJobs[1].template.spec.completions", 4, "PodGroup default/g is 8"),
    ),
    "a JobSet's own field": (
        [jobset(job({}, {}), job({}, {}), scheduling={"schedulingPolicy": {"gang": {}}})],
        *("spec.replicatedJobs[0].template.spec.completions", 2, "spec.scheduling is 8"),
    ),
    "a JobSet's entry for a role": (
        [
            jobset(
                *(job({}, {}), job({"completions": 6}, {})),
                scheduling={"replicatedJobs": [{"targetReplicatedJobs": ["r1"], **GANG}]},
            )
        ],
        *("spec.replicatedJobs[1].template.spec.completions", 2, "spec.scheduling.replicatedJobs[0] is 4"),
    ),
    "each Job of a JobSet": (
        [jobset(job({"scheduling": GANG}, {}), replicas=3)],
        *("spec.replicatedJobs[0].template.spec.completions", 1),
        "spec.replicatedJobs[0].template.spec.scheduling is 4",
    ),
    "a JobSet of Podium's": (
        [jobset(automatic(), automatic())],
        *("spec.replicatedJobs[0].template.spec.completions", 2, "the group that Podium creates is 8"),
    ),
    "a tree of Podium's": (
        [jobset(automatic({"scheduling.podium.dev/gang-tree": "auto"}), replicas=2)],
        *("spec.replicatedJobs[0].template.spec.completions", 1, "the group that Podium creates is 4"),
    ),
    "a stored Job of a JobSet of Podium's": (
        [jobset(automatic()), {**automatic(status={"succeeded": 4}), "metadata": OF_JOBSET}],
        *("spec.completions", 1, "the group that Podium creates is 4"),
    ),
    "a CronJob": ([group(), CRON_JOB], "spec.jobTemplate.spec.completions", 1, GROUP),
}


@pytest.mark.parametrize(("objects", "field", "pods", "place"), LAST_WAVES.values(), ids=list(LAST_WAVES))
def test_a_last_wave_below_min_count(
    podium: Podium, objects: list[dict[str, Any]], field: str, pods: int, place: str
) -> None:
    findings = _last_waves(podium, objects, "--kubernetes", "1.38")
    message = (
        f"the last wave of its pods has {count(pods, 'pod')}, but minCount of {place}. If the pods of a wave "
        "end together, the last ones are never scheduled."
    )
    assert [(each["field"], each["message"]) for each in findings] == [(field, message)]


WHOLE = "make completions a multiple of parallelism"
BY_PODIUM = "let Podium create the group (label scheduling.podium.dev/gang: auto), whose minCount follows"


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("Indexed", f"{WHOLE}, set minCount: 1, or {BY_PODIUM} the remaining completions"),
        ("a CronJob", f"{WHOLE}, set minCount: 1, or {BY_PODIUM} the remaining completions"),
        ("a longer role of a JobSet", f"{WHOLE}, or set minCount: 4"),
        ("a JobSet of Podium's", WHOLE),
        ("a stored Job of a JobSet of Podium's", WHOLE),
    ],
)
def test_the_fix_of_a_last_wave_can_be_followed(podium: Podium, name: str, fix: str) -> None:
    """Podium's group of a Job needs the remaining completions, but that of a JobSet does not."""
    assert [each["fix"] for each in _last_waves(podium, LAST_WAVES[name][0])] == [fix]


FULL_WAVES: dict[str, list[dict[str, Any]]] = {
    "whole waves": [group(), job({"completions": 8})],
    "one wave": [group(), job({"completions": 4})],
    "a smaller minCount": [group(least=2), job({"completions": 6})],
    "a work queue": [group(), job({"completions": None})],
    "a work queue that has succeeded": [group(), job({"completions": None}, status={"succeeded": 3})],
    "a basic group": [{**group(), "spec": {"schedulingPolicy": {"basic": {}}}}, job({})],
    "a Job of Podium's": [automatic()],
    "no first wave": [group(least=5), job({})],
    "the field without a policy": [job({"scheduling": {}}, {})],
    "the pods that are left exist": [
        *(group(), job({}, status={"succeeded": 1}), member("p0", "Succeeded")),
        *(member(f"p{at}", "Running") for at in range(1, 5)),
    ],
    "a Job that has ended": [
        group(),
        job({}, status={"succeeded": 5, "conditions": [{"type": "Complete", "status": "True"}]}),
    ],
    "beside pods that stay": [group(), job({}), DEPLOYMENT],
    "a Workload of 1.35 on 1.37": [V1ALPHA1, job({}, OLDEST)],
    "no completions": [group(), job({"completions": 0})],
    "no parallelism": [group(), job({"parallelism": 0})],
}


@pytest.mark.parametrize("objects", FULL_WAVES.values(), ids=list(FULL_WAVES))
def test_a_last_wave_that_is_enough(podium: Podium, objects: list[dict[str, Any]]) -> None:
    assert _last_waves(podium, objects) == []


def test_kubernetes_1_36_drops_the_field_of_a_job(podium: Podium) -> None:
    assert _last_waves(podium, [job({"scheduling": GANG}, {})], "--kubernetes", "1.36") == []


def test_a_last_wave_of_a_group_of_kubernetes_1_35(podium: Podium) -> None:
    (finding,) = _last_waves(podium, [V1ALPHA1, job({}, OLDEST)], "--kubernetes", "1.35")
    assert "has 1 pod, but minCount of Workload default/g is 4." in finding["message"]


def _last_waves(podium: Podium, objects: list[dict[str, Any]], *options: str) -> list[dict[str, Any]]:
    Path("input.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}), "utf-8")
    run = podium("-f", "input.json", "-o", "json", "--select", "gang-last-wave", *options)
    return list(run.json["findings"])
