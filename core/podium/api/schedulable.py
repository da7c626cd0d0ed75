"""Reads of what scheduling needs beyond membership: a pod's constraints and volumes, a node's taints.

They extend the reads of `podium.api.core`, so one State may hold them for every reader of a Pod. They are
separate because decoding them costs several times as much. They have only fields that a filter, a score, an
order or a message reads, as the API server stores them (core/v1), and no constraints.
"""

import msgspec

from podium.api import claims, storage
from podium.api.core import Container, Node, NodeSpec, NodeStatus
from podium.api.meta import Int32, Int64, LabelSelector
from podium.api.reads import FOLLOWED, FOREIGN_READS, Kind, Read, Reads, same
from podium.api.selectors import NodeSelector, NodeSelectorTerm


class ContainerPort(msgspec.Struct, gc=False):
    """A port of a container; only host ports matter."""

    containerPort: Int32 | None = None
    hostPort: Int32 | None = None
    hostIP: str | None = None
    protocol: str | None = None


class RestartRule(msgspec.Struct, gc=False):
    """The action of a kubelet when a container exits with one of some codes."""

    action: str | None = None


class VolumeMount(msgspec.Struct, gc=False, omit_defaults=True):
    """A mount of a volume; only options of the bind mount need a feature of the node."""

    bindMountOptions: list[str] | None = None


class SchedulableContainer(Container, gc=False):
    """A container with its ports, and the fields that need features of the node."""

    ports: list[ContainerPort] | None = None
    restartPolicyRules: list[RestartRule] | None = None
    volumeMounts: list[VolumeMount] | None = None


class EphemeralContainer(msgspec.Struct, gc=False):
    """A container for debugging, which takes no resources of its own."""

    volumeMounts: list[VolumeMount] | None = None


class PreferredSchedulingTerm(msgspec.Struct, gc=False):
    """A preference for nodes, with weight 1 to 100."""

    weight: Int32 | None = None
    preference: NodeSelectorTerm | None = None


class NodeAffinity(msgspec.Struct, gc=False):
    """The nodes that a pod requires, and the nodes that it prefers."""

    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(msgspec.Struct, gc=False):
    """Other pods by namespace and labels, and the topology key that defines the domain."""

    labelSelector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topologyKey: str | None = None
    namespaceSelector: LabelSelector | None = None
    matchLabelKeys: list[str] | None = None
    mismatchLabelKeys: list[str] | None = None


class WeightedPodAffinityTerm(msgspec.Struct, gc=False):
    """A preference for other pods, with weight 1 to 100."""

    weight: Int32 | None = None
    podAffinityTerm: PodAffinityTerm | None = None


class PodAffinity(msgspec.Struct, gc=False):
    """The required and preferred terms on other pods; podAntiAffinity has the same two lists."""

    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm] | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTerm] | None = None


class Affinity(msgspec.Struct, gc=False):
    """spec.affinity of a pod."""

    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodAffinity | None = None
    podAntiAffinity: PodAffinity | None = None


class Toleration(msgspec.Struct, gc=False):
    """A tolerated taint; tolerationSeconds does not affect placement."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Volume(claims.ClaimVolume, gc=False):
    """A volume, as far as its source restricts placement."""

    # Disks that kube-scheduler does not mount twice (VolumeRestrictions).
    gcePersistentDisk: storage.GCEPersistentDisk | None = None
    awsElasticBlockStore: storage.AWSElasticBlockStore | None = None
    iscsi: storage.ISCSIDisk | None = None
    rbd: storage.RBDImage | None = None
    # Disks that count towards the attach limits of CSI drivers, as the first two do (NodeVolumeLimits).
    azureDisk: storage.AzureDisk | None = None
    cinder: storage.CinderVolume | None = None
    portworxVolume: storage.PortworxVolume | None = None
    # A disk that kube-scheduler neither compares nor counts.
    vsphereVolume: claims.Present | None = None

    @property
    def places(self) -> bool:
        """Return whether the volume may restrict the nodes of its pod: it is a claim or a disk."""
        return self != Volume(name=self.name)


class SchedulableSpec(claims.ClaimingSpec, gc=False):
    """spec of a pod, with the fields that decide its placement."""

    # For a type checker a list of a subclass is not a list of its base class; no code appends to a read.
    containers: list[SchedulableContainer] | None = None  # type: ignore[assignment]
    initContainers: list[SchedulableContainer] | None = None  # type: ignore[assignment]
    nodeSelector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    volumes: list[Volume] | None = None  # type: ignore[assignment]
    hostNetwork: bool | None = None
    hostUsers: bool | None = None
    ephemeralContainers: list[EphemeralContainer] | None = None
    terminationGracePeriodSeconds: Int64 | None = None
    activeDeadlineSeconds: Int64 | None = None

    @property
    def required_nodes(self) -> NodeSelector | None:
        """The required node affinity, None for none."""
        affinity = self.affinity.nodeAffinity if self.affinity is not None else None
        return affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None


# status.reason of a pod that the kubelet evicted. The message is the kubelet's own.
EVICTED = "Evicted"


class SchedulableStatus(claims.ClaimingStatus, gc=False):
    """status of a pod, with the fields that order victims."""

    # The reason of a rejection by the kubelet (OutOfcpu and so on) or of an eviction, and its message.
    reason: str | None = None
    message: str | None = None
    nominatedNodeName: str | None = None
    startTime: str | None = None


class Schedulable(claims.ClaimingPod):
    """A pod as the scheduler sees it (the Schedulable read of the design)."""

    spec: SchedulableSpec = msgspec.field(default_factory=SchedulableSpec)
    status: SchedulableStatus | None = None


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint of a node; hashable, because many nodes share a few sets of taints."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class SchedulableNodeSpec(NodeSpec, gc=False):
    """spec of a node, with its taints."""

    taints: list[Taint] | None = None


class SchedulableNodeStatus(NodeStatus, gc=False):
    """status of a node, with the features that pods may require."""

    declaredFeatures: list[str] | None = None


class SchedulableNode(Node):
    """A node as the scheduler sees it."""

    spec: SchedulableNodeSpec | None = None
    status: SchedulableNodeStatus | None = None


# The kinds that a process reads to plan placements: those of an audit, and further ones that restrict
# placement.
SCHEDULING_READS: Reads = {
    **FOLLOWED,
    **FOREIGN_READS,
    ("v1", "Pod"): Read(Kind.POD, Schedulable, "pods", same),
    ("v1", "Node"): Read(Kind.NODE, SchedulableNode, "nodes", same),
    **claims.CLAIM_READS,
    ("storage.k8s.io/v1", "StorageClass"): Read(
        Kind.STORAGE_CLASS, storage.StorageClass, "storageclasses", same
    ),
    ("storage.k8s.io/v1", "CSINode"): Read(Kind.CSI_NODE, storage.CSINode, "csinodes", same),
    ("storage.k8s.io/v1", "CSIDriver"): Read(Kind.CSI_DRIVER, storage.CSIDriver, "csidrivers", same),
    ("storage.k8s.io/v1", "CSIStorageCapacity"): Read(
        Kind.STORAGE_CAPACITY, storage.CSIStorageCapacity, "csistoragecapacities", same
    ),
    ("storage.k8s.io/v1", "VolumeAttachment"): Read(
        Kind.ATTACHMENT, storage.VolumeAttachment, "volumeattachments", same
    ),
    **claims.DEVICE_READS,
}
