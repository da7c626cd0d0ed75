"""Create PodGroups for gangs that ask for one, if no other controller does.

The webhook sets the group's name on each pod. When a pod exists, its group is created here for the pod's
owner, and the owner reference deletes it with the owner. In an existing group only minCount follows the
owner, because its other fields cannot change. A group that another client created under the name is left
alone; the pods are its members, as of any group.

Pods that are created together usually have the same class. If they differ, the group gets the class of most
of them, and the others are divergent. The group is preempted as a whole, unless all pods ask by label to be
preempted one by one.

In a tree, the composite group above the groups is created when one of them exists. Its policy is immutable,
so it is not changed later. If it is deleted, it is created again.
"""

from collections.abc import Sequence

from podium.api.core import Pod
from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey
from podium.api.podkinds.kind import PodOwner
from podium.cluster.reader import ClusterReader
from podium.controllers.actions import ApplyGroup, CreateGroup, Reconciliation
from podium.groups import autogroups
from podium.groups.autogroups import Gang
from podium.groups.trees import is_too_large


def decide(view: ClusterReader, key: GroupKey) -> Reconciliation:
    """Return the action that creates the group of a gang or tree, or adapts its minCount to its owner.

    A change names the UID and resourceVersion of the group that it was decided from.
    """
    if key.native or not autogroups.opted_in(view.namespaces.get(key.namespace)):
        return Reconciliation()
    return _decide_root(view, key) if key.composite else _decide_gang(view, key)


def _decide_root(view: ClusterReader, key: GroupKey) -> Reconciliation:
    """Return the action that creates the composite group which the groups of a tree name."""
    if key in view.composites or is_too_large(view, key):
        return Reconciliation()
    children = (child for child in view.children.get(key, ()) if not child.composite)
    members = [pod for child in children for pod in _asking(view, child, root=key.name)]
    owner = _owner(view, _gang(members))
    class_name = autogroups.class_of(view.classes, (pod.spec for pod in members)) if members else ""
    document = autogroups.root_of(owner, class_name) if owner is not None else None
    return Reconciliation((CreateGroup(_ref(key), document),) if document is not None else ())


def _decide_gang(view: ClusterReader, key: GroupKey) -> Reconciliation:
    members = _asking(view, key)
    gang = _gang(members)
    owner = _owner(view, gang)
    if gang is None or owner is None:
        return Reconciliation()
    size = autogroups.size_of(owner, gang)
    if size < 1:
        return Reconciliation()
    group = view.groups.get(key)
    if group is None:
        class_name = autogroups.class_of(view.classes, (pod.spec for pod in members))
        disruption = autogroups.disruption_of(pod.metadata for pod in members)
        return Reconciliation(
            (CreateGroup(_ref(key), autogroups.leaf_of(owner, gang, class_name, disruption)),)
        )
    meta = group.metadata
    controller = meta.controller()
    ours = controller is not None and controller.uid == owner.metadata.uid and group.min_count is not None
    if not ours or meta.deletionTimestamp is not None or group.min_count == size:
        return Reconciliation()
    # An apply removes fields that an earlier apply set and this one omits. No apply sets the disruption mode:
    # it is immutable, and groups of earlier releases have another one.
    document = autogroups.leaf_of(owner, gang, group.priority_class_name)
    document["metadata"] |= {"uid": meta.uid, "resourceVersion": meta.resourceVersion}
    return Reconciliation((ApplyGroup(_ref(key), document),))


def _asking(view: ClusterReader, key: GroupKey, root: str = "") -> list[Pod]:
    """Return the members that are neither finished nor terminating and ask for this group (and root)."""
    return [
        pod
        for pod in view.members(key).values()
        if autogroups.asks(pod.metadata)
        and not pod.finished
        and pod.metadata.deletionTimestamp is None
        and (gang := autogroups.gang_of(pod)) is not None
        and gang.group_name == key.name
        and root in ("", gang.root)
    ]


def _gang(members: Sequence[Pod]) -> Gang | None:
    """Return the gang of these members, in a tree if one of them asks for it.

    The group's name identifies one owner. Of a replica, the leader alone may ask for a tree, or the workers.
    """
    gangs = (autogroups.gang_of(pod) for pod in members)
    return max((gang for gang in gangs if gang is not None), key=lambda gang: gang.root, default=None)


def _owner(view: ClusterReader, gang: Gang | None) -> PodOwner | None:
    """Return the owner of a gang, or None if it is deleted or unknown."""
    owner = view.owners.get(gang.owner) if gang is not None else None
    return owner if owner is not None and owner.metadata.deletionTimestamp is None else None


def _ref(key: GroupKey) -> ObjectRef:
    return ObjectRef(autogroups.API_VERSION, key.kind, key.namespace, key.name)
