"""The reads of owners: the pods of each template before any of them runs, and the owners' states."""

from typing import Any, NamedTuple

import pytest
from tests.support.autogroups import owner

TEMPLATE: dict[str, Any] = {"spec": {"containers": []}}
JOBSET_PATH = "spec.replicatedJobs[{}].template.spec.template"
LWS_PATH = "spec.leaderWorkerTemplate.{}Template"


def _role(name: str, replicas: int, parallelism: int, **more: Any) -> dict[str, Any]:
    job = {"spec": {"parallelism": parallelism, "template": TEMPLATE}}
    return {"name": name, "replicas": replicas, "template": job, **more}


class Case(NamedTuple):
    """An owner, and the numbers of its pods by the path of their template."""

    name: str
    kind: str
    spec: dict[str, Any]
    pods: dict[str, int]


CASES = [
    Case("no replicas", "Deployment", {"template": TEMPLATE}, {"spec.template": 1}),
    Case("replicas", "StatefulSet", {"template": TEMPLATE, "replicas": 3}, {"spec.template": 3}),
    Case(
        "a controller", "ReplicationController", {"template": TEMPLATE, "replicas": 2}, {"spec.template": 2}
    ),
    Case("nodes decide", "DaemonSet", {"template": TEMPLATE}, {}),
    Case("parallelism", "Job", {"parallelism": 4, "template": TEMPLATE}, {"spec.template": 4}),
    Case("completions", "Job", {"parallelism": 4, "completions": 3}, {"spec.template": 3}),
    Case("a suspended Job", "Job", {"parallelism": 4, "suspend": True}, {"spec.template": 4}),
    Case(
        "each Job of a CronJob",
        "CronJob",
        {"jobTemplate": {"spec": {"parallelism": 2, "template": TEMPLATE}}},
        {"spec.jobTemplate.spec.template": 2},
    ),
    Case(
        "roles that start together",
        "JobSet",
        {"replicatedJobs": [_role("a", 1, 1), _role("b", 2, 4)]},
        {JOBSET_PATH.format(0): 1, JOBSET_PATH.format(1): 8},
    ),
    Case(
        "a role that waits for another",
        "JobSet",
        {"replicatedJobs": [_role("a", 1, 1), _role("b", 2, 4, dependsOn=[{"name": "a"}])]},
        {JOBSET_PATH.format(0): 1, JOBSET_PATH.format(1): 0},
    ),
    Case(
        "leaders and workers",
        "LeaderWorkerSet",
        {"replicas": 2, "leaderWorkerTemplate": {"leaderTemplate": TEMPLATE, "size": 4}},
        {LWS_PATH.format("leader"): 2, LWS_PATH.format("worker"): 6},
    ),
    Case(
        "one template for leaders and workers",
        "LeaderWorkerSet",
        {"leaderWorkerTemplate": {"workerTemplate": TEMPLATE, "size": 4}},
        {LWS_PATH.format("leader"): 0, LWS_PATH.format("worker"): 4},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{case.kind}: {case.name}" for case in CASES])
def test_an_owner_tells_the_pods_of_each_template(case: Case) -> None:
    assert owner(case.kind, "x", case.spec).pods == case.pods


@pytest.mark.parametrize("kind", ["Job", "CronJob", "JobSet"])
def test_a_suspended_owner_is_read_as_such(kind: str) -> None:
    assert owner(kind, "x", {"suspend": True}).suspended
    assert not owner(kind, "x", {}).suspended


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("Job", {"conditions": [{"type": "Complete", "status": "True"}]}),
        ("Job", {"conditions": [{"type": "Failed", "status": "True"}]}),
        ("JobSet", {"terminalState": "Completed"}),
    ],
)
def test_an_owner_that_has_ended_is_read_as_such(kind: str, status: dict[str, Any]) -> None:
    assert owner(kind, "x", {}, status=status).finished
    assert not owner(kind, "x", {}, status={}).finished
