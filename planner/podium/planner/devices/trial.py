"""The devices that a search has chosen so far, with everything that each of them takes.

`take_device` adds a device if nothing forbids it, and `undo` takes back the latest. Between the two, all
state is as if the claims had the chosen devices, and a search that fails leaves nothing behind.

Source: allocateDevice and rollbackDevice of the incubating allocator, 1.36 and 1.37.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from podium.planner.devices.capacity import consumed_amounts
from podium.planner.devices.constraints import AttributeRule, rule_of
from podium.planner.devices.counters import CounterLedger
from podium.planner.devices.errors import AllocationError
from podium.planner.devices.gates import Gates
from podium.planner.devices.inventory import Counters
from podium.planner.devices.nodeview import NodeView
from podium.planner.devices.requests import Demand, DeviceNeed, FlatClaim
from podium.planner.devices.usage import DeviceUsage, consumed_of

_NO_COUNTERS: Counters = {}


class Choice(NamedTuple):
    """A device for a requirement, with the counters and the capacity that it takes (None: not shared)."""

    requirement: DeviceNeed
    at: int
    counters: Counters
    share: Mapping[str, int] | None


class DeviceTrial:
    """The chosen devices of all claims of a pod on one node."""

    def __init__(self, node: NodeView, demand: Demand, usage: DeviceUsage, gates: Gates) -> None:
        self.node = node
        self.demand = demand
        self.counters = CounterLedger(usage)
        # The chosen devices by claim, in order.
        self.chosen: tuple[list[Choice], ...] = tuple([] for _ in demand.claims)
        self.used = node.used(usage)
        self._usage = usage
        self._gates = gates
        # For each device, a bit for each claim that has it.
        self._holders: dict[int, int] = {}
        # The shares of a device that the claims take, and their number.
        self._shares: dict[int, tuple[int, Counter[str]]] = {}
        self._rules: tuple[tuple[AttributeRule | None, ...], ...] = tuple(
            tuple(rule_of(each, gates) for each in claim.constraints) for claim in demand.claims
        )

    def available(self, requirement: DeviceNeed, at: int) -> bool:
        """Return whether no other allocation keeps a requirement from having a device."""
        held = self._holders.get(at, 0)
        if requirement.admin:
            return not held >> requirement.claim & 1
        return not held and not self.used >> at & 1

    def suitable(self, requirement: DeviceNeed, at: int) -> bool:
        """Return whether a requirement can have an available device, apart from counters and constraints."""
        return self.node.matches(self._claim(requirement), requirement, at) and self.has_capacity(
            requirement, at, "checking"
        )

    def has_capacity(self, requirement: DeviceNeed, at: int, doing: str) -> bool:
        """Return whether what is left of a device's capacity suffices."""
        text = f"{doing} capacity for device {self.node.devices[at]}"
        return self.node.has_capacity(self._claim(requirement), requirement, at, self._taken(at), text)

    def take_device(self, requirement: DeviceNeed, at: int, *, must: bool = False) -> bool:
        """Choose a device and return True, or return False if counters, taints or constraints forbid it.

        `must` is set for a request for all devices: a constraint that forbids one of them is an error.
        """
        node, device = self.node, self.node.devices[at]
        multiple = node.multiple(at)
        if must and not self.available(requirement, at):
            return False
        counters = self._counters(at, multiple=multiple)
        if counters is None or not node.tolerated(requirement, at):
            return False
        if counters and not self.counters.take(node.owners[at], counters):
            return False
        if not self._add_to_rules(requirement, at):
            self.counters.give_back(node.owners[at], counters)
            if must:
                where = f"claim {self._claim(requirement).label}, request {requirement.name}"
                reason = "because a claim constraint would not be satisfied"
                raise AllocationError(f"{where}: cannot add device {device} {reason}")
            return False
        if must and not self.has_capacity(requirement, at, "rechecking"):
            self._remove_from_rules(requirement, at, len(requirement.rules))
            self.counters.give_back(node.owners[at], counters)
            return False
        share = self._share(requirement, at) if multiple else None
        if share is None:
            self._holders[at] = self._holders.get(at, 0) | 1 << requirement.claim
        self.chosen[requirement.claim].append(Choice(requirement, at, counters, share))
        return True

    def undo(self, claim: int) -> None:
        """Take back the device that was chosen last for a claim."""
        requirement, at, counters, share = self.chosen[claim].pop()
        if share is not None:
            count, taken = self._shares[at]
            taken.subtract(share)
            self._shares[at] = count - 1, taken
        else:
            self._holders[at] ^= 1 << claim
        self._remove_from_rules(requirement, at, len(requirement.rules))
        self.counters.give_back(self.node.owners[at], counters)

    def _claim(self, requirement: DeviceNeed) -> FlatClaim:
        return self.demand.claims[requirement.claim]

    def _counters(self, at: int, *, multiple: bool) -> Counters | None:
        """Return the counters that a device takes, None if the gates exclude devices with counters.

        A device that is shared already has taken them.
        """
        device = self.node.devices[at]
        if not device.device.consumesCounters:
            return _NO_COUNTERS
        if not self._gates.partitionable_devices:
            return None
        if multiple:
            used = self._usage.pool(self.node.owners[at].id)
            by_shares = self._gates.latest
            if self._shared(at) or (used is not None and used.shared(device.name, by_shares=by_shares)):
                return _NO_COUNTERS
        return device.consumption()

    def _shared(self, at: int) -> bool:
        return self._shares.get(at, (0,))[0] > 0

    def _taken(self, at: int) -> Mapping[str, int]:
        """Return the capacities of a device that are taken, in nano-units."""
        used = self._usage.pool(self.node.owners[at].id)
        consumed = consumed_of(used, self.node.devices[at].name)
        if not self._shared(at):
            return consumed
        shares = self._shares[at][1]
        return {name: consumed.get(name, 0) + shares[name] for name in {*consumed, *shares}}

    def _share(self, requirement: DeviceNeed, at: int) -> Mapping[str, int]:
        """Take the capacities of a share of a device."""
        amounts = consumed_amounts(self.node.devices[at].device, requirement.capacity, self._gates)
        share = {name: amount.nanos for name, amount in amounts.items()}
        count, taken = self._shares.get(at, (0, Counter[str]()))
        taken.update(share)
        self._shares[at] = count + 1, taken
        return share

    def _add_to_rules(self, requirement: DeviceNeed, at: int) -> bool:
        """Add a device to the constraints that concern it, to all or to none."""
        device, rules = self.node.devices[at], self._rules[requirement.claim]
        for number, index in enumerate(requirement.rules):
            rule = rules[index]
            if rule is not None and not rule.add(requirement.request, device):
                self._remove_from_rules(requirement, at, number)
                return False
        return True

    def _remove_from_rules(self, requirement: DeviceNeed, at: int, count: int) -> None:
        """Remove a device from the first `count` constraints that concern it."""
        device, rules = self.node.devices[at], self._rules[requirement.claim]
        for index in requirement.rules[:count]:
            rule = rules[index]
            if rule is not None:
                rule.remove(requirement.request, device)
