"""The workload of a file is scaled to another number of replicas."""

from typing import Any

import pytest

from podium.answers.expansion.added import scaled
from podium.documents.document import Document
from podium.documents.split import split
from podium.documents.yamlwriter import dump_all
from podium.errors import PodiumError


def documents(*values: dict[str, Any]) -> list[Document]:
    return list(split(dump_all(list(values)).encode(), "file.yaml"))


def made(api_version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def jobset(*roles: str) -> dict[str, Any]:
    return made("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=[{"name": role} for role in roles])


CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c"}, "value": 1}
SPECS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("a Deployment", made("apps/v1", "Deployment", replicas=2, paused=True), {"replicas": 7, "paused": True}),
    ("one without a number", made("apps/v1", "StatefulSet"), {"replicas": 7}),
    ("groups of a LeaderWorkerSet", made("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), {"replicas": 7}),
    ("a Job", made("batch/v1", "Job"), {"parallelism": 7}),
    ("a Job with completions", made("batch/v1", "Job", completions=3), {"parallelism": 7, "completions": 7}),
    ("a Job with more", made("batch/v1", "Job", completions=9), {"parallelism": 7, "completions": 9}),
    ("a JobSet with one role", jobset("a"), {"replicatedJobs": [{"name": "a", "replicas": 7}]}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "spec"), [case[1:] for case in SPECS], ids=[case[0] for case in SPECS])
def test_the_number_is_that_of_the_kind(value: dict[str, Any], spec: dict[str, Any]) -> None:
    """All other objects of the file, and all other fields, stay."""
    first, second = scaled(documents(value, CLASS), 7)
    assert first.value() == CLASS
    assert second.value() == {**value, "spec": spec}


def test_a_pod_becomes_several_pods() -> None:
    found = scaled(documents(made("v1", "Pod", containers=[])), 3)
    assert [each.value()["metadata"]["name"] for each in found] == ["x-0", "x-1", "x-2"]


REFUSED: list[tuple[str, list[dict[str, Any]], str]] = [
    ("no workload", [CLASS], "has no workloads with a number of replicas"),
    ("two workloads", [made("batch/v1", "Job"), made("v1", "Pod")], "has 2 workloads"),
    ("two roles", [jobset("a", "b")], "spec.replicatedJobs: has not exactly one role"),
]


@pytest.mark.parametrize(
    ("values", "message"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
def test_an_ambiguous_number_is_refused(values: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        scaled(documents(*values), 2)
