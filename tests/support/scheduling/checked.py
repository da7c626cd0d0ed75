"""A cluster in memory that checks every bind and every eviction when it is decided.

The checks are written independently of the scheduler, from the cluster's objects and earlier decisions, so
that a mistake of the scheduler is not repeated here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from tests.support.preemption.clusters import NS
from tests.support.scheduling.rig import World

from podium.api.core import PODIUM_SCHEDULER
from podium.api.groups import PodGroup
from podium.api.membership import GroupKey
from podium.api.schedulable import Schedulable
from podium.groups.topology import slice_topology
from podium.planner.settings import PreemptionMode
from podium.schedulerplugin.scheduling.effects import Bind, Effect, Evict
from podium.schedulerplugin.scheduling.evictionlimits import Unfinished


def cpu(each: Schedulable) -> int:
    """Return the cpu request of a pod of the rig."""
    resources = (each.spec.containers or [])[0].resources
    return int(str((resources.requests or {}).get("cpu", 0))) if resources is not None else 0


class CheckedWorld(World):
    """A cluster in memory that checks every effect when it is decided."""

    def restart(self, *units: float, unfinished: Mapping[str, Unfinished] | None = None) -> None:
        self.marked: set[str] = set()
        self.binding: dict[str, str] = {}
        super().restart(*units, unfinished=unfinished)

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Bind):
            self.check_bind(effect)
        elif isinstance(effect, Evict):
            self.check_evict(effect)
        super()._perform(effect)

    def check_bind(self, bind: Bind) -> None:
        """Assert that a bind is of our pending pods, once each, on existing nodes, of a gang minCount."""
        for ref, where in bind.pods:
            found = self._live(ref)
            assert found is not None
            assert not found.spec.nodeName
            assert not found.spec.schedulingGates
            assert found.spec.schedulerName == PODIUM_SCHEDULER
            assert found.metadata.deletionTimestamp is None
            assert where in self.state.nodes
            # Another bind may be in flight to a deleted node.
            assert self.binding.get(ref.uid) not in self.state.nodes
            self.binding[ref.uid] = where
        if isinstance(bind.key, GroupKey):
            members = self.state.members(bind.key).values()
            there = [each for each in members if each.spec.nodeName and not each.finished]
            kept = [each for each in there if each.metadata.deletionTimestamp is None]
            running = {each.metadata.uid for each in kept} - self.marked
            coming = {each.metadata.uid for each in members} & self.binding.keys()
            group = self.state.groups[bind.key]
            assert len(running | coming) >= (group.min_count or 1)
            self.check_domains(bind, group)
            self.check_slices(bind, group)

    def check_domains(self, bind: Bind, group: PodGroup) -> None:
        """Assert that the pods of a bind share a required domain, that of most members that run."""
        if not group.topology:
            return
        there = self.domains(bind, group.topology)
        used = {self.domain(where, group.topology) for _, where in bind.pods}
        assert len(used) == 1
        assert "" not in used
        assert not there or there[used.pop()] == max(there.values())

    def check_slices(self, bind: Bind, group: PodGroup) -> None:
        """Assert that the pods of each slice share a domain, that of most of the slice's pods that run."""
        key, size = slice_topology(group)
        if not key:
            return
        assert isinstance(bind.key, GroupKey)
        pods = {each.metadata.uid or "": each for each in self.state.members(bind.key).values()}
        nodes = dict(self.counting(bind))
        waiting = [
            uid
            for uid, each in pods.items()
            if uid not in self.binding
            and not (each.spec.nodeName or each.spec.schedulingGates or each.finished)
            and each.metadata.deletionTimestamp is None
        ]
        bound = {ref.uid: where for ref, where in bind.pods}
        ordered = sorted({*nodes, *waiting, *bound}, key=lambda uid: int((pods[uid].metadata.name or "")[1:]))
        for first in range(0, len(ordered), size):
            part = ordered[first : first + size]
            placed = {self.domain(bound[uid], key) for uid in part if uid in bound}
            there = Counter(self.domain(nodes[uid], key) for uid in part if uid in nodes)
            del there[""]
            assert len(placed) < 2
            assert "" not in placed
            assert not placed or not there or there[placed.pop()] == max(there.values())

    def domains(self, bind: Bind, key: str) -> Counter[str]:
        """Return how many other members count in each domain of a label."""
        found = Counter(self.domain(where, key) for _, where in self.counting(bind))
        del found[""]
        return found

    def counting(self, bind: Bind) -> Iterator[tuple[str, str]]:
        """Yield the UIDs and nodes of the members of a bind's group that run, or whose bind is in flight.

        A marked member counts until it is being deleted, because its eviction may fail.
        """
        assert isinstance(bind.key, GroupKey)
        own = {ref.uid for ref, _ in bind.pods}
        for each in self.state.members(bind.key).values():
            uid = each.metadata.uid or ""
            where = each.spec.nodeName or self.binding.get(uid, "")
            stays = each.metadata.deletionTimestamp is None and not each.finished
            if uid not in own and stays and where in self.state.nodes:
                yield uid, where

    def domain(self, name: str, key: str) -> str:
        """Return the value of a label of an existing node, empty for none."""
        return (self.state.nodes[name].metadata.labels or {}).get(key, "")

    def check_evict(self, evict: Evict) -> None:
        """Assert that victims are ours, not critical, of lower priority, not tolerated, and marked once."""
        assert self.live.mode is PreemptionMode.ENFORCE
        assert evict.victims
        for ref in evict.victims:
            found = self._live(ref)
            assert found is not None
            assert found.spec.nodeName in self.state.nodes
            assert found.spec.schedulerName == PODIUM_SCHEDULER
            assert ref.namespace != "kube-system"
            priority, class_name = self.rank(found)
            assert priority < evict.preemptor.priority
            assert class_name in ("", "plain", "gone")
            assert not class_name or class_name in self.state.classes
            assert ref.uid not in self.marked
            self.marked.add(ref.uid)

    def rank(self, found: Schedulable) -> tuple[int, str]:
        """Return the integer by which a pod is protected, and the class of its unit."""
        of = found.spec.schedulingGroup
        key = None if of is None else GroupKey(native=True, namespace=NS, name=of.podGroupName or "")
        if key is None or key not in self.state.groups:
            return found.spec.priority or 0, found.spec.priorityClassName or ""
        own = self.state.groups[key]
        return own.priority or 0, own.priority_class_name

    def _bind(self, bind: Bind, failed: str) -> None:
        super()._bind(bind, failed)
        for ref, where in bind.pods:
            if self.binding.get(ref.uid) == where:
                del self.binding[ref.uid]

    def _evict(self, evict: Evict, failed: str) -> None:
        super()._evict(evict, failed)
        # A pod that was not deleted in the end may be marked again.
        alive = (self._live(ref) for ref in evict.victims)
        self.marked -= {
            each.metadata.uid or ""
            for each in alive
            if each is not None and each.metadata.deletionTimestamp is None
        }

    def free(self, name: str) -> int:
        """Return the free cpus of a node, by the API server's objects and binds in flight."""
        found = self.state.nodes[name]
        room = int(str((found.status.allocatable or {})["cpu"])) if found.status is not None else 0
        held = [each for each in self.held if isinstance(each, Bind)]
        coming = {ref.key for bind in held for ref, where in bind.pods if where == name}
        there = [
            each
            for key, each in self.state.pods.items()
            if not each.finished and (each.spec.nodeName == name or key in coming)
        ]
        return room - sum(cpu(each) for each in there if isinstance(each, Schedulable))
