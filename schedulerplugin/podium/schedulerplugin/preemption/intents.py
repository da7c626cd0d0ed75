"""What a live scheduler has decided and the server does not show yet: who holds which node, who has to go.

Between a plan and the server's own account of it lie writes, and every decision in between must count with
both. A status is also no proof of anything: whoever may write pods/status can set a nominated node or the
condition DisruptionTarget. So a live scheduler goes by what it has decided itself as long as it knows, and
takes for leaving only who is being deleted, or was told to go by it. Who merely asks what if (no Intents)
has nothing else than the statuses to go by.
"""

from collections.abc import Iterable

from podium.api.core import Pod
from podium.api.meta import Condition
from podium.api.schedulable import Schedulable
from podium.schedulerplugin.preemption.spending import Spending
from podium.view import Name

# What a kube-scheduler or Podium writes on a victim before it deletes it.
DISRUPTION_TARGET, BY_SCHEDULER = "DisruptionTarget", "PreemptionByScheduler"


class Intents:
    """One scheduler's own decisions about pods, by UID; an Engine that is given them follows them.

    Change them by the Engine's methods, which know what else depends on them.
    """

    def __init__(self) -> None:
        # What those who have to go charge to budgets.
        self.spending = Spending()
        self._nominated: dict[Name, tuple[str, str]] = {}
        self._doomed: set[str] = set()

    def nominate(self, pod: Name, uid: str, node: str) -> None:
        """Reserve a node for a pod, none if empty, whatever its status says from now on."""
        self._nominated[pod] = (uid, node)

    def doom(self, uids: Iterable[str]) -> None:
        """Count pods as leaving."""
        self._doomed.update(uids)

    def spare(self, uids: Iterable[str]) -> None:
        """Count pods as leaving no more, unless they are being deleted."""
        for uid in uids:
            self._doomed.discard(uid)
            self.spending.release(uid)

    def nomination(self, pod: Schedulable) -> str:
        """Give the node that is reserved for a pod, empty for none."""
        known = self._nominated.get(_name(pod))
        return known[1] if known is not None and known[0] == (pod.metadata.uid or "") else stored(pod)

    def leaving(self, pod: Pod) -> bool:
        """Say whether a pod is being deleted, or was told to go by this scheduler."""
        return pod.metadata.deletionTimestamp is not None or (pod.metadata.uid or "") in self._doomed

    def follow(self, before: Schedulable | None, after: Schedulable | None) -> None:
        """Forget what a change of a pod has settled: it is bound, or gone."""
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
    """Give the node that a pod's status says is reserved for it, empty for none."""
    return (pod.status.nominatedNodeName if pod.status is not None else None) or ""


def is_leaving(pod: Schedulable) -> bool:
    """Say whether a pod is being deleted, or has been told to go by a preemption."""
    return pod.metadata.deletionTimestamp is not None or is_preempted(pod)


def is_preempted(pod: Schedulable | None) -> bool:
    """Say whether a scheduler has told a pod to go; what it is doing about it does not matter."""
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
