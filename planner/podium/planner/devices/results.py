"""The allocations of a solution: results, configuration and the nodes that can use the devices.

The configuration of a class comes once, for the requests that use it. The configuration of a claim comes
after it, if it is for all requests or for one that got devices. In 1.37, a list of all requests becomes
empty. In 1.36 it stays, and a configuration comes once for each of its requests.

Source: Allocate and createNodeSelector of the incubating allocator, 1.36 and 1.37.
"""

from collections.abc import Callable, Iterable, Sequence

from podium.api.devices import (
    AllocatedConfiguration,
    AllocatedDevice,
    Allocation,
    ClaimConfiguration,
    DeviceAllocation,
)
from podium.api.nodeselector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from podium.api.selectors import NAME_FIELD
from podium.planner.devices.capacity import consumed_amounts
from podium.planner.devices.errors import AllocationError
from podium.planner.devices.gates import Gates
from podium.planner.devices.inventory import PoolDevice
from podium.planner.devices.nodeview import NodeView
from podium.planner.devices.requests import DeviceNeed, FlatClaim

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
        found: list[AllocatedConfiguration] = []
        requests: dict[str, list[str]] = {}
        for requirement in used:
            name = requirement.record.deviceClassName
            if name in requests:
                requests[name].append(requirement.full_name)
            elif requirement.class_ is not None:
                requests[name] = [requirement.full_name]
                found.extend(
                    AllocatedConfiguration(FROM_CLASS, requests[name], each.opaque)
                    for each in requirement.class_.spec.config or ()
                )
        for written in claim.record.spec.devices.config or ():
            found.extend(
                AllocatedConfiguration(FROM_CLAIM, written.requests or None, written.opaque)
                for _ in range(self._times(written, used))
            )
        for entry in found:
            # Configurations of a class have one list in common so far.
            entry.requests = self._shortened(entry.requests, used)
        return found

    def _times(self, written: ClaimConfiguration, used: Sequence[DeviceNeed]) -> int:
        """Return how often a configuration of a claim comes."""
        if not written.requests:
            return 1
        matches = sum(_mentions(written.requests, each) for each in used)
        return min(matches, 1) if self._gates.latest else matches

    def _shortened(self, requests: list[str] | None, used: Sequence[DeviceNeed]) -> list[str] | None:
        if not requests or (self._gates.latest and all(_mentions(requests, each) for each in used)):
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
            for each in terms:
                term.matchFields = _merged(term.matchFields, each.matchFields)
                term.matchExpressions = _merged(term.matchExpressions, each.matchExpressions)
        return NodeSelector(nodeSelectorTerms=[term]) if term.matchFields or term.matchExpressions else None


def _mentions(requests: Sequence[str], requirement: DeviceNeed) -> bool:
    """Return whether a list of requests has the request of a requirement, or the requirement itself."""
    return requirement.request in requests or requirement.full_name in requests


def _merged(
    have: list[NodeSelectorRequirement] | None, more: Iterable[NodeSelectorRequirement] | None
) -> list[NodeSelectorRequirement] | None:
    merged = list(have or ())
    for each in more or ():
        same = (each.key, each.operator, set(each.values or ()))
        if all((known.key, known.operator, set(known.values or ())) != same for known in merged):
            merged.append(each)
    return merged or None
