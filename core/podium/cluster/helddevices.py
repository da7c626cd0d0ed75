"""The devices that pods hold: those of device plugins by resource, and those of resource claims by driver.

A claim that several of the pods share counts once.
"""

from collections import Counter
from collections.abc import Iterable

from podium.api.claims import ClaimingPod
from podium.api.membership import membership
from podium.api.podclaims import entry_claims, reserved_devices
from podium.api.podrequests import devices
from podium.cluster.reader import ClusterReader, Name


def held_devices(pods: Iterable[object], view: ClusterReader) -> dict[str, int]:
    """Return how many devices pods hold, by resource (`nvidia.com/gpu`) or driver (`gpu.nvidia.com`)."""
    given = list(pods)
    held = Counter(devices(given))
    for drivers in _drivers_by_claim(given, view).values():
        held.update(drivers)
    return dict(held)


def _drivers_by_claim(pods: Iterable[object], view: ClusterReader) -> dict[Name, list[str]]:
    """Return the claims that are reserved for pods, each with the drivers of its devices."""
    drivers: dict[Name, list[str]] = {}
    for pod in pods:
        if not isinstance(pod, ClaimingPod) or not pod.spec.resourceClaims:
            continue
        key = membership(pod, native_served=True)
        group = view.groups.get(key) if key is not None and key.native else None
        for entry in entry_claims(pod, group):
            name = pod.metadata.namespace or "", entry.name or ""
            claim = view.resource_claims.get(name)
            held = reserved_devices(claim, entry.consumer) if claim is not None else []
            if held:
                drivers[name] = [device.driver for device in held]
    return drivers
