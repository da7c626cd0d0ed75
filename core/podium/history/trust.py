"""Trust in declarations about saving work: a workload that was asked twice in vain is not believed.

The scheduler records of each unit that it asked whether it saved its work in the declared time. After two
failures in a row the price of the workload's pods is the one without a declaration. It is asked as before,
and its next answer in time ends that. So the verdict is a function of the records, and the next leader and
every report come to the same one.

A workload is the controller of its pods or its group, else the group or pod, by kind, namespace and name. The
UID does not count, so a Job that is created again keeps its failures. A workload under a new name has none.
Only pods of its own namespace can name a controller, so no tenant loses trust by what another one does.
"""

from collections.abc import Iterable
from typing import Final

from podium.api.core import Pod
from podium.api.records import PlanMode, PreemptionRecord, RecordedPlan, Saving
from podium.api.saving import NOT_SAVED, Declaration, declared
from podium.cluster.reader import ClusterReader, WorkloadName, group_of
from podium.cluster.state import ClusterState
from podium.history.evictioncycles import workload_of
from podium.history.records import identity

# The failures in a row after which a declaration does not count.
FAILURES: Final = 2
# The most workloads whose failures are remembered; the oldest are dropped first.
_MOST: Final = 10_000


class Trust:
    """The failures in a row to save, by workload."""

    def __init__(self, records: Iterable[PreemptionRecord] = ()) -> None:
        """Start with the plans of stored records."""
        self._failures: dict[WorkloadName, int] = {}
        for plan in sorted((plan for record in records for plan in record.plans), key=lambda plan: plan.time):
            self.add(plan)

    @property
    def untrusted(self) -> frozenset[WorkloadName]:
        """The workloads whose declaration does not count."""
        return frozenset(name for name, failures in self._failures.items() if failures >= FAILURES)

    def add(self, plan: RecordedPlan) -> None:
        """Count the answers in a plan: one for each workload, a failure if a unit of it failed."""
        carried_out = plan.mode == PlanMode.ENFORCED
        units = [unit for unit in plan.units if carried_out and unit.saving in tuple(Saving)]
        failed = {identity(unit)[:3] for unit in units if unit.saving == Saving.FAILED}
        for name in dict.fromkeys(identity(unit)[:3] for unit in units):
            failures = self._failures.pop(name, 0)
            if name in failed:
                self._failures[name] = min(failures + 1, FAILURES)
        while len(self._failures) > _MOST:
            del self._failures[next(iter(self._failures))]


def distrusted(view: ClusterReader, pod: Pod) -> bool:
    """Return whether the declaration of a pod does not count."""
    if not view.untrusted:
        return False
    workload = workload_of(view, pod)
    return workload is not None and workload[:3] in view.untrusted


def declares(view: ClusterReader, pod: Pod) -> bool:
    """Return whether a pod, or its group for it, declares how it saves its work."""
    group = group_of(view, pod)
    of_group = None if group is None else group.metadata.annotations
    return declared(pod.metadata.annotations, of_group, NOT_SAVED) != Declaration()


def distrust(state: ClusterState, untrusted: frozenset[WorkloadName]) -> None:
    """Set the workloads whose declaration does not count; observers get the pods again that this concerns."""
    changed = state.untrusted ^ untrusted
    namespaces = {namespace for _, namespace, _ in changed}
    pods = [pod for (namespace, _), pod in state.pods.items() if namespace in namespaces]
    concerned = [pod for pod in pods if (workload_of(state, pod) or ("", "", ""))[:3] in changed]
    state.note_untrusted(untrusted, concerned)
