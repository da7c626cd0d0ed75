"""Versions of Kubernetes in the spellings of servers, kubelets and users."""

import pytest

from podium.api.minors import WORKLOAD_VERSIONS, minor_of, nearest


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
