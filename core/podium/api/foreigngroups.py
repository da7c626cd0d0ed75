"""The PodGroups of other projects: which pods name them, and how many pods must exist; and Kueue's Workload.

Such a group belongs to another scheduler, or to a plugin of kube-scheduler. Podium's engine therefore places
and evicts its pods as lone ones. The number of members is read because a gang that is short of pods waits
without a true reason: the plugin rejects each pod before any node is looked at.
"""

from typing import NamedTuple

import msgspec

from podium.api.core import DEFAULT_SCHEDULER, PODIUM_SCHEDULER, Pod
from podium.api.findings import ObjectRef, group_of
from podium.api.meta import Int32, ObjectMeta


class ForeignKind(NamedTuple):
    """The PodGroups of a project, in the versions that it had, the current one first.

    `keys` are the labels or annotations of pods with the name of their group; the first one counts. A
    `plugin` may be in any kube-scheduler; else the project has a scheduler of its own. `other_groups` are
    further API groups of the project.
    """

    project: str
    api_versions: tuple[str, ...]
    keys: tuple[str, ...]
    plugin: bool = False
    other_groups: tuple[str, ...] = ()

    @property
    def group_kinds(self) -> frozenset[tuple[str, str]]:
        """Return apiVersion and kind of its PodGroups."""
        return frozenset((api_version, "PodGroup") for api_version in self.api_versions)

    @property
    def api_groups(self) -> frozenset[str]:
        """Return the API groups of the project."""
        return frozenset((*map(group_of, self.api_versions), *self.other_groups))


# kubernetes-sigs/scheduler-plugins, and the same CRD in koordinator-sh/koordinator. The older two keys are
# those of the older version.
COSCHEDULING = ForeignKind(
    "coscheduling",
    ("scheduling.x-k8s.io/v1alpha1", "scheduling.sigs.k8s.io/v1alpha1"),
    (
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io",
        "pod-group.scheduling.sigs.k8s.io/name",
    ),
    plugin=True,
)
# volcano-sh/apis, scheduling/v1beta1/labels.go
VOLCANO = ForeignKind(
    "Volcano",
    ("scheduling.volcano.sh/v1beta1",),
    ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"),
    other_groups=("batch.volcano.sh",),
)
# NVIDIA/KAI-Scheduler: its grouper sets the annotation.
KAI = ForeignKind("KAI", ("scheduling.run.ai/v2alpha2",), ("pod-group-name",))
FOREIGN_KINDS = (COSCHEDULING, VOLCANO, KAI)


class ForeignKey(NamedTuple):
    """The identity of a group across the versions of its project."""

    kind: ForeignKind
    namespace: str
    name: str

    @property
    def ref(self) -> ObjectRef:
        """Return the reference in the current version."""
        return ObjectRef(self.kind.api_versions[0], "PodGroup", self.namespace, self.name)

    def holder(self, scheduler: str) -> str:
        """Return what holds pods of a scheduler back for the group, empty if nothing does."""
        if scheduler == PODIUM_SCHEDULER:
            return ""
        if self.kind.plugin:
            sure = ", if it has that plugin," if scheduler == DEFAULT_SCHEDULER else ""
            return f"the {self.kind.project} plugin of {scheduler}{sure}"
        return "" if scheduler == DEFAULT_SCHEDULER else f"{self.kind.project} ({scheduler})"


class ForeignGroupSpec(msgspec.Struct, gc=False):
    """spec of a PodGroup; all projects have the same fields, and coscheduling has no class."""

    minMember: Int32 | None = None
    priorityClassName: str | None = None


class ForeignGroup(msgspec.Struct, gc=False):
    """A PodGroup of another project."""

    apiVersion: str
    kind: str = "PodGroup"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ForeignGroupSpec = msgspec.field(default_factory=ForeignGroupSpec)

    @property
    def group_key(self) -> ForeignKey:
        """Return the identity."""
        kind = next(kind for kind in FOREIGN_KINDS if self.apiVersion in kind.api_versions)
        return ForeignKey(kind, self.metadata.namespace or "", self.metadata.name or "")

    @property
    def object_ref(self) -> ObjectRef:
        """Return the reference in the version that was read."""
        return ObjectRef(self.apiVersion, self.kind, self.metadata.namespace or "", self.metadata.name or "")

    @property
    def min_member(self) -> int:
        """The number of pods without which none is placed."""
        return self.spec.minMember or 0


def foreign_key(pod: Pod) -> ForeignKey | None:
    """Return the group of another project that a pod names by a label or an annotation, or None."""
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    if not labels and not annotations:
        return None
    for kind in FOREIGN_KINDS:
        for key in kind.keys:
            name = labels.get(key) or annotations.get(key)
            if name:
                return ForeignKey(kind, pod.metadata.namespace or "", name)
    return None


class KueueWorkloadSpec(msgspec.Struct, gc=False):
    """spec of Kueue's Workload, as far as priority is concerned."""

    priority: Int32 | None = None
    priorityClassName: str | None = None


class KueueWorkload(msgspec.Struct, gc=False):
    """Kueue's own Workload; its priority decides its place in the queue, not in the scheduler."""

    apiVersion: str
    kind: str
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: KueueWorkloadSpec = msgspec.field(default_factory=KueueWorkloadSpec)
