"""Checks whether each node can attach the volumes of a pod (NodeVolumeLimits of kube-scheduler).

A CSINode limits the volumes of a driver on its node. Attached are the volumes of the node's pods, each once,
and those of VolumeAttachments. So a pod of the node with a volume of the same handle costs nothing. Volumes
are counted as pods move, so a decision compares arrays. A driver without a limit on any node is not checked.

Preemption may free attachments. In kube-scheduler an eviction frees nothing while the VolumeAttachment of the
victim exists, so there the attachment counts by itself. The rules of `kep` count it as its pods': it goes
with them (`freed_by_pods`). It takes its slot until it is detached, some time after the last pod is gone. A
preemptor that would fit without such attachments waits for them and evicts no further pod.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np

from podium.api.storage import VolumeAttachment
from podium.planner.arrays import Bools, Int32s, Int64s, Rows, grown
from podium.planner.deadline import NEVER, Deadline
from podium.planner.filters.counter import DomainCounter, Domains, node_domains
from podium.planner.filters.counters import TermCounters
from podium.planner.filters.nodes import StaticFilter
from podium.planner.framework import NodeFilter
from podium.planner.plugins.volumes.index import Volumes, attached_volume, drivers_of
from podium.planner.plugins.volumes.needs import NeedsOf, RequiredDriver, VolumeNeeds, attachment_of
from podium.planner.reprieve import PlacedMembers, Rivals
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

_UNLIMITED = 2**31 - 1


class VolumeID(NamedTuple):
    """A volume by its driver and the driver's handle."""

    driver: str
    handle: str


class _VolumeCounter(DomainCounter):
    """The pods that use one volume, by node row; the index counts the rows with any."""

    __slots__ = ("_index", "_volume")

    def __init__(self, domains: Domains, index: "AttachedVolumes", volume: VolumeID) -> None:
        super().__init__(domains)
        self._index = index
        self._volume = volume

    def defer(self, rows: Int64s, numbers: Int64s) -> None:
        """Add moves at once, because the sums of all volumes of a driver are read together."""
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            self.add(row, number)

    def add(self, row: int, number: int) -> None:
        """Add `number` (may be negative) to the pods of a node row; sums by domain are not needed."""
        before = self.rows.get(row, 0)
        if before + number:
            self.rows[row] = before + number
        else:
            del self.rows[row]
        if not before or not before + number:
            self._index.shift(self._volume, row, -1 if before else 1)


