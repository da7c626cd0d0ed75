"""The claims to allocate as flat requirements: each request has one, or several of which the first is taken.

All that does not depend on the node is computed once: classes, selectors, counts, and the errors of claims
that no node can have. Errors are kept until the allocator comes to them, so that of several errors upstream's
is reported. The API server fills in the mode ExactCount and the count 1 where a claim has none.

Source: Allocate and validateDeviceRequest of the incubating allocator, 1.36 and 1.37.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from podium.api.core import RawQuantity
from podium.api.devices import (
    ALL,
    EXACT_COUNT,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequirement,
    DeviceSelector,
    DeviceTaint,
    DeviceToleration,
    ExactRequest,
    ResourceClaim,
)
from podium.planner.plugins.devices.gates import Gates


class SelectorList(NamedTuple):
    """The expressions of a class and of a request, in the order of their evaluation."""

    class_name: str = ""
    of_class: tuple[str, ...] = ()
    of_request: tuple[str, ...] = ()


class NeedShape(NamedTuple):
    """The part of a requirement that decides whether it can have a device: equal ones have equal answers."""

    selectors: int
    tolerations: tuple[DeviceToleration, ...]
    capacity: frozenset[tuple[str, RawQuantity]]


class DeviceNeed:
    """Devices of one class that a request needs; `number` is unique among the requirements of a pod."""

    __slots__ = (
        "admin",
        "capacity",
        "claim",
        "class_",
        "constraints",
        "count",
        "error",
        "every",
        "name",
        "number",
        "parent",
        "record",
        "rules",
        "selectors",
        "shape",
        "tolerations",
    )

    def __init__(self, claim: int, number: int, parent: str, name: str, record: DeviceRequirement) -> None:
        self.claim = claim
        self.number = number
        self.parent = parent
        self.name = name
        self.record = record
        self.error = ""
        self.class_: DeviceClass | None = None
        self.every = record.allocationMode == ALL
        self.count = 1 if record.count is None else record.count
        self.admin = isinstance(record, ExactRequest) and bool(record.adminAccess)
        self.capacity: Mapping[str, RawQuantity] = (
            record.capacity.requests if record.capacity is not None else None
        ) or {}
        self.tolerations: tuple[DeviceToleration, ...] = tuple(record.tolerations or ())
        self.selectors = SelectorList()
        self.shape = NeedShape(0, (), frozenset())
        # The constraints of the claim that concern the requirement.
        self.rules: tuple[int, ...] = ()
        self.constraints: tuple[DeviceConstraint, ...] = ()

    @property
    def request(self) -> str:
        """Return the name of the request, also for an alternative."""
        return self.parent or self.name

    @property
    def full_name(self) -> str:
        """Return the name in results: `request`, or `request/subrequest`."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    def tolerates(self, taints: Iterable[DeviceTaint]) -> bool:
        """Return whether the requirement tolerates all these taints."""
        return all(any(_tolerated(toleration, taint) for toleration in self.tolerations) for taint in taints)


class FlatRequest(NamedTuple):
    """A request: its alternatives, one without a choice. An error precedes those of the alternatives."""

    name: str
    alternatives: tuple[DeviceNeed, ...]
    listed: bool
    error: str


class FlatClaim(NamedTuple):
    """A claim: `label` is its name in messages; an error about constraints follows those of the requests."""

    record: ResourceClaim
    label: str
    requests: tuple[FlatRequest, ...]
    constraints: tuple[DeviceConstraint, ...]
    error: str


class Demand(NamedTuple):
    """The claims of a pod, and what the search may assume of them.

    `countable` is set if the claims only ask for numbers of devices: no choices, no administrative access, no
    request for all devices, and no constraint but on a shared attribute.
    `symmetric` is set if two devices that differ in nothing can change places in every step of the search.
    """

    claims: tuple[FlatClaim, ...]
    requirements: tuple[DeviceNeed, ...]
    countable: bool
    symmetric: bool


