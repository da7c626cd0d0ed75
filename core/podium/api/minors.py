"""Kubernetes minors as numbers, and the versions of the native Workload API that each minor serves.

Rules differ by minor, and versions have many forms (`1.37`, `v1.37.0`, `v1.36.4-gke.100`), so this one module
parses them.
"""

import re
from collections.abc import Iterable

# The first version is used for an object that was not read. 1.38 is assumed to serve the same as 1.37.
WORKLOAD_VERSIONS = {36: ("v1alpha2",), 37: ("v1beta1", "v1alpha3")}

_VERSION = re.compile(r"v?1\.([0-9]{1,3})\b.*", re.DOTALL)


def minor_of(version: str) -> int | None:
    """Return 37 for `1.37` or `v1.37.0-rc.1`, None for a text that is not a version of Kubernetes."""
    found = _VERSION.fullmatch(version)
    return int(found[1]) if found is not None else None


def nearest(minor: int, known: Iterable[int]) -> str:
    """Return the nearest of the known minors, as `1.37`."""
    return f"1.{min(known, key=lambda each: abs(each - minor))}"
