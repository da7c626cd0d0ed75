"""The nodes where the device claims of a pod are available, and the devices that assumed pods count on.

An answer for a node holds until its devices are used or freed, or slices and classes change. So each shape
keeps its answers by node, and only nodes that changed since are asked again. A pod that is assumed on a node
gets its devices there at once, and later pods see them in use. A pod that is taken away in a trial frees the
devices of its claims, as `index` says: a preemption may free devices.

Where a class provides extended resources of a pod, the pod needs one more claim, which depends on the node:
its requests are those for the resources that the node itself does not offer. So nodes are asked in groups.

A claim has a limited number of consumers, pods that are assumed included. A claim without a place for one
more refuses every node, and preemption may free a place.

A claim or class that no allocator can read refuses every node, with the allocator's text. A tenant can write
a claim whose devices take for ever to find, and selectors that take a second for each device. So a search has
a number of steps and of units for selectors, and nodes that would need more are refused. kube-scheduler gives
up after ten seconds. A decision may end at its deadline before: results for devices are kept, so the next
decision goes on from there.

Source: Filter and Reserve of the plugin DynamicResources of kube-scheduler 1.36 and 1.37, which never frees a
device for a preemptor.
"""

import contextlib
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import ClassVar

import numpy as np

from kubecel import DeviceResults, SelectorCompileError
from podium import jsontext
from podium.api.devices import Allocation, Device, DeviceClaim, DeviceClaimSpec, DeviceRequest, ResourceClaim
from podium.api.meta import ObjectMeta
from podium.api.selectors import NodeRequirement, node_terms
from podium.planner.arrays import Bools, Int32s, Int64s, Rows, grown
from podium.planner.deadline import NEVER, UnansweredDecisionError
from podium.planner.filters.nodes import StaticFilter, any_term, unmet_terms
from podium.planner.framework import NodeFilter
from podium.planner.plugins.devices.allocator import Allocator
from podium.planner.plugins.devices.claims import (
    ALTERNATIVES_WEIGHT,
    ANYWHERE,
    BEST_ALTERNATIVES,
    AssumedClaim,
    ClaimNeed,
    ExtendedNeed,
    NeedsOf,
    alternative_points,
    claim_key,
    extended_claim_need,
)
from podium.planner.plugins.devices.gates import AllocationError, UnansweredAllocationError, default_gates
from podium.planner.plugins.devices.index import DeviceIndex
from podium.planner.plugins.devices.inventory import drivers_devices
from podium.planner.plugins.devices.requests import Demand
from podium.planner.plugins.devices.search import SearchLimits
from podium.planner.plugins.devices.usage import DeviceUsage
from podium.planner.plugins.devices.writes import ClaimReservation, StaleDeletion
from podium.planner.reprieve import PlacedMembers, Rivals
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

UNAVAILABLE, UNALLOCATABLE = "resourceclaim not available on the node", "cannot allocate all claims"
# The text of kube-scheduler, which never writes it: its own binds of further pods fail again and again.
IN_USE = "resourceclaim in use"
# A pod that has been near its bind before, on a node that needs no claim for it.
NAMED = "the status of the pod names a claim, but device plugins offer its resources"
# The most steps of the search on one node, and on all nodes that are asked together; a step takes some
# microseconds.
NODE_STEPS, ALL_STEPS = 20_000, 100_000
# The most effort of selectors for one node, and for some claims on all nodes, in microseconds, roughly. The
# usual selector takes ten for a device.
NODE_EFFORT, ALL_EFFORT = 1_000_000, 30_000_000
# The most shapes whose answers are kept.
_SHAPES = 256
# The character before and after the number of a claim in a reason. No name has it.
_MARK = "\0"
_OWN = "of the pod"
_DECODER = jsontext.Decoder(DeviceClaim)
_NOTHING_USED, _UNDECIDED = DeviceUsage(), Allocation()


