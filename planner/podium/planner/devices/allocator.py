"""Allocates the claims of a pod on a node: the same first solution as kube-scheduler's allocator.

An allocator is built for one state of slices and classes. It prepares the pools of a node on the first
question and keeps them, because a scheduler asks about thousands of nodes for every pod. Which devices are in
use is an argument, so trials need no new allocator.

Source: the incubating allocator of k8s.io/dynamic-resource-allocation, which kube-scheduler 1.36 and 1.37 use
with their default gates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import uuid4

from podium.api.devices import MAX_RESULTS, Allocation, DeviceClass, ResourceClaim, ResourceSlice
from podium.planner.deadline import Deadline
from podium.planner.devices.counting import CountOutcome, count_devices
from podium.planner.devices.errors import AllocationError, NodeAllocationError
from podium.planner.devices.gates import Gates
from podium.planner.devices.inventory import SliceIndex
from podium.planner.devices.nodeview import NodeView, Select
from podium.planner.devices.pools import PoolCatalog
from podium.planner.devices.requests import Demand, DemandReader, DeviceNeed, FlatClaim
from podium.planner.devices.results import Chosen, ResultWriter
from podium.planner.devices.search import AllDevices, DeviceSearch
from podium.planner.devices.trial import DeviceTrial
from podium.planner.devices.usage import DeviceUsage, consumed_of


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
                chosen = [[(each.requirement, each.at) for each in one] for one in search.trial.chosen]
                return self._allocations(node, demand, search.taken, chosen)
        if node.faulty:
            raise NodeAllocationError("invalid resource pools were encountered")
        return None

    def view(self, name: str, labels: Mapping[str, str]) -> NodeView:
        """Return the devices of a node."""
        found = self._views.get(name)
        if found is None or (found.labels is not labels and found.labels != labels):
            pools = self._catalog.of_node(name, labels)
            found = self._views[name] = NodeView(name, labels, pools, self._select, self._gates)
        return found

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
                least += min(sizes)
            if least > MAX_RESULTS:
                limit = f"exceeds the claim limit of {MAX_RESULTS}"
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
        found: list[int] = []
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
                    found.append(at)
        return found


def _refuse(error: str) -> None:
    if error:
        raise AllocationError(error)
