"""Reads of the core kinds: Pod as a group member, Node, Namespace, PriorityClass, PodDisruptionBudget.

This read of a pod is for audit, admission and the reconciler; its status is for the sum of requests. Fields
that only scheduling needs (affinity, tolerations, volumes) are in another read, so that a hundred thousand
pods stay cheap.
"""

import msgspec

from podium.api.meta import Condition, Int32, LabelSelector, ObjectMeta

# The scheduler of a pod that names none, and the scheduler that reads Podium's groups.
DEFAULT_SCHEDULER = "default-scheduler"
PODIUM_SCHEDULER = "podium-scheduler"
# An annotation that the kubelet sets on the mirror pod of a static pod.
MIRROR = "kubernetes.io/config.mirror"
# The condition of a pod that waits for a scheduler, and its reason if something cannot be evaluated.
POD_SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE = "PodScheduled", "SchedulerError", "Unschedulable"

# A quantity in JSON: nearly always text, but a bare number is legal.
RawQuantity = str | int | float


class ResourceRequirements(msgspec.Struct, gc=False):
    """Requests and limits of a container, or of a pod as a whole, by resource name."""

    requests: dict[str, RawQuantity] | None = None
    limits: dict[str, RawQuantity] | None = None


class Container(msgspec.Struct, gc=False):
    """A container's resources; restartPolicy Always on an init container means a sidecar."""

    name: str | None = None
    resources: ResourceRequirements | None = None
    restartPolicy: str | None = None


class SchedulingGroup(msgspec.Struct, gc=False):
    """Pod.spec.schedulingGroup: a union of one member today."""

    podGroupName: str | None = None


class WorkloadReference(msgspec.Struct, gc=False):
    """Pod.spec.workloadRef of Kubernetes 1.35: a group of a v1alpha1 Workload, and a replica of the group."""

    name: str | None = None
    podGroup: str | None = None
    podGroupReplicaKey: str | None = None


class SchedulingGate(msgspec.Struct, gc=False):
    """A gate that holds a pod back from scheduling, such as Kueue's."""

    name: str | None = None


class ResourceClaimEntry(msgspec.Struct, gc=False):
    """An entry of spec.resourceClaims of a pod or a group: a claim by its name, or by its template."""

    name: str | None = None
    resourceClaimName: str | None = None
    resourceClaimTemplateName: str | None = None


class EntryStatus(msgspec.Struct, gc=False):
    """The claim that was created for an entry with a template; without a name, no claim is needed."""

    name: str | None = None
    resourceClaimName: str | None = None


class TopologySpreadConstraint(msgspec.Struct, gc=False):
    """The allowed skew of pods like this one over the values of a topology key."""

    maxSkew: Int32 | None = None
    topologyKey: str | None = None
    whenUnsatisfiable: str | None = None
    labelSelector: LabelSelector | None = None
    minDomains: Int32 | None = None
    nodeAffinityPolicy: str | None = None
    nodeTaintsPolicy: str | None = None
    matchLabelKeys: list[str] | None = None


class PodSpec(msgspec.Struct, gc=False):
    """spec of a pod, or of a pod template."""

    priorityClassName: str | None = None
    priority: Int32 | None = None
    preemptionPolicy: str | None = None
    schedulerName: str | None = None
    schedulingGroup: SchedulingGroup | None = None
    workloadRef: WorkloadReference | None = None
    schedulingGates: list[SchedulingGate] | None = None
    nodeName: str | None = None
    containers: list[Container] | None = None
    initContainers: list[Container] | None = None
    resources: ResourceRequirements | None = None
    overhead: dict[str, RawQuantity] | None = None
    topologySpreadConstraints: list[TopologySpreadConstraint] | None = None


class ContainerStatus(msgspec.Struct, gc=False):
    """The resources that a kubelet gave a container; they differ from the spec during a resize."""

    name: str | None = None
    allocatedResources: dict[str, RawQuantity] | None = None
    resources: ResourceRequirements | None = None


class ClaimedAmount(msgspec.Struct, gc=False):
    """An amount of a node resource that a pod uses through a resource claim."""

    name: str = ""
    quantity: RawQuantity = "0"


