"""The constraints of a claim during a search: attributes that its devices share, or that differ.

A device without the attribute satisfies neither. Values of different types differ. A value of a type that
this release does not know satisfies a constraint only if its device is the only one.

Kubernetes 1.36 keeps one value for each request whose devices must differ, and forgets it in a step back. So
two devices of one request can have the same value there. Podium follows each release.

Source: matchAttributeConstraint and distinctAttributeConstraint of the incubating allocator, 1.36 and 1.37.
"""

from collections import Counter
from typing import Protocol

from podium.api.devices import DeviceConstraint
from podium.planner.devices.gates import Gates
from podium.planner.devices.inventory import AttributeValue, PoolDevice


class AttributeRule(Protocol):
    """One constraint, with the devices that were added."""

    attribute: str

    def add(self, request: str, device: PoolDevice) -> bool:
        """Add a device of a request and return True, or return False if that breaks the constraint."""

    def remove(self, request: str, device: PoolDevice) -> None:
        """Remove a device that was added; the devices are removed in the reverse order."""


class SameAttribute:
    """All devices have the same value."""

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        self._count = 0
        self._value: AttributeValue | None = None

    def add(self, request: str, device: PoolDevice) -> bool:  # noqa: ARG002 - see AttributeRule
        """Add a device and return True, or return False if its value is another."""
        value = device.attribute(self.attribute)
        if value is None or (self._count and (not value.kind or value != self._value)):
            return False
        if not self._count:
            self._value = value
        self._count += 1
        return True

    def remove(self, request: str, device: PoolDevice) -> None:  # noqa: ARG002 - see AttributeRule
        """Remove a device."""
        self._count -= 1


class DifferentAttribute:
    """No two devices have the same value."""

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        self._values: Counter[AttributeValue] = Counter()

    def add(self, request: str, device: PoolDevice) -> bool:  # noqa: ARG002 - see AttributeRule
        """Add a device and return True, or return False if another one has its value."""
        value = device.attribute(self.attribute)
        if value is None or value in self._values or (self._values and not value.kind):
            return False
        self._values[value] += 1
        return True

    def remove(self, request: str, device: PoolDevice) -> None:  # noqa: ARG002 - see AttributeRule
        """Remove a device."""
        value = device.attribute(self.attribute)
        if value is not None:
            del self._values[value]


class DifferentRequests:
    """No device has the value that 1.36 keeps of a request, which is that of its latest device."""

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        self._count = 0
        self._latest: dict[str, AttributeValue] = {}

    def add(self, request: str, device: PoolDevice) -> bool:
        """Add a device and return True, or return False if a request has its value."""
        value = device.attribute(self.attribute)
        if value is None:
            return False
        if self._count and self._latest and (not value.kind or value in self._latest.values()):
            return False
        self._latest[request] = value
        self._count += 1
        return True

    def remove(self, request: str, device: PoolDevice) -> None:  # noqa: ARG002 - see AttributeRule
        """Remove a device, and with it what is known of its request."""
        self._latest.pop(request, None)
        self._count -= 1


def rule_of(constraint: DeviceConstraint, gates: Gates) -> AttributeRule | None:
    """Return a constraint without devices, None if its type is not known."""
    if constraint.matchAttribute is not None:
        return SameAttribute(constraint.matchAttribute)
    if constraint.distinctAttribute is not None:
        different = DifferentAttribute if gates.latest else DifferentRequests
        return different(constraint.distinctAttribute)
    return None