class AttachedVolumes(TermCounters[VolumeID]):
    """How many volumes of each driver are attached to each node row, and the limits."""

    def __init__(self, snapshot: Snapshot, known: Volumes, needs: NeedsOf, *, freed_by_pods: bool) -> None:
        self.known = known
        self.needs = needs
        self._freed_by_pods = freed_by_pods
        # By driver and row: the attached volumes, and how many the node attaches.
        self.attached: dict[str, Int32s] = {}
        self.limits: dict[str, Int32s] = {}
        # Grows when a driver gets its first limit, or loses its last.
        self.revision = 0
        # By row: the attachments that count by themselves, and the limits.
        self._fixed: dict[int, set[VolumeID]] = {}
        self._limits_of: dict[int, dict[str, int]] = {}
        self._changed: dict[str, None] = {}
        self._changed_rows: dict[int, None] = {}
        self._ignores_fixed = False
        node = node_domains(snapshot)
        super().__init__(
            snapshot,
            keys=lambda shape: volumes_of(needs(shape)),
            domains=lambda _: node,
            marks=lambda volume: [volume],
        )
        snapshot.observe_nodes(self._row_changed)
        known.observe_nodes(self._name_changed)
        self._changed.update(dict.fromkeys(snapshot.row))

    def refresh(self) -> None:
        """Follow all changes; call it before every read."""
        self.flush()
        if not self._changed and not self._changed_rows:
            return
        rows, named = self._changed_rows, self._changed
        self._changed, self._changed_rows = {}, {}
        rows.update((self.snapshot.row[name], None) for name in named if name in self.snapshot.row)
        for row in rows:
            self._update(row, self.snapshot.node_name(row))

    def rows_with(self, volume: VolumeID) -> Iterable[int]:
        """Return the node rows of the pods that use a volume."""
        counter = self._counters.get(volume)
        return counter.rows if counter is not None else ()

    def shift(self, volume: VolumeID, row: int, number: int) -> None:
        """Count a volume that came to the pods of a node row (1), or went from them (-1)."""
        if volume not in self._fixed.get(row, ()):
            self._array(self.attached, volume.driver, 0)[row] += number

    def _new_counter(self, key: VolumeID) -> DomainCounter:
        return _VolumeCounter(self._domains(key), self, key)

    def _row_changed(self, row: int) -> None:
        self._changed_rows[row] = None

    def _name_changed(self, name: str) -> None:
        self._changed[name] = None

    def _update(self, row: int, name: str) -> None:
        """Read the limits and the attachments of a node again; the name is empty if the node is gone."""
        limits = {
            driver: limit
            for driver, limit in drivers_of(self.known.csi_nodes.get(name)).items()
            if limit is not None and name
        }
        for driver in {*limits, *self._limits_of.pop(row, {})}:
            self._limit(row, driver, limits.get(driver))
        if limits:
            self._limits_of[row] = limits
        fixed = set(self._fixed_on(row, name)) if name else set()
        before = self._fixed.pop(row, set())
        if fixed:
            self._fixed[row] = fixed
        for volume in before ^ fixed:
            if row not in self.rows_with(volume):
                self._array(self.attached, volume.driver, 0)[row] += 1 if volume in fixed else -1

    def _fixed_on(self, row: int, name: str) -> Iterator[VolumeID]:
        """Yield the volumes of attachments that stay when the pods of the node go."""
        known, home = self.known, self.snapshot.home
        for attached in known.attached(name):
            volume = known.volumes.get(attached.volume)
            attachment = attachment_of(volume) if volume is not None else None
            if attachment is None or attachment.replaced:
                continue
            users = known.users_of_volume(attached.volume) if self._freed_by_pods else ()
            if not any(home.item(user) == row for user in users):
                yield VolumeID(attached.driver, attachment.handle)

    def _limit(self, row: int, driver: str, limit: int | None) -> None:
        known = driver in self.limits
        array = self._array(self.limits, driver, _UNLIMITED)
        array[row] = _UNLIMITED if limit is None else limit
        if limit is None and (array == _UNLIMITED).all():
            del self.limits[driver]
        self.revision += known != (driver in self.limits)

    def _array(self, arrays: dict[str, Int32s], driver: str, default: int) -> Int32s:
        """Return the array of a driver by row, which is as long as those of the snapshot."""
        height = len(self.snapshot.alive)
        array = arrays.get(driver)
        if array is None or len(array) < height:
            array = grown(array if array is not None else np.zeros(0, np.int32), height, default)
            arrays[driver] = array
        return array

    def limited(self, driver: str) -> tuple[Int32s, Int32s] | None:
        """Return what is attached and the limits by row, None for a driver that no node limits."""
        if driver not in self.limits:
            return None
        attached = self._array(self.attached, driver, 0)
        if self._ignores_fixed:
            attached = attached.copy()
            for row, volumes in self._fixed.items():
                attached[row] -= sum(
                    volume.driver == driver and row not in self.rows_with(volume) for volume in volumes
                )
        return attached, self._array(self.limits, driver, _UNLIMITED)

    @contextmanager
    def without_fixed(self) -> Iterator[bool]:
        """Count no attachment by itself in this block; the value says whether there is any."""
        self.refresh()
        self._ignores_fixed = True
        try:
            yield bool(self._fixed)
        finally:
            self._ignores_fixed = False


