"""Devices that a search cannot tell apart, so that one of them answers for all.

If the search found no solution with a device, it finds none with its twin either: a solution with the twin
would be one with the device, because the two can change places. Attributes that no selector or constraint
reads, such as a serial number, do not count. Devices in use, and devices that several allocations share, have
no twins.
"""

from typing import Any

from podium.planner.devices.errors import AllocationError, UnansweredAllocationError
from podium.planner.devices.requests import DeviceNeed
from podium.planner.devices.trial import DeviceTrial


def twins_of(trial: DeviceTrial) -> list[int]:
    """Return the number of its class for each device of the node; twins have one number."""
    if not trial.demand.symmetric:
        # A request with administrative access may have a device that others cannot.
        return list(range(len(trial.node.devices)))
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(_marks(trial, at), len(numbers)) for at in range(len(trial.node.devices))]


def _marks(trial: DeviceTrial, at: int) -> Any:
    """Return what the search reads of a device."""
    node = trial.node
    if node.multiple(at) or trial.used >> at & 1:
        return at
    device = node.devices[at]
    attributes = {
        constraint.matchAttribute or constraint.distinctAttribute or ""
        for claim in trial.demand.claims
        for constraint in claim.constraints
    }
    return (
        node.owners[at].id,
        tuple(_answer(trial, requirement, at) for requirement in trial.demand.requirements),
        tuple(device.attribute(name) for name in sorted(attributes)),
        tuple(sorted(device.consumption().items())),
    )


def _answer(trial: DeviceTrial, requirement: DeviceNeed, at: int) -> bool | str:
    try:
        return trial.suitable(requirement, at) and trial.node.tolerated(requirement, at)
    except UnansweredAllocationError:
        raise
    except AllocationError as error:
        # The device fails wherever its twins fail; the text names the first of them.
        return str(error).replace(str(trial.node.devices[at]), "")
