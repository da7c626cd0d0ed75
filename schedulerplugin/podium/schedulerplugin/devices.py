"""The devices that pods hold, counted for people: a preemption is paid in accelerators first."""

from collections import Counter
from collections.abc import Iterable

from podium.api.schedulable import Schedulable, SchedulableSpec
from podium.schedulerplugin.requests import amounts


def devices(pods: Iterable[object]) -> dict[str, int]:
    """Count the devices that pods hold, by resource: those whose name has a domain, as `nvidia.com/gpu`."""
    held: Counter[str] = Counter()
    for pod in pods:
        if isinstance(pod, Schedulable) and _names_one(pod.spec):
            held.update({name: amount for name, amount in amounts(pod).items() if is_device(name)})
    return dict(held)


def _names_one(spec: SchedulableSpec) -> bool:
    """Say whether a pod asks for a device at all: most do not, and to sum up all that one takes is dear."""
    parts = (*(spec.containers or ()), *(spec.initContainers or ()))
    asked = (spec.resources, *(part.resources for part in parts))
    lists = [names for each in asked if each is not None for names in (each.requests, each.limits)]
    return any(is_device(name) for names in (*lists, spec.overhead) for name in names or ())


def is_device(resource: str) -> bool:
    """Return whether a resource is a device: its name has a domain, as `nvidia.com/gpu`."""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and "." in domain
