"""Reads of storage: claims, volumes and their classes, CSI drivers, capacities and attachments.

They have only fields that VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits of
kube-scheduler read, as the API server stores them (core/v1 and storage.k8s.io/v1), and no constraints. The
disks are those that a pod or a volume names without a CSI driver. kube-scheduler translates five of them to
their drivers. It never translates vSphere disks and Azure file shares, so their names are not read.

Source: kube-scheduler 1.36 and 1.37, k8s.io/component-helpers/storage/volume, k8s.io/csi-translation-lib.
"""

import msgspec

from podium.api.core import RawQuantity
from podium.api.meta import Int32, LabelSelector, ObjectMeta
from podium.api.selectors import Labels, NodeRequirement, NodeSelector, Requirement, node_terms

# An annotation that the volume controller sets on a claim once it is bound.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
# An annotation of a claim: the node for which its volume is to be provisioned.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
# An annotation of a claim or a volume that a controller or a scheduler bound, and not a user.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
# An annotation of a claim or a volume that overrides spec.storageClassName.
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
# An annotation of a CSINode: the in-tree plugins that the kubelet replaced by CSI drivers, joined by commas.
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
# Annotations that make a class the default, today's and the first.
DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
# The provisioner of a class whose volumes an administrator creates.
NO_PROVISIONER = "kubernetes.io/no-provisioner"
# The binding mode of a class whose claims get a volume when their first pod gets a node.
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


class GCEPersistentDisk(msgspec.Struct, gc=False):
    """A disk of Google Compute Engine (driver pd.csi.storage.gke.io)."""

    pdName: str | None = None
    readOnly: bool | None = None


class AWSElasticBlockStore(msgspec.Struct, gc=False):
    """A disk of AWS (driver ebs.csi.aws.com); the ID may be `aws://<zone>/<ID>`."""

    volumeID: str | None = None


class AzureDisk(msgspec.Struct, gc=False):
    """A disk of Azure (driver disk.csi.azure.com); only a managed disk is translated."""

    diskURI: str | None = None
    kind: str | None = None


class CinderVolume(msgspec.Struct, gc=False):
    """A disk of OpenStack (driver cinder.csi.openstack.org)."""

    volumeID: str | None = None


class PortworxVolume(msgspec.Struct, gc=False):
    """A volume of Portworx (driver pxd.portworx.com)."""

    volumeID: str | None = None


class ISCSIDisk(msgspec.Struct, gc=False):
    """A disk by iSCSI; kube-scheduler compares only the qualified name of its target."""

    iqn: str | None = None
    readOnly: bool | None = None


class RBDImage(msgspec.Struct, gc=False):
    """An image of a Ceph cluster."""

    monitors: list[str] | None = None
    pool: str | None = None
    image: str | None = None
    readOnly: bool | None = None


class VolumeResourceRequirements(msgspec.Struct, gc=False):
    """The size that a claim requests, by the resource `storage`."""

    requests: dict[str, RawQuantity] | None = None


class PersistentVolumeClaimSpec(msgspec.Struct, gc=False):
    """spec of a claim."""

    accessModes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements | None = None
    volumeName: str | None = None
    storageClassName: str | None = None
    volumeMode: str | None = None
    volumeAttributesClassName: str | None = None


class PersistentVolumeClaimStatus(msgspec.Struct, gc=False):
    """status of a claim."""

    phase: str | None = None


class PersistentVolumeClaim(msgspec.Struct, gc=False):
    """v1 PersistentVolumeClaim."""

    apiVersion: str = "v1"
    kind: str = "PersistentVolumeClaim"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec | None = None
    status: PersistentVolumeClaimStatus | None = None

    @property
    def bound(self) -> bool:
        """Return whether binding is complete, which kube-scheduler reads from the controller's annotation."""
        named = self.spec is not None and bool(self.spec.volumeName)
        return named and BIND_COMPLETED in (self.metadata.annotations or {})

    @property
    def storage_class(self) -> str:
        """Return the name of the StorageClass, empty for none; the annotation counts before the field."""
        field = self.spec.storageClassName if self.spec is not None else None
        return (self.metadata.annotations or {}).get(BETA_CLASS, field or "")

    @property
    def selected_node(self) -> str | None:
        """Return the node for which the volume is to be provisioned, None for none."""
        return (self.metadata.annotations or {}).get(SELECTED_NODE)


class VolumeNodeAffinity(msgspec.Struct, gc=False):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class CSISource(msgspec.Struct, gc=False):
    """The driver of a volume, and the driver's handle of it."""

    driver: str | None = None
    volumeHandle: str | None = None


class ClaimReference(msgspec.Struct, gc=False):
    """The claim that a volume is bound to, or reserved for while it has no UID."""

    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class PersistentVolumeSpec(msgspec.Struct, gc=False):
    """spec of a volume."""

    capacity: dict[str, RawQuantity] | None = None
    accessModes: list[str] | None = None
    claimRef: ClaimReference | None = None
    storageClassName: str | None = None
    volumeMode: str | None = None
    volumeAttributesClassName: str | None = None
    nodeAffinity: VolumeNodeAffinity | None = None
    csi: CSISource | None = None
    # Disks that kube-scheduler translates to CSI drivers.
    gcePersistentDisk: GCEPersistentDisk | None = None
    awsElasticBlockStore: AWSElasticBlockStore | None = None
    azureDisk: AzureDisk | None = None
    cinder: CinderVolume | None = None
    portworxVolume: PortworxVolume | None = None


