"""Keeps a live scheduler's decisions that the API server does not show yet, and judges pods that are leaving.

The writes of a plan take time until the server shows them. Every decision in
between must count the nominated nodes, the marked victims and the used disruptions. A status is also no
proof: any writer of pods/status can set a nominated node or the condition DisruptionTarget. So a live
scheduler uses its own decisions as long as it knows them. It counts only pods as terminating that are being
deleted, or that it has marked itself. A what-if query (no Intents) can only use the statuses.

A preemptor counts on the room of terminating pods at no cost. But such a pod may stay: its process hangs in a
system call, a finalizer keeps it, or its grace period is years. So the room counts as free for a limited
time, and then as taken until the pod is gone. A grace period beyond the limit says that the pod does not
leave soon. If its owner deleted the pod, a preemptor does not wait at all. It does wait, to the limit, for a
pod that a preemption marked. Another preemption in its place would have more pods killed for the same room.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import msgspec

from podium.api.core import Pod
from podium.api.meta import Condition, instant
from podium.api.schedulable import Schedulable
from podium.api.times import seconds
from podium.cluster.reader import Name, name_of
from podium.planner.preemption.protection import FOREVER

# A pod that did not count as healthy leaves its budgets unchanged: nothing is written when it terminates.
_WAIT_SECONDS = 10


class PendingDisruptions:
    """The charges of our victims, by names of budgets and UIDs of pods; `revision` grows with each change."""

    def __init__(self) -> None:
        self.revision = 0
        self._uids: dict[Name, set[str]] = {}
        self._budgets: dict[str, set[Name]] = {}
        # Pods seen to terminate, and pods seen to be gone with the second of the next `expire` (None: not
        # yet).
        self._terminating: set[str] = set()
        self._deleted: dict[str, int | None] = {}

    def charge(self, uid: str, budgets: Iterable[Name]) -> None:
        """Count a pod that is to be evicted."""
        for name in budgets:
            self.revision += 1
            self._uids.setdefault(name, set()).add(uid)
            self._budgets.setdefault(uid, set()).add(name)

    def terminating(self, uid: str) -> None:
        """Record that a pod was seen being deleted."""
        if uid in self._budgets:
            self._terminating.add(uid)

    def deleted(self, uid: str) -> None:
        """Record that a pod was seen to be gone."""
        if uid in self._budgets:
            self._terminating.add(uid)
            self._deleted.setdefault(uid, None)

    def release(self, uid: str) -> None:
        """Count a pod no more: it stays, or no budget will show its eviction."""
        for name in tuple(self._budgets.get(uid, ())):
            self._drop_disruption(uid, name)

    def budget_written(self, budget: Name) -> None:
        """Record that a budget was written: it includes all pods seen to terminate before."""
        for uid in self._terminating & self._uids.get(budget, set()):
            self._drop_disruption(uid, budget)

    def count(self, budget: Name) -> int:
        """Return how many disruptions of a budget are not in its status."""
        return len(self._uids.get(budget, ()))

    def expire(self, second: int) -> None:
        """Stop waiting for budgets that are not written within _WAIT_SECONDS."""
        for uid, since in tuple(self._deleted.items()):
            if since is None:
                self._deleted[uid] = second
            elif not 0 <= second - since < _WAIT_SECONDS:
                self.release(uid)

    def _drop_disruption(self, uid: str, budget: Name) -> None:
        self.revision += 1
        self._uids[budget].discard(uid)
        if not self._uids[budget]:
            del self._uids[budget]
        self._budgets[uid].discard(budget)
        if not self._budgets[uid]:
            del self._budgets[uid]
            self._terminating.discard(uid)
            self._deleted.pop(uid, None)


# The most pods whose refusals are remembered; the oldest are dropped first.
MOST_FAILURES = 10_000
# After a refusal, a pod is no victim for at least the first time, and if it does not change, for the second.
# Both double with each further refusal, up to the longest.
_LEAST_SECONDS, LONGEST_LEAST_SECONDS = 5, 60
_SECONDS, LONGEST_SECONDS = 30, 1800


class _FailedEviction(NamedTuple):
    """The refusals of one pod: the last reason, their number, and the pod's resourceVersion at the last.

    If not `final`, the answer may be another one the next time.
    The pod is no victim before second `least`, nor before `until` if its resourceVersion stays the same.
    """

    pod: Name
    why: str
    times: int
    final: bool
    version: str
    least: int
    until: int


class FailedEvictions:
    """The pods that could not be evicted, by UID, because the API server refused it; times are in seconds.

    A new version of a pod may be evictable, but its owner may write one each second. So a pod stays out of
    plans for some time in any case, and longer each time.
    """

    def __init__(self) -> None:
        self._failures: dict[str, _FailedEviction] = {}
        # The UIDs of the pods that are no victims now.
        self._held: set[str] = set()
        # The number of these pods in each namespace, without those whose answer may change.
        self._namespaces = Counter[str]()

    def add(self, pod: Schedulable, why: str, now: int, *, final: bool) -> None:
        """Record that the eviction of a pod failed.

        If the first answer is not `final`, the pod may be chosen again at once.
        """
        uid = pod.metadata.uid or ""
        times = self._failures[uid].times + 1 if uid in self._failures else 1
        self.forget(uid)
        final |= times > 1
        factor = 2 ** min(times - 1, 10) if final else 0
        if final:
            self._namespaces[pod.metadata.namespace or ""] += 1
        self._failures[uid] = _FailedEviction(
            pod=name_of(pod),
            why=why,
            times=times,
            final=final,
            version=pod.metadata.resourceVersion or "",
            least=now + min(_LEAST_SECONDS * factor, LONGEST_LEAST_SECONDS),
            until=now + min(_SECONDS * factor, LONGEST_SECONDS),
        )
        self._held.add(uid)

    def why(self, pod: Schedulable) -> str:
        """Return why a pod cannot be evicted; empty if it may be."""
        uid = pod.metadata.uid or ""
        return self._failures[uid].why if uid in self._held else ""

    def knows(self, uid: str) -> bool:
        """Return whether an eviction of a pod failed, however long ago."""
        return uid in self._failures

    def doubts(self, namespace: str) -> bool:
        """Return whether evictions in a namespace may fail, because one did."""
        return self._namespaces[namespace] > 0

    def ends(self, uid: str) -> int:
        """Return the second until which a pod is no victim, unless it changes."""
        return self._failures[uid].until

    def follow(self, pod: Schedulable) -> None:
        """Record a change of a pod."""
        uid = pod.metadata.uid or ""
        known = self._failures.get(uid)
        if known is not None and known.version != pod.metadata.resourceVersion:
            self._failures[uid] = known._replace(until=min(known.until, known.least))

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        known = self._failures.pop(uid, None)
        self._held.discard(uid)
        if known is not None and known.final:
            self._namespaces -= Counter((known.pod[0],))

    def expire(self, now: int) -> list[tuple[Name, str]]:
        """Let the pods be victims again whose time is over; return their names and UIDs."""
        dropped = list(islice(self._failures, max(0, len(self._failures) - MOST_FAILURES)))
        # After a step of the clock, a time that is too far away is over, too.
        over = [uid for uid in self._held if not 0 < self._failures[uid].until - now <= LONGEST_SECONDS]
        names = [(self._failures[uid].pod, uid) for uid in dict.fromkeys((*dropped, *over))]
        self._held.difference_update(over)
        for uid in dropped:
            self.forget(uid)
        return names


# The condition that a kube-scheduler or Podium writes on a victim before it deletes it.
DISRUPTION_TARGET, BY_SCHEDULER = "DisruptionTarget", "PreemptionByScheduler"


class Intents:
    """A scheduler's own decisions about pods, by UID; an Engine that is given them follows them.

    Change them through the Engine's methods, which update the data that depends on them.
    """

    def __init__(self) -> None:
        # The charges of marked victims to budgets.
        self.disruptions = PendingDisruptions()
        self.failed_evictions = FailedEvictions()
        self._nominated: dict[Name, tuple[str, str]] = {}
        self._marked: set[str] = set()

    def nominate(self, pod: Name, uid: str, node: str) -> None:
        """Reserve a node for a pod, whatever its status says from now on; empty for none."""
        self._nominated[pod] = (uid, node)

    def mark_for_deletion(self, uids: Iterable[str]) -> None:
        """Count pods as terminating."""
        self._marked.update(uids)

    def unmark(self, uids: Iterable[str]) -> None:
        """Count pods as terminating no more, unless they are being deleted."""
        for uid in uids:
            self._marked.discard(uid)
            self.disruptions.release(uid)

    def nomination(self, pod: Schedulable) -> str:
        """Return the node that is reserved for a pod, empty for none."""
        known = self._nominated.get(name_of(pod))
        return (
            known[1] if known is not None and known[0] == (pod.metadata.uid or "") else stored_nomination(pod)
        )

    def leaving(self, pod: Pod) -> bool:
        """Return whether a pod is being deleted, or was marked by this scheduler."""
        return pod.metadata.deletionTimestamp is not None or (pod.metadata.uid or "") in self._marked

    def follow(self, before: Schedulable | None, after: Schedulable | None) -> None:
        """Forget the decisions that a change of a pod has settled: it is bound, or gone."""
        lives = after is not None and not after.finished
        if after is not None:
            self.failed_evictions.follow(after)
        if after is not None and after.metadata.deletionTimestamp is not None:
            self.disruptions.terminating(after.metadata.uid or "")
        if before is not None and (not lives or after is None or after.metadata.uid != before.metadata.uid):
            self._marked.discard(before.metadata.uid or "")
            self.failed_evictions.forget(before.metadata.uid or "")
            self.disruptions.deleted(before.metadata.uid or "")
            self._nominated.pop(name_of(before), None)
        elif after is not None and after.spec.nodeName:
            self._nominated.pop(name_of(after), None)


def stored_nomination(pod: Schedulable) -> str:
    """Return the nominated node in a pod's status, empty for none."""
    return (pod.status.nominatedNodeName if pod.status is not None else None) or ""


def is_leaving(pod: Schedulable) -> bool:
    """Return whether a pod is being deleted, or was marked by a preemption."""
    return pod.metadata.deletionTimestamp is not None or is_preempted(pod)


def is_preempted(pod: Schedulable | None) -> bool:
    """Return whether a scheduler has marked a pod as a victim, whatever the pod does about it."""
    if pod is None:
        return False
    condition = pod.status.condition(DISRUPTION_TARGET) if pod.status is not None else None
    return condition is not None and preempts(condition)


def preempts(condition: Condition) -> bool:
    """Return whether a condition says that a scheduler preempts its pod or group."""
    fields = condition.type, condition.status, condition.reason
    return fields == (DISRUPTION_TARGET, "True", BY_SCHEDULER)


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
