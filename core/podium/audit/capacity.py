"""Check that a gang could fit an empty cluster: the only question of the audit that needs arithmetic.

The test is necessary, not sufficient: taints, affinity and running pods are left out, and a container's
devices are counted by name only. "Too large" is therefore certain for the present nodes, but no finding
proves nothing. A node may have any amount of an extended resource that a class of devices provides. Nodes are
counted by their allocatable, and a large cluster has few different ones. An answer is cached for every
(request, count), so ten thousand equal gangs cost one walk.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from podium.api.core import Node, Pod, RawQuantity
from podium.api.findings import ObjectError, ObjectRef
from podium.api.podrequests import (
    CPU,
    LATEST,
    PODS,
    UnusableQuantity,
    allocatable,
    is_accelerator,
    pod_requests,
)

MILLI = 1000
# A node that reports no number of pods has no limit, and none where a class provides a resource.
_NO_LIMIT = 2**31

Amounts = Mapping[str, int]  # resource name to amount, milli for cpu


class PodShape(msgspec.Struct, frozen=True, eq=False):
    """The requests of a pod; equal requests share one object, so that shapes are compared by identity."""

    request: Amounts

    def devices(self) -> dict[str, int]:
        """Return the devices of one pod: resources with a domain in their name, such as `nvidia.com/gpu`."""
        return {name: amount for name, amount in self.request.items() if is_accelerator(name)}


class Shortfall(msgspec.Struct, frozen=True):
    """The shortfall of a gang: too little of a `resource` in sum, or only `room` of `need` equal pods fit."""

    need: int
    room: int
    request: Amounts
    resource: str = ""


class ClusterCapacity:
    """The room of an empty cluster: its schedulable nodes by allocatable."""

    def __init__(self, nodes: Iterable[Node], minor: int = LATEST, provided: Collection[str] = ()) -> None:
        """Requests are summed as by kube-scheduler 1.`minor`. Raises ObjectError for an invalid quantity.

        `provided` are the extended resources that classes provide where no device plugin does.
        """
        self.provided = provided
        kinds: dict[tuple[tuple[str, RawQuantity], ...], list[Node]] = {}
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
                kinds.setdefault(tuple(sorted(node.status.allocatable.items())), []).append(node)
        self._minor = minor
        self._shapes: dict[tuple[tuple[str, int], ...], PodShape] = {}
        by_number = sorted(kinds.values(), key=lambda alike: -len(alike))
        self._kinds = [(len(alike), self._allocatable(alike)) for alike in by_number]
        self._room: dict[tuple[tuple[tuple[str, int], ...], int], int] = {}

    def shape(self, pod: Pod) -> PodShape:
        """Return the requests of a pod. Raises ObjectError for an invalid quantity."""
        requests = pod_requests(pod, self._minor)
        if requests.unusable:
            _raise_invalid(requests.unusable, "Pod", pod.metadata.namespace or "", pod.metadata.name or "")
        request = {name: amount for name, amount in requests.amounts.items() if name != PODS}
        return self._shapes.setdefault(tuple(sorted(request.items())), PodShape(request))

    def shortfall(self, members: Mapping[PodShape, int], min_count: int) -> Shortfall | None:
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
            for number, amounts in self._kinds:
                room += number * _fit(amounts, request)
                if room >= need:
                    break
            self._room[key] = room
        return room

    def _allocatable(self, alike: list[Node]) -> Amounts:
        """Return the allocatable of nodes that have the same."""
        node = min(alike, key=lambda member: member.metadata.name or "")
        offered, unusable = allocatable(node)
        amounts = {**dict.fromkeys(self.provided, _NO_LIMIT), **offered}
        _raise_invalid(unusable, "Node", "", node.metadata.name or "")
        # A node with more than any machine has could have any size, too.
        self.unknown = self.unknown or bool(unusable)
        assert node.status is not None
        return {PODS: 0, **amounts} if PODS in (node.status.allocatable or ()) else amounts

    def _sums(self, members: Mapping[PodShape, int], needed: int) -> Shortfall | None:
        """Return the first resource that is too small in sum for `needed` members, or None.

        The members with the smallest requests for the resource are counted.
        """
        for resource in sorted({name for shape in members for name in shape.request}):
            asked = sorted(
                shape.request.get(resource, 0) for shape, number in members.items() for _ in range(number)
            )
            need = sum(asked[:needed])
            have = sum(number * amounts.get(resource, 0) for number, amounts in self._kinds)
            if need > have:
                unit = MILLI if resource == CPU else 1
                return Shortfall(-(-need // unit), have // unit, {}, resource)
        return None


def _raise_invalid(unusable: Iterable[UnusableQuantity], kind: str, namespace: str, name: str) -> None:
    for quantity in unusable:
        if not quantity.too_large:
            raise ObjectError(ObjectRef("v1", kind, namespace, name), quantity.field, quantity.why)


def _fit(room: Amounts, request: Amounts) -> int:
    fit = room.get(PODS, _NO_LIMIT)
    for name, amount in request.items():
        fit = min(fit, room.get(name, 0) // amount)
    return fit