class AllocatedClaimsFilter(StaticFilter):
    """The nodes that can use the devices of the pod's allocated claims."""

    REASON = UNAVAILABLE

    _needs: NeedsOf

    def reads(self, shape: Shape) -> tuple[tuple[NodeRequirement, ...] | None, ...]:
        """Return the terms of the allocated claims."""
        return self._needs(shape).node_constraints

    def unmet(self, shape: Shape, nodes: Bools) -> str:
        """Return where the devices of the first claim are that some nodes do not reach."""
        for terms in self.reads(shape):
            if terms is not None and (nodes & ~any_term(self._snapshot, terms)).any():
                return f"{unmet_terms(self._snapshot, nodes, terms)} (for the devices of a claim)"
        return ""

    def _feasible(self, shape: Shape) -> Bools:
        passes = np.ones(len(self._snapshot.alive), np.bool_)
        for terms in self.reads(shape):
            if terms is not None:
                passes &= any_term(self._snapshot, terms)
        return passes


class _NodeAnswers:
    """For some requests, by node row: the number of the reason against it, 0 for none, -1 if not asked yet.

    Claims with equal requests have the same answers. So a reason has a mark in place of a claim's name.
    `points` are those of the alternatives that the claims would take on a node that passes.
    """

    __slots__ = ("_numbered", "_reasons", "demand", "effort", "numbers", "points", "seen", "unanswered")

    def __init__(self, demand: Demand, seen: int) -> None:
        self.demand = demand
        self.numbers: Int32s = np.zeros(0, np.int32)
        self.points: Int32s = np.zeros(0, np.int32)
        self.seen = seen
        # The effort that selectors may still take.
        self.effort = ALL_EFFORT
        # The nodes that are refused for a selector without a result, until a decision asks again.
        self.unanswered: list[int] = []
        self._reasons = [""]
        self._numbered = {"": 0}

    def number(self, reason: str) -> int:
        """Return the number of a reason."""
        number = self._numbered.setdefault(reason, len(self._reasons))
        if number == len(self._reasons):
            self._reasons.append(reason)
        return number

    def reason(self, number: int, needs: tuple[ClaimNeed, ...]) -> str:
        """Return a reason for the claims of some needs; a claim of one pod alone is not known by name."""
        return _with_claim_names(self._reasons[number], needs)


