"""A group stays while a pod needs it: what the API server's own groups have, for Podium's.

A scheduler that meets a pod whose group is gone knows neither how many belong together nor how they may be
disturbed. So a group that is deleted stays, terminating, until none of its pods is left that could still run.
The controller puts the finalizer on groups itself, so that there is none where no controller would take it
away; and nothing here may keep a namespace from going.

A group that was made for a Job (or JobSet, LeaderWorkerSet) goes with it. Should the Job be made again under
its name, the new pods name the same group: if they held the old one, the new one could never be made.
"""

from collections.abc import Iterator

from podium.api.core import Pod
from podium.api.groups import FINALIZER, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta, OwnerReference
from podium.api.reads import Kind
from podium.controllers.actions import Decision, SetFinalizers
from podium.findings import ObjectRef, group_of
from podium.gangs import OWNER_KINDS
from podium.view import View

# A pod may be known before what made it, and pods may be kept from us for a while.
_AGAIN_SECONDS = 5.0
# The longest way up: a worker of a LeaderWorkerSet, its StatefulSet, the leader, its StatefulSet.
_GENERATIONS = 4


def decide(view: View, key: GroupKey, *, protect: bool) -> Decision:
    """Put the finalizer on a group, or take it away when nothing needs the group any more.

    Without `protect` it is taken away from every group that has it, for nobody else would.
    """
    group = view.groups.get(key)
    if group is None or group.native:
        return Decision()
    finalizers = tuple(group.metadata.finalizers or ())
    deleted = group.metadata.deletionTimestamp is not None
    if FINALIZER not in finalizers:
        wanted = protect and not deleted and not _is_terminating(view, key.namespace)
        return _set(group, (*finalizers, FINALIZER)) if wanted else Decision()
    needed = protect and (not deleted or _is_needed(view, key, group))
    if needed is None:
        return Decision(again=_AGAIN_SECONDS)
    if needed:
        return Decision()
    return _set(group, tuple(each for each in finalizers if each != FINALIZER))


def _is_needed(view: View, key: GroupKey, group: PodGroup) -> bool | None:
    """Say whether pods need a group that is deleted; None when that cannot be told now."""
    if _is_terminating(view, key.namespace):
        return False
    if Kind.POD in view.unread:
        return None
    live = [pod for pod in view.members(key).values() if not pod.finished]
    owner = _made_for(group)
    if owner is None:
        return bool(live)
    of_another = {_is_of_another(view, pod, owner) for pod in live}
    if False in of_another:
        return True
    return None if None in of_another else False


def _set(group: PodGroup, finalizers: tuple[str, ...]) -> Decision:
    meta = group.metadata
    return Decision((SetFinalizers(group.ref, meta.uid or "", meta.resourceVersion or "", finalizers),))


def _is_terminating(view: View, name: str) -> bool:
    """Say whether a namespace is known to be going; one that is not known may well be there."""
    namespace = view.namespaces.get(name)
    return namespace is not None and namespace.metadata.deletionTimestamp is not None


def _made_for(group: PodGroup) -> OwnerReference | None:
    """Give what a group was made for, if it is one of the kinds that groups are made for."""
    owner = group.metadata.controller()
    return owner if owner is not None and (owner.apiVersion, owner.kind) in OWNER_KINDS else None


def _is_of_another(view: View, pod: Pod, owner: OwnerReference) -> bool | None:
    """Say whether a pod was made by another object of the owner's name; None when that cannot be told.

    A pod that was made by something else is a member because it says so: it holds the group.
    """
    for maker in _makers(view, pod):
        if maker is None:
            return None
        if _same_name(maker, owner):
            return maker.uid != owner.uid
    return False


def _makers(view: View, pod: Pod) -> Iterator[OwnerReference | None]:
    """Give who made a pod, who made that, and so on; None at the end where one is not known."""
    meta = pod.metadata
    for _ in range(_GENERATIONS):
        maker = meta.controller()
        if maker is None:
            return
        yield maker
        found = _known(view, maker, meta.namespace or "")
        if found is None:
            yield None
            return
        meta = found


def _known(view: View, maker: OwnerReference, namespace: str) -> ObjectMeta | None:
    """Give the metadata of what a reference names, if it is that very object that is known."""
    ref = ObjectRef(maker.apiVersion, maker.kind, namespace, maker.name)
    found = view.pods.get((namespace, maker.name)) if maker.kind == Kind.POD else view.owners.get(ref)
    return found.metadata if found is not None and found.metadata.uid == maker.uid else None


def _same_name(one: OwnerReference, other: OwnerReference) -> bool:
    return (group_of(one.apiVersion), one.kind, one.name) == (
        group_of(other.apiVersion),
        other.kind,
        other.name,
    )
