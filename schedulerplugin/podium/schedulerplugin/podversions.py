"""Which parts of a pod's metadata and status matter to the arrays, and whether a new version changes any.

Most changes of a pod only report what happens to it. The snapshot keeps such a version and changes no array.
"""

import msgspec

from podium.api.meta import instant
from podium.api.schedulable import Schedulable
from podium.schedulerplugin.requests import resized

# The start of a pod that has not started: later than any.
NO_START = 2**63 - 1


def start_of(pod: Schedulable) -> tuple[int, str]:
    """Return when a pod started (seconds since 1970, or NO_START), and what is wrong with its startTime."""
    started = _started(pod)
    try:
        return int(instant(started).timestamp()) if started else NO_START, ""
    except msgspec.ValidationError:
        return NO_START, f"{started!r} is not a time such as 2026-01-31T12:00:00Z"


def counts_alike(was: Schedulable | None, pod: Schedulable) -> bool:
    """Say whether nothing of a pod changed but what is told of it, which most changes of pods are.

    One that is given once more is to be read anew: its claims changed.
    """
    if was is None or was is pod or was.spec != pod.spec:
        return False
    before, after = was.metadata, pod.metadata
    return (
        (before.uid, before.deletionTimestamp) == (after.uid, after.deletionTimestamp)
        and before.labels == after.labels
        and _started(was) == _started(pod)
        and resized(was) == resized(pod)
    )


def _started(pod: Schedulable) -> str | None:
    return pod.status.startTime if pod.status is not None else None