class DevicesFilter(NodeFilter):
    """The nodes with free devices for the claims of a pod that have none yet."""

    COUNTS = SEARCHES = True
    AWAITS = "waiting for the claims of pods that are gone to release their devices"
    NEVER_FREED: ClassVar = dict.fromkeys(
        (UNALLOCATABLE, IN_USE), "preempts nothing for devices (kubernetes/enhancements#5690)"
    )

    def __init__(
        self, snapshot: Snapshot, known: DeviceIndex, needs: NeedsOf, *, freed_by_pods: bool
    ) -> None:
        self.allocated = AllocatedClaimsFilter(snapshot, needs)
        self.static = (self.allocated,)
        self._snapshot = snapshot
        self._known = known
        self._needs = needs
        self._known.freed_by_pods = freed_by_pods
        self._limits = SearchLimits(0, 0)
        self._allocator: Allocator | None = None
        self._results = DeviceResults(snapshot.minor, ())
        self._version = (-1, -1)
        # By the requests of the claims, and whether no device counts as in use.
        self._answers: dict[tuple[tuple[bytes, ...], bool], _NodeAnswers] = {}
        self._plans: dict[int, tuple[AssumedClaim, ...]] = {}
        # The plans of pods that left their nodes in a trial, the latest last.
        self._left: dict[int, list[tuple[AssumedClaim, ...]]] = {}
        snapshot.observe(self._moved, many=self._moved_many)
        for pod_row in np.flatnonzero(snapshot.node >= 0).tolist():
            self._moved(pod_row, snapshot.shape.item(pod_row), snapshot.node.item(pod_row), 1)

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows that pass for a shape."""
        if self._in_use(shape):
            return np.zeros(len(self._snapshot.alive), np.bool_)
        passes, needs = self._open(shape)
        for node_needs, rows in self._groups(shape, needs):
            if node_needs is None:
                passes &= ~rows
            elif node_needs:
                asked = np.flatnonzero(passes & rows)
                passes[asked] = self._fresh(node_needs, asked).numbers[asked] == 0
        return passes

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, None if it passes."""
        if self._in_use(shape):
            return IN_USE
        passes, needs = self._open(shape)
        if not passes.item(row):
            return UNAVAILABLE
        node_needs = self._with_extended(shape, needs, self._extended_at(shape, row))
        if node_needs is None:
            return NAMED
        if not node_needs:
            return None
        answers = self._fresh(node_needs, np.array((row,), np.intp))
        return answers.reason(answers.numbers.item(row), node_needs) or None

    def refused_by_reason(self, shape: Shape, rows: Bools) -> dict[str, Bools]:
        """Return the rows by reason."""
        if self._in_use(shape):
            return {IN_USE: rows}
        passes, needs = self._open(shape)
        refused = {UNAVAILABLE: rows & ~passes}
        for node_needs, group in self._groups(shape, needs):
            left = rows & passes & group
            if node_needs is None:
                refused[NAMED] = left
            elif node_needs:
                answers = self._fresh(node_needs, np.flatnonzero(left))
                numbers = answers.numbers
                for number in np.unique(numbers[left & (numbers > 0)]).tolist():
                    why = answers.reason(number, node_needs)
                    refused[why] = refused.get(why, False) | (left & (numbers == number))
        return refused

    def concerns(self, shape: Shape) -> bool:
        """Return whether a pod of a shape needs devices, or a place among the consumers of a claim."""
        needs = self._needs(shape)
        return bool(needs.extended) or any(need.requests or need.place for need in needs.claims)

    def prefers(self, shape: Shape) -> bool:
        """Return whether the claims of a pod of a shape have alternatives, whose order is a preference."""
        return any(
            request.firstAvailable
            for need in self._needs(shape).claims
            if need.requests
            for request in _DECODER.decode(need.requests).requests or ()
        )

    def scores(self, shape: Shape, rows: Rows) -> Int64s:
        """Return the weighted score by alternatives; `rows` are the whole choice, and all of them pass."""
        _, needs = self._open(shape)
        points = np.full(len(rows), sum(need.points for need in self._needs(shape).claims), np.int64)
        for node_needs, group in self._groups(shape, needs):
            if node_needs:
                asked = rows[group[rows]]
                points[group[rows]] += self._fresh(node_needs, asked).points[asked]
        return points * BEST_ALTERNATIVES // max(int(points.max(initial=0)), 1) * ALTERNATIVES_WEIGHT

    def reprieve(self, members: PlacedMembers) -> Rivals | None:
        """Return the pods with claims, whose devices members may need."""
        if not any(map(self.concerns, members.shapes.values())):
            return None
        return Rivals(members, self._known.uses, nearby=False)

    def once_released(self) -> AbstractContextManager[bool]:
        """Begin a block in which claims of pods that are gone hold no devices."""
        return self._known.once_released()

    def sought(self, shape: Shape) -> tuple[int, Hashable]:
        """Return how many devices the claims of a shape request at least, and what they request."""
        claims = self._needs(shape).claims
        number = sum(_request_count(need.requests) for need in claims if need.requests)
        return number, tuple((need.requests, need.nodes) for need in claims)

    def lost(self, shape: Shape, row: int) -> str | None:
        """Return why a node row cannot use the devices of the pod's claims."""
        return self.allocated.reason(shape, row)

    def possible(self, shape: Shape) -> Bools | None:
        """Return the node rows that pass if no other pod has devices, and those that pass now.

        With more free devices a request for all of them may fail, and the next alternative is not tried.
        """
        own = self._needs(shape)
        if not (own.claims or own.extended):
            return None
        passes = self.allocated.mask(shape).copy()
        needs = tuple(need for need in own.claims if need.requests)
        for node_needs, rows in self._groups(shape, needs):
            if node_needs is None:
                passes &= ~rows
            elif node_needs:
                asked = np.flatnonzero(passes & rows)
                passes[asked] = self._fresh(node_needs, asked, unused=True).numbers[asked] == 0
                rest = asked[~passes[asked]]
                passes[rest] = self._fresh(node_needs, rest).numbers[rest] == 0
        return passes

    def reservations(self, pod_row: int) -> list[ClaimReservation | StaleDeletion] | None:
        """Return what is written to the claims of an assumed pod; None if they find no devices."""
        shape, node_row = self._snapshot.shape_at(pod_row), self._snapshot.node.item(pod_row)
        plan = self._plans.get(pod_row, ())
        if self._extended_at(shape, node_row) and not any(claim.extended for claim in plan):
            return None
        return self._known.reservations(pod_row, plan)

    def plan(self, pod_row: int) -> tuple[AssumedClaim, ...] | None:
        """Return the allocations that an assumed pod counts on; None if it needs none, or finds none."""
        return self._plans.get(pod_row)

    def _in_use(self, shape: Shape) -> bool:
        """Return whether a claim of a shape has no place for one more consumer."""
        places = (need.place for need in self._needs(shape).claims if need.place is not None)
        return not all(map(self._known.has_place, places))

    def _groups(
        self, shape: Shape, needs: tuple[ClaimNeed, ...]
    ) -> Iterator[tuple[tuple[ClaimNeed, ...] | None, Bools]]:
        """Yield node rows with the claims that a pod needs there; None for those that it must avoid."""
        groups: list[tuple[tuple[ExtendedNeed, ...], Bools]] = [((), self._snapshot.alive)]
        for need in self._needs(shape).extended:
            backed = self._snapshot.backed(need.resource)
            if backed is not None:
                parts = [(extended, rows & ~backed) for extended, rows in groups]
                parts += [((*extended, need), rows & backed) for extended, rows in groups]
                groups = [(extended, rows) for extended, rows in parts if rows.any()]
        for extended, rows in groups:
            yield self._with_extended(shape, needs, extended), rows

    def _extended_at(self, shape: Shape, row: int) -> tuple[ExtendedNeed, ...]:
        """Return the extended resources that classes provide on a node row."""
        resources = self._needs(shape).extended
        return tuple(need for need in resources if self._snapshot.is_backed(need.resource, row))

    def _with_extended(
        self, shape: Shape, needs: tuple[ClaimNeed, ...], extended: tuple[ExtendedNeed, ...]
    ) -> tuple[ClaimNeed, ...] | None:
        if extended:
            return (*needs, extended_claim_need(shape.namespace, extended))
        return None if self._needs(shape).written else needs

    def _open(self, shape: Shape) -> tuple[Bools, tuple[ClaimNeed, ...]]:
        """Return the rows for claims with devices, assumed ones too, and the needs that have none yet."""
        passes, needs = self.allocated.mask(shape).copy(), []
        for need in self._needs(shape).claims:
            assumed = self._known.assumed(need.claim) if need.claim is not None else None
            if assumed is not None:
                if assumed.nodeSelector is not None:
                    terms = node_terms(assumed.nodeSelector.nodeSelectorTerms, {})
                    passes &= any_term(self._snapshot, terms)
            elif need.requests:
                needs.append(need)
        return passes, tuple(needs)

    def _fresh(self, needs: tuple[ClaimNeed, ...], rows: Rows, *, unused: bool = False) -> _NodeAnswers:
        """Return the answers for needs, valid for these rows; `unused` as if no device were in use."""
        version = self._known.revision, self._snapshot.node_revision
        if version != self._version:
            if self._allocator is None or version[0] != self._version[0]:
                slices = self._known.slices.values()
                self._results = DeviceResults(self._snapshot.minor, drivers_devices(slices))
                self._allocator = Allocator(
                    slices,
                    self._known.classes.values(),
                    self._select,
                    default_gates(self._snapshot.minor),
                )
            self._version, self._answers = version, {}
        requests = tuple(need.requests for need in needs)
        answers = self._answers.get((requests, unused))
        if answers is None:
            if len(self._answers) == _SHAPES:
                del self._answers[next(iter(self._answers))]
            answers = self._answers[requests, unused] = _NodeAnswers(self._demand(requests), self._now)
        self._catch_up(answers, unused=unused)
        usage, steps = _NOTHING_USED if unused else self._known.usage, ALL_STEPS
        for row in rows[answers.numbers[rows] < 0].tolist():
            limit = min(NODE_STEPS, max(steps, 0))
            reason, answers.points[row] = self._ask(answers, needs, row, usage, limit)
            answers.numbers[row] = answers.number(reason)
            steps -= limit - max(self._limits.steps, 0)
        return answers

    @property
    def _now(self) -> int:
        return self._known.forgotten + len(self._known.changed)

    def _select(self, expression: str, driver: str, device: Device) -> bool:
        """Evaluate a selector. Raises SelectorCompileError, SelectorRuntimeError and DecisionTimeoutError."""
        self._snapshot.deadline.enforce()
        self._limits.spend(0)
        try:
            result = self._results.evaluate(expression, driver, device)
        except SelectorCompileError as error:
            self._limits.spend(error.effort, expression)
            raise
        self._limits.spend(result.effort, expression)
        if result.error is not None:
            # Results are kept. Each raise would add to their traceback.
            raise result.error.with_traceback(None)
        return result.selected

    def _catch_up(self, answers: _NodeAnswers, *, unused: bool) -> None:
        """Mark the answers for nodes that changed as unknown."""
        height = len(self._snapshot.alive)
        if len(answers.numbers) < height:
            answers.numbers = grown(answers.numbers, height, -1)
            answers.points = grown(answers.points, height, 0)
        if answers.unanswered and self._snapshot.deadline is not NEVER:
            answers.numbers[answers.unanswered] = -1
            answers.unanswered.clear()
        if unused or answers.seen == self._now:
            return
        if answers.seen < self._known.forgotten:
            answers.numbers[:] = -1
        else:
            for name in self._known.changed[answers.seen - self._known.forgotten :]:
                if name == ANYWHERE:
                    answers.numbers[:] = -1
                elif name in self._snapshot.row:
                    answers.numbers[self._snapshot.row[name]] = -1
        answers.seen = self._now

    def _demand(self, requests: tuple[bytes, ...]) -> Demand:
        """Return claims with these requests."""
        assert self._allocator is not None, "the version was compared"
        return self._allocator.demand(
            [
                ResourceClaim(
                    metadata=ObjectMeta(name=_marked(at)),
                    spec=DeviceClaimSpec(devices=_DECODER.decode(request)),
                )
                for at, request in enumerate(requests)
            ]
        )

    def _ask(
        self, answers: _NodeAnswers, needs: tuple[ClaimNeed, ...], row: int, usage: DeviceUsage, steps: int
    ) -> tuple[str, int]:
        """Return the reason against a node, empty for none, and its points.

        A selector without a result ends a decision.
        """
        try:
            allocations = self._allocate(answers, row, usage, steps)
        except UnansweredAllocationError as error:
            if self._snapshot.deadline is not NEVER:
                raise UnansweredDecisionError(_with_claim_names(str(error), needs)) from None
            answers.unanswered.append(row)
            return str(error), 0
        except AllocationError as error:
            return str(error), 0
        if allocations is None:
            return UNALLOCATABLE, 0
        if answers.demand.countable:
            # There are no alternatives.
            return "", 0
        requests = (claim.record.spec.devices.requests or () for claim in answers.demand.claims)
        return "", sum(map(alternative_points, requests, allocations))

    def _allocate(
        self, answers: _NodeAnswers, row: int, usage: DeviceUsage, steps: int
    ) -> list[Allocation] | None:
        """Return the allocations on a node, None if its devices do not suffice.

        Raises AllocationError and, in a decision, DecisionTimeoutError.
        """
        node = self._snapshot.objects[row]
        assert self._allocator is not None, "the version was compared"
        assert node is not None, "the node exists"
        labels = node.metadata.labels or {}
        limits = self._limits = SearchLimits(steps, min(NODE_EFFORT, answers.effort))
        allowed = limits.effort
        try:
            return self._allocator.allocate(
                self._snapshot.node_name(row), labels, answers.demand, usage, limits
            )
        finally:
            answers.effort -= allowed - limits.effort

    def _moved(self, pod_row: int, shape_id: int, node_row: int, sign: int) -> None:
        if not self._known.uses(pod_row):
            return
        home = self._snapshot.home.item(pod_row) == node_row
        self._known.move(pod_row, sign, home=home)
        if sign < 0:
            plan = self._plans.pop(pod_row, ())
            self._known.forget(plan)
            self._keep_plan(pod_row, plan)
        elif not home:
            again = self._plan_again(pod_row)
            shape = self._snapshot.shapes[shape_id]
            plan = self._planned(pod_row, shape, node_row) if again is None else again
            if plan:
                self._plans[pod_row] = plan
                self._known.assume(plan)

    def _keep_plan(self, pod_row: int, plan: tuple[AssumedClaim, ...]) -> None:
        """Keep the plan of a pod that leaves its node in a trial, whose end puts the pod back."""
        if self._snapshot.is_trying:
            self._left.setdefault(pod_row, []).append(plan)
        elif not self._snapshot.undoing:
            self._left.clear()

    def _plan_again(self, pod_row: int) -> tuple[AssumedClaim, ...] | None:
        """Return the plan of a pod that the end of a trial puts back; the search might find another now."""
        return self._left[pod_row].pop() if self._snapshot.undoing and self._left.get(pod_row) else None

    def _planned(self, pod_row: int, shape: Shape, node_row: int) -> tuple[AssumedClaim, ...]:
        """Return the allocations for a pod on a node; empty if its devices do not suffice.

        It is empty too for a pod that cannot use its claims, such as a nominated pod with a missing claim.
        """
        known, allocations = self._known, list[Allocation]()
        needs = [need for need in self._needs(shape).claims if need.requests]
        claims = []
        if needs:
            unallocated = known.unallocated(pod_row)
            claims = [
                (AssumedClaim(claim_key(claim), claim.metadata.uid or "", _UNDECIDED), need)
                for claim, need in zip(unallocated, needs, strict=True)
            ]
        if extended := self._extended_at(shape, node_row):
            made = known.created(pod_row, extended)
            claims.append((made, extended_claim_need(shape.namespace, extended)))
        if not claims:
            return ()
        open_needs = tuple(need for claim, need in claims if known.assumed(claim.claim) is None)
        if open_needs:
            answers = self._fresh(open_needs, np.zeros(0, np.intp))
            outer, self._snapshot.deadline = self._snapshot.deadline, NEVER
            # A move cannot fail.
            with contextlib.suppress(AllocationError):
                allocations = self._allocate(answers, node_row, self._known.usage, NODE_STEPS) or []
            self._snapshot.deadline = outer
            if not allocations:
                return ()
        left = iter(allocations)
        return tuple(
            claim._replace(allocation=known.assumed(claim.claim) or next(left)) for claim, _ in claims
        )

    def _moved_many(self, pod_rows: Rows, shape_ids: Int32s, node_rows: Int32s, sign: int) -> None:
        if not self._known.any_users:
            return
        moves = zip(pod_rows.tolist(), shape_ids.tolist(), node_rows.tolist(), strict=True)
        for pod_row, shape_id, node_row in moves:
            self._moved(pod_row, shape_id, node_row, sign)


@lru_cache(maxsize=1024)
def _request_count(requests: bytes) -> int:
    return sum(map(_fewest_of, _DECODER.decode(requests).requests or ()))


def _fewest_of(request: DeviceRequest) -> int:
    if request.exactly is not None:
        return request.exactly.count or 1
    return min((alternative.count or 1 for alternative in request.firstAvailable or ()), default=0)


def _marked(at: int) -> str:
    return f"{_MARK}{at}{_MARK}"


def _with_claim_names(reason: str, needs: tuple[ClaimNeed, ...]) -> str:
    """Return a reason with the names of the claims in place of their marks."""
    for at, need in enumerate(needs) if _MARK in reason else ():
        reason = reason.replace(_marked(at), "/".join(need.claim) if need.claim is not None else _OWN)
    return reason
