"""Check that a gang could fit an empty cluster: the only question of the audit that needs arithmetic.

The test is necessary, not sufficient: taints, affinity and running pods are left out, and a container's
devices are counted by name only. "Too large" is therefore certain for the present nodes, but no finding
proves nothing. Nodes are counted by their allocatable, and a large cluster has few different ones. An answer
is cached for every (request, count), so ten thousand equal gangs cost one walk.
"""

from collections.abc import Iterable, Mapping

import msgspec

from podium.api.core import Node, Pod, PodSpec, RawQuantity, ResourceRequirements
from podium.api.quantity import QuantityError, Scale, parse
from podium.findings import ObjectError, ObjectRef

PODS = "pods"
# Resources that a pod may request as a whole; only containers request devices.
_POD_LEVEL = ("cpu", "memory")
_POD_LEVEL_PREFIX = "hugepages-"
_WHOLE = 10**-Scale.NANO
# A node that reports no number of pods has no limit.
_NO_LIMIT = 2**31
_RECENT = 4

Amounts = Mapping[str, int]  # resource name to billionths
_Written = tuple[tuple[str, RawQuantity], ...]
_NOTHING: Amounts = {}
_NO_QUANTITIES: Mapping[str, RawQuantity] = {}


class Shape(msgspec.Struct, frozen=True, eq=False):
    """The request of a pod; equal requests share one object, so that shapes are compared by identity."""

    request: Amounts

    def devices(self) -> dict[str, int]:
        """Return the devices of one pod: resources with a domain in their name, such as `nvidia.com/gpu`."""
        return {
            name: -(-amount // _WHOLE)
            for name, amount in self.request.items()
            if amount > 0 and "/" in name and "." in name.partition("/")[0]
        }


class Shortfall(msgspec.Struct, frozen=True):
    """The shortfall of a gang: too little of a `resource` in sum, or only `room` of `need` equal pods fit."""

    need: int
    room: int
    request: Amounts
    resource: str = ""


class Capacity:
    """The room of an empty cluster: its schedulable nodes by allocatable."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        kinds: dict[_Written, list[str]] = {}
        # A node that has not reported its allocatable could have any size.
        self.unknown = False
        self.nodes = 0
        for node in nodes:
            if node.spec is not None and node.spec.unschedulable:
                continue
            self.nodes += 1
            if node.status is None or node.status.allocatable is None:
                self.unknown = True
            else:
                written = tuple(sorted(node.status.allocatable.items()))
                kinds.setdefault(written, []).append(node.metadata.name or "")
        self._recent: list[tuple[PodSpec, Shape]] = []
        self._shapes: dict[tuple[tuple[str, int], ...], Shape] = {}
        self._written: dict[tuple[_Written, _Written], Amounts] = {}
        self._quantities: dict[RawQuantity, int] = {}
        self._kinds: list[tuple[int, Amounts]] = [
            (
                len(names),
                {
                    key: self._parse(
                        raw, ObjectRef("v1", "Node", "", min(names)), f"status.allocatable[{key}]"
                    )
                    for key, raw in kind
                },
            )
            for kind, names in sorted(kinds.items(), key=lambda item: -len(item[1]))
        ]
        self._room: dict[tuple[tuple[tuple[str, int], ...], int], int] = {}

    def shape(self, pod: Pod) -> Shape:
        """Return the request of a pod.

        Pods of one template usually follow each other, so the most recent requests are compared first.
        """
        spec = pod.spec
        for known, shape in self._recent:
            if (
                spec.containers == known.containers
                and spec.initContainers == known.initContainers
                and spec.resources == known.resources
                and spec.overhead == known.overhead
            ):
                return shape
        request = self.request(pod)
        shape = self._shapes.setdefault(tuple(sorted(request.items())), Shape(request))
        self._recent.insert(0, (spec, shape))
        del self._recent[_RECENT:]
        return shape

    def shortfall(self, members: Mapping[Shape, int], min_count: int) -> Shortfall | None:
        """Return why min_count of a gang's live `members` can never run at once, or None.

        Without a schedulable node the cluster is scaled down, and there is no size to compare with. Members
        that do not exist yet are assumed to be equal to the others if those are all equal.
        """
        if self.unknown or not self.nodes or not members or min_count < 1:
            return None
        spare = max(0, sum(members.values()) - min_count)
        # The order is fixed, so that the same members in another order are too large for the same reason.
        for shape in sorted(members, key=lambda shape: sorted(shape.request.items())):
            need = min_count if len(members) == 1 else max(0, members[shape] - spare)
            room = self.room(shape.request, need)
            if room < need:
                return Shortfall(need, room, shape.request)
        return self._sums(members, min_count) if len(members) > 1 else None

    def room(self, request: Amounts, need: int) -> int:
        """Return the number of pods with one request that fit, counted up to `need`."""
        key = (tuple(sorted(request.items())), need)
        room = self._room.get(key)
        if room is None:
            room = 0
            for number, allocatable in self._kinds:
                room += number * _fit(allocatable, request)
                if room >= need:
                    break
            self._room[key] = room
        return room

    def request(self, pod: Pod) -> Amounts:
        """Return the request of a pod as kube-scheduler sums it; init containers run one after the other.

        A pod-level request replaces the sum of the containers. Raises ObjectError.
        """
        spec = pod.spec
        total: dict[str, int] = {}
        peak: dict[str, int] = {}
        sidecars: dict[str, int] = {}
        for index, container in enumerate(spec.containers or ()):
            _add(total, self._asked(container.resources, pod, f"spec.containers[{index}]"))
        for index, container in enumerate(spec.initContainers or ()):
            asked = self._asked(container.resources, pod, f"spec.initContainers[{index}]")
            if container.restartPolicy == "Always":
                _add(sidecars, asked)
                _raise_to(peak, sidecars)
            else:
                at_once = dict(asked)
                _add(at_once, sidecars)
                _raise_to(peak, at_once)
        _add(total, sidecars)
        _raise_to(total, peak)
        written = (spec.resources.requests if spec.resources is not None else None) or _NO_QUANTITIES
        for name, amount in self._asked(spec.resources, pod, "spec").items():
            # The server sets a request from a limit only if no container requests the resource.
            if _is_pod_level(name) and (name in written or name not in total):
                total[name] = amount
        overhead = (spec.overhead or {}).items()
        _add(total, {name: self._parse(raw, _ref(pod), f"spec.overhead[{name}]") for name, raw in overhead})
        return total

    def _asked(self, resources: ResourceRequirements | None, pod: Pod, path: str) -> Amounts:
        """Return the requests; a limit without a request counts as one, as the API server stores it."""
        if resources is None:
            return _NOTHING
        limits, requests = resources.limits or _NO_QUANTITIES, resources.requests or _NO_QUANTITIES
        written = (tuple(limits.items()), tuple(requests.items()))
        asked = self._written.get(written)
        if asked is None:
            asked = {
                name: self._parse(raw, _ref(pod), f"{path}.resources.{part}[{name}]")
                for part, quantities in (("limits", limits), ("requests", requests))
                for name, raw in quantities.items()
            }
            self._written[written] = asked
        return asked

    def _parse(self, raw: RawQuantity, ref: ObjectRef, field: str) -> int:
        value = self._quantities.get(raw)
        if value is None:
            try:
                value = parse(raw)
            except QuantityError as error:
                raise ObjectError(ref, field, str(error)) from None
            self._quantities[raw] = value
        return value

    def _sums(self, members: Mapping[Shape, int], needed: int) -> Shortfall | None:
        """Return the first resource that is too small in sum for `needed` members, or None.

        The members with the smallest requests for the resource are counted.
        """
        for resource in sorted({name for shape in members for name in shape.request}):
            asked = sorted(
                shape.request.get(resource, 0) for shape, number in members.items() for _ in range(number)
            )
            need = sum(asked[:needed])
            have = sum(number * allocatable.get(resource, 0) for number, allocatable in self._kinds)
            if need > have:
                return Shortfall(-(-need // _WHOLE), have // _WHOLE, {}, resource)
        return None


def _ref(pod: Pod) -> ObjectRef:
    return ObjectRef("v1", "Pod", pod.metadata.namespace or "", pod.metadata.name or "")


def _is_pod_level(resource: str) -> bool:
    return resource in _POD_LEVEL or resource.startswith(_POD_LEVEL_PREFIX)


def _fit(allocatable: Amounts, request: Amounts) -> int:
    slots = allocatable.get(PODS)
    fit = _NO_LIMIT if slots is None else slots // _WHOLE
    for name, amount in request.items():
        if amount > 0:
            fit = min(fit, allocatable.get(name, 0) // amount)
    return fit


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], floor: Amounts) -> None:
    for name, amount in floor.items():
        if total.get(name, 0) < amount:
            total[name] = amount
