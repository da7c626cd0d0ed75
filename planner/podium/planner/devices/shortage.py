"""Explains why the claims of a pod find too few devices: the request, and what excludes each device from it.

On each node the first request without enough devices counts, in the order of the search. If each request has
enough devices alone, the search decides, and a constraint or another request is the reason. The devices are
summed over the nodes with one reason, a device of several nodes once. Free devices of nodes that refuse the
pod anyway are counted too: a reader looks for them.

The examination is limited, and so are the lists of the result.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from podium.api.devices import DeviceConstraint, ResourceClaim, ResourceSlice
from podium.planner.devices.errors import AllocationError
from podium.planner.devices.examining import (
    NOT_EXAMINED,
    OTHER_NODES,
    DeviceExaminer,
    DeviceNode,
    Examined,
)
from podium.planner.devices.inventory import PoolDevice, PoolID, PreparedSlice
from podium.planner.devices.nodeview import NodeView
from podium.planner.devices.requests import DeviceNeed
from podium.planner.devices.selection import shortened
from podium.planner.devices.steps import TOO_LONG, SearchLimits
from podium.planner.devices.usage import DeviceUsage

# The most nodes on which the search is asked, and its steps on all of them.
MAX_SEARCHED, MAX_STEPS = 32, 50_000
# The most requests, reasons, nodes and pools of an explanation.
MAX_REQUESTS, MAX_REASONS, MAX_NEAREST, MAX_POOLS = 5, 6, 3, 3

_OTHERWISE = "excluded for other reasons"
_NODELESS = "of nodes that do not exist"
_NOT_ALL = "not all of them can be allocated at once"
# The order of a shortage without devices.
_NOTHING = (0, 0)
_NONE, _FAILS = "none", "the search fails"


class DeviceTally(NamedTuple):
    """Devices by number: all, those that a request can have, and the others by reason, the most first."""

    devices: int
    free: int
    excluded: tuple[tuple[str, int], ...]


class RequestShortage(NamedTuple):
    """A request that finds too few devices on `nodes` nodes.

    `needed` is 0 for a request for all devices, `nearest` are the nodes with the most free ones, `together`
    says why free devices do not suffice (empty: too few of them).
    """

    claim: str
    request: str
    needed: int
    nodes: int
    tally: DeviceTally
    nearest: tuple[tuple[str, DeviceTally], ...]
    together: str = ""


class DeviceShortage(NamedTuple):
    """The requests that find too few devices, those with the most free devices first.

    `nodes` are those that accept the pod but for devices; `unexamined` is the number of these that were left
    out. `pools` are those whose devices do not count, each with the reason, and `hidden` is the number of
    further requests. `costliest` is the selector that left no effort for others. `error` refuses the claims
    on all nodes.
    """

    nodes: int
    unexamined: int = 0
    requests: tuple[RequestShortage, ...] = ()
    hidden: int = 0
    pools: tuple[str, ...] = ()
    costliest: str = ""
    error: str = ""


def explain_shortage(
    examiner: DeviceExaminer,
    claims: Sequence[ResourceClaim],
    nodes: Iterable[DeviceNode],
    usage: DeviceUsage,
) -> DeviceShortage:
    """Return why claims without devices find too few on the nodes that accept their pod otherwise."""
    every = list(nodes)
    asked = [each for each in every if not each.refused]
    survey = _ShortageSurvey(examiner, claims, usage)
    if survey.error:
        return DeviceShortage(len(asked), error=survey.error)
    unexamined = sum([not survey.examine(each) for each in asked])
    found = sorted(survey.shortages.values(), key=lambda each: (*each.order, each.requirement.number))
    if found and found[0].order != _NOTHING:
        # The nodes without devices say nothing beside others.
        found = [each for each in found if each.order != _NOTHING]
    shown = found[:MAX_REQUESTS]
    for each in every if shown else ():
        if each.refused:
            survey.add_refusing(each, shown)
    survey.add_nodeless({each.name for each in every}, shown)
    return DeviceShortage(
        len(asked),
        unexamined,
        tuple(each.result(survey.label(each.requirement)) for each in shown),
        len(found) - len(shown),
        survey.faults(),
        examiner.answers.costliest,
    )


class _Shortage:
    """A requirement that lacks devices, with the devices of its nodes."""

    def __init__(self, requirement: DeviceNeed, together: str) -> None:
        self.requirement = requirement
        self.together = together
        self.tallies: dict[str, DeviceTally] = {}
        # The reason against each device, by its identity; the examiner keeps the devices.
        self._reasons: dict[int, str] = {}

    @property
    def order(self) -> tuple[int, int]:
        """A key that is least for the most free devices, and then for the most devices."""
        tallies = self.tallies.values()
        return -sum(each.free for each in tallies), -sum(each.devices for each in tallies)

    def add(self, device: PoolDevice, reason: str) -> None:
        """Count a device once; a node that cannot use it says least."""
        if self._reasons.get(id(device), OTHER_NODES) == OTHER_NODES:
            self._reasons[id(device)] = reason

    def result(self, claim: str) -> RequestShortage:
        """Return the sums."""
        need, tallies = self.requirement, self.tallies
        nearest = sorted(tallies, key=lambda name: (-tallies[name].free, -tallies[name].devices, name))
        return RequestShortage(
            claim,
            need.full_name,
            0 if need.every else need.count,
            len(tallies),
            _tally(self._reasons.values()),
            tuple((name, tallies[name]) for name in nearest[:MAX_NEAREST]),
            self.together,
        )


class _ShortageSurvey:
    """The shortages of the claims of one pod, node by node."""

    def __init__(self, examiner: DeviceExaminer, claims: Sequence[ResourceClaim], usage: DeviceUsage) -> None:
        self.shortages: dict[tuple[int, str], _Shortage] = {}
        self._examiner = examiner
        self._claims = claims
        self._usage = usage
        self._demand = examiner.demand(claims)
        self._pools: dict[PoolID, str] = {}
        self._searches, self._steps = MAX_SEARCHED, SearchLimits(MAX_STEPS, 0)

    @property
    def error(self) -> str:
        """The first error that refuses the claims on all nodes, empty for none."""
        for claim in self._demand.claims:
            errors = [
                error
                for request in claim.requests
                for error in (request.error, *(each.error for each in request.alternatives))
            ]
            found = next(filter(None, (*errors, claim.error)), "")
            if found:
                return found
        return ""

    def label(self, requirement: DeviceNeed) -> str:
        """Return the claim of a requirement by namespace and name."""
        return self._demand.claims[requirement.claim].label

    def faults(self) -> tuple[str, ...]:
        """Return the pools whose devices do not count, in words."""
        named = [f"pool {pool}: {fault}" for pool, fault in sorted(self._pools.items())]
        rest = len(named) - MAX_POOLS
        return tuple([*named[:MAX_POOLS], f"{rest} more such pools"] if rest > 0 else named)

    def examine(self, node: DeviceNode) -> bool:
        """Count the devices of a node that accepts the pod; return False if there are too many to do so."""
        view = self._view(node)
        if view is None:
            return False
        trial = self._examiner.trial(view, self._demand, self._usage)
        enough: list[list[Examined]] = []
        for claim in self._demand.claims:
            for request in claim.requests:
                found = [self._examiner.examine(view, trial, each) for each in request.alternatives]
                if all(each.short for each in found):
                    if any(NOT_EXAMINED in each.reasons for each in found):
                        return False
                    self._add(view, found, "")
                    return True
                enough.append(found)
        return self._search(node, view, enough)

    def add_refusing(self, node: DeviceNode, shortages: Iterable[_Shortage]) -> None:
        """Count the devices of a node that refuses the pod for another reason."""
        view = self._view(node)
        if view is None:
            return
        trial = self._examiner.trial(view, self._demand, self._usage)
        for short in shortages:
            found = self._examiner.examine(view, trial, short.requirement)
            for device, reason in zip(found.devices, found.reasons, strict=True):
                short.add(device, reason or f"on nodes that refuse the pod ({node.refused})")

    def add_nodeless(self, nodes: set[str], shortages: Sequence[_Shortage]) -> None:
        """Count the devices of nodes that do not exist."""
        for device in _nodeless(self._examiner.slices, nodes):
            for short in shortages:
                short.add(device, self._examiner.exclusion(short.requirement, device) or _NODELESS)

    def _view(self, node: DeviceNode) -> NodeView | None:
        view = self._examiner.view(node)
        for pool in view.pools if view is not None else ():
            if pool.fault:
                self._pools[pool.id] = pool.fault
        return view

    def _add(self, view: NodeView, found: Iterable[Examined], together: str) -> None:
        for each in found:
            # An error names a device, so that of the first node is for all.
            key = each.requirement.number, together.partition(":")[0]
            short = self.shortages.setdefault(key, _Shortage(each.requirement, together))
            short.tallies[view.name] = _tally(each.reasons)
            for device, reason in zip(each.devices, each.reasons, strict=True):
                short.add(device, reason)

    def _search(self, node: DeviceNode, view: NodeView, enough: Sequence[Sequence[Examined]]) -> bool:
        """Find the request for which free devices do not suffice; return False if it is not found."""
        if not self._searches:
            return False
        self._searches -= 1
        try:
            if not self._search_refusal(node, self._claims):
                return True
            # The first requests that have no solution, by bisection.
            least, most = 1, len(enough)
            while least < most:
                middle = (least + most) // 2
                if self._search_refusal(node, self._beginning(middle)):
                    most = middle
                else:
                    least = middle + 1
            self._add(view, enough[least - 1], self._together(node, self._beginning(least)))
        except AllocationError:
            return False
        return True

    def _search_refusal(self, node: DeviceNode, claims: Sequence[ResourceClaim]) -> str:
        """Return why the search finds no devices, empty if it does.

        Raises AllocationError if the search ends early.
        """
        try:
            found = self._examiner.solves(node, claims, self._usage, self._steps)
        except AllocationError as error:
            if str(error) == TOO_LONG:
                raise
            return str(error)
        return "" if found else _NONE

    def _beginning(self, requests: int) -> list[ResourceClaim]:
        """Return the claims with only so many requests."""
        found = []
        for claim in self._claims:
            own = claim.spec.devices.requests or []
            found.append(_with(claim, requests=own[:requests]))
            requests -= len(own)
            if requests <= 0:
                break
        return found

    def _together(self, node: DeviceNode, claims: Sequence[ResourceClaim]) -> str:
        """Return why the last request of these has no devices beside the others."""
        refusal = self._search_refusal(node, claims)
        if refusal != _NONE:
            return f"{_FAILS}: {shortened(refusal)}"
        *others, last = claims
        constraints = last.spec.devices.constraints or []
        if not constraints or self._search_refusal(node, [*others, _with(last, constraints=[])]):
            alone = not others and len(last.spec.devices.requests or ()) == 1
            return _NOT_ALL if alone else "requests before it need the same devices, capacity or counters"
        for number, each in enumerate(constraints):
            rest = [*constraints[:number], *constraints[number + 1 :]]
            if not self._search_refusal(node, [*others, _with(last, constraints=rest)]):
                return f"no choice of them satisfies constraint {number + 1} ({_constraint_words(each)})"
        return "no choice of them satisfies all constraints of the claim"


def _with(claim: ResourceClaim, **fields: object) -> ResourceClaim:
    devices = msgspec.structs.replace(claim.spec.devices, **fields)
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=devices))


def _constraint_words(constraint: DeviceConstraint) -> str:
    if constraint.matchAttribute is not None:
        return f"matchAttribute {constraint.matchAttribute}"
    return f"distinctAttribute {constraint.distinctAttribute}"


def _tally(reasons: Iterable[str]) -> DeviceTally:
    counts = Counter(reasons)
    free, total = counts.pop("", 0), counts.total()
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if len(ordered) > MAX_REASONS:
        rest = sum(count for _, count in ordered[MAX_REASONS - 1 :])
        ordered = [*ordered[: MAX_REASONS - 1], (_OTHERWISE, rest)]
    return DeviceTally(free + total, free, tuple(ordered))


def _nodeless(slices: Iterable[ResourceSlice], nodes: set[str]) -> Iterator[PoolDevice]:
    """Yield the devices of the newest slices for nodes that are not among `nodes`."""
    parts = [PreparedSlice(each) for each in slices if each.spec.nodeName and each.spec.nodeName not in nodes]
    newest: dict[PoolID, int] = {}
    for part in parts:
        newest[part.pool] = max(part.generation, newest.get(part.pool, part.generation))
    for part in parts:
        if part.generation == newest[part.pool]:
            yield from part.devices
