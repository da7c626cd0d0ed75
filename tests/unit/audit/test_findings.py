"""A finding's fingerprint is stable, because tools track a finding by it from run to run."""

import msgspec
import pytest

from podium.api.findings import Finding, ObjectRef, Severity

FOUND = Finding(
    rule="pod-priority-differs",
    severity=Severity.ERROR,
    object=ObjectRef("scheduling.k8s.io/v1beta1", "PodGroup", "team-a", "train"),
    field="spec.priority",
    message="2 of 8 pods do not have priority 1000",
    fix="recreate them",
)


def _on(**changes: str) -> Finding:
    return msgspec.structs.replace(FOUND, object=msgspec.structs.replace(FOUND.object, **changes))


def test_it_is_what_it_was_in_every_release() -> None:
    """Another value here would make every finding of a baseline new."""
    assert FOUND.fingerprint == "b11aec61d61c5b9a331b7ddbd11fec0d"


@pytest.mark.parametrize(
    "same",
    [
        _on(apiVersion="scheduling.k8s.io/v1alpha2"),
        msgspec.structs.replace(FOUND, message="3 of 8 pods do not have priority 1000", fix="delete them"),
        msgspec.structs.replace(FOUND, severity=Severity.WARNING),
    ],
    ids=["version", "words", "severity"],
)
def test_it_names_the_place_only(same: Finding) -> None:
    assert same.fingerprint == FOUND.fingerprint


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(FOUND, rule="preemption-policy-differs"),
        msgspec.structs.replace(FOUND, field="spec"),
        _on(apiVersion="scheduling.podium.dev/v1beta1"),
        _on(kind="Workload"),
        _on(namespace="team-b"),
        _on(name="train-2"),
        _on(namespace="team-atrain", name=""),
    ],
    ids=["rule", "field", "group", "kind", "namespace", "name", "no separator"],
)
def test_another_place_has_another(other: Finding) -> None:
    assert other.fingerprint != FOUND.fingerprint
