"""The scheduler under any events in any order: the invariants of each effect, and the final state.

The cluster is in memory (`rig`), and every slow operation of a real one may be held, fail, or be lost with
its process. Each bind and each eviction is checked when it is decided (`checked`). Whenever the scheduler is
idle, no entry waits that it could help. Once nothing is held, every entry that fits must be bound without the
queue's periodic retry.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import group, node, priority_class
from tests.support.scheduling.checked import CheckedWorld
from tests.support.scheduling.rig import LOST, pod

from podium.api.core import PODIUM_SCHEDULER
from podium.api.groups import PodGroup
from podium.api.membership import GroupKey, key_of
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Name
from podium.errors import PodiumError
from podium.groups.topology import (
    PREFERRED_TOPOLOGY,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    SPREAD_SET,
    SPREAD_TOPOLOGY,
)
from podium.planner.comparer import Comparer
from podium.planner.preemption.outcome import Outcome
from podium.planner.settings import PreemptionMode
from podium.schedulerplugin.scheduling.effects import Bind, Key, ReportPending
from podium.schedulerplugin.scheduling.entry import EntryPhase
from podium.schedulerplugin.scheduling.live_engine import LiveEngine

NODES = ("n1", "n2", "n3")
RACK, ZONE = "rack", "zone"
GROUPS = ("g", "h")
PODS = tuple(f"p{at}" for at in range(12))
# The queue's periodic retry comes after 300 s, and the longest backoff is 10 s.
SETTLED_SECONDS = 25.0

_names = st.sampled_from(PODS)
_slow = st.sampled_from(["", "", "binds", "evictions", "victims"])
_which = st.integers(0, 11)
_seldom = st.sampled_from([False, False, False, True])
_values = st.sampled_from("ab")
_labels: st.SearchStrategy[dict[str, str]]
_labels = st.fixed_dictionaries({RACK: _values}, optional={ZONE: _values}) | st.just({})
# The topology that a group requires, prefers, and spreads over.
_constraints = st.fixed_dictionaries(
    {
        "topology": st.sampled_from(["", "", RACK, ZONE]),
        "annotations": st.sampled_from(
            [
                *[{}] * 3,
                {PREFERRED_TOPOLOGY: RACK},
                {SLICE_SIZE: "2", SLICE_TOPOLOGY: RACK},
                {SPREAD_SET: "set", SPREAD_TOPOLOGY: RACK},
            ]
        ),
    }
)
_fields = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([1, 1, 2, 3]),
        "priority": st.sampled_from([0, 5, 10, 10]),
        "group": st.sampled_from(["", "", "", "", "g", "h"]),
        "namespace": st.sampled_from([*[NS] * 7, "kube-system"]),
        "priorityClassName": st.sampled_from([*[None] * 5, "plain", "patient", "gone"]),
        "preemptionPolicy": st.sampled_from([None, None, None, "Never"]),
        "schedulingGates": st.sampled_from([*[None] * 7, [{"name": "hold"}]]),
    }
)


class Whatever(RuleBasedStateMachine):
    """Random events of a cluster and of the scheduler's effects."""

    def __init__(self) -> None:
        super().__init__()
        self.uids = 0

    @initialize(
        nodes=st.tuples(*[st.tuples(st.integers(2, 3), _labels)] * len(NODES)),
        grouped=_seldom,
        constraint=_constraints,
    )
    def begin(
        self, nodes: Sequence[tuple[int, dict[str, str]]], grouped: bool, constraint: dict[str, Any]
    ) -> None:
        """Start with nodes that are full of our pods of priority 0."""
        sizes = [size for size, _ in nodes]
        self.world = CheckedWorld(
            *(node(name, size, labels=labels) for name, (size, labels) in zip(NODES, nodes, strict=True)),
            *(priority_class("plain", 0), priority_class("patient", 0, minimum=100, seconds=-1)),
            *(group("g", 0, 2, whole=True), group("h", 10, 2, **constraint)),
        )
        for at in range(min(sum(sizes), len(PODS))):
            self.create(PODS[at], {"group": "g" if grouped and at < 3 else ""})

    @rule(name=_names, fields=_fields, slow=_slow)
    def create(self, name: str, fields: dict[str, Any], slow: str = "") -> None:
        """Create a pod, perhaps in place of one of its name."""
        self.hold(slow)
        self.gone((fields.get("namespace", NS), name))
        self.uids += 1
        self.world.run(pod(name, **fields, uid=f"u{self.uids}"))

    @rule(
        key=st.sampled_from(GROUPS),
        members=st.sets(_names, min_size=1, max_size=4),
        size=st.integers(1, 2),
        priority=st.sampled_from([5, 10, 20]),
        slow=_slow,
        constraint=_constraints,
    )
    def create_gang(  # noqa: PLR0917 - Hypothesis draws all of them
        self, key: str, members: set[str], size: int, priority: int, slow: str, constraint: dict[str, Any]
    ) -> None:
        """Create a gang of one priority; gangs of h are evicted as a whole."""
        self.hold(slow)
        for each in list(self.world.state.members(key_of(group(key))).values()):
            self.world.state.remove(each)
        self.world.apply(group(key, priority, len(members), whole=key == "h", **constraint))
        for name in sorted(members):
            self.gone((NS, name))
            self.uids += 1
            self.world.apply(pod(name, size, priority, group=key, uid=f"u{self.uids}"))
        self.world.run()

    @rule(
        name=_names,
        size=st.integers(1, 3),
        where=st.sampled_from(NODES),
        priority=st.sampled_from([0, 5, 10]),
    )
    def another_schedulers_pod_runs(self, name: str, size: int, where: str, priority: int) -> None:
        """Run another scheduler's pod on room that is free."""
        state = self.world.state
        if (NS, name) in state.pods or where not in state.nodes or self.world.free(where) < size:
            return
        self.uids += 1
        foreign = pod(name, size, priority, node=where, schedulerName="other", uid=f"u{self.uids}")
        self.world.run(foreign)

    @rule(which=_which)
    def ungate(self, which: int) -> None:
        """Remove the gates of a pod."""
        for found in self.one(which, lambda each: bool(each.spec.schedulingGates)):
            spec = msgspec.structs.replace(found.spec, schedulingGates=None)
            self.world.run(msgspec.structs.replace(found, spec=spec))

    @rule(which=_which, pending=st.booleans())
    def delete(self, which: int, pending: bool) -> None:
        """Remove a pod at once: a pending or a running one."""
        for found in self.one(which, lambda each: bool(each.spec.nodeName) != pending):
            self.world.state.remove(found)
            self.world.run()

    @rule(which=_which, rejected=st.booleans())
    def finish(self, which: int, rejected: bool) -> None:
        """End a pod, or let its kubelet reject it."""
        ended = {"phase": "Failed", "reason": "OutOfcpu"} if rejected else {"phase": "Succeeded"}
        for found in self.one(which, lambda each: bool(each.spec.nodeName) and not each.finished):
            status = msgspec.convert(ended, type(found.status))
            self.world.run(msgspec.structs.replace(found, status=status))

    @rule(
        name=st.sampled_from(GROUPS),
        priority=st.sampled_from([0, 5, 10]),
        least=st.integers(1, 3),
        whole=st.booleans(),
        named=st.sampled_from(["", "", "plain", "patient"]),
        constraint=_constraints,
    )
    def put_group(self, name: str, named: str, constraint: dict[str, Any], **fields: Any) -> None:
        self.world.run(group(name, priority_class_name=named, **fields, **constraint))

    @rule(name=st.sampled_from(GROUPS))
    def delete_group(self, name: str) -> None:
        found = self.world.state.groups.get(key_of(group(name)))
        if isinstance(found, PodGroup):
            self.world.state.remove(found)
            self.world.run()

    @rule(name=st.sampled_from(["plain", "patient", "gone"]), there=st.booleans())
    def change_class(self, name: str, there: bool) -> None:
        state = self.world.state
        made = (
            priority_class("patient", 0, minimum=100, seconds=-1)
            if name == "patient"
            else priority_class(name, 0)
        )
        if there:
            self.world.run(made)
        elif name in state.classes and name != "patient":
            state.remove(state.classes[name])
            self.world.run()

    @rule(name=st.sampled_from(NODES), size=st.integers(2, 4), closed=_seldom, labels=_labels)
    def put_node(self, name: str, size: int, closed: bool, labels: dict[str, str]) -> None:
        """Add a node (without pods), enlarge it, cordon it, or move it to other racks."""
        state, world = self.world.state, self.world
        if name not in state.nodes:
            if any(where == name for each in world.held if isinstance(each, Bind) for _, where in each.pods):
                return
            self.collect(name)
        elif world.free(name) + size < self.size(name):
            return
        size = max(size, self.size(name))
        world.run(node(name, size, unschedulable=closed, labels=labels))

    @rule(name=st.sampled_from(NODES))
    def delete_node(self, name: str) -> None:
        """Remove a node with its pods."""
        state = self.world.state
        if name in state.nodes:
            state.remove(state.nodes[name])
            self.collect(name)
            self.world.run()

    @precondition(lambda self: self.world.held)
    @rule(failed=st.sampled_from(["", "", "500", LOST]))
    def release(self, failed: str) -> None:
        self.world.release(failed=failed)

    @rule(which=_which)
    def die(self, which: int) -> None:
        """End a victim's grace period."""
        for found in self.one(which, lambda each: each.metadata.deletionTimestamp is not None):
            self.world.state.remove(found)
            self.world.run()

    @rule(
        mode=st.sampled_from([*[PreemptionMode.ENFORCE] * 4, *PreemptionMode]),
        limit=st.sampled_from([None, None, 1]),
    )
    def switch(self, mode: PreemptionMode, limit: int | None) -> None:
        self.world.live = self.world.live._replace(mode=mode, evictions_a_minute=limit)
        self.world.scheduler.switched()
        self.world.run()

    @precondition(lambda self: self.world.held or self.world.lingering)
    @rule()
    def restart(self) -> None:
        """Kill the process with all effects in flight, and start another."""
        self.world.restart()
        self.world.run()

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 5.0, 20.0, 70.0, 301.0]))
    def later(self, seconds: float) -> None:
        self.world.later(seconds)

    @rule()
    def all_comes_to_rest(self) -> None:
        """Once nothing is in flight, no entry waits that fits, or that may evict."""
        world = self.world
        world.lingering = False
        world.release()
        for each in list(world.state.pods.values()):
            if each.metadata.deletionTimestamp is not None:
                world.state.remove(each)
        world.later(SETTLED_SECONDS)
        world.run()
        engine = LiveEngine(world.state, world.live.engine)
        for key in self.entries():
            try:
                decision = engine.decide(key, world.moment.now)
            except PodiumError:
                continue
            assert decision.outcome is not Outcome.FITS, f"{key} fits and is not bound"
            if (
                decision.outcome is Outcome.FITS_AFTER_PREEMPTION
                and world.live.mode is PreemptionMode.ENFORCE
            ):
                assert self.held_back(key), f"{key} could preempt and was not tried"

    def hold(self, slow: str) -> None:
        """Hold effects of a kind from now on, until all are released."""
        self.world.hold_binds |= slow == "binds"
        self.world.hold_evictions |= slow == "evictions"
        self.world.lingering |= slow == "victims"

    def one(self, which: int, wanted: Callable[[Schedulable], bool]) -> list[Schedulable]:
        """Return one of these pods, if there are any."""
        pods = [each for each in self.world.state.pods.values() if isinstance(each, Schedulable)]
        found = sorted(filter(wanted, pods), key=lambda each: each.metadata.uid or "")
        return found[which % len(found) :][:1] if found else []

    def gone(self, key: Name) -> None:
        """Remove a pod if there is one."""
        found = self.world.state.pods.get(key)
        if found is not None:
            self.world.state.remove(found)

    def held_back(self, key: Key) -> bool:
        """Return whether the entry's last message forbids an eviction for now, whatever the room."""
        reports = (
            each
            for each in reversed(self.world.effects)
            if isinstance(each, ReportPending) and each.key == key
        )
        message = next((each.message for each in reports), "")
        return "backing off" in message or "rate of" in message

    def members(self, key: Key) -> list[Name]:
        """Return the names of the pods of an entry."""
        if not isinstance(key, GroupKey):
            return [key]
        return [(key.namespace, name) for name in self.world.state.members(key)]

    def entries(self) -> list[Any]:
        """Return all entries that wait."""
        found: dict[Any, None] = {}
        for key, each in self.world.state.pods.items():
            if each.spec.nodeName or each.finished or each.spec.schedulerName != PODIUM_SCHEDULER:
                continue
            of = each.spec.schedulingGroup
            found[
                key if of is None else GroupKey(native=True, namespace=key[0], name=of.podGroupName or "")
            ] = None
        return list(found)

    def size(self, name: str) -> int:
        """Return the cpus of a node, 0 if it does not exist."""
        found = self.world.state.nodes.get(name)
        return int(str((found.status.allocatable or {})["cpu"])) if found is not None and found.status else 0

    def collect(self, name: str) -> None:
        """Remove the pods of a node."""
        for each in list(self.world.state.pods.values()):
            if each.spec.nodeName == name:
                self.world.state.remove(each)

    @invariant()
    def no_entry_waits_that_a_change_helped(self) -> None:
        """An entry without a place would not fit now either: hints woke each entry that a change helped."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for key in world.scheduler.queue.keys(EntryPhase.UNSCHEDULABLE):
            if any(world.state.pods[each].metadata.uid in world.binding for each in self.members(key)):
                # Its node was removed during its bind, whose result is awaited.
                continue
            decision = world.scheduler.engine.decide(key, world.moment.now)
            assert decision.outcome is not Outcome.FITS, f"{key} fits and was not woken"
            if decision.chosen is not None and world.live.mode is PreemptionMode.ENFORCE:
                assert self.held_back(key), f"{key} could preempt and was not woken"

    @invariant()
    def arrays_are_those_of_the_cluster(self) -> None:
        """The comparer raises no false alarm, whatever is in flight."""
        if hasattr(self, "world"):
            scheduler = self.world.scheduler
            comparer = Comparer(scheduler.engine, lambda: scheduler.binding)
            assert comparer.step(1) + comparer.step(len(PODS)) == []

    @invariant()
    def nothing_is_overcommitted(self) -> None:
        """No existing node is over its capacity."""
        if hasattr(self, "world"):
            assert not [name for name in self.world.overcommitted() if name in self.world.state.nodes]


Whatever.TestCase.settings = settings(stateful_step_count=40)
test_whatever_happens = Whatever.TestCase


def test_a_slice_waits_when_a_nominated_node_leaves_its_rack() -> None:
    """Its members are bound together, once the node is back in the rack."""
    state, free = Whatever(), {"topology": "", "annotations": {}}
    state.begin(nodes=[(2, {RACK: name}) for name in ("a", "a", "b")], constraint=free, grouped=False)
    slices = {"topology": "", "annotations": {SLICE_SIZE: "2", SLICE_TOPOLOGY: RACK}}
    members = {"p8", "p9"}
    state.create_gang(key="h", members=members, priority=20, size=2, slow="evictions", constraint=slices)

    def bound() -> set[str | None]:
        return {state.world.state.pods[NS, name].spec.nodeName for name in members}

    for labels, nodes in (({}, {None}), ({RACK: "a"}, {"n1", "n2"})):
        state.put_node(name="n2", size=2, labels=labels, closed=False)
        state.all_comes_to_rest()
        assert bound() == nodes
