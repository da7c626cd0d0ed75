"""The reason against each device of a node for one requirement, as the search would find it.

Reasons of the device itself precede its use by others: a device that a selector excludes is no use when it is
free. The functions of the search decide; this module only asks them one by one. An examination ends after a
number of devices, because the pods of a tenant decide how many requirements there are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from podium.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from podium.planner.deadline import Deadline
from podium.planner.devices.allocator import Allocator
from podium.planner.devices.errors import AllocationError
from podium.planner.devices.gates import Gates
from podium.planner.devices.inventory import PoolDevice
from podium.planner.devices.nodeview import NodeView
from podium.planner.devices.requests import Demand, DeviceNeed
from podium.planner.devices.selection import MAX_EFFORT, SelectorExclusions
from podium.planner.devices.steps import TOO_LONG
from podium.planner.devices.trial import DeviceTrial
from podium.planner.devices.usage import DeviceUsage

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
        requested = [each for each in self.reasons if not each.startswith(_LEFT_OUT)]
        return not requested or any(requested)


class DeviceExaminer:
    """Examines the devices of one state of slices and classes."""

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
            taint = next(each for each in device.taints if not requirement.tolerates((each,)))
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
    names = (each.matchAttribute or each.distinctAttribute or "" for each in requirement.constraints)
    return next((name for name in names if device.attribute(name) is None), "")
