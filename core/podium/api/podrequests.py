"""Computes a pod's requests and a node's allocatable in whole numbers: milli for cpu, units for all else.

kube-scheduler computes a pod's requests from init containers, sidecars, overhead and pod-level resources.
Once the pod has a node, a resize counts too. A plan is only as right as this sum. It is exact: each quantity
is read to the milli, as an API server stores it, and the total is rounded up once. A quantity that is
negative, unreadable or absurd is named. A pod with such an amount counts as if it requested LARGEST of that
resource, so nothing of the resource is free on its node. A node with such an amount has none of it. More
resources than MOST_NAMES are named, too; the first ones count, and always cpu and memory.

Devices are the resources whose names have a domain. Accelerators are the main cost of a preemption.

Source: the resource helpers of component-helpers 1.36.3 and 1.37.0, KEP-753 (sidecars), KEP-2837 (pod-level
resources), KEP-1287 (in-place resize), with both releases' default gates.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

import msgspec

from podium.api import core
from podium.api.quantity import QuantityError, Scale, parse

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
# The most that one pod requests or one node has of a resource. 4 PiB of memory is more than any machine has,
# and two thousand pods of it still sum up within an int64.
LARGEST = 2**52
_TOO_LARGE = "is more than any machine has"
# The resources of one pod or node that count. Each takes some microseconds whenever its object changes.
MOST_NAMES = 1_000
# The release whose arithmetic is the default, and the last whose arithmetic was another.
LATEST = 37
_BY_CONTAINER = 36

# JSON has integers of any size, where MessagePack has 64 bits; both take the same time.
_ENCODER = msgspec.json.Encoder()
# Longer encodings are computed for each pod, so the cached answers stay below 16 MiB.
_LONGEST_MARK = 2**12

_NATIVE = frozenset({CPU, MEMORY, "ephemeral-storage"})
_MILLI = 1000
# The scored requests of a container without a request (kube-scheduler's defaults), in milli.
_SCORED = {CPU: 100, MEMORY: 200 * 1024 * 1024 * _MILLI}

_Milli = dict[str, int]  # resource name to thousandths
_Q = TypeVar("_Q")
_Unusables = dict[tuple[str, str], "UnusableQuantity"]  # by resource name and field
_Take = Callable[[core.Container, str], _Milli]


class UnusableQuantity(NamedTuple):
    """A quantity that cannot be used: its field, and what is wrong with it."""

    field: str
    why: str

    @property
    def too_large(self) -> bool:
        """Return whether the quantity is valid, but more than LARGEST."""
        return self.why.endswith(_TOO_LARGE)


class PodRequests(NamedTuple):
    """The requests of a pod: amounts above zero (`pods` is 1), (milli cpu, bytes) for scores, the unusable.

    The amount of an unusable resource is LARGEST.
    """

    amounts: Mapping[str, int]
    scored: tuple[int, int]
    unusable: tuple[UnusableQuantity, ...]


def pod_requests(pod: core.Pod, minor: int = LATEST) -> PodRequests:
    """Return what kube-scheduler 1.`minor` counts for a pod; with a node, the pod's status counts too.

    A limit without a request counts as the request, as a server would have stored it. Pods whose requests are
    written alike share one answer.
    """
    spec = pod.spec
    reading = _RequestReader(pod, minor)
    reading.limit_names()
    if reading.only:
        return _pod_requests(reading)
    mark = _ENCODER.encode(
        (spec.containers, spec.initContainers, spec.resources, spec.overhead, resized(pod))
    )
    if len(mark) > _LONGEST_MARK:
        return _pod_requests(reading)
    known = _known(mark, minor)
    if not known:
        known.append(_pod_requests(reading))
    return known[0]


def _pod_requests(reading: "_RequestReader") -> PodRequests:
    total = reading.total({})
    return PodRequests(reading.amounts(total), reading.scored(total), tuple(reading.unusable.values()))


@lru_cache(maxsize=2**12)
def _known(mark: bytes, minor: int) -> list[PodRequests]:  # noqa: ARG001 - the arguments are the cache key
    # A cluster has few different requests, in pods that differ in their labels.
    return []


def resized(pod: core.Pod) -> tuple[Any, ...] | None:
    """Return the status fields by which a pod on a node may use other amounts than it requests."""
    status = pod.status if pod.spec.nodeName else None
    if status is None:
        return None
    return (
        status.containerStatuses,
        status.initContainerStatuses,
        status.allocatedResources,
        status.resources,
        status.nodeAllocatableResourceClaimStatuses,
        status.condition("PodResizePending"),
    )


def amounts(pod: core.Pod) -> dict[str, int]:
    """Return the amounts of `pod_requests` without the unusable, and without the costly scored amounts."""
    reading = _RequestReader(pod, LATEST)
    requested = reading.amounts(reading.total({}))
    return {name: amount for name, amount in requested.items() if amount < LARGEST}


def allocatable(node: core.Node) -> tuple[dict[str, int], tuple[UnusableQuantity, ...]]:
    """Return a node's status.allocatable; it has nothing of a resource that is not in it, pods included."""
    unusable: _Unusables = {}
    written = (node.status.allocatable if node.status is not None else None) or {}
    only = _first_names((written,), "status.allocatable", unusable, PODS)
    total = _read(_among(only, written), "status.allocatable", unusable)
    return _rounded(total, "status.allocatable", unusable, PODS), tuple(unusable.values())


