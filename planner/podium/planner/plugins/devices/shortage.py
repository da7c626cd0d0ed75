"""Explains why the claims of a pod find too few devices: the request, and what excludes each device from it.

On each node the first request without enough devices counts, in the order of the search. If each request has
enough devices alone, the search decides, and a constraint or another request is the reason. The devices are
summed over the nodes with one reason, a device of several nodes once. Free devices of nodes that refuse the
pod anyway are counted too: a reader looks for them.

The examination is limited, and so are the lists of the result.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kubecel import CelError, SelectorAnswers
from podium.api.devices import Device, DeviceClass, DeviceConstraint, ResourceClaim, ResourceSlice
from podium.planner.deadline import Deadline
from podium.planner.plugins.devices.allocator import Allocator
from podium.planner.plugins.devices.chosendevices import DeviceTrial, NodeView
from podium.planner.plugins.devices.gates import AllocationError, Gates
from podium.planner.plugins.devices.inventory import PoolDevice, PoolID, PreparedSlice, drivers_devices
from podium.planner.plugins.devices.requests import Demand, DeviceNeed
from podium.planner.plugins.devices.search import TOO_LONG, SearchLimits
from podium.planner.plugins.devices.usage import DeviceUsage

# The selector that excludes a device, for explanations, within a total effort.
#
# The search asks whether all selectors of a request match. An explanation asks which of them does not.


# The most effort of all evaluations for one explanation, in microseconds, roughly. A short selector takes
# about 10 units.
MAX_EFFORT = 5_000_000
# The most characters of an error.
_ERROR = 160


class SelectorExclusions:
    """The answers of selectors in the form of the search, and in words."""

    def __init__(self, minor: int, slices: Iterable[ResourceSlice], effort: int = MAX_EFFORT) -> None:
        self._answers = SelectorAnswers(minor, drivers_devices(slices), effort)
        # A selector of each expression, in words.
        self._selectors: dict[str, str] = {}

    @property
    def exhausted(self) -> bool:
        """Return whether no effort is left."""
        return self._answers.exhausted

    @property
    def costliest(self) -> str:
        """Return the selector that took the most effort, if none is left for others."""
        return self._selectors.get(self._answers.costliest or "", "")

    def select(self, expression: str, driver: str, device: Device) -> bool:
        """Return whether an expression selects a device.

        Raises AllocationError if no effort is left, and the error of the expression.
        """
        answer = self._answers.answer(expression, driver, device)
        if answer is None:
            raise AllocationError(TOO_LONG)
        if isinstance(answer, bool):
            return answer
        raise answer.with_traceback(None)

    def exclusion(self, requirement: DeviceNeed, device: PoolDevice) -> str:
        """Return how selectors exclude a device, in words; empty if all match.

        Raises AllocationError if no effort is left.
        """
        selectors = requirement.selectors
        of_class = f" of class {selectors.class_name}"
        for expressions, owner in ((selectors.of_class, of_class), (selectors.of_request, "")):
            for number, expression in enumerate(expressions, start=1):
                whose = owner or f" of request {requirement.name}"
                self._selectors.setdefault(expression, f"selector {number}{whose}")
                try:
                    if not self.select(expression, device.driver, device.device):
                        return f"excluded by selector {number}{owner}"
                except AllocationError:
                    raise
                except CelError as error:
                    return f"on which selector {number}{owner} fails ({shortened(str(error))})"
        return ""


def shortened(text: str) -> str:
    """Return an error in one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= _ERROR else f"{line[:_ERROR]}..."


# The most devices that are examined, counted once for each requirement and node.
MAX_EXAMINED = 200_000

NOT_EXAMINED = "not examined"
IN_USE = "in use"
OTHER_NODES = "only for other nodes"
_TOO_SMALL = "with too little capacity"
# The reasons by which a request for all devices leaves a device out.
_LEFT_OUT = ("excluded by selector", NOT_EXAMINED, OTHER_NODES, _TOO_SMALL)


class DeviceNode(NamedTuple):
    """A node; `refused` says why it refuses the pod for another reason than devices, empty if it does not."""

    name: str
    labels: Mapping[str, str]
    refused: str = ""


