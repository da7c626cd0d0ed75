"""Kubernetes minors as numbers: which one a version speaks of, and what it serves of the native Workload API.

Rules differ by minor, and versions come in many spellings (`1.37`, `v1.37.0`, `v1.36.4-gke.100`), so they
are read in this one place.
"""

import re
from collections.abc import Iterable

# The first is the one to name an object by that nobody has seen; 1.38 is taken to serve what 1.37 does.
WORKLOAD_VERSIONS = {36: ("v1alpha2",), 37: ("v1beta1", "v1alpha3")}

_VERSION = re.compile(r"v?1\.([0-9]{1,3})\b.*", re.DOTALL)


def minor_of(version: str) -> int | None:
    """Give 37 for `1.37` or `v1.37.0-rc.1`, None for what is no version of Kubernetes."""
    found = _VERSION.fullmatch(version)
    return int(found[1]) if found is not None else None


def nearest(minor: int, known: Iterable[int]) -> str:
    """Give the one of the known minors that is nearest, as `1.37`."""
    return f"1.{min(known, key=lambda each: abs(each - minor))}"
