"""The device claims of a cluster, the pods that use each, and the devices that are in use now.

A claim has its devices from its allocation on until the allocation is gone, whether a pod runs or not. But in
a trial, the victims of a preemption free the devices of their claims. So a claim's devices count as free if
all of its consumers are pods that ran on nodes and count nowhere now. They are in use again when one comes
back. A consumer that is not known, such as a pod that has just gone, keeps them: kube-controller-manager has
to release the claim first (`once_released`).

A claim for extended resources is created by a scheduler. Until then the pod counts on devices under a name
that no claim has. So a claim that an earlier scheduler left is counted beside it, until it is deleted.

A pod that is assumed on a node counts on devices as it counts on room. Its claims are assumed with an
allocation until the API server has one. A shared claim keeps the allocation of its first pod until the last
one is gone.

A claim has a limited number of consumers. Pods that are assumed on a node count beside those that the API
server has. A trial that takes a consumer away frees its place.

`changed` has the nodes whose free devices may have changed, in order. So an answer for all nodes is updated
by looking at a few.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace

from podium.api.devices import (
    MAX_CONSUMERS,
    Allocation,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from podium.api.groups import PodGroup
from podium.api.membership import membership
from podium.api.podclaims import (
    EntryClaim,
    consumer_uids,
    entry_claims,
    first_refusal,
    reserved_devices,
    takes_consumer,
)
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Name
from podium.planner.framework import HeldClaim
from podium.planner.indexes import Unread, discard
from podium.planner.plugins.devices.claims import (
    AssumedClaim,
    ClaimNeed,
    ConsumerPlace,
    ExtendedNeed,
    allocation_of,
    claim_key,
    class_refusal,
    classes_by_resource,
    consumer_of,
    extended_claim,
    extended_claim_name,
    extended_needs,
    is_allocated,
    is_prepared,
    memory_key,
    need_of,
    node_of,
    owner_of,
    same_devices,
)
from podium.planner.plugins.devices.usage import DeviceUsage
from podium.planner.plugins.devices.writes import ClaimReservation, StaleDeletion

GROUPS = "podgroups"
_KINDS = (Kind.RESOURCE_CLAIM, Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE)
_NO_CONSUMERS: frozenset[str] = frozenset()
# The most nodes that `changed` remembers.
_REMEMBERED = 2**14


class DeviceIndex:
    """Claims by (namespace, name), classes and slices by name, and the pods that use each claim."""

    def __init__(self, unread: Unread = lambda: ()) -> None:
        """`unread` returns the kinds of which objects may exist that are not here."""
        self._unread = unread
        self.claims: dict[Name, ResourceClaim] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.slices: dict[str, ResourceSlice] = {}
        self.usage = DeviceUsage()
        # Whether pods that are taken away free the devices of their claims.
        self.freed_by_pods = True
        # The nodes whose free devices changed, or ANYWHERE; the first `forgotten` are not there any more.
        self.changed: list[str] = []
        self.forgotten = 0
        # Grows when slices or classes change, and when classes change.
        self.revision = 0
        self.class_revision = 0
        # The class that provides each extended resource.
        self.resources: Mapping[str, DeviceClass] = {}
        # The claims for extended resources by the UID of their pod.
        self._made: dict[str, set[Name]] = {}
        # The native groups with claims.
        self._groups: dict[Name, PodGroup] = {}
        self._users: dict[Name, set[int]] = {}
        self._members: dict[Name, set[int]] = {}
        self._pods: dict[int, _User] = {}
        # The users of each claim that count on their nodes now, and the running pods that a trial took away.
        self._there: dict[Name, set[int]] = {}
        self._away: set[int] = set()
        self._assumed: dict[Name, AssumedClaim] = {}
        self._assuming: Counter[Name] = Counter()
        # The claims that count as released, and whether consumers whose pods are gone do.
        self._released: set[Name] = set()
        self._releasing = False
        # The consumers of claims in the API server, if any, and those that count now of some claims.
        self._stored: dict[Name, frozenset[str]] = {}
        self._consumers: dict[Name, AbstractSet[str]] = {}
        # The allocations that are in `usage`.
        self._counted: dict[Name, Allocation] = {}
        # The claims, and the groups with claims, that changed since `changed_users`; whether a class did.
        self._changed: set[Name] = set()
        self._changed_groups: set[Name] = set()
        self._changed_class = False

    def add_user(self, row: int, pod: Schedulable, *, extended: bool = False) -> None:
        """Record a pod with claims; `extended` says that it may need one for extended resources."""
        user = self._pods[row] = self._user(pod, extended=extended)
        if user.group is not None:
            self._members.setdefault(user.group, set()).add(row)
        for key in user.keys:
            self._users.setdefault(key, set()).add(row)

    def remove_user(self, row: int) -> None:
        """Remove the claims of a pod."""
        user = self._pods.pop(row, None)
        if user is None:
            return
        self._away.discard(row)
        if user.group is not None:
            discard(self._members, user.group, row)
        for key in user.keys:
            discard(self._users, key, row)
            # A consumer that is not known keeps the devices.
            self._settle(key)

    @property
    def is_known(self) -> bool:
        """Return whether all claims, classes and slices were read."""
        unread = self._unread()
        return not any(kind in unread for kind in _KINDS)

    @property
    def any_users(self) -> bool:
        """Return whether any pod has claims."""
        return bool(self._pods)

    def uses(self, row: int) -> bool:
        """Return whether a pod has claims."""
        return row in self._pods

    def users(self, claim: Name) -> Collection[int]:
        """Return the rows of the pods that use a claim."""
        return self._users.get(claim, ())

    def held(self, row: int) -> list[HeldClaim]:
        """Return the allocated claims that are reserved for a pod, or for its group."""
        claims = []
        for key, entry in (self._pods[row].claims if row in self._pods else {}).items():
            claim = self.claims.get(key)
            number = len(reserved_devices(claim, entry.consumer)) if claim is not None else 0
            if number:
                claims.append(HeldClaim(key, number, entry.shared or not entry.created))
        return claims

    def extended(self, pod: Schedulable, requested: Iterable[str]) -> tuple[tuple[ExtendedNeed, ...], bool]:
        """Return the requested resources that classes provide on nodes without a device plugin for them.

        Return also whether the status of the pod names a claim for them. A running pod has its devices from
        its node.
        """
        written = made_for(pod)
        if not self.resources or not self.is_known or (written and pod.spec.nodeName):
            return (), False
        needs = extended_needs(pod, requested, self.resources)
        return needs, bool(written and needs)

    def holds(self, pod: Schedulable) -> bool:
        """Return whether a pod runs with devices of claims."""
        return bool(pod.spec.nodeName and (pod.spec.resourceClaims or made_for(pod)))

    def needs(self, pod: Schedulable) -> tuple[str, tuple[ClaimNeed, ...]]:
        """Return why a pod cannot use its claims now, empty if it can, and what they need of a node.

        A pod that has a node needs no other.
        """
        if not pod.spec.resourceClaims or pod.spec.nodeName or not self.is_known:
            return "", ()
        user, claim_needs = self._user(pod, extended=False), []
        group = self._groups.get(user.group) if user.group is not None else None
        refused = first_refusal(pod, group, self.claims)
        if refused:
            return refused, ()
        for key, entry in user.claims.items():
            claim = self.claims[key]
            refused = class_refusal(claim, self.classes)
            if refused:
                return refused, ()
            need = need_of(claim, entry, self._stored.get(key, _NO_CONSUMERS))
            if need is not None:
                claim_needs.append(need)
        return "", tuple(claim_needs)

    def reservations(
        self, row: int, plan: Collection[AssumedClaim]
    ) -> list[ClaimReservation | StaleDeletion] | None:
        """Return what has to be written to the claims of a pod before its bind, with the planned allocations.

        None if a claim has neither an allocation nor a plan.
        """
        planned = {assumed.claim: assumed.allocation for assumed in plan}
        reserved: list[ClaimReservation | StaleDeletion] = []
        for key, entry in self._pods[row].claims.items():
            claim = self.claims.get(key)
            if claim is None:
                return None
            stored = allocation_of(claim)
            if stored is None and key not in planned:
                return None
            allocation = planned.get(key) if stored is None else None
            reservation = ClaimReservation(key, claim.metadata.uid or "", allocation, (entry.consumer,))
            if not (reservation.is_written(claim) and is_prepared(claim)):
                reserved.append(reservation)
        pod, own = self._pods[row].pod, self._pods[row].extended
        for assumed in plan:
            if assumed.extended and own is not None:
                made, consumer = extended_claim(pod, assumed.extended), consumer_of(pod)
                reserved.append(ClaimReservation(own, "", assumed.allocation, (consumer,), made))
        created = {reservation.claim for reservation in reserved}
        return [*reserved, *(left for left in self._left(row) if left.claim not in created)]

    def _left(self, row: int) -> Iterator[StaleDeletion]:
        """Yield the claims for extended resources that earlier attempts left to a pod without a node."""
        pod = self._pods[row].pod
        for key in sorted(self._made.get(pod.metadata.uid or "", ())) if not pod.spec.nodeName else ():
            yield StaleDeletion(key, self.claims[key].metadata.uid or "")

    def stranded(self, rows: Collection[int]) -> list[ClaimReservation | StaleDeletion]:
        """Return the allocated claims that only these pods use, none of which has a node, with consumers."""
        reserved: dict[Name, ClaimReservation | StaleDeletion] = {
            reservation.claim: reservation
            for row in rows
            if row in self._pods
            for reservation in self._left(row)
            if is_allocated(self.claims[reservation.claim]) and not self._there.get(reservation.claim)
        }
        consumers = {
            (key, entry.consumer)
            for row in rows
            for key, entry in (self._pods[row].claims if row in self._pods else {}).items()
        }
        for key in sorted({key for key, _ in consumers}):
            claim = self.claims.get(key)
            stored = allocation_of(claim) if claim is not None else None
            if claim is None or stored is None or self._there.get(key) or key in self._assumed:
                continue
            known = (claim.status.reservedFor if claim.status is not None else None) or ()
            if all((key, consumer) in consumers for consumer in known):
                reserved[key] = ClaimReservation(key, claim.metadata.uid or "", stored, tuple(known))
        return list(reserved.values())

    def unneeded(self, plan: ClaimReservation, own: AbstractSet[int]) -> ClaimReservation | None:
        """Return the part of a plan for `own` pods to withdraw, None if others need it all.

        Other pods on nodes need the devices, and a group that is their consumer. The last consumer of a claim
        gives its devices back, even if the claim had them before the plan. A claim that was created for one
        pod is deleted.
        """
        if plan.created is not None:
            return plan
        if self._there.get(plan.claim, own) - own:
            pods = tuple(consumer for consumer in plan.consumers if consumer.resource != GROUPS)
            return replace(plan, allocation=None, consumers=pods) if pods else None
        claim = self.claims[plan.claim]
        if plan.allocation is None and len(plan.missing(claim)) < len(plan.consumers):
            return replace(plan, allocation=allocation_of(claim))
        return plan

    def unallocated(self, row: int) -> list[ResourceClaim]:
        """Return the claims of a pod that have no allocation in the API server, in the order of its needs."""
        user = self._pods[row]
        return [self.claims[key] for key in user.claims if allocation_of(self.claims[key]) is None]

    def created(self, row: int, extended: tuple[ExtendedNeed, ...]) -> AssumedClaim:
        """Return the claim that is created for extended resources of a pod, with no devices yet."""
        user = self._pods[row]
        name, uid = user.pod.metadata.name or "", user.pod.metadata.uid or ""
        key = memory_key(user.pod.metadata.namespace or "", name, uid)
        return AssumedClaim(key, "", Allocation(), extended, user.extended)

    def assumed(self, claim: Name) -> Allocation | None:
        """Return the allocation that a claim is assumed with, None for none."""
        assumed = self._assumed.get(claim)
        return assumed.allocation if assumed is not None else None

    def assume(self, plan: Iterable[AssumedClaim]) -> None:
        """Count the devices of claims as in use; a claim of several pods is assumed by each of them."""
        for assumed in plan:
            self._assuming[assumed.claim] += 1
            self._assumed.setdefault(assumed.claim, assumed)
            self._settle(assumed.claim)

    def forget(self, plan: Iterable[AssumedClaim]) -> None:
        """Count the devices of assumed claims no more, once no other pod assumes them."""
        for assumed in plan:
            self._assuming[assumed.claim] -= 1
            if not self._assuming[assumed.claim]:
                del self._assuming[assumed.claim], self._assumed[assumed.claim]
            self._settle(assumed.claim)

    def move(self, row: int, sign: int, *, home: bool) -> None:
        """Record that a pod begins (1) or ceases (-1) to count on a node; `home`: its node in the server."""
        if home:
            (self._away.discard if sign > 0 else self._away.add)(row)
        for key in self._pods[row].keys:
            if sign > 0:
                self._there.setdefault(key, set()).add(row)
            else:
                discard(self._there, key, row)
            self._settle(key)

    @contextmanager
    def once_released(self) -> Iterator[bool]:
        """Count the claims whose consumers are gone as released; the value says whether there are any."""
        users = self._users
        self._released = {key for key in self._counted if key not in self._assumed and not users.get(key)}
        changed, self._releasing, self._consumers = tuple(self._released), True, {}
        for key in changed:
            self._settle(key)
        try:
            full = (key for key, consumers in self._stored.items() if len(consumers) >= MAX_CONSUMERS)
            yield bool(changed or any(map(self._departed, full)))
        finally:
            self._released, self._releasing, self._consumers = set(), False, {}
            for key in changed:
                self._settle(key)

    def has_place(self, place: ConsumerPlace) -> bool:
        """Return whether a claim has a place for a consumer, beside those of the pods on nodes."""
        consumers = self._consumers.get(place.claim)
        if consumers is None:
            consumers = self._consumers[place.claim] = self._consumers_now(place.claim)
        return takes_consumer(consumers, place.group)

    def _consumers_now(self, key: Name) -> AbstractSet[str]:
        users, there = self._users.get(key, ()), self._there.get(key, set())
        assumed = [row for row in there if not self._pods[row].pod.spec.nodeName]
        consumers = self._uids(key, assumed) | self._stored.get(key, _NO_CONSUMERS)
        if self.freed_by_pods and (away := self._away.intersection(users)):
            consumers -= self._uids(key, away) - self._uids(key, there)
        return consumers - self._departed(key) if self._releasing else consumers

    def _uids(self, claim: Name, rows: Iterable[int]) -> set[str]:
        """Return the consumers as which pods use a claim."""
        return {self._pods[row].consumer(claim) for row in rows}

    def _departed(self, key: Name) -> set[str]:
        """Return the pods that the API server has as consumers of a claim, and that are not known."""
        status = self.claims[key].status if key in self.claims else None
        reserved = (status.reservedFor if status is not None else None) or ()
        known = self._uids(key, self._users.get(key, ()))
        return {consumer.uid for consumer in reserved if consumer.resource != GROUPS} - known

    def changed_users(self) -> set[int]:
        """Return the rows of the pods whose claims changed since the last call."""
        groups, self._changed_groups = self._changed_groups, set()
        rows = {row for key in groups for row in self._members.get(key, ())}
        for row in rows:
            user = self._pods[row]
            self.remove_user(row)
            self.add_user(row, user.pod, extended=user.extended is not None)
        if self._changed_class:
            self._changed_class = False
            rows.update(self._pods)
        claims, self._changed = self._changed, set()
        for key in claims:
            rows.update(row for row in self._users.get(key, ()) if key in self._pods[row].claims)
        return rows

    def apply_claim(self, claim: ResourceClaim, *, gone: bool) -> None:
        """Apply a change of a claim."""
        key = claim_key(claim)
        self._changed.add(key)
        for version, change in ((self.claims.pop(key, None), discard), (None if gone else claim, _put)):
            owner = owner_of(version) if version is not None else None
            if owner is not None:
                change(self._made, owner[1], key)
        self._stored.pop(key, None)
        if not gone:
            self.claims[key] = claim
            if consumers := consumer_uids(claim):
                self._stored[key] = consumers
        self._settle(key)
        if (owner := owner_of(claim)) is not None:
            self._settle(memory_key(key[0], *owner))

    def apply_class(self, device_class: DeviceClass, *, gone: bool) -> None:
        """Apply a change of a class, which any claim may name."""
        self.classes.pop(device_class.metadata.name or "", None)
        if not gone:
            self.classes[device_class.metadata.name or ""] = device_class
        self.resources = classes_by_resource(self.classes.values())
        self.revision += 1
        self.class_revision += 1
        self._changed_class = True

    def apply_slice(self, resource_slice: ResourceSlice, *, gone: bool) -> None:
        """Apply a change of a slice."""
        self.slices.pop(resource_slice.metadata.name or "", None)
        if not gone:
            self.slices[resource_slice.metadata.name or ""] = resource_slice
        self.revision += 1

    def apply_group(self, group: PodGroup, *, gone: bool) -> None:
        """Apply a change of a group, whose members may have other claims now."""
        key = group.ref.namespace, group.ref.name
        before = self._groups.pop(key, None)
        if group.native and group.claims and not gone:
            self._groups[key] = group
        if before is not self._groups.get(key):
            self._changed_groups.add(key)

    def _user(self, pod: Schedulable, *, extended: bool) -> "_User":
        group = _native_group(pod)
        entries = entry_claims(pod, self._groups.get(group) if group is not None else None)
        name = made_for(pod) if pod.spec.nodeName else extended_claim_name(pod) if extended else ""
        return _User(pod, group, entries, name)

    def _settle(self, key: Name) -> None:
        """Bring `usage` in line with the state of a claim, and forget its consumers."""
        self._consumers.pop(key, None)
        claim, before = self.claims.get(key), self._counted.pop(key, None)
        stored = allocation_of(claim) if claim is not None else None
        if claim is None or stored is None:
            after = self._still_assumed(key)
        else:
            after = None if self._is_freed(key, claim) else stored
        if after is not None:
            self._counted[key] = after
        if before is after:
            return
        for allocation, change in ((before, self.usage.remove), (after, self.usage.add)):
            if allocation is not None:
                change(allocation)
                self._note(node_of(allocation))

    def _still_assumed(self, key: Name) -> Allocation | None:
        """Return the allocation that counts for an assumed claim, None if its stored claim counts for it."""
        assumed = self._assumed.get(key)
        if assumed is None:
            return None
        claim = self.claims.get(assumed.stored) if assumed.stored is not None else None
        stored = allocation_of(claim) if claim is not None else None
        return None if stored is not None and same_devices(stored, assumed.allocation) else assumed.allocation

    def _is_freed(self, key: Name, claim: ResourceClaim) -> bool:
        """Return whether all consumers of a claim are running pods that a trial took away."""
        consumers = (claim.status.reservedFor if claim.status is not None else None) or ()
        if self._there.get(key):
            return False
        if key in self._released:
            return True
        if not self._away or not self.freed_by_pods:
            return False
        running = {row for row in self._users.get(key, ()) if self._pods[row].pod.spec.nodeName}
        if not running <= self._away:
            # The node of a pod may be unknown.
            return False
        uids = {self._pods[row].pod.metadata.uid for row in running}
        return bool(consumers and uids) and all(
            consumer.uid in uids or consumer.resource == GROUPS for consumer in consumers
        )

    def _note(self, node: str) -> None:
        self.changed.append(node)
        if len(self.changed) > 2 * _REMEMBERED:
            self.forgotten += _REMEMBERED
            del self.changed[:_REMEMBERED]


class _User:
    """A pod, and its claims that exist or may exist, with their entries.

    `extended` is the claim for its extended resources.
    """

    __slots__ = ("claims", "extended", "group", "keys", "pod")

    def __init__(
        self, pod: Schedulable, group: Name | None, entries: Iterable[EntryClaim], extended: str
    ) -> None:
        namespace = pod.metadata.namespace or ""
        self.pod = pod
        self.group = group
        # A pod may name a claim twice.
        self.claims = {(namespace, entry.name): entry for entry in entries if entry.name is not None}
        self.extended = (namespace, extended) if extended else None
        own = () if self.extended is None else (self.extended,)
        self.keys = tuple(dict.fromkeys((*self.claims, *own)))

    def consumer(self, claim: Name) -> str:
        """Return the UID of the pod or group that uses a claim; the name of a pod without UID, in a file."""
        entry = self.claims.get(claim)
        used = entry.consumer if entry is not None else consumer_of(self.pod)
        return used.uid or used.name


def made_for(pod: Schedulable) -> str:
    """Return the name of the claim that the status of a pod names for extended resources, empty for none."""
    named = pod.status.extendedResourceClaimStatus if pod.status is not None else None
    return named.resourceClaimName if named is not None else ""


def _put(sets: dict[str, set[Name]], key: str, value: Name) -> None:
    sets.setdefault(key, set()).add(value)


def _native_group(pod: Schedulable) -> Name | None:
    key = membership(pod, native_served=True)
    return key.qualified if key is not None and key.native else None
