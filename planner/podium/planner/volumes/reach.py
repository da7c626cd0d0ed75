"""The nodes from which the volumes of a pod can be reached, and the claims that get a volume with a node.

A bound volume can be reached from some nodes only, by its node affinity or by its zone labels. On which nodes
a delayed claim can get one depends on other claims too, so `delayed` decides that whenever it is asked.

Source: the filters of VolumeBinding and VolumeZone of kube-scheduler 1.36 and 1.37.
"""

from typing import NamedTuple

from podium.api.claims import claims_of_pod
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.api.storage import PersistentVolumeClaim
from podium.api.volumereach import Alternatives, node_affinity, zone_terms
from podium.planner.volumes.bindables import DelayedClaim, delayed_claim
from podium.planner.volumes.claims import delayed
from podium.planner.volumes.index import Volumes

# A pod with more delayed claims is not evaluated: each claim is compared with those before it, on all nodes.
# That takes half a second for so many claims on 5,000 nodes, and a tenant could name thousands.
MOST_DELAYED = 64


class Reach(NamedTuple):
    """For each bound volume, the terms of which a node must meet one: by node affinity, by zone label.

    `missing` says that a volume does not exist, so no node has all of them. `delayed` are the claims that are
    bound when the pod gets a node.
    """

    volumes: tuple[Alternatives, ...] = ()
    zones: tuple[Alternatives, ...] = ()
    missing: bool = False
    delayed: tuple[DelayedClaim, ...] = ()


def reach(pod: Schedulable, known: Volumes, unreadable: dict[str, None]) -> Reach:
    """Return where a pod's volumes can be reached from; `unreadable` collects what cannot be evaluated.

    The words name the pod's volume and not its claim, so that the copies of a pod are alike. The pod must not
    be refused for its claims (see `claims_refusal`).
    """
    volumes: set[Alternatives] = set()
    zones: set[Alternatives] = set()
    missing = False
    unbound: dict[DelayedClaim, None] = {}
    for mounted in claims_of_pod(pod):
        claim = known.claims.get((pod.metadata.namespace or "", mounted.name))
        if claim is not None and delayed(claim, known):
            # Drivers and capacities that were not read refuse nothing, but volumes may be there.
            if known.lacks(Kind.VOLUME):
                unreadable[f"the claim of volume {mounted.volume}, because no volumes were read"] = None
            unbound[delayed_claim(claim, unreadable)] = None
            if len(unbound) == MOST_DELAYED + 1:
                unreadable[f"more than {MOST_DELAYED} claims that are bound with the pod"] = None
            continue
        if claim is None or not claim.bound or claim.spec is None:
            why = _not_bound(claim)
            unreadable[f"the claim of volume {mounted.volume}, {why}"] = None
            continue
        volume = known.volumes.get(claim.spec.volumeName or "")
        if volume is None and known.lacks(Kind.VOLUME):
            unreadable[f"the persistent volume of volume {mounted.volume}, which was not read"] = None
            continue
        # kube-scheduler checks the volumes in the order of the pod, up to one that does not exist.
        missing |= volume is None
        if volume is not None and not missing:
            terms = node_affinity(volume, unreadable)
            if terms is not None:
                volumes.add(terms)
        # VolumeZone does not look at ephemeral volumes.
        if volume is not None and not mounted.ephemeral:
            zones.update(zone_terms(volume.metadata.labels or {}))
    kept = tuple(unbound) if len(unbound) <= MOST_DELAYED else ()
    return Reach(tuple(sorted(volumes)), tuple(sorted(zones)), missing, kept)


def _not_bound(claim: PersistentVolumeClaim | None) -> str:
    """Return what is unknown about a claim that refuses its pod on no node, and is not bound."""
    if claim is None:
        return "which was not read"
    return "which is not bound, and whose StorageClass was not read"