class Examined(NamedTuple):
    """The devices that a node sees, with the reason against each for a requirement; empty for none."""

    requirement: DeviceNeed
    devices: Sequence[PoolDevice]
    reasons: Sequence[str]

    @property
    def short(self) -> bool:
        """Return whether the requirement lacks devices, even if no other requirement gets any."""
        if not self.requirement.every:
            return self.reasons.count("") < self.requirement.count
        requested = [reason for reason in self.reasons if not reason.startswith(_LEFT_OUT)]
        return not requested or any(requested)


class DeviceExaminer:
    """Examines the devices of one state of slices and classes for one requirement, as the search does.

    A reason of the device itself precedes its use by others: a device that a selector excludes is no use when
    it is free. An examination ends after a number of devices, because the pods of a tenant decide how many
    requirements there are.
    """

    def __init__(
        self,
        slices: Iterable[ResourceSlice],
        classes: Iterable[DeviceClass],
        gates: Gates,
        *,
        examined: int = MAX_EXAMINED,
        effort: int = MAX_EFFORT,
    ) -> None:
        self.slices = list(slices)
        self.answers = SelectorExclusions(gates.minor, self.slices, effort)
        self._allocator = Allocator(self.slices, classes, self.answers.select, gates)
        self._gates = gates
        self._left = examined

    def demand(self, claims: Sequence[ResourceClaim]) -> Demand:
        """Return claims, prepared for any number of nodes."""
        return self._allocator.demand(claims)

    def view(self, node: DeviceNode) -> NodeView | None:
        """Return the devices that a node sees, None if enough devices were examined."""
        if self._left <= 0:
            return None
        view = self._allocator.view(node.name, node.labels)
        # A pool may be for all nodes, and each node sees all its devices.
        self._left -= len(view.devices) + 1
        return view

    def examine(self, view: NodeView, trial: DeviceTrial, requirement: DeviceNeed) -> Examined:
        """Return the reason against each device of a node; `trial` has no device yet."""
        whole = self._left > 0
        self._left -= len(view.devices)
        reasons = [
            self._reason(view, trial, requirement, at) if whole else NOT_EXAMINED
            for at in range(len(view.devices))
        ]
        return Examined(requirement, view.devices, reasons)

    def exclusion(self, requirement: DeviceNeed, device: PoolDevice) -> str:
        """Return how selectors exclude a device, in words; empty if they do not."""
        self._left -= 1
        return self._exclusion(requirement, device) if self._left > 0 else NOT_EXAMINED

    def trial(self, view: NodeView, demand: Demand, usage: DeviceUsage) -> DeviceTrial:
        """Return a trial on a node without any device."""
        return DeviceTrial(view, demand, usage, self._gates)

    def solves(
        self, node: DeviceNode, claims: Sequence[ResourceClaim], usage: DeviceUsage, steps: Deadline
    ) -> bool:
        """Return whether the search finds devices for claims on a node. Raises AllocationError."""
        if self.answers.exhausted:
            # A search goes on beyond a device without an answer, and that may take long.
            raise AllocationError(TOO_LONG)
        demand = self._allocator.demand(claims)
        return self._allocator.allocate(node.name, node.labels, demand, usage, steps) is not None

    def _exclusion(self, requirement: DeviceNeed, device: PoolDevice) -> str:
        try:
            return self.answers.exclusion(requirement, device)
        except AllocationError:
            return NOT_EXAMINED

    def _reason(self, view: NodeView, trial: DeviceTrial, requirement: DeviceNeed, at: int) -> str:
        device = view.devices[at]
        excluded = self._exclusion(requirement, device)
        if excluded:
            return excluded
        if not (device.reach is None or device.reach.includes(view.name, view.labels)):
            return OTHER_NODES
        if device.device.bindingConditions and not self._gates.binding_conditions:
            return "with binding conditions"
        try:
            if not trial.has_capacity(requirement, at, "checking"):
                return _TOO_SMALL
        except AllocationError:
            return "with a capacity that does not suit the request"
        if not view.tolerated(requirement, at):
            taint = next(taint for taint in device.taints if not requirement.tolerates((taint,)))
            return f"with the taint {taint.key}:{taint.effect}"
        lacking = _lacking(requirement, device)
        if lacking:
            return f"without attribute {lacking}, which a constraint compares"
        if not trial.available(requirement, at):
            return IN_USE
        if not trial.take_device(requirement, at):
            return "whose shared counters are used up"
        trial.undo(requirement.claim)
        return ""


