"""The devices that pods hold, counted for people: a preemption is paid in accelerators first."""

from collections import Counter
from collections.abc import Iterable

from podium.api.schedulable import Schedulable
from podium.schedulerplugin.requests import effective


def devices(pods: Iterable[object]) -> dict[str, int]:
    """Count the devices that pods hold, by resource: those whose name has a domain, as `nvidia.com/gpu`."""
    held: Counter[str] = Counter()
    for pod in pods:
        if isinstance(pod, Schedulable):
            amounts = effective(pod).amounts
            held.update({name: amounts[name] for name in amounts if _is_device(name)})
    return dict(held)


def _is_device(resource: str) -> bool:
    domain, slash, _ = resource.partition("/")
    return bool(slash) and "." in domain
