"""The declaration of a workload: how it saves its work at an eviction and otherwise, and when it ends.

The declaration is in annotations of a pod, or of its group for all members. A pod's own annotation counts
before its group's. Owners such as a Job give their pods the annotations of the pod template. A false
declaration gains nothing: it only makes the workload a cheaper victim.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from podium.api import durations
from podium.api.groups import PODIUM_GROUP
from podium.api.meta import instant

# An annotation on a pod, or on its group: the time (RFC 3339) of the last checkpoint. A time after the start
# only makes a victim cheaper, so a false one protects no workload.
CHECKPOINT: Final = f"{PODIUM_GROUP}/checkpointed-at"
# An annotation on a pod, or on its group: the time (`30s`) in which it saves its work after SIGTERM, at most
# its grace period. An eviction then costs this time, not the time since the start.
SAVES_ON_TERMINATION: Final = f"{PODIUM_GROUP}/saves-on-termination"
# An annotation on a pod, or on its group: the time (`2m`) in which it saves its work once the scheduler asks
# by `save-requested`. An eviction waits for that, and costs this time.
SAVES_ON_NOTICE: Final = f"{PODIUM_GROUP}/saves-on-notice"
# An annotation that the scheduler sets on a victim that saves its work on notice: the time (RFC 3339) of the
# request. It is removed if the pod may go on.
SAVE_REQUESTED: Final = f"{PODIUM_GROUP}/save-requested"
# An annotation on a pod, or on its group: the time (`10m`) between two checkpoints from the start on, for a
# workload that does not report them. An eviction then costs the time since the last one.
CHECKPOINT_INTERVAL: Final = f"{PODIUM_GROUP}/checkpoint-interval"
# An annotation on a pod, or on its group: the time (`5m`) from the start of a pod until it works again. An
# eviction costs it too, but never more than without a declaration.
RESTART_TIME: Final = f"{PODIUM_GROUP}/restart-time"
# An annotation on a pod, or on its group: the time (`2h`) from the start of a pod until it ends by itself.
# Preemptors that have `longest-wait-for-room` wait for that end, so a false time delays an eviction by that.
RUN_TIME: Final = f"{PODIUM_GROUP}/expected-run-time"
# An annotation on a PriorityClass: the longest time (`10s`, or `0s` for none) that the evictions for its pods
# and groups wait for victims that save on notice. Not on a pod or group: the victims are not its own.
LONGEST_WAIT: Final = f"{PODIUM_GROUP}/longest-wait-for-saving"
# An annotation on a PodGroup or a PriorityClass: the longest time (`10m`) after room was first missing that
# its preemptors wait for room from pods whose end is known.
LONGEST_WAIT_FOR_ROOM: Final = f"{PODIUM_GROUP}/longest-wait-for-room"
# An annotation on a PodGroup or a PriorityClass: the delay of evictions after room was first missing.
PREEMPTION_DELAY: Final = f"{PODIUM_GROUP}/preemption-delay"
KEYS: Final = (
    *(CHECKPOINT, SAVES_ON_TERMINATION, SAVES_ON_NOTICE, CHECKPOINT_INTERVAL, RESTART_TIME, RUN_TIME),
)

# The checkpoint time of a workload without one, or with an unreadable one: before any start.
NO_CHECKPOINT: Final = -(2**63)
# The seconds of a workload that does not save its work: longer than any runs, and the most for 32 bits.
NOT_SAVED: Final = 2**31 - 1
# The grace period of a pod that names none, in seconds.
DEFAULT_GRACE: Final = 30
# The longest notice in seconds, for which a preemptor waits, and the longest that it waits by default.
LONGEST_NOTICE: Final = 600
DEFAULT_NOTICE: Final = 60
# The longest duration of each key in seconds; a saving has the grace period as a further limit.
_LONGEST: Final[Mapping[str, int]] = {
    SAVES_ON_TERMINATION: 24 * 3600,
    SAVES_ON_NOTICE: LONGEST_NOTICE,
    CHECKPOINT_INTERVAL: 7 * 24 * 3600,
    RESTART_TIME: 24 * 3600,
    RUN_TIME: 30 * 24 * 3600,
}


class Declaration(NamedTuple):
    """The declaration of a pod, in seconds: `saved` since 1970 or NO_CHECKPOINT, others 0 for none.

    `saves_within` is the time after SIGTERM, `notice` that after a request; NOT_SAVED for none.
    """

    saved: int = NO_CHECKPOINT
    saves_within: int = NOT_SAVED
    notice: int = NOT_SAVED
    interval: int = 0
    restart: int = 0
    run_time: int = 0


_NONE = Declaration()


def declared(
    own: Mapping[str, str] | None, of_group: Mapping[str, str] | None, grace: int | None
) -> Declaration:
    """Return the declaration in the annotations of a pod and of its group; what is wrong is not declared.

    `grace` is the grace period of the pod in seconds, None for the default.
    """
    if not own and not of_group:
        return _NONE
    given = {**(of_group or {}), **(own or {})}
    saves_within = _seconds(given, SAVES_ON_TERMINATION)
    if saves_within is None or saves_within > (DEFAULT_GRACE if grace is None else grace):
        saves_within = NOT_SAVED
    return Declaration(
        _checkpoint(given),
        saves_within,
        _seconds(given, SAVES_ON_NOTICE) or NOT_SAVED,
        _seconds(given, CHECKPOINT_INTERVAL) or 0,
        _seconds(given, RESTART_TIME) or 0,
        _seconds(given, RUN_TIME) or 0,
    )


def problems(annotations: Mapping[str, str], grace: int | None) -> Iterator[tuple[str, str]]:
    """Yield what is wrong in a declaration: the annotation, and the reason with what to write.

    `grace` is as in `declared`; a group has NOT_SAVED, because its pods have a grace period each.
    """
    if CHECKPOINT in annotations and _checkpoint(annotations) == NO_CHECKPOINT:
        yield CHECKPOINT, f"{annotations[CHECKPOINT][:40]!r} is no time such as 2026-01-31T12:00:00Z"
    for key, longest in _LONGEST.items():
        if key in annotations and _seconds(annotations, key) is None:
            most = f"{longest // 3600}h" if longest >= 3600 else f"{longest // 60}m"
            bounds = f"from 1s to {most}, such as 90s, 5m or 1m30s"
            yield key, f"{annotations[key][:40]!r} is no duration {bounds}"
    limit = DEFAULT_GRACE if grace is None else grace
    if (_seconds(annotations, SAVES_ON_TERMINATION) or 0) > limit:
        longer = f"{annotations[SAVES_ON_TERMINATION]} is longer than the grace period of the pod ({limit}s)"
        yield SAVES_ON_TERMINATION, f"{longer}; raise spec.terminationGracePeriodSeconds, or save faster"


def longest_wait(annotations: Mapping[str, str] | None) -> int:
    """Return the longest wait (seconds) in the annotations of a preemptor's PriorityClass.

    It is LONGEST_NOTICE if none is readable.
    """
    length = durations.seconds((annotations or {}).get(LONGEST_WAIT, ""))
    return LONGEST_NOTICE if length is None else int(min(length, LONGEST_NOTICE))


def _seconds(annotations: Mapping[str, str], key: str) -> int | None:
    """Return a duration in seconds, rounded up; None if it is absent, unreadable or out of bounds."""
    length = durations.seconds(annotations.get(key, ""))
    return math.ceil(length) if length is not None and 1 <= length <= _LONGEST[key] else None


def _checkpoint(annotations: Mapping[str, str]) -> int:
    text = annotations.get(CHECKPOINT)
    try:
        return int(instant(text).timestamp()) if text else NO_CHECKPOINT
    except msgspec.ValidationError:
        return NO_CHECKPOINT