class _RequestReader:
    """The arithmetic of one pod: the amounts that were read, and the unusable quantities."""

    def __init__(self, pod: core.Pod, minor: int, only: Collection[str] = ()) -> None:
        """`only` names the resources that are read; empty for all."""
        self.pod = pod
        self.minor = minor
        self.only = only
        self.unusable: _Unusables = {}
        # kube-scheduler ignores the status of a pod that is not placed yet.
        self.status = (pod.status if pod.spec.nodeName else None) or core.PodStatus()
        pending = self.status.condition("PodResizePending")
        self.infeasible = pending is not None and pending.reason == "Infeasible"
        self.containers: dict[str | None, tuple[str, core.ContainerStatus]] = {}
        for kind in ("initContainerStatuses", "containerStatuses"):
            for index, status in enumerate(getattr(self.status, kind) or ()):
                if status.allocatedResources is not None or status.resources is not None:
                    self.containers[status.name] = f"status.{kind}[{index}]", status

    def limit_names(self) -> None:
        """Read only the first resources of a pod that names more than MOST_NAMES."""
        spec, status = self.pod.spec, self.status
        resources = [
            spec.resources,
            status.resources,
            *(container.resources for container in spec.containers or ()),
            *(container.resources for container in spec.initContainers or ()),
            *(container.resources for _, container in self.containers.values()),
        ]
        written = [
            spec.overhead,
            status.allocatedResources,
            *(container.allocatedResources for _, container in self.containers.values()),
            *(part for each in resources if each is not None for part in (each.requests, each.limits)),
        ]
        self.only = _first_names([part for part in written if part], "spec", self.unusable)

    def total(self, missing: _Milli) -> _Milli:
        """Return the total of a pod; for containers without a request, the amounts in `missing` count."""
        spec = self.pod.spec
        if self.minor <= _BY_CONTAINER:
            total = self.over_containers(self.by_container, missing)
        else:
            total = self.resized(missing)
        self.pod_level(total)
        _add(total, self.read(spec.overhead, "spec.overhead"))
        for index, claim in enumerate(self.status.nodeAllocatableResourceClaimStatuses or ()):
            field = f"status.nodeAllocatableResourceClaimStatuses[{index}]"
            for quantities in (
                claim.resources,
                *({entry.name: entry.quantity} for entry in claim.mapping or ()),
            ):
                _add(total, self.read(quantities, field))
        return total

    def amounts(self, total: _Milli) -> dict[str, int]:
        """Return a total in whole amounts, LARGEST of what is unusable, and the pod itself as one."""
        requested = _rounded(total, "spec", self.unusable)
        requested.update({name: LARGEST for name, _ in self.unusable if _counts(name)})
        return {**requested, PODS: 1}

    def scored(self, total: _Milli) -> tuple[int, int]:
        """Return cpu and memory, with kube-scheduler's defaults for containers or pods without requests."""
        resources = self.pod.spec.resources
        whole = resources is not None and _pod_level(resources.requests)
        missing = {name: amount for name, amount in _SCORED.items() if not whole or name not in total}
        # A pod may request thousands of other resources.
        filled = _RequestReader(self.pod, self.minor, _SCORED).total(missing) if missing else total
        cpu, memory = filled.get(CPU, 0), -(-filled.get(MEMORY, 0) // _MILLI)
        return min(cpu, LARGEST), min(memory, LARGEST)

    def over_containers(self, take: _Take, missing: _Milli) -> _Milli:
        """Return the sum of containers: init containers run in turn, sidecars beside later ones (KEP-753)."""
        total: _Milli = {}
        peak: _Milli = {}
        sidecars: _Milli = {}
        for index, container in enumerate(self.pod.spec.containers or ()):
            _add(total, {**missing, **take(container, f"spec.containers[{index}]")})
        for index, container in enumerate(self.pod.spec.initContainers or ()):
            wants = {**missing, **take(container, f"spec.initContainers[{index}]")}
            if _is_sidecar(container):
                _add(total, wants)
                _add(sidecars, wants)
                _raise_to(peak, sidecars)
            else:
                _add(wants, sidecars)
                _raise_to(peak, wants)
        _raise_to(total, peak)
        return total

    def resized(self, missing: _Milli) -> _Milli:
        """Return the maximum of the sums of spec, allocation and cgroups; an infeasible spec is left out."""
        total = self.over_containers(self.requested, missing)
        if not self.containers and not self.infeasible and self.status.allocatedResources is None:
            return total
        status = self.status
        given = status.resources.requests if status.resources is not None else None
        if status.allocatedResources is not None and given is not None:
            allocated, actual = self.pod_status()
        else:
            allocated = self.over_containers(self.allocated, missing)
            actual = self.over_containers(self.actual, missing)
        if self.infeasible:
            total = {}
        _raise_to(total, allocated)
        _raise_to(total, actual)
        return total

    def pod_level(self, total: _Milli) -> None:
        """Replace the containers' requests by the pod-level requests."""
        resources = self.pod.spec.resources or core.ResourceRequirements()
        requests = _pod_level(resources.requests)
        wants = self.read(requests, "spec.resources.requests")
        if requests and self.status.resources is not None:
            allocated, actual = self.pod_status()
            wants = {} if self.infeasible else wants
            _raise_to(wants, allocated)
            _raise_to(wants, actual)
            if self.minor <= _BY_CONTAINER:
                wants = {name: wants.get(name, 0) for name in requests}
        # A server fills in a request from a limit only if no container requests the resource.
        limits = {name: raw for name, raw in _pod_level(resources.limits).items() if name not in total}
        total.update({**self.read(limits, "spec.resources.limits"), **_pod_level(wants)})

    def pod_status(self) -> tuple[_Milli, _Milli]:
        """Return what the kubelet reports for the pod as a whole: allocated, actual."""
        status = self.status
        given = status.resources.requests if status.resources is not None else None
        return (
            self.read(status.allocatedResources, "status.allocatedResources"),
            self.read(given, "status.resources.requests"),
        )

    def read(self, quantities: Mapping[str, core.RawQuantity] | None, path: str) -> _Milli:
        return _read(_among(self.only, quantities or {}), path, self.unusable)

    def requested(self, container: core.Container, path: str) -> _Milli:
        resources = container.resources
        if resources is None:
            return {}
        requests = self.read(resources.requests, f"{path}.resources.requests")
        if not resources.limits:
            return requests
        written = resources.requests or {}
        limits = _among(self.only, resources.limits)
        limits_only = {name: raw for name, raw in limits.items() if name not in written}
        return {**self.read(limits_only, f"{path}.resources.limits"), **requests}

    def allocated(self, container: core.Container, path: str) -> _Milli:
        where, status = self.containers.get(container.name, ("", None))
        if status is not None and status.allocatedResources is not None:
            return self.read(status.allocatedResources, f"{where}.allocatedResources")
        return {} if self.infeasible else self.requested(container, path)

    def actual(self, container: core.Container, path: str) -> _Milli:
        where, status = self.containers.get(container.name, ("", None))
        if status is not None and status.resources is not None and status.resources.requests is not None:
            return self.read(status.resources.requests, f"{where}.resources.requests")
        return self.allocated(container, path)

    def by_container(self, container: core.Container, path: str) -> _Milli:
        """Return the maximum of spec, allocation and cgroup of one container, as in 1.36 before the sum."""
        where, status = self.containers.get(container.name, ("", None))
        runs_on = path.startswith("spec.containers") or _is_sidecar(container)
        if status is None or status.resources is None or not runs_on:
            return self.requested(container, path)
        wants = {} if self.infeasible else self.requested(container, path)
        _raise_to(wants, self.read(status.resources.requests, f"{where}.resources.requests"))
        _raise_to(wants, self.read(status.allocatedResources, f"{where}.allocatedResources"))
        return wants


def _first_names(
    written: Sequence[Mapping[str, object]], path: str, unusable: _Unusables, *more: str
) -> Collection[str]:
    """Return the resources that are read if more than MOST_NAMES are written; otherwise none, for all."""
    if sum(map(len, written)) <= MOST_NAMES:
        return ()
    names = dict.fromkeys(chain.from_iterable(written))
    if len(names) <= MOST_NAMES:
        return ()
    unusable["", path] = UnusableQuantity(path, f"has more than {MOST_NAMES:,} resources")
    first = dict.fromkeys((*(names.keys() & {*_NATIVE, *more}), *names))
    return dict.fromkeys(islice(first, MOST_NAMES))


def _among(only: Collection[str], quantities: Mapping[str, _Q]) -> Mapping[str, _Q]:
    """Return the quantities of the resources in `only`; of all if it is empty."""
    if not only:
        return quantities
    shorter = only if len(only) < len(quantities) else quantities
    return {name: quantities[name] for name in shorter if name in only and name in quantities}


def _read(quantities: Mapping[str, core.RawQuantity], path: str, unusable: _Unusables) -> _Milli:
    amounts: _Milli = {}
    for name, raw in quantities.items():
        try:
            amount = _milli(raw)
        except QuantityError as error:
            why = str(error)
        else:
            if amount >= 0:
                amounts[name] = amount
                continue
            why = f"{raw!r} is negative"
        field = f"{path}[{name}]"
        unusable[name, field] = UnusableQuantity(field, why)
    return amounts


@lru_cache(maxsize=4096)
def _milli(raw: core.RawQuantity) -> int:
    # Reading a quantity costs more than its use, and a cluster has few different ones.
    return parse(raw, Scale.MILLI)


def _rounded(total: _Milli, path: str, unusable: _Unusables, *more: str) -> dict[str, int]:
    """Return the whole amounts of the resources that kube-scheduler counts, without zeros."""
    amounts: dict[str, int] = {}
    for name, milli in total.items():
        amount = milli if name == CPU else -(-milli // _MILLI)
        if amount > LARGEST:
            field = f"{path}[{name}]"
            unusable[name, field] = UnusableQuantity(field, f"{amount} {_TOO_LARGE}")
        elif amount and (_counts(name) or name in more):
            amounts[name] = amount
    return amounts


def _counts(name: str) -> bool:
    """Return whether kube-scheduler counts a resource; it ignores others, such as `storage`."""
    return (
        ("/" in name and not name.startswith("requests."))
        or name in _NATIVE
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
    )


def _pod_level(quantities: Mapping[str, _Q] | None) -> dict[str, _Q]:
    """Return the quantities that are allowed at pod level."""
    return {
        name: quantity
        for name, quantity in (quantities or {}).items()
        if name in (CPU, MEMORY) or name.startswith("hugepages-")
    }


def _is_sidecar(container: core.Container) -> bool:
    return container.restartPolicy == "Always"


def _add(total: _Milli, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: _Milli, floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        if total.get(name, -1) < amount:
            total[name] = amount


def devices(pods: Iterable[object]) -> dict[str, int]:
    """Return the devices that pods hold, by resource: names with a domain, such as `nvidia.com/gpu`."""
    held: Counter[str] = Counter()
    for pod in pods:
        if isinstance(pod, core.Pod) and _requests_device(pod.spec):
            held.update({name: amount for name, amount in amounts(pod).items() if is_accelerator(name)})
    return dict(held)


def _requests_device(spec: core.PodSpec) -> bool:
    """Return whether a pod requests any device: most do not, and summing up all requests of a pod is slow."""
    parts = (*(spec.containers or ()), *(spec.initContainers or ()))
    asked = (spec.resources, *(container.resources for container in parts))
    lists = [
        names
        for resources in asked
        if resources is not None
        for names in (resources.requests, resources.limits)
    ]
    return any(is_accelerator(name) for names in (*lists, spec.overhead) for name in names or ())


def is_accelerator(resource: str) -> bool:
    """Return whether a resource is an accelerator: its name has a domain, such as `nvidia.com/gpu`."""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and "." in domain
