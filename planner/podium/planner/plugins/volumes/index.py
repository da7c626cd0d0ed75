"""The storage objects of a cluster, the pods whose shapes follow them, and the nodes whose limits do.

The shape of a pod has facts of its claims and their volumes. So a change of such an object must find the pods
that use it, without a look at all pods. Any number of pods may use one claim, so its pods are looked up once
for many changes. A CSINode, an attachment, and a pod with claims change what their node can attach.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from podium.api.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from podium.cluster.reader import Name
from podium.planner.indexes import Unread, discard


class Attached(NamedTuple):
    """A volume, by name, that a driver attaches to a node."""

    node: str
    driver: str
    volume: str


class Volumes:
    """Claims by (namespace, name), other objects by name, and the rows of the pods that use each claim.

    `unread` returns the kinds of which objects may exist that are not here.
    """

    def __init__(self, unread: Unread = lambda: ()) -> None:
        self._unread = unread
        self.claims: dict[Name, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.csi_drivers: dict[str, CSIDriver] = {}
        self._attachments: dict[str, Attached] = {}
        # The names of the attachments by node, and by volume.
        self._on_node: dict[str, set[str]] = {}
        self._with_volume: dict[str, set[str]] = {}
        self._node_changed: list[Callable[[str], None]] = []
        self._users: dict[Name, set[int]] = {}
        self._claims_of_volume: dict[str, set[Name]] = {}
        # The claims and volumes that changed since `changed_users`.
        self._changed: set[Name] = set()
        self._changed_volumes: set[str] = set()

    def lacks(self, kind: str) -> bool:
        """Return whether objects of a kind may exist that were not read."""
        return kind in self._unread()

    def add_user(self, row: int, claims: Iterable[Name]) -> None:
        """Record the claims of a pod."""
        for claim in claims:
            self._users.setdefault(claim, set()).add(row)

    def remove_user(self, row: int, claims: Iterable[Name]) -> None:
        """Remove the claims of a pod."""
        for claim in set(claims):
            discard(self._users, claim, row)

    def changed_users(self) -> set[int]:
        """Return the rows of the pods with a claim or volume that changed since the last call."""
        claims, self._changed = self._changed, set()
        volumes, self._changed_volumes = self._changed_volumes, set()
        claims.update(*(self._claims_of_volume.get(name, ()) for name in volumes))
        return set(self._users_of(claims))

    def apply_claim(self, claim: PersistentVolumeClaim, *, gone: bool) -> None:
        """Apply a change of a claim."""
        key = claim.metadata.namespace or "", claim.metadata.name or ""
        self._changed.add(key)
        before = self.claims.pop(key, None)
        if before is not None and before.spec is not None:
            discard(self._claims_of_volume, before.spec.volumeName or "", key)
        if not gone:
            self.claims[key] = claim
            if claim.spec is not None:
                self._claims_of_volume.setdefault(claim.spec.volumeName or "", set()).add(key)

    def apply_volume(self, volume: PersistentVolume, *, gone: bool) -> None:
        """Apply a change of a volume."""
        name = volume.metadata.name or ""
        self._changed_volumes.add(name)
        self.volumes.pop(name, None)
        if not gone:
            self.volumes[name] = volume
        for attachment in self._with_volume.get(name, ()):
            self.report_node(self._attachments[attachment].node)

    def apply_class(self, storage_class: StorageClass, *, gone: bool) -> None:
        """Apply a change of a class, which concerns the claims of it that are not bound."""
        name = storage_class.metadata.name or ""
        self.classes.pop(name, None)
        if not gone:
            self.classes[name] = storage_class
        # Classes change rarely.
        claims = (key for key, claim in self.claims.items() if claim.storage_class == name)
        self._changed.update(key for key in claims if not self.claims[key].bound)

    def users_of_volume(self, name: str) -> list[int]:
        """Return the rows of the pods with a claim that names a volume."""
        return self._users_of(self._claims_of_volume.get(name, ()))

    def apply_node(self, node: CSINode, *, gone: bool) -> bool:
        """Apply a change of a CSINode; return whether other drivers are installed now."""
        name = node.metadata.name or ""
        before = self.csi_nodes.pop(name, None)
        if not gone:
            self.csi_nodes[name] = node
        self.report_node(name)
        return drivers_of(before).keys() != drivers_of(self.csi_nodes.get(name)).keys()

    def apply_driver(self, driver: CSIDriver, *, gone: bool) -> None:
        """Apply a change of a CSIDriver."""
        name = driver.metadata.name or ""
        self.csi_drivers.pop(name, None)
        if not gone:
            self.csi_drivers[name] = driver

    def apply_attachment(self, attachment: VolumeAttachment, *, gone: bool) -> None:
        """Apply a change of an attachment."""
        name = attachment.metadata.name or ""
        before = self._attachments.pop(name, None)
        after = None if gone else attached_volume(attachment)
        if after is not None:
            self._attachments[name] = after
        if before == after:
            return
        if before is not None:
            discard(self._on_node, before.node, name)
            discard(self._with_volume, before.volume, name)
            self.report_node(before.node)
        if after is not None:
            self._on_node.setdefault(after.node, set()).add(name)
            self._with_volume.setdefault(after.volume, set()).add(name)
            self.report_node(after.node)

    def attached(self, node: str) -> list[Attached]:
        """Return the attachments to a node."""
        return [self._attachments[name] for name in self._on_node.get(node, ())]

    def observe_nodes(self, node_changed: Callable[[str], None]) -> None:
        """Register a callback for the names of nodes that may attach more or less than before."""
        self._node_changed.append(node_changed)

    def report_node(self, name: str) -> None:
        """Report a node whose limits, attachments, or pods with claims changed."""
        for callback in self._node_changed:
            callback(name)

    def _users_of(self, claims: Iterable[Name]) -> list[int]:
        return list(dict.fromkeys(row for key in claims for row in self._users.get(key, ())))


def drivers_of(node: CSINode | None) -> dict[str, int | None]:
    """Return the installed drivers of a node, each with the number of volumes that it attaches (or None)."""
    drivers = node.spec.drivers if node is not None and node.spec is not None else None
    return {
        driver.name or "": driver.allocatable.count if driver.allocatable is not None else None
        for driver in drivers or ()
    }


def attached_volume(attachment: VolumeAttachment) -> Attached | None:
    """Return the volume of an attachment; None for an inline volume, which kube-scheduler does not count."""
    spec = attachment.spec
    volume = spec.source.persistentVolumeName if spec is not None and spec.source is not None else None
    if spec is None or not spec.attacher or volume is None:
        return None
    return Attached(spec.nodeName or "", spec.attacher, volume)
