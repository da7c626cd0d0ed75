"""Kubernetes minors as numbers, and the versions of the native Workload API that each minor serves.

Rules differ by minor, and versions have many forms (`1.37`, `v1.37.0`, `v1.36.4-gke.100`), so this one module
parses them.
"""

import re
from collections.abc import Iterable

# The first version is used for an object that was not read.
WORKLOAD_VERSIONS = {36: ("v1alpha2",), 37: ("v1beta1", "v1alpha3")}
# A minor without a release: its rules are those of the one before it, and the announced changes.
PLANNED = 38
# The end of the reason for a minor that replaces one without known rules.
NEAREST = "the nearest known minor"

# The one native API version that a single minor serves.
_V1ALPHA2 = "scheduling.k8s.io/v1alpha2"

_VERSION = re.compile(r"v?1\.([0-9]{1,3})\b.*", re.DOTALL)


def minor_of(version: str) -> int | None:
    """Return 37 for `1.37` or `v1.37.0-rc.1`, None for a text that is not a version of Kubernetes."""
    found = _VERSION.fullmatch(version)
    return int(found[1]) if found is not None else None


def served_versions(minor: int) -> tuple[str, ...]:
    """Return the versions that a minor serves; other minors serve those of the nearest known one."""
    return WORKLOAD_VERSIONS[min(WORKLOAD_VERSIONS, key=lambda each: abs(each - minor))]


def proven_minor(api_versions: Iterable[str]) -> tuple[str, str] | None:
    """Return the one minor that serves all native groups and Workloads of an input, and the reason.

    `api_versions` are those of the input's native groups and Workloads. The result is None if several minors
    may serve them, or none does.
    """
    if set(api_versions) != {_V1ALPHA2}:
        return None
    return "1.36", f"no other minor serves {_V1ALPHA2}, which the input has"


def named(minor: int) -> str:
    """Return a minor as in messages: `1.37`, `1.38 (planned)`."""
    return f"1.{minor} (planned)" if minor >= PLANNED else f"1.{minor}"


def planned_note(minor: int) -> str:
    """Return the part of a sentence that marks a planned minor, empty for the others."""
    before = f"1.{PLANNED - 1}"
    announced = f"planned: the rules of {before} with the announced changes"
    return f"; {announced}" if minor >= PLANNED else ""


def nearest(minor: int, known: Iterable[int]) -> str:
    """Return the nearest of the known minors, as `1.37`."""
    return f"1.{min(known, key=lambda each: abs(each - minor))}"
