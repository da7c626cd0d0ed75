"""Allocates the claims of a pod on a node: the same first solution as kube-scheduler's allocator.

An allocator is built for one state of slices and classes. It prepares the pools of a node on the first
question and keeps them, because a scheduler asks about thousands of nodes for every pod. Which devices are in
use is an argument, so trials need no new allocator.

Source: the incubating allocator of k8s.io/dynamic-resource-allocation, which kube-scheduler 1.36 and 1.37 use
with their default gates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from uuid import uuid4

from podium.api.devices import (
    MAX_RESULTS,
    AllocatedConfiguration,
    AllocatedDevice,
    Allocation,
    ClaimConfiguration,
    DeviceAllocation,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from podium.api.selectors import NAME_FIELD, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from podium.planner.deadline import Deadline
from podium.planner.plugins.devices.chosendevices import DeviceTrial, NodeView, Select
from podium.planner.plugins.devices.gates import AllocationError, Gates, NodeAllocationError
from podium.planner.plugins.devices.inventory import PoolCatalog, PoolDevice, SliceIndex
from podium.planner.plugins.devices.requests import Demand, DemandReader, DeviceNeed, FlatClaim
from podium.planner.plugins.devices.search import AllDevices, DeviceSearch
from podium.planner.plugins.devices.usage import DeviceUsage, consumed_amounts, consumed_of

# The allocations of a solution: results, configuration and the nodes that can use the devices.
#
# The configuration of a class comes once, for the requests that use it. The configuration of a claim comes
# after it, if it is for all requests or for one that got devices. In 1.37, a list of all requests becomes
# empty. In 1.36 it stays, and a configuration comes once for each of its requests.
#
# Source: Allocate and createNodeSelector of the incubating allocator, 1.36 and 1.37.

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"

# A requirement and the place of its device.
Chosen = tuple[DeviceNeed, int]


class ResultWriter:
    """Writes the allocations of a node; `share` returns a new share ID for a device that is shared."""

    def __init__(self, node: NodeView, gates: Gates, share: Callable[[], str]) -> None:
        self._node = node
        self._gates = gates
        self._share = share

    def allocation(self, claim: FlatClaim, taken: Sequence[int], chosen: Sequence[Chosen]) -> Allocation:
        """Return the allocation of a claim; `taken` has the index of the alternative of each request."""
        used = [request.alternatives[index] for request, index in zip(claim.requests, taken, strict=True)]
        results = [self._result(requirement, at) for requirement, at in chosen]
        devices = DeviceAllocation(results, self._configuration(claim, used) or None)
        selector = self._selector(claim, [self._node.devices[at] for _, at in chosen])
        return Allocation(devices=devices, nodeSelector=selector)

    def _result(self, requirement: DeviceNeed, at: int) -> AllocatedDevice:
        device = self._node.devices[at]
        record = device.device
        result = AllocatedDevice(
            request=requirement.full_name, driver=device.driver, pool=device.pool, device=device.name
        )
        if requirement.admin:
            result.adminAccess = True
        if requirement.record.tolerations:
            result.tolerations = requirement.record.tolerations
        if self._gates.binding_conditions:
            result.bindingConditions = record.bindingConditions or None
            result.bindingFailureConditions = record.bindingFailureConditions or None
        if self._node.multiple(at):
            result.shareID = self._share()
            amounts = consumed_amounts(record, requirement.capacity, self._gates)
            result.consumedCapacity = {name: amount.text for name, amount in amounts.items()} or None
        return result

    def _configuration(self, claim: FlatClaim, used: Sequence[DeviceNeed]) -> list[AllocatedConfiguration]:
        configurations: list[AllocatedConfiguration] = []
        requests: dict[str, list[str]] = {}
        for requirement in used:
            name = requirement.record.deviceClassName
            if name in requests:
                requests[name].append(requirement.full_name)
            elif requirement.class_ is not None:
                requests[name] = [requirement.full_name]
                configurations.extend(
                    AllocatedConfiguration(FROM_CLASS, requests[name], configuration.opaque)
                    for configuration in requirement.class_.spec.config or ()
                )
        for written in claim.record.spec.devices.config or ():
            configurations.extend(
                AllocatedConfiguration(FROM_CLAIM, written.requests or None, written.opaque)
                for _ in range(self._times(written, used))
            )
        for entry in configurations:
            # Configurations of a class have one list in common so far.
            entry.requests = self._shortened(entry.requests, used)
        return configurations

    def _times(self, written: ClaimConfiguration, used: Sequence[DeviceNeed]) -> int:
        """Return how often a configuration of a claim comes."""
        if not written.requests:
            return 1
        matches = sum(_mentions(written.requests, need) for need in used)
        return min(matches, 1) if self._gates.latest else matches

    def _shortened(self, requests: list[str] | None, used: Sequence[DeviceNeed]) -> list[str] | None:
        if not requests or (self._gates.latest and all(_mentions(requests, need) for need in used)):
            return None
        return list(requests)

    def _selector(self, claim: FlatClaim, devices: Iterable[PoolDevice]) -> NodeSelector | None:
        """Return the nodes that can use all devices, None if all nodes can."""
        term = NodeSelectorTerm()
        for device in devices:
            source = device.device if device.slice.per_device else device.slice.record.spec
            if source.nodeName is not None or device.device.bindsToNode:
                only = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=[self._node.name])
                return NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchFields=[only])])
            terms = (source.nodeSelector.nodeSelectorTerms if source.nodeSelector is not None else None) or ()
            if len(terms) > 1:
                problem = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
                name = claim.record.metadata.name
                raise AllocationError(f"create NodeSelector for claim {name}: {problem}")
            for source_term in terms:
                term.matchFields = _merged(term.matchFields, source_term.matchFields)
                term.matchExpressions = _merged(term.matchExpressions, source_term.matchExpressions)
        return NodeSelector(nodeSelectorTerms=[term]) if term.matchFields or term.matchExpressions else None


def _mentions(requests: Sequence[str], requirement: DeviceNeed) -> bool:
    """Return whether a list of requests has the request of a requirement, or the requirement itself."""
    return requirement.request in requests or requirement.full_name in requests


def _merged(
    have: list[NodeSelectorRequirement] | None, more: Iterable[NodeSelectorRequirement] | None
) -> list[NodeSelectorRequirement] | None:
    merged = list(have or ())
    for expression in more or ():
        same = (expression.key, expression.operator, set(expression.values or ()))
        if all((known.key, known.operator, set(known.values or ())) != same for known in merged):
            merged.append(expression)
    return merged or None


# The first solution by counting, for claims that only ask for numbers of devices.
#
# Without choices and shared amounts, the search takes the first free devices for one request after the other.
# It goes back only if a request finds too few. If this request and each earlier one can have the same devices
# or none in common, going back cannot help: too few means that there is no solution. A constraint that all
# devices of its requests satisfy, such as one model on a node with one model, does not matter. In all other
# cases the search decides.


class CountOutcome(Enum):
    """The result of counting without a solution."""

    TOO_FEW = auto()
    UNDECIDED = auto()


# The devices of each claim with their requirements, in order.
Solution = tuple[list[tuple[DeviceNeed, int]], ...]


def count_devices(node: NodeView, demand: Demand, usage: DeviceUsage) -> Solution | CountOutcome:
    """Return the first solution, or why counting finds none."""
    masks = _masks(node, demand) if demand.countable else None
    if masks is None or any(_shared(usage, node, at) for at in range(len(node.pools))):
        return CountOutcome.UNDECIDED
    free = (1 << len(node.devices)) - 1 & ~node.used(usage)
    solution: Solution = tuple([] for _ in demand.claims)
    for requirement, mask in zip(demand.requirements, masks, strict=True):
        rest = free & mask
        if rest.bit_count() < requirement.count:
            separate = all(earlier == mask or not earlier & mask for earlier in masks[: requirement.number])
            return CountOutcome.TOO_FEW if separate else CountOutcome.UNDECIDED
        chosen = solution[requirement.claim]
        for _ in range(requirement.count):
            lowest = rest & -rest
            chosen.append((requirement, lowest.bit_length() - 1))
            rest ^= lowest
            free ^= lowest
    return solution


def _masks(node: NodeView, demand: Demand) -> list[int] | None:
    """Return the devices that each requirement can have, None if more than their number counts."""
    masks: list[int] = []
    for requirement in demand.requirements:
        mask = node.countable(demand.claims[requirement.claim], requirement)
        if mask is None:
            return None
        masks.append(mask)
    for number, claim in enumerate(demand.claims):
        for index, constraint in enumerate(claim.constraints):
            concerned = [
                masks[need.number]
                for need in demand.requirements
                if need.claim == number and index in need.rules
            ]
            if not node.alike(_union(concerned), constraint.matchAttribute or ""):
                return None
    return masks


def _union(masks: Sequence[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def _shared(usage: DeviceUsage, node: NodeView, at: int) -> bool:
    """Return whether a pool has devices with consumed capacity."""
    used = usage.pool(node.pools[at].id)
    return used is not None and bool(used.consumed)


class Allocator:
    """Allocates devices for one state of slices and classes.

    `select` evaluates an expression on a device of a driver. `share` returns the ID of a new share.
    """

    def __init__(
        self,
        slices: Iterable[ResourceSlice],
        classes: Iterable[DeviceClass],
        select: Select,
        gates: Gates,
        share: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._catalog = PoolCatalog(SliceIndex(slices), gates)
        self._reader = DemandReader(classes, gates)
        self._select = select
        self._gates = gates
        self._share = share
        self._views: dict[str, NodeView] = {}

    def demand(self, claims: Sequence[ResourceClaim]) -> Demand:
        """Return the claims of a pod, prepared for any number of nodes."""
        return self._reader.demand(claims)

    def allocate(
        self, name: str, labels: Mapping[str, str], demand: Demand, usage: DeviceUsage, deadline: Deadline
    ) -> list[Allocation] | None:
        """Return the allocation of each claim on a node, or None if its devices do not suffice.

        Raises AllocationError, NodeAllocationError for this node only, DecisionTimeoutError.
        """
        deadline.enforce()
        node = self.view(name, labels)
        every = self._validate(node, demand, usage)
        counted = count_devices(node, demand, usage)
        if not isinstance(counted, CountOutcome):
            return self._allocations(node, demand, {}, counted)
        if counted is CountOutcome.UNDECIDED:
            search = DeviceSearch(DeviceTrial(node, demand, usage, self._gates), every, deadline)
            if search.solve():
                chosen = [
                    [(choice.requirement, choice.at) for choice in claim] for claim in search.trial.chosen
                ]
                return self._allocations(node, demand, search.taken, chosen)
        if node.faulty:
            raise NodeAllocationError("invalid resource pools were encountered")
        return None

    def view(self, name: str, labels: Mapping[str, str]) -> NodeView:
        """Return the devices of a node."""
        view = self._views.get(name)
        if view is None or (view.labels is not labels and view.labels != labels):
            pools = self._catalog.of_node(name, labels)
            view = self._views[name] = NodeView(name, labels, pools, self._select, self._gates)
        return view

    def _allocations(
        self,
        node: NodeView,
        demand: Demand,
        taken: Mapping[tuple[int, int], int],
        chosen: Sequence[Sequence[Chosen]],
    ) -> list[Allocation]:
        writer = ResultWriter(node, self._gates, self._share)
        return [
            writer.allocation(
                claim, [taken.get((number, at), 0) for at in range(len(claim.requests))], chosen[number]
            )
            for number, claim in enumerate(demand.claims)
        ]

    def _validate(self, node: NodeView, demand: Demand, usage: DeviceUsage) -> AllDevices:
        """Return the devices of the requests for all devices. Raises AllocationError for an invalid claim."""
        every: AllDevices = {}
        limit = f"exceeds the claim limit of {MAX_RESULTS}"
        for claim in demand.claims:
            least = 0
            for request in claim.requests:
                _refuse(request.error)
                sizes: list[int] = []
                for requirement in request.alternatives:
                    _refuse(requirement.error)
                    if requirement.every:
                        every[requirement.number] = self._all(node, claim, requirement, usage)
                        sizes.append(len(every[requirement.number]))
                    else:
                        sizes.append(requirement.count)
                size = min(sizes)
                if self._gates.latest and size > MAX_RESULTS - least:
                    raise AllocationError(
                        f"claim {claim.label}, request {request.name}: adding {size} devices {limit},"
                        f" with {least} already accounted for"
                    )
                least += size
            if least > MAX_RESULTS:
                raise AllocationError(f"claim {claim.label}: number of requested devices {least} {limit}")
            _refuse(claim.error)
        return every

    def _all(
        self, node: NodeView, claim: FlatClaim, requirement: DeviceNeed, usage: DeviceUsage
    ) -> list[int]:
        """Return the devices of a request for all devices.

        Devices without the requested capacity are left out. In 1.36, so are those that have too little left.
        """
        where = f"claim {claim.label}, request {requirement.name}"
        matching: list[int] = []
        for pool in node.pools:
            if pool.fault:
                state = "currently being updated" if pool.incomplete else "currently invalid"
                raise AllocationError(
                    f"{where}: asks for all devices, but resource pool {pool.id} is {state}"
                )
            for at in range(pool.start, pool.start + len(pool.devices)):
                if not node.matches(claim, requirement, at):
                    continue
                name = node.devices[at].name
                taken = {} if self._gates.latest else consumed_of(usage.pool(pool.id), name)
                doing = f"checking capacity for device {name}"
                if node.has_capacity(claim, requirement, at, taken, doing):
                    matching.append(at)
        return matching


def _refuse(error: str) -> None:
    if error:
        raise AllocationError(error)
