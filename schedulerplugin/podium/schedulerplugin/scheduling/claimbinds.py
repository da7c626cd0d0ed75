"""Binds the claims of placed pods before the pods: write, wait beside the queue, then bind the pods.

The pods of one decision are assumed on their nodes, and their claims on volumes, space and devices. Then the
claims are written: a volume names its claim, a claim names the node for which a provisioner creates a volume,
or a claim has its devices and the pods that use them. The decision waits until every claim is bound, or has
its devices in the API server, while other entries are tried. Only then are its pods bound, so a gang starts
with all of its volumes and devices or not at all.

A claim for extended resources is created in the first step, and named in the status of its pod. An undone
decision deletes it.

Each step may fail: a write is refused, a provisioner gives up, a pod or its node goes, a claim is bound to a
volume that the node cannot reach, a preemptor of higher priority takes the room, or the time is over. Then
the pods of the decision are forgotten at once, and what was written is withdrawn, except from claims that are
bound to volumes by then. Once the withdrawal is seen, the entry is tried again. It goes where its bound
volumes can be reached, and if a provisioner gave up, it avoids that node for some minutes.

A new leader has no such state. It finds what was written, and decides with it: a claim that names a node is
provisioned for that node, a volume that names a claim serves this claim, and a claim keeps its devices.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from itertools import chain
from typing import NamedTuple

from podium.api.core import SCHEDULER_ERROR
from podium.api.devices import ResourceClaim
from podium.planner.indexes import discard
from podium.planner.plugins.devices.claims import ReservedClaim, StaleClaim, failed_device
from podium.planner.plugins.volumes.claims import UNBOUND
from podium.planner.plugins.volumes.ledger import ProvisionedVolume
from podium.planner.settings import LiveSettings
from podium.schedulerplugin.scheduling.claimplans import (
    ClaimKey,
    ClaimPlan,
    PodClaimsPlan,
    Stranded,
    claim_of,
    is_done,
    is_seen,
    key_of,
    may_lack_claim,
    plan_of,
)
from podium.schedulerplugin.scheduling.effects import (
    Bind,
    BindClaims,
    Effect,
    Key,
    Moment,
    PodRef,
    ReleaseClaims,
    ReportPending,
)
from podium.schedulerplugin.scheduling.entrypods import EntryPods
from podium.schedulerplugin.scheduling.live_engine import LiveEngine
from podium.text import listed

# For so long a withdrawal may take to be seen; then the entry is tried in any case.
_SEEN_SECONDS = 10.0
# After an error the decision is looked at again when it changes, or after so long.
_AGAIN_SECONDS = 60.0


class ClaimPhase(Enum):
    """The steps of a decision whose claims are bound first."""

    WRITING = "the claims are being written"
    WAITING = "controllers bind the claims"
    RELEASING = "what was written is being withdrawn"
    SETTLING = "the withdrawal has to be seen"


class ClaimBind:
    """The pods of one decision, and the plan of all their claims."""

    __slots__ = ("bind", "left", "phase", "plan", "priority", "seen", "until", "why")

    def __init__(self, bind: Bind, plan: PodClaimsPlan, priority: int, until: float) -> None:
        self.bind = bind
        self.plan = plan
        self.priority = priority
        # The end of the current step, whatever happens, in seconds of the steady clock.
        self.until = until
        self.phase = ClaimPhase.WRITING
        # The claims that are not bound.
        self.left = {key_of(claim) for claim in plan.claims}
        # The claims for extended resources that were known since they were created.
        self.seen: set[ClaimKey] = set()
        # Why it failed, empty if it did not.
        self.why = ""


class ClaimChanges(NamedTuple):
    """The changes since the last look: claims, those that lost their selected node, and entries."""

    claims: Collection[ClaimKey] = ()
    given_up: Collection[ClaimKey] = ()
    keys: Collection[Key] = ()


class ClaimBinds:
    """The decisions that wait for claims; the shell answers with `written` and `released`."""

    def __init__(
        self,
        engine: LiveEngine,
        entries: EntryPods,
        undone: Callable[[Bind], None],
        live: Callable[[], LiveSettings],
    ) -> None:
        """`undone` is called with each bind whose pods are not bound after all."""
        self._engine = engine
        self._entries = entries
        self._undone = undone
        self._live = live
        self._last = 0
        # By number, the oldest first.
        self._open: dict[int, ClaimBind] = {}
        self._of_claim: dict[ClaimKey, set[int]] = {}
        self._of_key: dict[Key, set[int]] = {}
        # Those to look at without a change, and those in SETTLING.
        self._touched: set[int] = set()
        self._settling: set[int] = set()

    def __len__(self) -> int:
        return len(self._open)

    def start(self, bind: Bind, priority: int, moment: Moment) -> Effect | None:
        """Begin for pods that are assumed already; return their bind if no claim has to be bound.

        None if the claims of a pod find no volumes or devices beside those of the others; the pods are
        forgotten.
        """
        engine = self._engine
        rows = list(self._entries.rows(pod for pod, _ in bind.pods))
        delayed = [row for row in rows if engine.has_delayed_claims(row)]
        using = [row for row in rows if engine.devices.known.uses(row)]
        if not delayed and not using:
            return bind
        plans = [volumes for row in delayed if (volumes := engine.volume_plan(row)) is not None]
        reserved = [claims for row in using if (claims := engine.reservations(row)) is not None]
        if len(plans) < len(delayed) or len(reserved) < len(using):
            self._undone(bind)
            return None
        plan = plan_of(plans, chain.from_iterable(reserved))
        if not plan.claims:
            return bind
        engine.hold_claims(plan)
        engine.yield_room((pod for pod, _ in bind.pods), priority)
        self._add(bind, plan, priority, moment.seconds + self._live().bind_timeout_seconds)
        return BindClaims(bind.key, self._last, plan.claims)

    def _add(self, bind: Bind, plan: PodClaimsPlan, priority: int, until: float) -> ClaimBind:
        """Add a decision under the next number."""
        self._last += 1
        pending = self._open[self._last] = ClaimBind(bind, plan, priority, until)
        self._of_key.setdefault(bind.key, set()).add(self._last)
        for claim in plan.claims:
            self._of_claim.setdefault(key_of(claim), set()).add(self._last)
        return pending

    def stranded(self, rows: Collection[int]) -> Stranded:
        """Return the claims with devices whose pods (rows) found no node that can use them."""
        stranded = self._engine.devices.known.stranded(rows)
        return tuple(claim for claim in stranded if key_of(claim) not in self._of_claim)

    def release_stranded(self, key: Key, stranded: Stranded, moment: Moment) -> ReleaseClaims:
        """Give back the devices of stranded claims of an entry."""
        plan = plan_of((), stranded)
        self._engine.hold_claims(plan)
        pending = self._add(Bind(key, ()), plan, 0, moment.seconds + _SEEN_SECONDS)
        pending.why, pending.phase = "its devices are of no use", ClaimPhase.RELEASING
        return ReleaseClaims(key, self._last, plan.claims)

    def written(self, number: int, why: str) -> None:
        """Record that the writes of a decision ended; `why` one of them failed is empty if none did."""
        pending = self._open[number]
        pending.phase = ClaimPhase.WAITING
        if why:
            self._stop(number, why)
        self._touched.add(number)

    def released(self, number: int, moment: Moment) -> None:
        """Record that the withdrawal of a decision's writes ended, even if not all of them were withdrawn."""
        pending = self._open[number]
        pending.phase, pending.until = ClaimPhase.SETTLING, moment.seconds + _SEEN_SECONDS
        self._settling.add(number)
        self._touched.add(number)

    def stop_below(self, priority: int, nodes: Iterable[int]) -> None:
        """Stop the decisions of lower priority with a pod on one of some nodes (rows)."""
        if not self._engine.yields(priority):
            return
        names = {self._engine.snapshot.node_name(row) for row in nodes}
        for number, pending in self._open.items():
            if pending.priority < priority and any(node in names for _, node in pending.bind.pods):
                self._stop(number, "a node was taken by pods of higher priority")

    def has_work(self, now: float) -> bool:
        """Return whether `advance` would do something without a change."""
        due = self.due()
        return bool(self._touched) or (due is not None and due <= now)

    def due(self) -> float | None:
        """Return the end of the step that ends first; None if none has an end."""
        # All wait equally long.
        first = next((pending.until for pending in self._open.values() if not pending.why), None)
        settling = (self._open[number].until for number in self._settling)
        return min(chain(settling, () if first is None else (first,)), default=None)

    def advance(self, changes: ClaimChanges, effects: list[Effect], moment: Moment) -> None:
        """Look at the decisions that changed, or whose time is over; add what is to be done next.

        An error concerns one of them, which is looked at again later; the others come next.
        """
        entire, self._touched = self._touched, set()
        for key in changes.keys:
            entire |= self._of_key.get(key, set())
        entire.update(self._overdue(moment.seconds))
        by_claim = (self._of_claim.get(claim, set()) for claim in (*changes.claims, *changes.given_up))
        left = sorted(entire.union(*by_claim) & self._open.keys(), reverse=True)
        while left:
            number = left.pop()
            pending = self._open[number]
            try:
                if not pending.why:
                    why = self._claims_obstacle(pending, changes.given_up)
                    # A look at all pods for each of a thousand claims would take seconds.
                    if not why and (number in entire or not pending.left):
                        why = self._pods_obstacle(pending, moment.seconds)
                    if why:
                        self._stop(number, why, changes.given_up, moment.seconds)
                effects += self._proceed(number, moment.seconds)
            except BaseException:
                pending.until = moment.seconds + _AGAIN_SECONDS
                self._touched.update(left)
                raise

    def _overdue(self, now: float) -> Iterator[int]:
        due = self.due()
        if due is not None and due <= now:
            for number, pending in self._open.items():
                if pending.until <= now and (not pending.why or number in self._settling):
                    yield number

    def _proceed(self, number: int, now: float) -> list[Effect]:
        """Begin the next step of a decision if it may begin; return its effects."""
        pending = self._open[number]
        bind = pending.bind
        if pending.phase is ClaimPhase.WAITING and not pending.why and not pending.left:
            self._end(number)
            return [bind]
        if pending.phase is ClaimPhase.WAITING and pending.why:
            # A write may be stored that is not seen yet.
            written = tuple(self._withdrawn(number))
            pending.phase = ClaimPhase.RELEASING
            return [ReleaseClaims(bind.key, number, written)]
        if pending.phase is not ClaimPhase.SETTLING:
            return []
        leaving = self._withdrawn(number)
        if pending.until > now and any(is_seen(self._engine.snapshot, plan) for plan in leaving):
            return []
        self._end(number)
        self._undone(bind)
        pods = tuple(pod for pod, _ in bind.pods if self._entries.row(pod) is not None)
        message = f"binding claims failed: {pending.why}"
        return [ReportPending(bind.key, pods, SCHEDULER_ERROR, message)] if pods else []

    def _claims_obstacle(self, pending: ClaimBind, given_up: Collection[ClaimKey]) -> str:
        """Return why the claims of a decision cannot be bound; empty if they may be."""
        for plan in pending.plan.claims:
            key, claim = key_of(plan), claim_of(self._engine.snapshot, plan)
            if claim is None and (key in pending.seen or not may_lack_claim(plan)):
                return f"claim {plan.claim[1]} is gone"
            if claim is not None and isinstance(plan, ReservedClaim) and plan.created is not None:
                pending.seen.add(key)
            allocated = claim if isinstance(plan, ReservedClaim) else None
            if isinstance(allocated, ResourceClaim) and (failed := failed_device(allocated)):
                return f"claim {plan.claim[1]}: {failed}"
            if is_done(claim, plan):
                pending.left.discard(key)
            else:
                pending.left.add(key)
            if key in given_up and key in pending.left and isinstance(plan, ProvisionedVolume):
                return f"no volume was provisioned for claim {plan.claim[1]} on node {plan.node}"
        return ""

    def _pods_obstacle(self, pending: ClaimBind, now: float) -> str:
        """Return why the pods of a decision cannot be bound to their nodes; empty if they may be."""
        why = next(filter(None, (self._lost(pod, node) for pod, node in pending.bind.pods)), "")
        if why or pending.until > now:
            return why
        limit = f"within {self._live().bind_timeout_seconds:g} s"
        if pending.left:
            return f"not bound {limit}: {listed(sorted(claim.name for claim in pending.left))}"
        # Another leader may have written the same before, so the claims are bound while a write hangs.
        return f"a write did not end {limit}" if pending.phase is ClaimPhase.WRITING else ""

    def _lost(self, pod: PodRef, node: str) -> str:
        """Return why a pod cannot have its node any more; empty if it can."""
        snapshot = self._engine.snapshot
        row, node_row = self._entries.row(pod), snapshot.row.get(node)
        if row is None:
            return f"pod {pod.name} is gone"
        if node_row is None or snapshot.node.item(row) != node_row:
            return f"node {node} is gone"
        shape = snapshot.shape_at(row)
        if shape.refused:
            # The controller may have named the volume in the claim, and not completed the binding.
            return "" if shape.refused == UNBOUND else shape.refused
        why = self._engine.unreached(shape, node_row)
        return f"node {node} cannot reach the volumes of pod {pod.name}: {why}" if why else ""

    def _stop(self, number: int, why: str, given_up: Collection[ClaimKey] = (), now: float = 0.0) -> None:
        """Forget the pods of a decision that failed, so that others can have their room."""
        pending, engine = self._open[number], self._engine
        if pending.why:
            return
        pending.why = why
        self._touched.add(number)
        engine.keep_room(pod for pod, _ in pending.bind.pods)
        nodes = {volume.node for volume in pending.plan.volumes.provisioned if key_of(volume) in given_up}
        for pod, node in pending.bind.pods:
            row, node_row = self._entries.row(pod), engine.snapshot.row.get(node)
            if row is not None and node in nodes:
                engine.avoid_node(row, node, now)
            if row is not None and node_row == engine.snapshot.node.item(row):
                engine.forget_pod(row)

    def _end(self, number: int) -> None:
        """Delete a decision; its plan is not held any more."""
        pending = self._open.pop(number)
        self._settling.discard(number)
        discard(self._of_key, pending.bind.key, number)
        for plan in pending.plan.claims:
            discard(self._of_claim, key_of(plan), number)
        self._engine.keep_room(pod for pod, _ in pending.bind.pods)
        self._engine.release_claims(pending.plan)

    def _withdrawn(self, number: int) -> Iterator[ClaimPlan]:
        """Yield the writes of a decision that are to be withdrawn.

        A volume's write stays if its claim is bound, or if another decision waits for the claim. Devices are
        kept for other pods on nodes, but not for the pods of this decision.
        """
        pending = self._open[number]
        # A node that came back has its pods again until they are undone.
        own = set(self._entries.rows(pod for pod, _ in pending.bind.pods))
        for plan in pending.plan.claims:
            claim = claim_of(self._engine.snapshot, plan)
            if claim is None and not may_lack_claim(plan):
                continue
            if isinstance(plan, StaleClaim):
                yield plan
                continue
            if isinstance(plan, ReservedClaim):
                unneeded = self._engine.devices.known.unneeded(plan, own)
                if unneeded is not None:
                    yield unneeded
                continue
            others = self._of_claim[key_of(plan)] - {number}
            if all(self._open[other].why for other in others) and not is_done(claim, plan):
                yield plan
