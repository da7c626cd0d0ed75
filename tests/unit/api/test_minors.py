"""Versions of Kubernetes in the spellings of servers, kubelets and users."""

import pytest

from podium.api.minors import (
    GROUP_MINORS,
    MINORS,
    WORKLOAD_VERSIONS,
    group_api,
    group_minor,
    minor_of,
    named,
    nearest,
    prerelease_note,
    upgrades,
)
from podium.minors.minor import Minor


@pytest.mark.parametrize(
    ("version", "minor"),
    [
        ("1.37", 37),
        ("v1.37.0", 37),
        ("v1.36.4-gke.1043000", 36),
        ("v1.9+", 9),
        ("", None),
        ("v2.0", None),
        ("1.37x", None),
        ("1.", None),
        ("1.1234", None),
    ],
)
def test_a_version_is_of_a_minor(version: str, minor: int | None) -> None:
    assert minor_of(version) == minor


@pytest.mark.parametrize(("minor", "known"), [(9, "1.36"), (36, "1.36"), (37, "1.37"), (99, "1.37")])
def test_the_nearest_that_is_known(minor: int, known: str) -> None:
    assert nearest(minor, WORKLOAD_VERSIONS) == known


@pytest.mark.parametrize(("minor", "known"), [(9, 36), (35, 36), (37, 37), (38, 38), (99, 38)])
def test_a_minor_without_groups_has_the_rules_of_the_nearest(minor: int, known: int) -> None:
    assert group_minor(minor).number == known


def test_a_beta_is_marked() -> None:
    assert [named(number) for number in (36, 37, 38, 41)] == ["1.36", "1.37", "1.38 (beta)", "1.41"]
    assert [bool(prerelease_note(number)) for number in (37, 38, 41)] == [False, True, False]
    assert 38 not in WORKLOAD_VERSIONS


def test_an_upgrade_goes_through_each_minor() -> None:
    assert [minor.name for minor in upgrades(36, 38)] == ["1.37", "1.38"]


@pytest.mark.parametrize(
    ("api_version", "minor", "like"),
    [
        ("scheduling.k8s.io/v1beta1", 38, MINORS[38].apis["v1beta1"]),
        ("scheduling.k8s.io/v1beta1", 37, MINORS[37].apis["v1beta1"]),
        ("scheduling.k8s.io/v1alpha2", 38, MINORS[36].apis["v1alpha2"]),
        ("scheduling.podium.dev/v1beta1", 38, MINORS[38].apis["v1beta1"]),
        ("scheduling.podium.dev/v1beta1", 37, MINORS[37].apis["v1beta1"]),
        ("scheduling.podium.dev/v1beta1", 36, MINORS[37].apis["v1beta1"]),
        ("scheduling.podium.dev/v1beta1", 35, MINORS[37].apis["v1beta1"]),
        ("scheduling.podium.dev/v1alpha2", 38, MINORS[36].apis["v1alpha2"]),
    ],
)
def test_a_row_is_found_by_version_and_minor(api_version: str, minor: int, like: object) -> None:
    assert group_api(api_version, minor) is like


@pytest.mark.parametrize("minor", MINORS.values(), ids=lambda minor: minor.name)
def test_the_facts_of_a_minor_agree(minor: Minor) -> None:
    """A stored version is served, a row is of a served version, and a gate needs gates of its minor."""
    assert all(kind.stored in kind.versions for kind in minor.kinds.values())
    served = {version for kind in minor.kinds.values() for version in kind.versions}
    assert set(minor.apis) == (served if minor.number in GROUP_MINORS else set())
    assert all(version == api.version for version, api in minor.apis.items())
    assert set(minor.workload_gates) <= set(minor.gates)
    assert all(set(gate.needs) <= set(minor.gates) for gate in minor.gates.values())
    assert not set(minor.removed_gates) & set(minor.gates)


@pytest.mark.parametrize("number", sorted(MINORS)[1:])
def test_a_gate_goes_by_being_removed(number: int) -> None:
    """A gate of the minor before that is unknown now stops a component, so it is listed."""
    gone = MINORS[number - 1].gates.keys() - MINORS[number].gates.keys()
    assert gone <= set(MINORS[number].removed_gates)


def test_a_gate_without_a_value_has_its_default() -> None:
    on = MINORS[38].enabled({"CompositePodGroup": True, "SchedulerPreQueueingHints": False})
    assert {"CompositePodGroup", "DRADeviceTaints"} <= on
    assert not {"SchedulerPreQueueingHints", "GenericWorkload"} & on
