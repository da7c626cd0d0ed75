"""The least harm of small clusters with device claims, by trying all sets of victims and all placements.

Only the allocator for one node is the product's, which other tests compare with upstream's. The free claims,
the units, the nodes and the order of the members, and the harm are computed here plainly.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, combinations, permutations
from typing import Any, NamedTuple

from tests.support.devices.scene import DRIVER, device_class, node, pod
from tests.support.preemption.clusters import time_of
from tests.support.preemption.scene import SECONDS, group, of, planned, victims

from kubecel import compile_selector
from podium.api.devices import Device, DeviceClass, ResourceClaim, ResourceSlice
from podium.planner.deadline import NEVER
from podium.planner.plugins.devices.allocator import Allocator
from podium.planner.plugins.devices.gates import AllocationError, default_gates
from podium.planner.plugins.devices.usage import DeviceUsage
from podium.planner.preemption.outcome import Outcome

MINOR = 37
PRIORITY = 10
# From the highest priority: priority, work, units, pods.
Levels = tuple[tuple[int, int, int, int], ...]


class RunningPod(NamedTuple):
    """A pod on a node: the unit that it is evicted with, its priority, its seconds and its claims."""

    name: str
    unit: str
    priority: int
    node: str
    ago: int
    claims: tuple[str, ...]


class DeviceCase(NamedTuple):
    """A cluster: its nodes, slices, claims, running pods, and the claims of each pod of the preemptor."""

    nodes: tuple[str, ...]
    slices: tuple[ResourceSlice, ...]
    claims: Mapping[str, ResourceClaim]
    running: tuple[RunningPod, ...]
    whole: frozenset[str]
    wanted: tuple[tuple[str, ...], ...]
    grouped: bool

    def objects(self) -> list[Any]:
        """Return the objects of the cluster."""
        found: list[Any] = [*map(node, self.nodes), *self.slices, *classes(), *self.claims.values()]
        sizes = {each.unit: sum(other.unit == each.unit for other in self.running) for each in self.running}
        for each in self.running:
            if each.unit in self.whole and each.name.endswith("-0"):
                found.append(group(each.unit, each.priority, sizes[each.unit], whole=True))
            within = each.unit if each.unit in self.whole else ""
            start = time_of(SECONDS - each.ago)
            claims = list(each.claims)
            found.append(pod(each.name, each.priority, claims, node=each.node, start=start, group=within))
        if self.grouped:
            found.append(group("high", PRIORITY, len(self.wanted)))
        for at, names in enumerate(self.wanted):
            name = f"high-{at}" if self.grouped else "high"
            found.append(pod(name, PRIORITY, list(names), group="high" if self.grouped else ""))
        return found


def classes() -> list[DeviceClass]:
    """Return the class of all devices, and that of devices of the kind `b`."""
    fast = f'device.attributes["{DRIVER}"].kind == "b"'
    return [device_class(), device_class("fast", fast)]


def levels_of(case: DeviceCase, gone: frozenset[str]) -> Levels:
    """Return the harm of evicting units (by name), from the highest priority."""
    victims = [each for each in case.running if each.unit in gone]
    found, counted = [], set[str]()
    for priority in sorted({each.priority for each in victims}, reverse=True):
        here = [each for each in victims if each.priority == priority]
        work: dict[str, int] = {}
        for each in here:
            for name in each.claims:
                work[name] = max(work.get(name, 0), _size(case.claims[name]) * each.ago)
        lost = sum(amount for name, amount in work.items() if name not in counted)
        counted |= work.keys()
        found.append((priority, lost, len({each.unit for each in here}), len(here)))
    return tuple(found)


def least_levels(case: DeviceCase) -> Levels | None:
    """Return the least harm with which the preemptor finds devices, None if it never does."""
    fit = _Fit(case)
    lower = sorted({each.unit for each in case.running if each.priority < PRIORITY})
    sets = chain.from_iterable(combinations(lower, size) for size in range(len(lower) + 1))
    for levels, gone in sorted((levels_of(case, frozenset(each)), each) for each in sets):
        if fit.fits(frozenset(gone)):
            return levels
    return None


class _Fit:
    """Whether the preemptor finds devices once some units are gone."""

    def __init__(self, case: DeviceCase) -> None:
        self._case = case
        self._allocator = Allocator(case.slices, classes(), _selects, default_gates(MINOR))
        self._users: dict[str, set[str]] = {}
        for each in case.running:
            for name in each.claims:
                self._users.setdefault(name, set()).add(each.unit)

    def fits(self, gone: frozenset[str]) -> bool:
        """Try the pods in each order, each on every node; a lone pod's victims are on its node."""
        case, usage = self._case, DeviceUsage()
        for name, claim in case.claims.items():
            allocation = claim.status.allocation if claim.status is not None else None
            if allocation is not None and not self._users.get(name, {""}) <= gone:
                usage.add(allocation)
        nodes: Sequence[str] = case.nodes
        if not case.grouped:
            nodes = [
                each
                for each in nodes
                if all(any(one.node == each for one in case.running if one.unit == unit) for unit in gone)
            ]
        orders = dict.fromkeys(permutations(case.wanted))
        return any(self._place(order, usage, {}, nodes) for order in orders)

    def _place(
        self,
        pods: Sequence[tuple[str, ...]],
        usage: DeviceUsage,
        given: Mapping[str, str],
        nodes: Sequence[str],
    ) -> bool:
        """Place pods one after the other; `given` has the node of each claim that got devices before."""
        if not pods:
            return True
        claims = [name for name in pods[0] if name not in given]
        for at in nodes:
            if any(given[name] != at for name in pods[0] if name in given):
                continue
            demand = self._allocator.demand([self._case.claims[name] for name in claims])
            labels = {"kubernetes.io/hostname": at}
            try:
                found = self._allocator.allocate(at, labels, demand, usage, NEVER)
            except AllocationError:
                found = None
            if found is None:
                continue
            for each in found:
                usage.add(each)
            placed = self._place(pods[1:], usage, {**given, **dict.fromkeys(claims, at)}, nodes)
            for each in found:
                usage.remove(each)
            if placed:
                return True
        return False


def _selects(expression: str, driver: str, device: Device) -> bool:
    return compile_selector(expression, MINOR).selects(driver, device)


def _size(claim: ResourceClaim) -> int:
    allocation = claim.status.allocation if claim.status is not None else None
    return len(allocation.devices.results or ()) if allocation is not None else 0


class ComparedDevices(NamedTuple):
    """The harm of a plan and the least harm; None if there is no plan, or if none is possible."""

    plan: Levels | None
    least: Levels | None

    @property
    def pods(self) -> tuple[int, int]:
        """The number of evicted pods of both."""
        plan, least = (sum(pods for *_, pods in each or ()) for each in self)
        return plan, least


def compared_devices(case: DeviceCase) -> ComparedDevices:
    """Return the harm of the plan for a case beside the least harm."""
    made = planned(case.objects(), by=of("high") if case.grouped else "high")
    if made.outcome not in (Outcome.FITS, Outcome.FITS_AFTER_PREEMPTION):
        return ComparedDevices(None, least_levels(case))
    units = {each.name: each.unit for each in case.running}
    gone = frozenset(units[each] for each in victims(made))
    assert _Fit(case).fits(gone), "the victims suffice"
    found = levels_of(case, gone)
    # The plan reports the same harm.
    shown = made.harm
    assert sum(work for _, work, *_ in found) == (shown.acceleratorSeconds if shown is not None else 0)
    return ComparedDevices(found, least_levels(case))
