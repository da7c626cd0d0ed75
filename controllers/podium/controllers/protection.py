"""A finalizer that keeps a deleted group while pods need it, for Podium's groups as for native ones.

Without the group, a scheduler knows neither how many pods belong together nor how they may be disrupted. So a
deleted group stays, terminating, until none of its pods can run any more. The controller adds the finalizer
itself, so that it exists only where a controller can remove it. It must never block the deletion of a
namespace.

A group created for a Job (or JobSet, LeaderWorkerSet) is deleted with it. If the Job is created again under
its name, the new pods name the same group. If they held the old group, the new one could never be created.
"""

from collections.abc import Iterator

from podium.api.core import Pod
from podium.api.findings import ObjectRef, group_of
from podium.api.groups import FINALIZER, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta, OwnerReference
from podium.api.podkinds.table import GANG_FORMS
from podium.api.reads import Kind
from podium.cluster.reader import ClusterReader
from podium.controllers.actions import Reconciliation, SetFinalizers

# A pod may be cached before its owner, and access to pods may be denied for a while.
_AGAIN_SECONDS = 5.0
# The longest chain of owners: a worker of a LeaderWorkerSet, its StatefulSet, the leader, its StatefulSet.
_GENERATIONS = 4


def decide(view: ClusterReader, key: GroupKey, *, protect: bool) -> Reconciliation:
    """Return the action that adds the finalizer to a group, or removes it when no pod needs the group.

    Without `protect` it is removed from every group, because no other component would remove it.
    """
    group = view.groups.get(key)
    if group is None or group.native:
        return Reconciliation()
    if not protect:
        return release(group)
    finalizers = tuple(group.metadata.finalizers or ())
    deleted = group.metadata.deletionTimestamp is not None
    if FINALIZER not in finalizers:
        needs_finalizer = not deleted and not _is_terminating(view, key.namespace)
        return _set(group, (*finalizers, FINALIZER)) if needs_finalizer else Reconciliation()
    needed = not deleted or _is_needed(view, key, group)
    if needed is None:
        return Reconciliation(again=_AGAIN_SECONDS)
    return Reconciliation() if needed else release(group)


def release(group: PodGroup) -> Reconciliation:
    """Return the action that removes the finalizer from a group, if it has it."""
    finalizers = tuple(group.metadata.finalizers or ())
    if FINALIZER not in finalizers:
        return Reconciliation()
    return _set(group, tuple(finalizer for finalizer in finalizers if finalizer != FINALIZER))


def _is_needed(view: ClusterReader, key: GroupKey, group: PodGroup) -> bool | None:
    """Return whether pods need a deleted group; None if that is unknown now."""
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


def _set(group: PodGroup, finalizers: tuple[str, ...]) -> Reconciliation:
    meta = group.metadata
    return Reconciliation((SetFinalizers(group.ref, meta.uid or "", meta.resourceVersion or "", finalizers),))


def _is_terminating(view: ClusterReader, name: str) -> bool:
    """Return whether a namespace is known to be terminating; an unknown one may exist."""
    namespace = view.namespaces.get(name)
    return namespace is not None and namespace.metadata.deletionTimestamp is not None


def _made_for(group: PodGroup) -> OwnerReference | None:
    """Return the owner that a group was created for, if its kind is one that groups are created for."""
    owner = group.metadata.controller()
    return owner if owner is not None and (owner.apiVersion, owner.kind) in GANG_FORMS else None


def _is_of_another(view: ClusterReader, pod: Pod, owner: OwnerReference) -> bool | None:
    """Return whether a pod belongs to another object with the owner's name; None if that is unknown.

    A pod of any other owner is a member by its own label or field, so it holds the group.
    """
    for maker in _makers(view, pod):
        if maker is None:
            return None
        if _same_name(maker, owner):
            return maker.uid != owner.uid
    return False


def _makers(view: ClusterReader, pod: Pod) -> Iterator[OwnerReference | None]:
    """Yield the chain of owners of a pod, with None at the end if one is unknown."""
    meta = pod.metadata
    for _ in range(_GENERATIONS):
        maker = meta.controller()
        if maker is None:
            return
        yield maker
        owner = _known(view, maker, meta.namespace or "")
        if owner is None:
            yield None
            return
        meta = owner


def _known(view: ClusterReader, maker: OwnerReference, namespace: str) -> ObjectMeta | None:
    """Return the metadata of the object that a reference names, if the cache has it with the same UID."""
    ref = ObjectRef(maker.apiVersion, maker.kind, namespace, maker.name)
    owner = view.pods.get((namespace, maker.name)) if maker.kind == Kind.POD else view.owners.get(ref)
    return owner.metadata if owner is not None and owner.metadata.uid == maker.uid else None


def _same_name(first: OwnerReference, second: OwnerReference) -> bool:
    return (group_of(first.apiVersion), first.kind, first.name) == (
        group_of(second.apiVersion),
        second.kind,
        second.name,
    )
