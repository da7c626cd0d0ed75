"""Plans what Podium would have done for the pods of other schedulers, and compares that with what they did.

A pod that another scheduler finds no place for is planned for as if it were Podium's. The plan is kept until
that scheduler has acted or its time is over. Its action is read from what every scheduler writes: the node it
nominated, and the condition on the pods that it marked.

Both must have seen the same cluster, and a scheduler reports a pod without a place and marks its victims at
the same moment. So the shadow follows the cluster with a State of its own, in which victims stay as they were
for some seconds. A plan that is made later than that is too late, says so, and does not count. The shadow has
an engine of its own, too. The live engine counts decisions of Podium that are not written yet, keeps to the
nodes reserved for it and evicts only its own pods. Only an installation that wants a shadow pays for this in
memory.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from podium.api.core import POD_SCHEDULED
from podium.api.membership import GroupKey, membership
from podium.api.records import Agreement, PlanMode, RecordedPlan
from podium.api.schedulable import Schedulable
from podium.api.times import seconds
from podium.cluster.reader import Name, name_of
from podium.cluster.state import ClusterState, Readable
from podium.errors import PodiumError
from podium.groups.trees import group_at, members_below, root_key
from podium.planner.deadline import Deadline, DecisionTimeoutError
from podium.planner.engine import Engine
from podium.planner.preemption.decision import Decision
from podium.planner.preemption.intents import DISRUPTION_TARGET, is_preempted
from podium.planner.settings import Settings
from podium.schedulerplugin.history.planned import planned
from podium.schedulerplugin.scheduling.effects import Evict, Key, Moment
from podium.schedulerplugin.scheduling.messages import UNSCHEDULABLE
from podium.schedulerplugin.scheduling.plans import eviction, preemptor

# A plan may take a tenth of a second of the loop that also schedules.
_PAUSE_SECONDS = 0.5
# A victim stays as it was for this long after it was marked: a scheduler's writes arrive in any order.
_HOLD_SECONDS = 5.0
# By then the other scheduler has preempted, or will not.
_PATIENCE_SECONDS = 60.0
# The most marked pods that are remembered until a plan is compared with them.
_MARKS = 8192


class _VictimMark(NamedTuple):
    """A pod that another scheduler marked for deletion."""

    name: Name
    node: str
    group: GroupKey | None
    priority: int


class _PendingComparison(NamedTuple):
    """A plan that waits for the other scheduler; `victims` are UIDs, `known` those that were gone before."""

    plan: RecordedPlan
    victims: frozenset[str]
    known: frozenset[str]
    until: float


class Shadow:
    """Plans for the pods of every scheduler but `own`; `apply` observes a State."""

    def __init__(
        self,
        view: ClusterState,
        settings: Settings,
        minor: int,
        own: str,
        *,
        deadline: Callable[[], Deadline],
    ) -> None:
        """`settings` are Podium's, except for the pods that may be evicted and the nodes that pods may use.

        `deadline` starts the time budget of one plan.
        """
        self._deadline = deadline
        self._view = view
        self._state = view.copy()
        self._engine = Engine(self._state, settings._replace(evict_only=None, reserved=""), minor)
        self._state.observe(self._engine.apply)
        self._own = own
        self._next = float("-inf")
        self._waiting: dict[Key, None] = {}
        self._made: dict[Key, _PendingComparison] = {}
        self._nodes: dict[Key, set[str]] = {}
        # Entries that were planned for, or are of no interest, until they wait no more.
        self._done: set[Key] = set()
        # Entries that wait no more, and whether they are gone.
        self._over: dict[Key, bool] = {}
        self._marks: dict[str, _VictimMark] = {}
        # Pods that stay as they were (victims, and pods still to be planned for): their present state, and
        # until when they stay. `_known` are the UIDs of victims for which this is over.
        self._held: dict[Name, Schedulable | None] = {}
        self._until: dict[Name, float] = {}
        self._known: dict[str, None] = {}

    def initialize(self) -> None:
        """Read the pods that wait already, and the pods that were marked before."""
        for pod in self._view.pods.values():
            self._record_change(None, pod)
        self._known.update(dict.fromkeys(self._marks))

    def apply(self, before: Readable | None, after: Readable | None) -> None:
        """Apply one change of an object."""
        self._record_change(before, after)
        self._state.serve_native(self._view.native_served)
        changed = before if after is None else after
        if isinstance(changed, Schedulable):
            name = name_of(changed)
            stays = self._key(changed) in self._waiting or self._tells_to_go(before, changed)
            if name in self._held or (stays and name in self._state.pods):
                self._held[name] = after if isinstance(after, Schedulable) else None
                return
        if after is not None:
            self._state.apply(after)
        elif before is not None:
            self._state.remove(before)

    def due(self) -> float | None:
        """Return when `step` has work (seconds of the steady clock); None: when something changes."""
        if len(self._until) < len(self._held) or not self._over.keys() <= self._waiting.keys():
            return float("-inf")
        times = [*(made.until for made in self._made.values()), *self._until.values()]
        if self._waiting:
            times.append(self._next)
        return min(times, default=None)

    def step(self, moment: Moment) -> list[RecordedPlan]:
        """Plan for one waiting entry; return the plans for which the other scheduler's action is known."""
        now, effects = moment.seconds, []
        for name in self._held:
            self._until.setdefault(name, now + _HOLD_SECONDS)
        if self._waiting and now >= self._next:
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._next = now + _PAUSE_SECONDS
            self._plan_entry(key, moment)
            self._until.update((name, now) for name in self._pod_names(key) if name in self._until)
        for key in [key for key in self._over if key not in self._waiting]:
            effects += self._compare(key, gone=self._over.pop(key))
            self._done.discard(key)
            self._nodes.pop(key, None)
        for key in [key for key, made in self._made.items() if made.until <= now]:
            effects += self._compare(key, gone=False)
        for name in [name for name, until in self._until.items() if until <= now]:
            self._let_go(name)
        return effects

    def _pod_names(self, key: Key) -> list[Name]:
        """Return the names of the pods of an entry."""
        if isinstance(key, GroupKey):
            return [name_of(pod) for pod in members_below(self._state, key)]
        return [key]

    def _let_go(self, name: Name) -> None:
        """Apply the present state of a pod; an entry that waits no more is not planned for."""
        del self._until[name]
        after, before = self._held.pop(name), self._state.pods.get(name)
        if isinstance(before, Schedulable):
            key = self._key(before)
            if key in self._over:
                self._waiting.pop(key, None)
            if before.spec.nodeName:
                self._known[before.metadata.uid or ""] = None
                if len(self._known) > _MARKS:
                    del self._known[next(iter(self._known))]
        if after is not None:
            self._state.apply(after)
        elif before is not None:
            self._state.remove(before)

    def _plan_entry(self, key: Key, moment: Moment) -> None:
        """Plan for one entry, unless it cannot be evaluated in time or does not wait for room."""
        self._done.add(key)
        try:
            decision = self._engine.decide(key, moment.now, deadline=self._deadline())
        except (PodiumError, DecisionTimeoutError):
            return
        if decision.target is None:
            return
        evict = self._evict(key, decision, seconds(moment.now))
        self._made[key] = _PendingComparison(
            planned(evict, self._state, moment.now, PlanMode.SHADOW),
            frozenset(pod.uid for pod in evict.victims),
            frozenset(self._known),
            moment.seconds + _PATIENCE_SECONDS,
        )

    def _evict(self, key: Key, decision: Decision, now: int) -> Evict:
        """Return the planned preemption, without victims if none was planned."""
        if decision.chosen is not None:
            return eviction(self._engine, key, decision, now, "")
        assert decision.target is not None
        return Evict(key, preemptor(self._engine, decision.target), (), (), "", "")

    def _compare(self, key: Key, *, gone: bool) -> list[RecordedPlan]:
        """Return the plan for an entry with the other scheduler's action; empty if neither preempts."""
        made = self._made.pop(key, None)
        if made is None:
            return []
        theirs = self._attributed(key, made.plan.preemptor.priority)
        agreement = _agreement(made, theirs, gone=gone)
        for uid, mark in theirs.items():
            del self._marks[uid]
            # These victims are gone for the next plan.
            if mark.name in self._until:
                self._until[mark.name] = float("-inf")
        if agreement is None:
            return []
        return [msgspec.structs.replace(made.plan, agreement=agreement, theirPods=len(theirs))]

    def _attributed(self, key: Key, priority: int) -> dict[str, _VictimMark]:
        """Return the victims of an entry: marked pods on its nominated nodes, with their whole groups."""
        nodes = self._nodes.get(key, ())
        lower = {uid: mark for uid, mark in self._marks.items() if mark.priority < priority}
        groups = {mark.group for mark in lower.values() if mark.node in nodes and mark.group is not None}
        return {uid: mark for uid, mark in lower.items() if mark.node in nodes or mark.group in groups}

    def _record_change(self, before: object, after: object) -> None:
        """Record what a change of a pod reveals of its scheduler."""
        pod = before if after is None else after
        if not isinstance(pod, Schedulable):
            return
        if self._tells_to_go(before, pod):
            self._mark(pod)
        if pod.scheduler == self._own:
            return
        waited = isinstance(before, Schedulable) and not before.spec.nodeName
        key = self._key(pod)
        if after is None or pod.spec.nodeName:
            if waited and (key in self._done or key in self._waiting):
                self._over[key] = after is None
            return
        if not _is_refused(pod):
            return
        node = pod.status.nominatedNodeName if pod.status is not None else None
        if node:
            self._nodes.setdefault(key, set()).add(node)
        if key not in self._done:
            self._waiting[key] = None

    def _tells_to_go(self, before: object, pod: Schedulable) -> bool:
        """Return whether another scheduler marks a pod for deletion in this change."""
        if not is_preempted(pod) or (isinstance(before, Schedulable) and is_preempted(before)):
            return False
        condition = pod.status.condition(DISRUPTION_TARGET) if pod.status is not None else None
        return condition is not None and not (condition.message or "").startswith(f"{self._own}:")

    def _mark(self, pod: Schedulable) -> None:
        """Remember a pod that is marked for deletion; it may be gone when a plan is compared."""
        key = self._key(pod)
        group = group_at(self._view, key) if isinstance(key, GroupKey) else None
        priority = group.priority if group is not None else pod.spec.priority
        self._marks[pod.metadata.uid or ""] = _VictimMark(
            name_of(pod), pod.spec.nodeName or "", key if isinstance(key, GroupKey) else None, priority or 0
        )
        if len(self._marks) > _MARKS:
            del self._marks[next(iter(self._marks))]

    def _key(self, pod: Schedulable) -> Key:
        found = membership(pod, native_served=self._view.native_served)
        return name_of(pod) if found is None else root_key(self._view, found)


def _agreement(
    made: _PendingComparison, theirs: Mapping[str, _VictimMark], *, gone: bool
) -> Agreement | None:
    """Return the agreement of a plan with the other scheduler; None if neither preempts."""
    if not made.victims and not theirs:
        return None
    if not made.known.isdisjoint(theirs):
        return Agreement.TOO_LATE
    if not theirs:
        return Agreement.UNKNOWN if gone else Agreement.THEY_DID_NOT
    if not made.victims:
        return Agreement.WE_WOULD_NOT
    if made.victims == theirs.keys():
        return Agreement.SAME
    priorities = sorted(unit.priority for unit in made.plan.units for _ in range(unit.pods))
    alike = priorities == sorted(mark.priority for mark in theirs.values())
    return Agreement.ALIKE if alike else Agreement.OTHER_VICTIMS


def _is_refused(pod: Schedulable) -> bool:
    """Return whether the scheduler of a pod found no place for it, and it still wants one."""
    condition = pod.status.condition(POD_SCHEDULED) if pod.status is not None else None
    refused = condition is not None and (condition.status, condition.reason) == ("False", UNSCHEDULABLE)
    return refused and pod.metadata.deletionTimestamp is None and not pod.finished