def _lacking(requirement: DeviceNeed, device: PoolDevice) -> str:
    """Return an attribute that a constraint compares and a device lacks, empty for none."""
    names = (rule.matchAttribute or rule.distinctAttribute or "" for rule in requirement.constraints)
    return next((name for name in names if device.attribute(name) is None), "")


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
    asked = [node for node in every if not node.refused]
    survey = _ShortageSurvey(examiner, claims, usage)
    if survey.error:
        return DeviceShortage(len(asked), error=survey.error)
    unexamined = sum([not survey.examine(node) for node in asked])
    shortages = sorted(
        survey.shortages.values(), key=lambda shortage: (*shortage.order, shortage.requirement.number)
    )
    if shortages and shortages[0].order != _NOTHING:
        # The nodes without devices say nothing beside others.
        shortages = [shortage for shortage in shortages if shortage.order != _NOTHING]
    shown = shortages[:MAX_REQUESTS]
    for node in every if shown else ():
        if node.refused:
            survey.add_refusing(node, shown)
    survey.add_nodeless({node.name for node in every}, shown)
    return DeviceShortage(
        len(asked),
        unexamined,
        tuple(shortage.result(survey.label(shortage.requirement)) for shortage in shown),
        len(shortages) - len(shown),
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
        return -sum(tally.free for tally in tallies), -sum(tally.devices for tally in tallies)

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
                for error in (request.error, *(alternative.error for alternative in request.alternatives))
            ]
            error = next(filter(None, (*errors, claim.error)), "")
            if error:
                return error
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
                results = [
                    self._examiner.examine(view, trial, alternative) for alternative in request.alternatives
                ]
                if all(result.short for result in results):
                    if any(NOT_EXAMINED in result.reasons for result in results):
                        return False
                    self._add(view, results, "")
                    return True
                enough.append(results)
        return self._search(node, view, enough)

    def add_refusing(self, node: DeviceNode, shortages: Iterable[_Shortage]) -> None:
        """Count the devices of a node that refuses the pod for another reason."""
        view = self._view(node)
        if view is None:
            return
        trial = self._examiner.trial(view, self._demand, self._usage)
        for short in shortages:
            examined = self._examiner.examine(view, trial, short.requirement)
            for device, reason in zip(examined.devices, examined.reasons, strict=True):
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

    def _add(self, view: NodeView, results: Iterable[Examined], together: str) -> None:
        for result in results:
            # An error names a device, so that of the first node is for all.
            key = result.requirement.number, together.partition(":")[0]
            short = self.shortages.setdefault(key, _Shortage(result.requirement, together))
            short.tallies[view.name] = _tally(result.reasons)
            for device, reason in zip(result.devices, result.reasons, strict=True):
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
            solved = self._examiner.solves(node, claims, self._usage, self._steps)
        except AllocationError as error:
            if str(error) == TOO_LONG:
                raise
            return str(error)
        return "" if solved else _NONE

    def _beginning(self, requests: int) -> list[ResourceClaim]:
        """Return the claims with only so many requests."""
        claims = []
        for claim in self._claims:
            own = claim.spec.devices.requests or []
            claims.append(_with(claim, requests=own[:requests]))
            requests -= len(own)
            if requests <= 0:
                break
        return claims

    def _together(self, node: DeviceNode, claims: Sequence[ResourceClaim]) -> str:
        """Return why the last request of these has no devices beside the others."""
        refusal = self._search_refusal(node, claims)
        if refusal != _NONE:
            return f"{_FAILS}: {shortened(refusal)}"
        *earlier, last = claims
        constraints = last.spec.devices.constraints or []
        if not constraints or self._search_refusal(node, [*earlier, _with(last, constraints=[])]):
            alone = not earlier and len(last.spec.devices.requests or ()) == 1
            return _NOT_ALL if alone else "requests before it need the same devices, capacity or counters"
        for number, constraint in enumerate(constraints):
            rest = [*constraints[:number], *constraints[number + 1 :]]
            if not self._search_refusal(node, [*earlier, _with(last, constraints=rest)]):
                return (
                    f"no choice of them satisfies constraint {number + 1} ({_constraint_words(constraint)})"
                )
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
    local = [
        PreparedSlice(record)
        for record in slices
        if record.spec.nodeName and record.spec.nodeName not in nodes
    ]
    newest: dict[PoolID, int] = {}
    for prepared in local:
        newest[prepared.pool] = max(prepared.generation, newest.get(prepared.pool, prepared.generation))
    for prepared in local:
        if prepared.generation == newest[prepared.pool]:
            yield from prepared.devices
