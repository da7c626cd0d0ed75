"""The progress of a pod: when it started, what it declares, when it ends, and which versions decide nothing.

Most changes of a pod only report its progress. The snapshot keeps such a version and changes no array.
"""

import msgspec

from podium.api.claims import ExtendedResourceStatus
from podium.api.core import EntryStatus
from podium.api.findings import ObjectRef
from podium.api.meta import ObjectMeta, instant
from podium.api.podkinds.kind import PodOwner
from podium.api.podkinds.workloads import JOB_KEY
from podium.api.podrequests import resized
from podium.api.priority import HIGHEST_USER_PRIORITY
from podium.api.saving import DEFAULT_GRACE, NOT_SAVED, Declaration, declared, longest_wait
from podium.api.schedulable import Schedulable
from podium.cluster.reader import ClusterReader, group_of

# The start of a pod that has not started: later than any.
NO_START = 2**63 - 1
# Seconds until the API server shows an end. The kubelet looks at deadlines each second, and reports later.
_REPORT_SECONDS = 10


def start_of(pod: Schedulable) -> tuple[int, str]:
    """Return when a pod started (seconds since 1970, or NO_START), and an error in its startTime."""
    started = _started(pod)
    try:
        return int(instant(started).timestamp()) if started else NO_START, ""
    except msgspec.ValidationError:
        return NO_START, f"{started!r} is not a time such as 2026-01-31T12:00:00Z"


def declaration_of(view: ClusterReader, pod: Schedulable) -> Declaration:
    """Return what a pod declares about its work, itself or by its group."""
    group = group_of(view, pod)
    of_group = None if group is None else group.metadata.annotations
    return declared(pod.metadata.annotations, of_group, pod.spec.terminationGracePeriodSeconds)


def job_of(view: ClusterReader, pod: Schedulable) -> PodOwner | None:
    """Return the Job that controls a pod, None if there is none."""
    owner = pod.metadata.controller()
    if owner is None or (owner.apiVersion, owner.kind) != JOB_KEY:
        return None
    job = view.owners.get(ObjectRef(*JOB_KEY, pod.metadata.namespace or "", owner.name))
    return job if job is not None and job.metadata.uid == owner.uid else None


def gone_by_job(view: ClusterReader, pod: Schedulable) -> int:
    """Return the second since 1970 by which a pod is gone by the deadline of its Job; 0 for none."""
    job = job_of(view, pod)
    return _after(pod, job.deadline) if job is not None and job.deadline else 0


def gone_by(view: ClusterReader, pod: Schedulable, run_time: int, start: int) -> int:
    """Return the second since 1970 by which a pod is gone by its known end; 0 if none is known.

    `run_time` is what it declares (0: nothing), `start` its start. After its activeDeadlineSeconds, or its
    Job's, a pod has its grace period.
    """
    if start == NO_START:
        return 0
    ends = [end] if (end := gone_by_job(view, pod)) else []
    if run_time:
        ends.append(start + run_time + _REPORT_SECONDS)
    if pod.spec.activeDeadlineSeconds is not None:
        ends.append(_after(pod, start + pod.spec.activeDeadlineSeconds))
    return min(ends, default=0)


def _after(pod: Schedulable, deadline: int) -> int:
    """Return the second by which a pod is gone that is deleted at a deadline; arrays hold no later one."""
    grace = pod.spec.terminationGracePeriodSeconds
    return min(deadline + (DEFAULT_GRACE if grace is None else grace) + _REPORT_SECONDS, NO_START)


def patience(view: ClusterReader, class_name: str, priority: int, longest: int) -> int:
    """Return for how many seconds a preemptor's evictions wait for victims that save on notice.

    That is what its class allows, but at most `longest`. Nothing that runs the cluster waits.
    """
    if priority > HIGHEST_USER_PRIORITY:
        return 0
    priority_class = view.classes.get(class_name)
    return (
        longest if priority_class is None else min(longest, longest_wait(priority_class.metadata.annotations))
    )


def same_for_scheduling(was: Schedulable | None, pod: Schedulable) -> bool:
    """Return whether only the reported status of a pod changed, as in most changes.

    A pod that is applied again unchanged must be read again, because its claims changed.
    """
    if was is None or was is pod or was.spec != pod.spec:
        return False
    before, after = was.metadata, pod.metadata
    return (
        (before.uid, before.deletionTimestamp) == (after.uid, after.deletionTimestamp)
        and before.labels == after.labels
        and _declared(before) == _declared(after)
        and _started(was) == _started(pod)
        and resized(was) == resized(pod)
        and created_claims(was) == created_claims(pod)
        and _extended_claim(was) == _extended_claim(pod)
    )


def created_claims(pod: Schedulable) -> list[EntryStatus] | None:
    """Return the claims that kube-controller-manager created for a pod, None before it reports them."""
    return pod.status.resourceClaimStatuses if pod.status is not None else None


def _extended_claim(pod: Schedulable) -> ExtendedResourceStatus | None:
    return pod.status.extendedResourceClaimStatus if pod.status is not None else None


def _declared(metadata: ObjectMeta) -> Declaration:
    """Return what a pod declares itself, whatever its grace period."""
    return declared(metadata.annotations, None, NOT_SAVED)


def _started(pod: Schedulable) -> str | None:
    return pod.status.startTime if pod.status is not None else None
