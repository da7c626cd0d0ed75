"""Devices that their drivers prepare before a bind, such as devices that are attached to the node.

An allocated device may name conditions that have to be true before a pod that uses it is bound, and others of
which each one means that the device cannot be prepared. Its driver reports them in the status of the claim.

Source: isClaimReadyForBinding of the plugin DynamicResources of kube-scheduler 1.36 and 1.37.
"""

from collections.abc import Iterator

from podium.api.devices import AllocatedDevice, ResourceClaim
from podium.text import listed


def failed_device(claim: ResourceClaim) -> str:
    """Return the device of a claim that cannot be prepared, with its conditions; empty if all may be."""
    for device, conditions in _prepared_devices(claim):
        failed = sorted({*(device.bindingFailureConditions or ())} & conditions)
        if failed:
            return f"device {device.driver}/{device.pool}/{device.device} has {listed(failed)}"
    return ""


def is_prepared(claim: ResourceClaim) -> bool:
    """Return whether all conditions are true that the devices of a claim name."""
    return all(
        conditions.issuperset(device.bindingConditions or ())
        for device, conditions in _prepared_devices(claim)
    )


def _prepared_devices(claim: ResourceClaim) -> Iterator[tuple[AllocatedDevice, set[str]]]:
    """Yield the devices that have to be prepared before a bind, each with its conditions that are true."""
    status = claim.status
    allocation = status.allocation if status is not None else None
    reported = (status.devices if status is not None else None) or ()
    for device in (allocation.devices.results if allocation is not None else None) or ():
        if device.bindingConditions:
            own = (device.driver, device.pool, device.device, device.shareID)
            yield (
                device,
                {
                    condition.type
                    for report in reported
                    if (report.driver, report.pool, report.device, report.shareID) == own
                    for condition in report.conditions or ()
                    if condition.status == "True"
                },
            )
