"""Lookups of Kubernetes minors: the table of them, and the parsing of versions.

Rules differ by minor, and versions have many forms (`1.37`, `v1.37.0`, `v1.36.4-gke.100`), so this one module
parses them.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from podium.minors.minor import GroupApi, Minor
from podium.minors.v1_35 import V1_35
from podium.minors.v1_36 import V1_36
from podium.minors.v1_37 import V1_37
from podium.minors.v1_38 import V1_38

# The minors that Podium knows, by number.
MINORS: Mapping[int, Minor] = {minor.number: minor for minor in (V1_35, V1_36, V1_37, V1_38)}
# Those whose groups admission can judge.
GROUP_MINORS: Mapping[int, Minor] = {number: minor for number, minor in MINORS.items() if minor.apis}
# The versions of the native Workload API by released minor; the first one is used for an object that was not
# read.
WORKLOAD_VERSIONS = {
    number: minor.versions("PodGroup") for number, minor in GROUP_MINORS.items() if not minor.prerelease
}
# Every row for which the tables of the group kinds are made.
GROUP_APIS = tuple(api for minor in GROUP_MINORS.values() for api in minor.apis.values())
# The end of the reason for a minor that replaces one without known rules.
NEAREST = "the nearest known minor"

# The one native API version that a single minor serves.
_V1ALPHA2 = "scheduling.k8s.io/v1alpha2"

_VERSION = re.compile(r"v?1\.([0-9]{1,3})\b.*", re.DOTALL)


def minor_of(version: str) -> int | None:
    """Return 37 for `1.37` or `v1.37.0-rc.1`, None for a text that is not a version of Kubernetes."""
    match = _VERSION.fullmatch(version)
    return int(match[1]) if match is not None else None


# Called for each request.
@lru_cache(maxsize=16)
def group_minor(minor: int) -> Minor:
    """Return a minor with groups; the nearest known one for others."""
    return GROUP_MINORS[closest(minor, GROUP_MINORS)]


def served_versions(minor: int) -> tuple[str, ...]:
    """Return the versions that a minor serves; other minors serve those of the nearest known one."""
    return group_minor(minor).versions("PodGroup")


def group_api(api_version: str, minor: int) -> GroupApi:
    """Return the row of a version of the group kinds in a minor, or in the nearest one that has the version.

    Podium's own kinds have their versions in every cluster, and the rules of its minor. Raises KeyError for a
    version that no minor has.
    """
    rows = _ROWS[api_version.rpartition("/")[2]]
    return rows[closest(minor, rows)]


_ROWS = {
    version: {number: minor.apis[version] for number, minor in GROUP_MINORS.items() if version in minor.apis}
    for version in {api.version for api in GROUP_APIS}
}


def upgrades(current: int, target: int) -> list[Minor]:
    """Return the minors that an upgrade goes through, without the current one and with the target."""
    return [minor for number, minor in MINORS.items() if current < number <= target]


def proven_minor(api_versions: Iterable[str]) -> tuple[str, str] | None:
    """Return the one minor that serves all native groups and Workloads of an input, and the reason.

    `api_versions` are those of the input's native groups and Workloads. The result is None if several minors
    may serve them, or none does.
    """
    if set(api_versions) != {_V1ALPHA2}:
        return None
    return "1.36", f"no other minor serves {_V1ALPHA2}, which the input has"


def named(minor: int) -> str:
    """Return a minor as in messages: `1.37`, `1.38 (beta)`."""
    stage = MINORS[minor].prerelease if minor in MINORS else ""
    return f"1.{minor} ({stage})" if stage else f"1.{minor}"


def prerelease_note(minor: int) -> str:
    """Return the part of a sentence on a minor without a release, empty for the others."""
    known = MINORS.get(minor)
    if known is None or not known.prerelease:
        return ""
    return f"; not released yet: the rules are those of {known.release}"


def closest(minor: int, known: Iterable[int]) -> int:
    """Return the nearest of the known minors."""
    return min(known, key=lambda number: abs(number - minor))


def nearest(minor: int, known: Iterable[int]) -> str:
    """Return the nearest of the known minors, as `1.37`."""
    return f"1.{closest(minor, known)}"