class DemandReader:
    """Reads claims for one state of the classes."""

    def __init__(self, classes: Iterable[DeviceClass], gates: Gates) -> None:
        self._classes = {device_class.metadata.name: device_class for device_class in classes}
        self._gates = gates
        self._numbers: dict[SelectorList, int] = {}

    def demand(self, claims: Sequence[ResourceClaim]) -> Demand:
        """Return the claims of a pod as flat requirements."""
        every: list[DeviceNeed] = []
        flat = tuple(self._claim(number, record, every) for number, record in enumerate(claims))
        choices = any(request.listed for claim in flat for request in claim.requests)
        constraints = [constraint for claim in flat for constraint in claim.constraints]
        differing = any(constraint.matchAttribute is None for constraint in constraints)
        special = any(need.every or need.admin for need in every)
        symmetric = all(map(self._symmetric, every))
        return Demand(flat, tuple(every), not (choices or differing or special), symmetric)

    def _symmetric(self, requirement: DeviceNeed) -> bool:
        """Return whether a requirement does not tell devices apart by their order.

        Administrative access makes a device unavailable for others only. A request for all devices fails on
        the first of them that breaks a constraint. In 1.36, the values that count depend on earlier steps.
        """
        if requirement.every:
            return not requirement.rules
        kinds = [constraint.distinctAttribute for constraint in requirement.constraints]
        return not requirement.admin and (self._gates.latest or not any(kinds))

    def _claim(self, number: int, record: ResourceClaim, every: list[DeviceNeed]) -> FlatClaim:
        metadata, devices = record.metadata, record.spec.devices
        label = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name or ""
        constraints = tuple(devices.constraints or ())
        requests = tuple(
            self._request(number, label, request, constraints, every) for request in devices.requests or ()
        )
        unknown = [
            at
            for at, constraint in enumerate(constraints)
            if constraint.matchAttribute is None and constraint.distinctAttribute is None
        ]
        where = f"claim {label}, constraint #{unknown[0]}" if unknown else ""
        error = f"{where}: empty constraint (unsupported constraint type?)" if unknown else ""
        return FlatClaim(record, label, requests, constraints, error)

    def _request(
        self,
        claim: int,
        label: str,
        request: DeviceRequest,
        constraints: Sequence[DeviceConstraint],
        every: list[DeviceNeed],
    ) -> FlatRequest:
        listed = bool(request.firstAvailable)
        alternatives: list[DeviceNeed] = []
        records: list[tuple[str, str, DeviceRequirement]] = [
            (request.name, subrequest.name, subrequest) for subrequest in request.firstAvailable or ()
        ] or [("", request.name, request.exactly or ExactRequest())]
        for parent, name, record in records:
            requirement = DeviceNeed(claim, len(every), parent, name, record)
            self._complete(requirement, f"claim {label}, request {name}")
            requirement.rules = tuple(
                at for at, constraint in enumerate(constraints) if _concerns(constraint, requirement)
            )
            requirement.constraints = tuple(constraints[at] for at in requirement.rules)
            every.append(requirement)
            alternatives.append(requirement)
        return FlatRequest(request.name, tuple(alternatives), listed, self._unsupported(label, request))

    def _unsupported(self, label: str, request: DeviceRequest) -> str:
        """Return an error if a gate that a request needs is off."""
        subrequests = request.firstAvailable or ()
        if subrequests and not self._gates.prioritized_list:
            where = f"claim {label}, request {request.name}"
            return f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled"
        if self._gates.consumable_capacity:
            return ""
        exact = request.exactly
        if exact is not None and exact.capacity is not None:
            where = f"claim {label}, request {request.name}"
        else:
            named = next(
                (subrequest.name for subrequest in subrequests if subrequest.capacity is not None), None
            )
            if named is None:
                return ""
            where = f"claim {label}, subrequest {named}"
        return f"{where}: has capacity requests, but the DRAConsumableCapacity feature is disabled"

    def _complete(self, requirement: DeviceNeed, where: str) -> None:
        """Set the class, the selectors and the shape of a requirement, or its error."""
        record = requirement.record
        unset = next((at for at, selector in enumerate(record.selectors or ()) if selector.cel is None), None)
        if unset is not None:
            requirement.error = (
                f"{where}, selector #{unset}: CEL expression empty (unsupported selector type?)"
            )
            return
        admin = record.adminAccess if isinstance(record, ExactRequest) else None
        if admin is not None and not self._gates.admin_access:
            requirement.error = f"{where}: admin access is requested, but the feature is disabled"
            return
        name = record.deviceClassName
        if not name:
            requirement.error = f"{where}: missing device class name (unsupported request type?)"
            return
        requirement.class_ = self._classes.get(name)
        if requirement.class_ is None:
            absent = f'deviceclass.resource.k8s.io "{name}" not found'
            requirement.error = f"{where}: could not retrieve device class {name}: {absent}"
            return
        if record.allocationMode not in (None, EXACT_COUNT, ALL):
            requirement.error = f"{where}: unsupported count mode {record.allocationMode}"
            return
        of_class = _expressions(requirement.class_.spec.selectors)
        requirement.selectors = SelectorList(name, of_class, _expressions(record.selectors))
        number = self._numbers.setdefault(requirement.selectors, len(self._numbers))
        requirement.shape = NeedShape(
            number, requirement.tolerations, frozenset(requirement.capacity.items())
        )


def _expressions(selectors: Iterable[DeviceSelector] | None) -> tuple[str, ...]:
    return tuple(selector.cel.expression if selector.cel is not None else "" for selector in selectors or ())


def _concerns(constraint: DeviceConstraint, requirement: DeviceNeed) -> bool:
    named = constraint.requests
    return not named or requirement.full_name in named or requirement.request in named


def _tolerated(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
