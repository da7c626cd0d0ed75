"""The resource claims of a pod: the claim of each entry in spec.resourceClaims, and the user of the claim.

An entry names a claim, or a template from which kube-controller-manager creates one. The name of a created
claim is in the pod's status. If the pod's native PodGroup has an equal entry, the group uses the claim for
all its pods; else the pod does. Kubelets and kube-controller-manager know no other groups, so each pod of a
Podium group uses its claims itself.

The texts are those of kube-scheduler. A pod with one of them waits, and preemption cannot help it.

Source: k8s.io/dynamic-resource-allocation/resourceclaim, and foreachPodResourceClaim of the plugin
DynamicResources (Kubernetes 1.36 and 1.37).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from podium.api.claims import ClaimingPod
from podium.api.core import ResourceClaimEntry
from podium.api.devices import MAX_CONSUMERS, AllocatedDevice, ClaimConsumer, ResourceClaim
from podium.api.findings import group_of
from podium.api.groups import NATIVE_GROUP, PodGroup

_GROUPS, _PODS = "podgroups", "pods"


class CrowdedClaim(NamedTuple):
    """A claim that more pods of a gang name than it takes: their number, and the places for them."""

    name: str
    pods: int
    places: int


class EntryClaim(NamedTuple):
    """The claim of one entry of a pod.

    `name` is None if no claim is needed, and if `unnamed` says why the name is not known. A claim that was
    created from a template must belong to its pod or group.
    """

    entry: str
    name: str | None
    created: bool
    consumer: ClaimConsumer
    unnamed: str = ""

    @property
    def shared(self) -> bool:
        """Return whether the group uses the claim, for all its pods."""
        return self.consumer.resource == _GROUPS


def entry_claims(pod: ClaimingPod, group: PodGroup | None) -> list[EntryClaim]:
    """Return the claims of a pod in the order of its entries; `group` is the pod's, None for none."""
    return [_entry_claim(pod, group, entry) for entry in pod.spec.resourceClaims or ()]


def first_refusal(
    pod: ClaimingPod, group: PodGroup | None, claims: Mapping[tuple[str, str], ResourceClaim]
) -> str:
    """Return why the pod cannot be scheduled with its claims now, empty if nothing stops it.

    `claims` are all claims by namespace and name.
    """
    namespace = pod.metadata.namespace or ""
    for entry in entry_claims(pod, group):
        if entry.unnamed:
            return entry.unnamed
        if entry.name is not None:
            refused = claim_refusal(pod, group, entry, claims.get((namespace, entry.name)))
            if refused:
                return refused
    return ""


def claim_refusal(
    pod: ClaimingPod, group: PodGroup | None, entry: EntryClaim, claim: ResourceClaim | None
) -> str:
    """Return why the claim of an entry cannot be used now, None for one that does not exist."""
    if claim is None:
        return f'could not find ResourceClaim "{pod.metadata.namespace}/{entry.name}"'
    if claim.metadata.deletionTimestamp:
        return f'resourceclaim "{claim.metadata.name}" is being deleted'
    return owner_refusal(pod, group, claim) if entry.created else ""


def owner_refusal(pod: ClaimingPod, group: PodGroup | None, claim: ResourceClaim) -> str:
    """Return why a claim was not created for a pod or its group, empty if it was.

    kube-scheduler accepts groups as owners behind a gate. A group that has claims shows that it is on.
    """
    owner = claim.metadata.controller()
    if owner is not None and owner.uid == pod.metadata.uid:
        return ""
    not_owner = "Pod is not owner"
    if group is not None and group.native and group.claims:
        # The version may change, and a pod does not know the UID of its group.
        identity = (owner.kind, owner.name, group_of(owner.apiVersion)) if owner is not None else None
        if identity == ("PodGroup", group.ref.name, NATIVE_GROUP):
            return ""
        not_owner = f"neither Pod nor PodGroup {group.ref.name} is the owner"
    names = [f"{meta.namespace}/{meta.name}" for meta in (claim.metadata, pod.metadata)]
    return f"ResourceClaim {names[0]} was not created for Pod {names[1]} ({not_owner})"


def consumer_uids(claim: ResourceClaim) -> frozenset[str]:
    """Return the UIDs of the consumers of a claim."""
    reserved = (claim.status.reservedFor if claim.status is not None else None) or ()
    return frozenset(consumer.uid for consumer in reserved)


def takes_consumer(consumers: AbstractSet[str], uid: str) -> bool:
    """Return whether a claim with these consumers takes the one with a UID.

    The API server refuses more than MAX_CONSUMERS.
    """
    return uid in consumers or len(consumers) < MAX_CONSUMERS


def crowded_claims(
    group: PodGroup, members: Iterable[object], claims: Mapping[tuple[str, str], ResourceClaim]
) -> list[CrowdedClaim]:
    """Return the claims that take too few pods of a gang for its minCount, beside their other consumers.

    `members` are the pods that stay, `claims` all claims by namespace and name.
    """
    if group.min_count is None:
        return []
    pods = [member for member in members if isinstance(member, ClaimingPod)]
    # Pods of manifests have no UID.
    users: defaultdict[str, set[ClaimConsumer]] = defaultdict(set)
    for pod in pods:
        for entry in entry_claims(pod, group) if pod.spec.resourceClaims else ():
            if entry.name is not None:
                users[entry.name].add(entry.consumer)
    spare, crowded = max(len(pods) - group.min_count, 0), []
    for name, own in sorted(users.items()):
        claim = claims.get((group.ref.namespace, name))
        elsewhere = consumer_uids(claim) - {consumer.uid for consumer in own} if claim is not None else ()
        places = max(MAX_CONSUMERS - len(elsewhere), 0)
        if len(own) - places > spare:
            crowded.append(CrowdedClaim(name, len(own), places))
    return crowded


def reserved_devices(claim: ResourceClaim, consumer: ClaimConsumer) -> list[AllocatedDevice]:
    """Return the devices that a claim has for a consumer, without those of administrative access.

    A partition of a device is a device of its own. A share of a device counts as one.
    """
    status = claim.status
    if status is None or status.allocation is None:
        return []
    if consumer.uid not in consumer_uids(claim):
        return []
    return [device for device in status.allocation.devices.results or () if not device.adminAccess]


def _entry_claim(pod: ClaimingPod, group: PodGroup | None, entry: ResourceClaimEntry) -> EntryClaim:
    name, consumer = entry.name or "", _consumer(pod, group, entry)
    qualified = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if entry.resourceClaimName is not None:
        return EntryClaim(name, entry.resourceClaimName, created=False, consumer=consumer)
    if entry.resourceClaimTemplateName is None:
        why = f'{qualified}, spec.resourceClaim "{name}": none of the supported fields are set'
        return EntryClaim(name, None, created=False, consumer=consumer, unnamed=why)
    for created in (pod.status.resourceClaimStatuses if pod.status is not None else None) or ():
        if created.name == entry.name:
            return EntryClaim(name, created.resourceClaimName, created=True, consumer=consumer)
    why = f"{qualified}: ResourceClaim not created yet"
    return EntryClaim(name, None, created=True, consumer=consumer, unnamed=why)


def _consumer(pod: ClaimingPod, group: PodGroup | None, entry: ResourceClaimEntry) -> ClaimConsumer:
    if group is not None and group.native and entry in group.claims:
        return ClaimConsumer(NATIVE_GROUP, _GROUPS, group.ref.name, group.metadata.uid or "")
    return ClaimConsumer("", _PODS, pod.metadata.name or "", pod.metadata.uid or "")
