"""The claims of a pod, and why kube-scheduler refuses a pod for them before it checks any node.

A claim that is missing, lost, deleted or unbound blocks its pod on every node, and no preemption helps. So
the refusal is part of the shape, in kube-scheduler's words, and the pod is tried again when a claim changes.
Whether an unbound claim blocks its pod depends on its class. A class with WaitForFirstConsumer binds claims
for the node that the pod gets: such a claim is delayed.

Source: PreFilter of VolumeRestrictions, VolumeBinding and VolumeZone of kube-scheduler 1.36 and 1.37, in
this order.
"""

from collections.abc import Iterator

from podium.api.claims import PodClaim, claims_of_pod
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.api.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim
from podium.planner.plugins.volumes.index import Volumes

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


def claims_refusal(pod: Schedulable, known: Volumes) -> str:
    """Return why no node can take a pod because of its claims, in kube-scheduler's words; empty if one can.

    Objects of kinds that were not read refuse nothing.
    """
    return next(_refusals(pod, known), "")


def delayed(claim: PersistentVolumeClaim, known: Volumes) -> bool:
    """Return whether a claim is bound for the node of its first pod, and names no volume yet.

    Without its class, a claim is bound at once.
    """
    class_ = known.classes.get(claim.storage_class)
    named = claim.spec is not None and bool(claim.spec.volumeName)
    return class_ is not None and class_.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER and not named


def _refusals(pod: Schedulable, known: Volumes) -> Iterator[str]:
    namespace = pod.metadata.namespace or ""
    pairs = [(mounted, known.claims.get((namespace, mounted.name))) for mounted in claims_of_pod(pod)]
    if known.lacks(Kind.CLAIM):
        pairs = [pair for pair in pairs if pair[1] is not None]
    # VolumeRestrictions and VolumeZone do not look at ephemeral volumes.
    for mounted, claim in pairs:
        if claim is None and not mounted.ephemeral:
            yield f'persistentvolumeclaim "{mounted.name}" not found'
    for mounted, claim in pairs:
        yield from _unusable(pod, mounted, claim)
    claims = [(mounted, claim) for mounted, claim in pairs if claim is not None]
    if any(not claim.bound and _immediate(claim, known) for _, claim in claims):
        yield UNBOUND
    for mounted, claim in claims:
        volume = claim.spec.volumeName if claim.spec is not None and not mounted.ephemeral else None
        if volume and volume not in known.volumes and not known.lacks(Kind.VOLUME):
            yield f'persistentvolume "{volume}" not found'


def _unusable(pod: Schedulable, mounted: PodClaim, claim: PersistentVolumeClaim | None) -> Iterator[str]:
    """Yield why a claim cannot be used by a pod at all."""
    if claim is None:
        waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
        yield f'{waiting} "{mounted.name}"'
        return
    if claim.status is not None and claim.status.phase == "Lost":
        volume = (claim.spec.volumeName if claim.spec is not None else None) or ""
        yield f'persistentvolumeclaim "{mounted.name}" bound to non-existent persistentvolume "{volume}"'
    if claim.metadata.deletionTimestamp is not None:
        yield f'persistentvolumeclaim "{mounted.name}" is being deleted'
    if mounted.ephemeral and not _created_for(claim, pod.metadata.uid or ""):
        namespace = pod.metadata.namespace
        pair = f"PVC {namespace}/{mounted.name} was not created for pod {namespace}/{pod.metadata.name}"
        yield f"{pair} (pod is not owner)"


def _immediate(claim: PersistentVolumeClaim, known: Volumes) -> bool:
    """Return whether an unbound claim is known to be bound without regard to its pod."""
    if claim.spec is not None and claim.spec.volumeName:
        return True
    known_class = claim.storage_class in known.classes or not claim.storage_class
    return not delayed(claim, known) and (known_class or not known.lacks(Kind.STORAGE_CLASS))


def _created_for(claim: PersistentVolumeClaim, uid: str) -> bool:
    controller = claim.metadata.controller()
    return controller is not None and controller.uid == uid
