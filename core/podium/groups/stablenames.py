"""Names that outlive the object: tomorrow's Job of a CronJob has another name, but the same finding.

A CronJob puts a time into the names of its Jobs. The Job controller and Kueue put a hash of a UID into the
names of the objects that they create. `generateName` ends in a random suffix. A finding is followed from run
to run by the part that stays, with `*` for each generated part. A part counts as generated only if the
objects themselves prove it; a name that merely looks generated is unchanged.
"""

import re

from podium.api.findings import ObjectRef
from podium.api.groups import NATIVE_GROUP
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.cluster.reader import ClusterReader

MADE_UP = "*"
# The API allows no cycle of owners; the limit keeps a broken dump from an endless loop.
_DEEPEST = 10
# kubernetes/kubernetes, the Job controller: 32 bits in decimal, in the letters of rand.SafeEncodeString.
_JOB_HASH = "[bcdfghjklmnpqrstvwxz2456789]{6,10}"
# kubernetes-sigs/kueue: `<kind of the owner>-<name of the owner>-<hash>`.
_KUEUE_HASH = "[0-9a-f]{5}"
_KUEUE = "kueue.x-k8s.io"


def lasting_name(view: ClusterReader, ref: ObjectRef) -> str:
    """Return an object's name with `*` for each generated part, or unchanged if none is known."""
    return _lasting(view, ref, _DEEPEST)


def _lasting(view: ClusterReader, ref: ObjectRef, deeper: int) -> str:
    metadata = _metadata(view, ref)
    if metadata is None or not deeper:
        return ref.name
    if metadata.generateName and ref.name.startswith(metadata.generateName):
        return metadata.generateName + MADE_UP
    owner = metadata.controller()
    if owner is None or owner.name not in ref.name:
        return ref.name
    theirs = _lasting(view, ObjectRef(owner.apiVersion, owner.kind, ref.namespace, owner.name), deeper - 1)
    made = _made_by(ref, owner.kind, owner.name)
    return made.replace(owner.name, theirs)


def _made_by(ref: ObjectRef, kind: str, owner: str) -> str:
    """Return a name with `*` for the part that the owner's controller generated; the owner's name stays."""
    name_pattern = re.escape(owner)
    if (kind, ref.kind) == ("CronJob", "Job"):
        return re.sub(rf"\A{name_pattern}-[0-9]+\Z", f"{owner}-{MADE_UP}", ref.name)
    if ref.group == _KUEUE:
        return re.sub(rf"({name_pattern})-{_KUEUE_HASH}\Z", rf"\1-{MADE_UP}", ref.name)
    if ref.group == NATIVE_GROUP and kind == "Job":
        whole = re.fullmatch(rf"{name_pattern}-{_JOB_HASH}(?:(-.+)-{_JOB_HASH})?", ref.name)
        if whole is not None:
            return f"{owner}-{MADE_UP}" + (f"{whole[1]}-{MADE_UP}" if whole[1] else "")
    return ref.name


def _metadata(view: ClusterReader, ref: ObjectRef) -> ObjectMeta | None:
    key = GroupKey(ref.group == NATIVE_GROUP, ref.namespace, ref.name)
    if ref.group == _KUEUE:
        kueue = view.kueue_workloads.get((ref.namespace, ref.name))
        return None if kueue is None else kueue.metadata
    for stored in (view.groups.get(key), view.workloads.get(key), view.owners.get(ref)):
        if stored is not None and stored.ref == ref:
            return stored.metadata
    return None
