"""Keeps a live scheduler's decisions that the API server does not show yet: reservations and marked victims.

The writes of a plan take time until the server shows them, and every decision in between must count with
both. A status is also no proof: any writer of pods/status can set a nominated node or the condition
DisruptionTarget. So a live scheduler uses its own decisions as long as it knows them. It counts only pods as
terminating that are being deleted, or that it has marked itself. A what-if query (no Intents) can only use
the statuses.
"""

from collections.abc import Iterable

from podium.api.core import Pod
from podium.api.meta import Condition
from podium.api.schedulable import Schedulable
from podium.schedulerplugin.preemption.spending import Spending
from podium.view import Name

# The condition that a kube-scheduler or Podium writes on a victim before it deletes it.
DISRUPTION_TARGET, BY_SCHEDULER = "DisruptionTarget", "PreemptionByScheduler"


class Intents:
    """A scheduler's own decisions about pods, by UID; an Engine that is given them follows them.

    Change them through the Engine's methods, which update the data that depends on them.
    """

    def __init__(self) -> None:
        # The charges of marked victims to budgets.
        self.spending = Spending()
        self._nominated: dict[Name, tuple[str, str]] = {}
        self._doomed: set[str] = set()

    def nominate(self, pod: Name, uid: str, node: str) -> None:
        """Reserve a node for a pod, whatever its status says from now on; empty for none."""
        self._nominated[pod] = (uid, node)

    def doom(self, uids: Iterable[str]) -> None:
        """Count pods as terminating."""
        self._doomed.update(uids)

    def spare(self, uids: Iterable[str]) -> None:
        """Count pods as terminating no more, unless they are being deleted."""
        for uid in uids:
            self._doomed.discard(uid)
            self.spending.release(uid)

    def nomination(self, pod: Schedulable) -> str:
        """Return the node that is reserved for a pod, empty for none."""
        known = self._nominated.get(_name(pod))
        return known[1] if known is not None and known[0] == (pod.metadata.uid or "") else stored(pod)

    def leaving(self, pod: Pod) -> bool:
        """Return whether a pod is being deleted, or was marked by this scheduler."""
        return pod.metadata.deletionTimestamp is not None or (pod.metadata.uid or "") in self._doomed

    def follow(self, before: Schedulable | None, after: Schedulable | None) -> None:
        """Forget the decisions that a change of a pod has settled: it is bound, or gone."""
        lives = after is not None and not after.finished
        if after is not None and after.metadata.deletionTimestamp is not None:
            self.spending.going(after.metadata.uid or "")
        if before is not None and (not lives or after is None or after.metadata.uid != before.metadata.uid):
            self._doomed.discard(before.metadata.uid or "")
            self.spending.gone(before.metadata.uid or "")
            self._nominated.pop(_name(before), None)
        elif after is not None and after.spec.nodeName:
            self._nominated.pop(_name(after), None)


def stored(pod: Schedulable) -> str:
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
    found = condition.type, condition.status, condition.reason
    return found == (DISRUPTION_TARGET, "True", BY_SCHEDULER)


def _name(pod: Schedulable) -> Name:
    return pod.metadata.namespace or "", pod.metadata.name or ""