class PersistentVolumeStatus(msgspec.Struct, gc=False):
    """status of a volume."""

    phase: str | None = None


class PersistentVolume(msgspec.Struct, gc=False):
    """v1 PersistentVolume; its zone labels are in the metadata."""

    apiVersion: str = "v1"
    kind: str = "PersistentVolume"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PersistentVolumeSpec | None = None
    status: PersistentVolumeStatus | None = None

    @property
    def storage_class(self) -> str:
        """Return the name of the StorageClass, empty for none; the annotation counts before the field."""
        field = self.spec.storageClassName if self.spec is not None else None
        return (self.metadata.annotations or {}).get(BETA_CLASS, field or "")


class TopologySelectorLabelRequirement(msgspec.Struct, gc=False):
    """A label of a node, and the values of which it must have one."""

    key: str | None = None
    values: list[str] | None = None


class TopologySelectorTerm(msgspec.Struct, gc=False):
    """Requirements that must all hold."""

    matchLabelExpressions: list[TopologySelectorLabelRequirement] | None = None


class StorageClass(msgspec.Struct, gc=False):
    """storage.k8s.io/v1 StorageClass."""

    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    provisioner: str | None = None
    volumeBindingMode: str | None = None
    allowedTopologies: list[TopologySelectorTerm] | None = None


class VolumeNodeResources(msgspec.Struct, gc=False):
    """The number of volumes of a driver that a node can attach; None is unlimited."""

    count: Int32 | None = None


class CSINodeDriver(msgspec.Struct, gc=False):
    """A driver that is installed on a node."""

    name: str | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(msgspec.Struct, gc=False):
    """spec of a CSINode."""

    drivers: list[CSINodeDriver] | None = None


class CSINode(msgspec.Struct, gc=False):
    """storage.k8s.io/v1 CSINode: the CSI drivers of the node of the same name."""

    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "CSINode"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CSINodeSpec | None = None


class CSIDriverSpec(msgspec.Struct, gc=False):
    """spec of a CSIDriver."""

    storageCapacity: bool | None = None
    preventPodSchedulingIfMissing: bool | None = None


class CSIDriver(msgspec.Struct, gc=False):
    """storage.k8s.io/v1 CSIDriver; its name is the driver's."""

    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "CSIDriver"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CSIDriverSpec | None = None


class CSIStorageCapacity(msgspec.Struct, gc=False):
    """storage.k8s.io/v1 CSIStorageCapacity: the space for volumes of a class on some nodes.

    Without a `nodeTopology` no node can use it. The `maximumVolumeSize` counts before the `capacity`.
    """

    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "CSIStorageCapacity"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    nodeTopology: LabelSelector | None = None
    storageClassName: str | None = None
    capacity: RawQuantity | None = None
    maximumVolumeSize: RawQuantity | None = None


class VolumeAttachmentSource(msgspec.Struct, gc=False):
    """The volume of an attachment; kube-scheduler does not count an inline volume."""

    persistentVolumeName: str | None = None


class VolumeAttachmentSpec(msgspec.Struct, gc=False):
    """spec of a VolumeAttachment."""

    attacher: str | None = None
    nodeName: str | None = None
    source: VolumeAttachmentSource | None = None


class VolumeAttachment(msgspec.Struct, gc=False):
    """storage.k8s.io/v1 VolumeAttachment: a volume that a driver attaches to a node.

    The volume may stay attached after its last pod.
    """

    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "VolumeAttachment"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: VolumeAttachmentSpec | None = None


# The nodes that reach a volume, by its node affinity and its zone labels, as alternatives for their labels.
# Source: the filters of VolumeBinding and VolumeZone of kube-scheduler 1.36 and 1.37.


# The terms of which the labels of a node must meet one.
Alternatives = tuple[NodeRequirement, ...]

# Zone labels of volumes, each with the label that replaced it on nodes.
_ZONES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


def node_affinity(volume: PersistentVolume, unreadable: dict[str, None]) -> Alternatives | None:
    """Return the terms of a volume's node affinity in their order, None if it has none.

    `unreadable` collects what cannot be evaluated. kube-scheduler compares a volume with labels alone:
    expressions on fields match any node.
    """
    affinity = volume.spec.nodeAffinity if volume.spec is not None else None
    if affinity is None or affinity.required is None:
        return None
    terms = node_terms(affinity.required.nodeSelectorTerms, unreadable)
    return tuple(NodeRequirement(term.expressions) for term in terms)


def zone_terms(labels: Labels) -> list[Alternatives]:
    """Return, for each zone label of a volume, the terms that match its nodes: in its zones, or without zone.

    Several zones are joined by `__`; an old label is looked for under its new name too.
    """
    nowhere = NodeRequirement(tuple(sorted(Requirement(key, "DoesNotExist") for key in _ZONES)))
    alternatives: list[Alternatives] = []
    for key, newer in _ZONES.items():
        zones = tuple(sorted({zone.strip() for zone in labels[key].split("__")})) if key in labels else ()
        if not all(zones) or not zones:
            continue
        terms = {nowhere, NodeRequirement((Requirement(key, "In", zones),))}
        if newer != key:
            old, new = Requirement(key, "DoesNotExist"), Requirement(newer, "In", zones)
            terms.add(NodeRequirement(tuple(sorted((old, new)))))
        alternatives.append(tuple(sorted(terms)))
    return alternatives
