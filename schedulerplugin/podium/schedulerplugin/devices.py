"""Counts the devices that pods hold, because accelerators are the main cost of a preemption."""

from collections import Counter
from collections.abc import Iterable

from podium.api.schedulable import Schedulable, SchedulableSpec
from podium.schedulerplugin.requests import amounts


def devices(pods: Iterable[object]) -> dict[str, int]:
    """Return the devices that pods hold, by resource: names with a domain, such as `nvidia.com/gpu`."""
    held: Counter[str] = Counter()
    for pod in pods:
        if isinstance(pod, Schedulable) and _names_one(pod.spec):
            held.update({name: amount for name, amount in amounts(pod).items() if is_device(name)})
    return dict(held)


def _names_one(spec: SchedulableSpec) -> bool:
    """Return whether a pod requests any device: most do not, and summing up all requests of a pod is slow."""
    parts = (*(spec.containers or ()), *(spec.initContainers or ()))
    asked = (spec.resources, *(part.resources for part in parts))
    lists = [names for each in asked if each is not None for names in (each.requests, each.limits)]
    return any(is_device(name) for names in (*lists, spec.overhead) for name in names or ())


def is_device(resource: str) -> bool:
    """Return whether a resource is a device: its name has a domain, such as `nvidia.com/gpu`."""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and "." in domain
