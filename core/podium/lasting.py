"""Names that outlive the object: tomorrow's Job of a CronJob has another name, and is the same finding.

A CronJob puts a time into the names of its Jobs, the Job controller and Kueue put a hash of a UID into the
names of what they make, and `generateName` ends in chance. Whoever follows a finding from run to run follows
it by the part that stays, with `*` for what is made up. Only what the objects themselves prove is taken for
made up: a name that merely looks like it is left alone.
"""

import re

from podium.api.groups import NATIVE_GROUP
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.findings import ObjectRef
from podium.view import View

MADE_UP = "*"
# A loop of owners cannot be made through the API; the bound keeps a broken dump from hanging.
_DEEPEST = 10
# kubernetes/kubernetes, the Job controller: 32 bits in decimal, in the letters of rand.SafeEncodeString.
_JOB_HASH = "[bcdfghjklmnpqrstvwxz2456789]{6,10}"
# kubernetes-sigs/kueue: `<kind of the owner>-<name of the owner>-<hash>`.
_KUEUE_HASH = "[0-9a-f]{5}"
_KUEUE = "kueue.x-k8s.io"


def lasting_name(view: View, ref: ObjectRef) -> str:
    """Give an object's name with `*` for each made-up part; the name as it is where none is known to be."""
    return _lasting(view, ref, _DEEPEST)


def _lasting(view: View, ref: ObjectRef, deeper: int) -> str:
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
    """Replace what the owner's controller made up in a name; the owner's own name is left in it."""
    mine = re.escape(owner)
    if (kind, ref.kind) == ("CronJob", "Job"):
        return re.sub(rf"\A{mine}-[0-9]+\Z", f"{owner}-{MADE_UP}", ref.name)
    if ref.group == _KUEUE:
        return re.sub(rf"({mine})-{_KUEUE_HASH}\Z", rf"\1-{MADE_UP}", ref.name)
    if ref.group == NATIVE_GROUP and kind == "Job":
        whole = re.fullmatch(rf"{mine}-{_JOB_HASH}(?:(-.+)-{_JOB_HASH})?", ref.name)
        if whole is not None:
            return f"{owner}-{MADE_UP}" + (f"{whole[1]}-{MADE_UP}" if whole[1] else "")
    return ref.name


def _metadata(view: View, ref: ObjectRef) -> ObjectMeta | None:
    key = GroupKey(ref.group == NATIVE_GROUP, ref.namespace, ref.name)
    if ref.group == _KUEUE:
        kueue = view.kueue_workloads.get((ref.namespace, ref.name))
        return None if kueue is None else kueue.metadata
    for stored in (view.groups.get(key), view.workloads.get(key), view.owners.get(ref)):
        if stored is not None and stored.ref == ref:
            return stored.metadata
    return None
