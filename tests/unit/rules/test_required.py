"""Required fields, selectors and restart policies: a server test compares the messages."""

import json

import pytest
from tests.support.rules.invalid import CASES, Invalid
from tests.support.rules.jobs import JOBS

from podium.api.podkinds.kind import JOB_GATE
from podium.rules.clientchecks import required_errors


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind} {json.dumps(case.spec)[:60]}")
def test_errors_are_those_of_the_server(case: Invalid) -> None:
    own = [error for error in case.errors if "schedulingGroup" not in error]
    assert [str(error) for error in required_errors(case.document("t"), 37)] == own


@pytest.mark.parametrize(
    ("version", "kind", "spec", "fields"),
    [
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": {}}}}}]},
            ["spec.replicatedJobs[0].template.spec.template.spec.containers"],
        ),
        ("ray.io/v1", "RayCluster", {"headGroupSpec": {"template": {"spec": {}}}}, []),
        ("v1", "ReplicationController", {"template": {"spec": {}}}, ["spec.template.spec.containers"]),
        ("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"template": {"spec": {}}}]}, []),
        ("scheduling.k8s.io/v1beta1", "PodGroup", {}, []),
    ],
)
def test_of_a_custom_resource_the_pods_of_a_known_kind_are_checked(
    version: str, kind: str, spec: dict[str, object], fields: list[str]
) -> None:
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    assert [error.field for error in required_errors(document, 37)] == fields


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": "text"},
        {"containers": [None]},
        {"containers": {"name": "a"}},
        {"containers": [{"name": "a", "image": "b", "ports": [[]]}]},
        {"containers": [{"name": "a", "image": "b", "stdin": False}]},
    ],
)
def test_a_wrong_shape_is_no_failure(spec: dict[str, object]) -> None:
    """The decoder reports it."""
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    assert isinstance(required_errors(document, 37), list)


def test_a_field_that_1_36_drops_is_required_by_1_37_only() -> None:
    volume = {"name": "v", "projected": {"sources": [{"podCertificate": {}}]}}
    spec = {"containers": [{"name": "a", "image": "b"}], "volumes": [volume]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    assert required_errors(document, 36) == []
    fields = [error.field.rpartition(".")[2] for error in required_errors(document, 37)]
    assert fields == ["keyType", "signerName"]


def test_1_38_declares_the_selector_of_a_stateful_set() -> None:
    """Its error comes after all errors of code, as on a server of 1.38.0-beta.0."""
    document = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x"}}
    assert [error.field for error in required_errors(document, 38)] == [
        "spec.template.metadata.labels",
        "spec.template.spec.containers",
        "spec.selector",
    ]


def _in_jobs(errors: tuple[str, ...], kind: str) -> list[str]:
    """Return errors with the paths of the Jobs of a kind."""
    return [f"spec.jobTemplate.{error}" if kind == "CronJob" else error for error in errors]


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
@pytest.mark.parametrize("minor", [36, 37, 38])
@pytest.mark.parametrize("name", JOBS)
def test_a_job_with_its_gate_is_judged(name: str, minor: int, kind: str) -> None:
    """1.36 does not know spec.scheduling."""
    case = JOBS[name]
    wanted = _in_jobs(case.errors_of(minor), kind) if minor > 36 else []
    found = required_errors(case.document("t", kind), minor, frozenset((JOB_GATE,)))
    assert [str(error) for error in found] == wanted


@pytest.mark.parametrize("minor", [36, 37, 38])
@pytest.mark.parametrize("name", JOBS)
def test_without_the_gate_only_the_annotations_are_judged(name: str, minor: int) -> None:
    case = JOBS[name]
    wanted = [error for error in case.errors_of(minor) if error.startswith("metadata.")]
    found = required_errors(case.document("t"), minor, frozenset())
    assert [str(error) for error in found] == wanted


def test_an_update_of_a_job_is_compared_with_the_stored_one() -> None:
    """Its errors may be stored, so nothing is said of them."""
    assert required_errors(JOBS["several errors"].document("t"), 38) == []
