"""Create PodGroups for gangs that ask for one, if no other controller does.

The webhook sets the group's name on each pod. When a pod exists, its group is created here for the pod's
owner, and the owner reference deletes it with the owner. In an existing group only minCount follows the
owner, because its other fields cannot change. A group that another client created under the name is left
alone; the pods are its members, as of any group.

Pods that are created together usually have the same class. If they differ, the group gets the class of most
of them, and the others are divergent. The group is preempted as a whole, unless all pods ask by label to be
preempted one by one.
"""

from collections.abc import Sequence

from podium.api.core import Pod
from podium.api.findings import ObjectRef
from podium.api.foreign import PodOwner
from podium.api.membership import GroupKey
from podium.cluster.reader import ClusterReader
from podium.controllers.actions import ApplyGroup, CreateGroup, Reconciliation
from podium.groups import autogroups


def decide(view: ClusterReader, key: GroupKey) -> Reconciliation:
    """Return the action that creates the group of a gang, or adapts its minCount to its owner.

    A change names the UID and resourceVersion of the group that it was decided from.
    """
    if key.native or not autogroups.opted_in(view.namespaces.get(key.namespace)):
        return Reconciliation()
    members = _asking(view, key)
    owner = _owner(view, members)
    if owner is None or owner.gang_size < 1:
        return Reconciliation()
    group = view.groups.get(key)
    if group is None:
        class_name = autogroups.class_of(view.classes, (pod.spec for pod in members))
        disruption = autogroups.disruption_of(pod.metadata for pod in members)
        return Reconciliation(
            (CreateGroup(_ref(key), autogroups.group_of(owner, key.name, class_name, disruption)),)
        )
    meta = group.metadata
    controller = meta.controller()
    ours = controller is not None and controller.uid == owner.metadata.uid and group.min_count is not None
    if not ours or meta.deletionTimestamp is not None or group.min_count == owner.gang_size:
        return Reconciliation()
    # An apply removes fields that an earlier apply set and this one omits. No apply sets the disruption mode:
    # it is immutable, and groups of earlier releases have another one.
    document = autogroups.group_of(owner, key.name, group.priority_class_name)
    document["metadata"] |= {"uid": meta.uid, "resourceVersion": meta.resourceVersion}
    return Reconciliation((ApplyGroup(_ref(key), document),))


def _asking(view: ClusterReader, key: GroupKey) -> list[Pod]:
    """Return the members that are neither finished nor terminating and ask for this group."""
    return [
        pod
        for pod in view.members(key).values()
        if autogroups.asks(pod.metadata)
        and not pod.finished
        and pod.metadata.deletionTimestamp is None
        and (gang := autogroups.gang_of(pod)) is not None
        and gang.group_name == key.name
    ]


def _owner(view: ClusterReader, members: Sequence[Pod]) -> PodOwner | None:
    """Return the owner of the members, or None if it is deleted or unknown.

    The group's name identifies one owner, so the first member determines it.
    """
    gang = autogroups.gang_of(members[0]) if members else None
    owner = view.owners.get(gang.owner) if gang is not None else None
    return owner if owner is not None and owner.metadata.deletionTimestamp is None else None


def _ref(key: GroupKey) -> ObjectRef:
    return ObjectRef(autogroups.API_VERSION, "PodGroup", key.namespace, key.name)
