"""PodGroups for gangs that ask for one, where nobody else makes them.

The webhook has named the group on each pod; here it is made, once a pod is there, for what made the pod, and
goes with that by its owner reference. Of a group that exists only minCount follows the owner, for nothing
else of it may change. What somebody else made under the name is theirs, whatever it says; pods are its
members all the same, as of any group.

Pods that are created together are of one class nearly always. Where they are not, the class of most of them
is taken, and the others are found to diverge. The group is preempted as a whole, unless all of them ask in a
label to be preempted one by one.
"""

from collections.abc import Sequence

from podium import gangs
from podium.api.core import Pod
from podium.api.foreign import Owner
from podium.api.membership import GroupKey
from podium.controllers.actions import ApplyGroup, CreateGroup, Decision
from podium.findings import ObjectRef
from podium.view import View


def decide(view: View, key: GroupKey) -> Decision:
    """Make the group of a gang that asks for one, or bring its minCount up to its owner's.

    A change names by UID and resourceVersion the group that it was decided from.
    """
    if key.native or not gangs.opted_in(view.namespaces.get(key.namespace)):
        return Decision()
    members = _asking(view, key)
    owner = _owner(view, members)
    if owner is None or owner.gang_size < 1:
        return Decision()
    group = view.groups.get(key)
    if group is None:
        class_name = gangs.class_of(view.classes, (pod.spec for pod in members))
        disruption = gangs.disruption_of(pod.metadata for pod in members)
        return Decision((CreateGroup(_ref(key), gangs.group_of(owner, key.name, class_name, disruption)),))
    meta = group.metadata
    controller = meta.controller()
    ours = controller is not None and controller.uid == owner.metadata.uid and group.min_count is not None
    if not ours or meta.deletionTimestamp is not None or group.min_count == owner.gang_size:
        return Decision()
    # An apply that leaves out what an earlier one set takes it away. No apply sets the disruption mode: it
    # cannot be changed, and groups of earlier releases have another.
    document = gangs.group_of(owner, key.name, group.priority_class_name)
    document["metadata"] |= {"uid": meta.uid, "resourceVersion": meta.resourceVersion}
    return Decision((ApplyGroup(_ref(key), document),))


def _asking(view: View, key: GroupKey) -> list[Pod]:
    """Give the members that are there to stay and ask for this group."""
    return [
        pod
        for pod in view.members(key).values()
        if gangs.asks(pod.metadata)
        and not pod.finished
        and pod.metadata.deletionTimestamp is None
        and (gang := gangs.gang_of(pod)) is not None
        and gang.group_name == key.name
    ]


def _owner(view: View, members: Sequence[Pod]) -> Owner | None:
    """Give what made the members: one thing, for the group's name says which; None if it is going or gone."""
    gang = gangs.gang_of(members[0]) if members else None
    owner = view.owners.get(gang.owner) if gang is not None else None
    return owner if owner is not None and owner.metadata.deletionTimestamp is None else None


def _ref(key: GroupKey) -> ObjectRef:
    return ObjectRef(gangs.API_VERSION, "PodGroup", key.namespace, key.name)
