"""Devices: which devices of a node the claims of a pod get, as kube-scheduler's allocator decides.

`Allocator` is the entry point. `DeviceUsage` has the devices in use.
"""

from podium.planner.devices.allocator import Allocator
from podium.planner.devices.errors import (
    AllocationError,
    NodeAllocationError,
)
from podium.planner.devices.gates import Gates, default_gates
from podium.planner.devices.usage import DeviceUsage

__all__ = [
    "AllocationError",
    "Allocator",
    "DeviceUsage",
    "Gates",
    "NodeAllocationError",
    "default_gates",
]
