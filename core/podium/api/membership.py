"""The group of a pod, in its namespace: from the native field if it is served, else from Podium's label."""

from typing import NamedTuple

from podium.api.core import Pod, PodSpec
from podium.api.groups import GROUP_LABEL, CompositeGroup, PodGroup
from podium.api.meta import ObjectMeta


class GroupKey(NamedTuple):
    """The identity of a group across versions: its API (native or Podium's), namespace and name.

    `composite` says that it is a CompositePodGroup, not a PodGroup.
    """

    native: bool
    namespace: str
    name: str
    composite: bool = False

    @property
    def kind(self) -> str:
        """PodGroup or CompositePodGroup."""
        return "CompositePodGroup" if self.composite else "PodGroup"

    @property
    def qualified(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


def key_of(group: PodGroup | CompositeGroup) -> GroupKey:
    """Return the identity of a group or a composite group across versions."""
    composite = isinstance(group, CompositeGroup)
    return GroupKey(group.native, group.ref.namespace, group.ref.name, composite)


def parent_key(group: PodGroup | CompositeGroup) -> GroupKey | None:
    """Return the key of a group's composite group, which is of the same API; None for a root."""
    if not group.composite:
        return None
    return GroupKey(group.native, group.ref.namespace, group.composite, composite=True)


def membership(pod: Pod, *, native_served: bool) -> GroupKey | None:
    """Return the group of a pod, or None.

    If the native API is not served the field is ignored (storage drops it); if it is served, the field has
    precedence.
    """
    name = group_name(pod.metadata, pod.spec, native_served=native_served)
    return None if name is None else GroupKey(name[0], pod.metadata.namespace or "", name[1])


def group_name(
    metadata: ObjectMeta | None, spec: PodSpec | None, *, native_served: bool
) -> tuple[bool, str] | None:
    """Return (native, group name) from a pod or a pod template, or None."""
    if native_served and spec is not None and spec.schedulingGroup is not None:
        name = spec.schedulingGroup.podGroupName
        if name:
            return True, name
    labels = metadata.labels if metadata is not None else None
    label = labels.get(GROUP_LABEL) if labels else None
    return (False, label) if label else None
