"""The feature gates of the allocator, and the release whose behaviour counts.

The gates are those that kube-scheduler passes to its allocator. All are on by default in 1.36 and 1.37.
Fractional ranges came with 1.37. Results that differ between the releases without a gate follow `minor`.

Source: structured.Features of k8s.io/dynamic-resource-allocation 0.36.3 and 0.37.0.
"""

from typing import NamedTuple

from podium.api.minors import group_minor
from podium.errors import PodiumError

LATEST = 37
# Upstream's names of the gates that the files of the minors have; the others are always on.
_NAMES = {
    "partitionable_devices": "DRAPartitionableDevices",
    "device_taints": "DRADeviceTaints",
    "binding_conditions": "DRADeviceBindingConditions",
    "consumable_capacity": "DRAConsumableCapacity",
    "fractional_range": "DRAFractionalCapacityRange",
}


class Gates(NamedTuple):
    """The gates that the allocator reads, by the names that it gives them."""

    minor: int = LATEST
    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    fractional_range: bool = True

    @property
    def latest(self) -> bool:
        """Return whether the release is 1.37 or later, whose allocator has the fixes after 1.36."""
        return self.minor >= LATEST


def default_gates(minor: int) -> Gates:
    """Return the gates of kube-scheduler 1.`minor` as it starts without options."""
    on = group_minor(minor).enabled({})
    return Gates(minor, **{field: name in on for field, name in _NAMES.items()})


# The errors of an allocation, with upstream's texts.
#
# An error ends the scheduling attempt of the pod, because claims, classes or selectors are not valid. A
# node's error only excludes the node. Devices that do not suffice are no error.


class AllocationError(PodiumError):
    """The claims cannot be allocated on any node until an object changes."""


class NodeAllocationError(AllocationError):
    """The claims cannot be allocated on this node because of its pools."""


class UnansweredAllocationError(AllocationError):
    """The claims cannot be allocated now, because a selector has no result; later it may have one."""
