"""The Kubernetes releases from which a control plane can be built, and their Workload API settings.

The API moved and its feature gates were merged between the two minors. Everything that depends on the release
is therefore one row here, and no other module compares versions.
"""

from typing import NamedTuple


class Release(NamedTuple):
    """A minor of Kubernetes: the patch to build and the switches of its Workload API."""

    minor: str  # "1.37"
    version: str  # "1.37.0"
    feature_gates: tuple[str, ...]  # For kube-apiserver, kube-scheduler and kube-controller-manager alike.
    workload_versions: tuple[str, ...]  # The group/version of every API that is off by default.


RELEASES = {
    release.minor: release
    for release in (
        Release(
            "1.36",
            "1.36.3",
            # WorkloadAwarePreemption needs GangScheduling, which needs GenericWorkload.
            ("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"),
            ("scheduling.k8s.io/v1alpha2",),
        ),
        Release(
            "1.37",
            "1.37.0",
            ("GenericWorkload",),
            ("scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1"),
        ),
    )
}
NEWEST = RELEASES["1.37"]
