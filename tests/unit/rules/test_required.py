"""Required fields, selectors and restart policies: a server test compares the messages."""

import json

import pytest
from tests.support.rules.invalid import CASES, Invalid

from podium.rules.required import missing


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind} {json.dumps(case.spec)[:60]}")
def test_errors_are_those_of_the_server(case: Invalid) -> None:
    own = [error for error in case.errors if "schedulingGroup" not in error]
    assert [str(error) for error in missing(case.document("t"), 37)] == own


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
    assert [error.field for error in missing(document, 37)] == fields


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
    assert isinstance(missing(document, 37), list)


def test_a_field_that_1_36_drops_is_required_by_1_37_only() -> None:
    volume = {"name": "v", "projected": {"sources": [{"podCertificate": {}}]}}
    spec = {"containers": [{"name": "a", "image": "b"}], "volumes": [volume]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    assert missing(document, 36) == []
    fields = [error.field.rpartition(".")[2] for error in missing(document, 37)]
    assert fields == ["keyType", "signerName"]
