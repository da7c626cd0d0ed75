"""The Kubernetes releases from which a control plane can be built, and their Workload API settings.

They are those of the files of the minors (`podium.minors`), so a new minor is a file there and a folder here.
"""

from typing import NamedTuple

from podium.api.groups import NATIVE_GROUP
from podium.api.minors import GROUP_MINORS
from podium.minors.minor import Minor


class Release(NamedTuple):
    """A minor of Kubernetes: the patch to build and the switches of its Workload API."""

    minor: str  # "1.37"
    version: str  # "1.37.0"
    feature_gates: tuple[str, ...]  # For kube-apiserver, kube-scheduler and kube-controller-manager alike.
    workload_versions: tuple[str, ...]  # The group/version of every API that is off by default.


def _release(minor: Minor) -> Release:
    versions = sorted({f"{NATIVE_GROUP}/{version}" for version in minor.apis})
    return Release(minor.name, minor.release, minor.workload_gates, tuple(versions))


BUILDABLE = {minor.name: _release(minor) for minor in GROUP_MINORS.values()}
# A minor without a release starts by name only.
RELEASES = {minor.name: BUILDABLE[minor.name] for minor in GROUP_MINORS.values() if not minor.prerelease}
NEWEST = RELEASES[max(RELEASES)]