class AttachLimitsFilter(NodeFilter):
    """The nodes that can attach all volumes of the pod which are not attached there for other pods."""

    REASON = "node(s) exceed max volume count"
    COUNTS = True
    AWAITS = "waiting for volumes to be detached whose pods are gone"

    def __init__(self, volumes: AttachedVolumes) -> None:
        self.counters = (volumes,)
        self._snapshot = volumes.snapshot
        self._volumes = volumes

    @property
    def revision(self) -> int:  # type: ignore[override]  # it changes with the volumes
        """Grows when a driver gets its first limit, or loses its last."""
        return self._volumes.revision

    def mask(self, shape: Shape) -> Bools:
        """Return the node rows that pass for a shape."""
        return self._with_slots(shape, shared=True)

    def regardless_of(
        self,
        shape: Shape,
        others: Sequence[Shape],  # noqa: ARG002 - any of them may use a volume of the shape
        deadline: Deadline = NEVER,  # noqa: ARG002 - one look at each driver
    ) -> tuple[Bools, Bools]:
        """Return the node rows with a slot for each volume of the shape, as if its other users had left."""
        free = self._with_slots(shape, shared=False)
        return free, np.zeros_like(free)

    def _with_slots(self, shape: Shape, *, shared: bool) -> Bools:
        """Return the node rows with slots; if not `shared`, each volume of the shape takes one."""
        free = np.ones(len(self._snapshot.alive), np.bool_)
        self._volumes.refresh()
        for driver, volumes in self._by_driver(shape).items():
            arrays = self._volumes.limited(driver)
            if arrays is None:
                continue
            new = np.full(len(free), len(volumes), np.int32)
            for volume in volumes if shared else ():
                rows: Rows = np.fromiter(self._volumes.rows_with(volume), np.intp)
                new[rows] -= 1
            attached, limits = arrays
            free &= (new == 0) | (attached <= limits - new)
        return free

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, or None."""
        self._volumes.refresh()
        for driver, volumes in self._by_driver(shape).items():
            arrays = self._volumes.limited(driver)
            new = sum(row not in self._volumes.rows_with(volume) for volume in volumes)
            if new and arrays is not None and arrays[0].item(row) + new > arrays[1].item(row):
                return self.REASON
        return None

    def once_released(self) -> AbstractContextManager[bool]:
        """Begin a block in which volumes without a pod on their node are detached; see `without_fixed`."""
        return self._volumes.without_fixed()

    def reprieve(self, members: PlacedMembers) -> Rivals | None:
        """Return the pods whose volumes take slots of drivers that limit the members, on their nodes."""
        needs, snapshot = self._volumes.needs, self._snapshot
        drivers = {
            attachment.driver
            for shape in members.shapes.values()
            if self.concerns(shape)
            for attachment in needs(shape).attachments
        }

        @cache
        def attaches(shape_id: int) -> bool:
            own = needs(snapshot.shapes[shape_id]).attachments
            return any(attachment.driver in drivers for attachment in own)

        if not drivers:
            return None
        return Rivals(members, lambda row: attaches(snapshot.shape.item(row)), nearby=True)

    def limited(self, attachment: object) -> bool:
        """Return whether some node limits the driver of an attachment; an object may be None."""
        attached = attached_volume(attachment) if isinstance(attachment, VolumeAttachment) else None
        return attached is not None and attached.driver in self._volumes.limits

    def concerns(self, shape: Shape) -> bool:
        """Return whether some node limits a driver of the shape."""
        if not self._volumes.needs(shape).attachments:
            return False
        self._volumes.refresh()
        return any(driver in self._volumes.limits for driver in self._by_driver(shape))

    def _by_driver(self, shape: Shape) -> dict[str, list[VolumeID]]:
        """Return the volumes of a shape by driver."""
        by_driver: dict[str, list[VolumeID]] = {}
        for volume in volumes_of(self._volumes.needs(shape)):
            by_driver.setdefault(volume.driver, []).append(volume)
        return by_driver


class InstalledDriversFilter(StaticFilter):
    """The nodes with the drivers of the pod that must be installed (CSIDriver preventPodSchedulingIfMissing).

    A node without a CSINode need not have the driver that replaced an old disk.
    """

    _needs: NeedsOf

    def __init__(self, snapshot: Snapshot, known: Volumes, needs: NeedsOf) -> None:
        super().__init__(snapshot, needs)
        self._known = known

    def reads(self, shape: Shape) -> Hashable:
        """Return the drivers that the pod requires."""
        return self._needs(shape).required_drivers

    def refused_by_reason(self, shape: Shape, rows: Bools) -> dict[str, Bools]:
        """Return the node rows without a driver, by kube-scheduler's words for the first one."""
        left, refused = rows.copy(), {}
        for driver in self._needs(shape).required_drivers:
            missing = left & ~self._installed(driver)
            left &= ~missing
            refused[_not_installed(driver)] = missing
        return refused

    def reason(self, shape: Shape, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, None if it passes."""
        missing = (
            driver for driver in self._needs(shape).required_drivers if not self._installed(driver)[row]
        )
        return next(map(_not_installed, missing), None)

    def _feasible(self, shape: Shape) -> Bools:
        installed = np.ones(len(self._snapshot.alive), np.bool_)
        for driver in self._needs(shape).required_drivers:
            installed &= self._installed(driver)
        return installed

    def _installed(self, driver: RequiredDriver) -> Bools:
        known = self._known
        installed = np.ones(len(self._snapshot.alive), np.bool_)
        csi_driver = known.csi_drivers.get(driver.name)
        if csi_driver is None or csi_driver.spec is None or not csi_driver.spec.preventPodSchedulingIfMissing:
            return installed
        for name, row in self._snapshot.row.items():
            node = known.csi_nodes.get(name)
            installed[row] = driver.replaced if node is None else driver.name in drivers_of(node)
        return installed


def volumes_of(needs: VolumeNeeds) -> list[VolumeID]:
    """Return the volumes of a pod, each once."""
    return list(
        dict.fromkeys(VolumeID(attachment.driver, attachment.handle) for attachment in needs.attachments)
    )


def _not_installed(driver: RequiredDriver) -> str:
    return f"{driver.name} CSI driver is not installed on the node"
