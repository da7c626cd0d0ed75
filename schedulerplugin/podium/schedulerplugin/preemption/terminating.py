"""Decides for how long the room of a terminating pod counts as free.

A preemptor counts on the room of terminating pods at no cost. But such a pod may stay: its process hangs in a
system call, a finalizer keeps it, or its grace period is years. Without a limit a single such pod would hold
every preemptor that fits in its room. After the limit the room counts as taken until the pod is gone, and a
preemptor looks elsewhere.

A grace period beyond the limit says that the pod does not leave soon. If its owner deleted the pod, a
preemptor does not wait at all. It does wait, to the limit, for a pod that a preemption marked. Another
preemption in its place would have more pods killed for the same room.
"""

import msgspec

from podium.api.meta import instant
from podium.api.schedulable import Schedulable
from podium.api.times import seconds
from podium.schedulerplugin.preemption.intents import is_preempted
from podium.schedulerplugin.preemption.toleration import FOREVER

# Seconds beyond the deletion time. The kubelet kills the containers at that time, and has a minute to unmount
# volumes and to delete the pod.
LATE_SECONDS = 60
# Seconds from the deletion on. No longer grace period counts, because pods' owners choose it. Cluster
# Autoscaler, too, waits 600 s for the pods of a node (its --max-graceful-termination-sec).
LONGEST_GRACE_SECONDS = 600


def free_until(pod: Schedulable) -> int:
    """Return the first second since 1970 at which the room of a leaving pod counts as taken again.

    FOREVER for a pod that a preemption has marked and that is not being deleted yet. 0 if the deletion time
    cannot be read, or if the grace period is too long and no preemption marked the pod.
    """
    metadata = pod.metadata
    if metadata.deletionTimestamp is None:
        return FOREVER
    try:
        end = seconds(instant(metadata.deletionTimestamp))
    except msgspec.ValidationError:
        return 0
    excess = max(0, (metadata.deletionGracePeriodSeconds or 0) - LONGEST_GRACE_SECONDS)
    if excess and not is_preempted(pod):
        return 0
    return end - excess + LATE_SECONDS