class NodeResourceClaim(msgspec.Struct, gc=False):
    """Node resources that a pod uses through one resource claim (KEP-5517).

    Kubernetes 1.36 writes `resources`, later releases `mapping`.
    """

    resources: dict[str, RawQuantity] | None = None
    mapping: list[ClaimedAmount] | None = None


class PodStatus(msgspec.Struct, gc=False):
    """status of a pod, with the results of resizes."""

    phase: str | None = None
    conditions: list[Condition] | None = None
    containerStatuses: list[ContainerStatus] | None = None
    initContainerStatuses: list[ContainerStatus] | None = None
    allocatedResources: dict[str, RawQuantity] | None = None
    resources: ResourceRequirements | None = None
    nodeAllocatableResourceClaimStatuses: list[NodeResourceClaim] | None = None

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of a type, such as PodScheduled or DisruptionTarget, or None."""
        for condition in self.conditions or ():
            if condition.type == kind:
                return condition
        return None


class Pod(msgspec.Struct, gc=False):
    """A pod as a member of a group (the Member read of the design)."""

    apiVersion: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus | None = None

    @property
    def finished(self) -> bool:
        """Return whether the pod has ended, with or without success; it then holds no resources.

        Such a pod counts nowhere.
        """
        return self.status is not None and self.status.phase in ("Succeeded", "Failed")

    @property
    def holding(self) -> bool:
        """Return whether the pod holds resources of a node: it has one, and is not finished."""
        return bool(self.spec.nodeName) and not self.finished

    @property
    def pending(self) -> bool:
        """Return whether the pod has no node yet, and is not finished or terminating."""
        return not (self.spec.nodeName or self.finished or self.metadata.deletionTimestamp)

    @property
    def scheduler(self) -> str:
        """Return the pod's schedulerName, or the default."""
        return self.spec.schedulerName or DEFAULT_SCHEDULER


class PodTemplate(msgspec.Struct, gc=False):
    """A pod template inside an owner; its metadata carries labels and annotations only."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class PriorityClass(msgspec.Struct, gc=False):
    """scheduling.k8s.io/v1 PriorityClass; an absent value is 0 as in Go."""

    apiVersion: str = "scheduling.k8s.io/v1"
    kind: str = "PriorityClass"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    value: Int32 | None = None
    globalDefault: bool | None = None
    description: str | None = None
    preemptionPolicy: str | None = None


class Namespace(msgspec.Struct, gc=False):
    """A namespace; administrators set its labels to allow features."""

    apiVersion: str = "v1"
    kind: str = "Namespace"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class NodeSpec(msgspec.Struct, gc=False):
    """spec of a node."""

    unschedulable: bool | None = None


class NodeInfo(msgspec.Struct, gc=False):
    """status.nodeInfo, for the kubelet's version (`v1.36.3`)."""

    kubeletVersion: str | None = None


class NodeStatus(msgspec.Struct, gc=False):
    """status of a node."""

    allocatable: dict[str, RawQuantity] | None = None
    nodeInfo: NodeInfo | None = None
    conditions: list[Condition] | None = None


class Node(msgspec.Struct, gc=False):
    """A node, as far as its room and version are concerned."""

    apiVersion: str = "v1"
    kind: str = "Node"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class PodDisruptionBudgetSpec(msgspec.Struct, gc=False):
    """spec of a budget; minAvailable and maxUnavailable are a count or a percentage."""

    selector: LabelSelector | None = None
    minAvailable: Int32 | str | None = None
    maxUnavailable: Int32 | str | None = None


class PodDisruptionBudgetStatus(msgspec.Struct, gc=False):
    """status of a budget, as the disruption controller counts it."""

    disruptionsAllowed: Int32 | None = None
    # A golden file of kubernetes/api has null as a time.
    disruptedPods: dict[str, str | None] | None = None


class PodDisruptionBudget(msgspec.Struct, gc=False):
    """policy/v1 PodDisruptionBudget."""

    apiVersion: str = "policy/v1"
    kind: str = "PodDisruptionBudget"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodDisruptionBudgetSpec | None = None
    status: PodDisruptionBudgetStatus | None = None
