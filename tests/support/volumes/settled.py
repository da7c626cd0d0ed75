"""Finds the claims and volumes that the volume controller of Kubernetes has yet to change.

A test that shows a cluster to a scheduler waits until there are none. Otherwise the controller would change
the cluster while the scheduler reads it. The rules are those of syncClaim and syncVolume in
pkg/controller/volume/persistentvolume/pv_controller.go. Two cases are left out: a claim that is bound at once
to a volume that does not name it, and a claim that names a free volume and must not have it.
"""

from collections.abc import Iterable, Mapping

from tests.support.volumes.manifests import Manifest

from podium.api.quantity import parse
from podium.api.storage import BIND_COMPLETED

# Namespace and name.
_ClaimKey = tuple[str, str]


def unsettled(claims: Iterable[Manifest], volumes: Iterable[Manifest]) -> list[str]:
    """Return the names of the claims and volumes that are not as the controller leaves them."""
    by_key = {_key(each["metadata"]): each for each in claims}
    by_name = {each["metadata"]["name"]: each for each in volumes}
    return [
        *(name for (_, name), each in by_key.items() if not _claim_is_settled(each, by_name)),
        *(name for name, each in by_name.items() if not _volume_is_settled(each, by_key)),
    ]


def _claim_is_settled(claim: Manifest, volumes: Mapping[str, Manifest]) -> bool:
    """Return whether the controller does nothing for a claim, without the volumes that name it."""
    name = claim["spec"].get("volumeName")
    if name is None:
        return True
    # A volume that does not exist has no place for any claim.
    owner = volumes[name]["spec"].get("claimRef") if name in volumes else {"uid": ""}
    if owner is None:
        return False
    is_owner = owner.get("uid") == claim["metadata"]["uid"]
    if BIND_COMPLETED in claim["metadata"].get("annotations", {}):
        return bool(claim["status"]["phase"] == ("Bound" if is_owner else "Lost"))
    return not is_owner


def _volume_is_settled(volume: Manifest, claims: Mapping[_ClaimKey, Manifest]) -> bool:
    """Return whether the controller does nothing for a volume, nor binds the claim that it names."""
    owner, phase = volume["spec"].get("claimRef"), volume["status"]["phase"]
    claim = claims.get(_key(owner)) if owner else None
    uid = owner.get("uid") if owner else None
    if claim is not None and uid in (None, claim["metadata"]["uid"]):
        chosen = claim["spec"].get("volumeName")
        if chosen is None and _suits(volume, claim):
            return False
        if uid is not None:
            return bool(phase == "Bound" or chosen != volume["metadata"]["name"])
    return bool(phase == ("Available" if uid is None else "Released"))


def _suits(volume: Manifest, claim: Manifest) -> bool:
    """Return whether the controller binds a claim to a volume that names it; their classes may differ."""
    given, wanted = volume["spec"], claim["spec"]
    return (
        "deletionTimestamp" not in volume["metadata"]
        and given["volumeMode"] == wanted["volumeMode"]
        and given.get("volumeAttributesClassName") == wanted.get("volumeAttributesClassName")
        and {*wanted["accessModes"]} <= {*given["accessModes"]}
        and parse(given["capacity"]["storage"]) >= parse(wanted["resources"]["requests"]["storage"])
    )


def _key(named: Manifest) -> _ClaimKey:
    return named["namespace"], named["name"]
