"""Decides on which nodes a pod's unbound claims can get volumes, and which volumes they get there.

kube-scheduler asks each node in turn. Here each step is one operation on arrays over classes of nodes (see
`nodeclasses`). For each class, claims without a node take volumes in ascending order of size: the one that
names the claim, or else the smallest free one that the pod has not taken yet. Claims that find none are
provisioned, after those whose node is selected already. The first claim that cannot be provisioned decides
the reason.

Four answers differ from kube-scheduler. If a claim is assumed with a volume, a node that cannot reach this
volume is refused; kube-scheduler would provision a second volume there. A pod that names a claim twice needs
one volume for it; kube-scheduler takes two. The others are for gangs (`summed`). Space is summed (see
`provisioning`). And a claim that pods of several nodes may use keeps the members on the nodes where its
volume may be reached, not on the node that it is provisioned for. Otherwise a gang that shares such a claim
would have to fit on one node. If the volume turns out to be elsewhere, the gang is placed again.

Source: FindPodVolumes and AssumePodVolumes of kube-scheduler's volume binder, 1.36 and 1.37.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from podium.api.storage import Alternatives, CSIDriver, CSIStorageCapacity, PersistentVolume, StorageClass
from podium.cluster.reader import Name
from podium.planner.arrays import Bools, Int64s, Rows
from podium.planner.plugins.volumes.bindables import (
    BindableVolumes,
    DelayedClaim,
    bindable_volume,
    volume_sizes,
    whole_bytes,
)
from podium.planner.plugins.volumes.nodeclasses import EVERYWHERE, NodeClasses, NodeLabels, keys_of
from podium.planner.plugins.volumes.provisioning import Provisioning, Reserved
from podium.planner.plugins.volumes.writes import (
    BoundVolume,
    ClaimLedger,
    ClaimPlan,
    ProvisionedVolume,
    VolumePlan,
)

# Scores nodes by how much of their storage a pod's claims would take (StorageCapacityScoring).
#
# The gate is off by default in kube-scheduler 1.36, and on in 1.37. For each storage class the utilization is
# the requested bytes in percent of the capacity: of the volumes that would be bound, or else of the segments
# that would be provisioned in. A shape turns a utilization into points, and a node's score is their mean over
# classes. By default most free space is best.
#
# Source: Score of the VolumeBinding plugin and its scorer.go, BuildBrokenLinearFunction of the plugins.

# Points (0 to 100) by utilization (0 to 100 percent), in ascending order of utilization.
CapacityShape = tuple[tuple[int, int], ...]
MOST_FREE: CapacityShape = ((0, 100), (100, 0))

# Amounts are at most this many bytes, so that a hundred times as many stay within 64 bits.
_MOST = 2**56


class StorageDemand:
    """Bytes of one storage class by class of nodes: requested, and of which capacity."""

    def __init__(self, size: int) -> None:
        self.counts: Bools = np.zeros(size, np.bool_)
        self.requested: Int64s = np.zeros(size, np.int64)
        self.capacity: Int64s = np.zeros(size, np.int64)

    def bind(self, here: Bools, requested: int, volumes: Int64s) -> None:
        """Add a claim that is bound `here` to volumes of these sizes."""
        self.capacity = np.minimum(self.capacity + np.where(here, volumes, 0), _MOST)
        self._request(here, requested)

    def provision(self, here: Bools, requested: int, segments: Int64s) -> None:
        """Add a claim that is provisioned `here` in segments of these capacities, which are not summed."""
        self.capacity = np.where(here, np.minimum(segments, _MOST), self.capacity)
        self._request(here, requested)

    def _request(self, here: Bools, requested: int) -> None:
        self.counts |= here
        added = np.where(here, min(requested, _MOST), 0)
        self.requested = np.minimum(self.requested + added, _MOST)


def capacity_scores(demands: Iterable[StorageDemand], shape: CapacityShape, size: int) -> Int64s:
    """Return the score of each of `size` classes of nodes, 0 to 100 for a shape in that range."""
    points, classes = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for demand in demands:
        full = (demand.capacity == 0) | (demand.requested > demand.capacity)
        used = np.where(full, 100, demand.requested * 100 // np.maximum(demand.capacity, 1))
        points += np.where(demand.counts, _on_shape(used, shape), 0)
        classes += demand.counts
    # Halves are rounded away from zero.
    return np.floor(points / np.maximum(classes, 1) + 0.5).astype(np.int64)


def _on_shape(used: Int64s, shape: CapacityShape) -> Int64s:
    """Return the points of utilizations on a broken line."""
    table = np.array([_points(percent, shape) for percent in range(101)], np.int64)
    return table[used]


def _points(used: int, shape: CapacityShape) -> int:
    before = shape[0]
    for percent, points in shape:
        if used <= percent:
            if percent == before[0]:
                return points
            # Go divides towards zero.
            rise = (points - before[1]) * (used - before[0])
            return before[1] + abs(rise) // (percent - before[0]) * (1 if rise >= 0 else -1)
        before = percent, points
    return before[1]


# The most groupings of nodes, and answers, that are kept. An answer has arrays by node for each claim.
_GROUPINGS = 16
_ANSWERS = 32


class _VolumeVerdict(IntEnum):
    """The verdict on a node, in the order of kube-scheduler's reasons."""

    NONE = 0
    NO_VOLUME = 1
    NO_SPACE = 2
    NO_NODE = 3


# If a pod has bound claims too, kube-scheduler also reports their reasons: that a volume's node affinity does
# not match precedes these reasons, that a volume does not exist follows them.
REASONS = {
    _VolumeVerdict.NO_VOLUME: "node(s) didn't find available persistent volumes to bind",
    _VolumeVerdict.NO_SPACE: "node(s) did not have enough free storage",
}


class _Matched(NamedTuple):
    """The volume that a claim would be bound to, by class of nodes, as a position in `names`.

    The number of names means that there is none.
    """

    claim: DelayedClaim
    names: Sequence[str]
    at: Rows
    # The sizes of the volumes in bytes, by position, and 0 for none.
    sizes: Int64s
    # A user named the claim in the volume.
    named: bool

    @property
    def absent(self) -> Bools:
        """Return by class whether no volume was found."""
        absent: Bools = self.at == len(self.names)
        return absent


class _Provisioned(NamedTuple):
    """A claim that is provisioned on the classes of nodes where no volume was found for it."""

    claim: DelayedClaim
    needed: Bools
    reserved: Reserved | None

    def planned(self, node: str, at: int) -> ProvisionedVolume:
        """Return the plan for a node of the class `at`."""
        segment = self.reserved.segment(at) if self.reserved is not None else None
        size = whole_bytes(self.claim.size or 0)
        return ProvisionedVolume(
            self.claim.key, self.claim.uid, self.claim.selected_node or node, segment, size
        )


class _Refused:
    """The verdict on each of some nodes, or classes of nodes, and the claim that refuses it."""

    def __init__(self, size: int) -> None:
        self.verdict: Rows = np.full(size, _VolumeVerdict.NONE, np.intp)
        self._claims: list[Name] = []
        # By position in `_claims`.
        self._claim: Rows = np.full(size, -1, np.intp)

    def refuse(self, where: Bools, verdict: _VolumeVerdict, claim: Name) -> None:
        """Refuse nodes because of a claim."""
        if where.any():
            self.verdict[where] = verdict
            self._claim[where] = len(self._claims)
            self._claims.append(claim)

    def of_rows(self, of_row: Rows) -> "_Refused":
        """Return the same for the nodes of these classes."""
        refused = _Refused(0)
        refused.verdict, refused._claim = self.verdict[of_row], self._claim[of_row]
        refused._claims = self._claims.copy()
        return refused

    def by_claim(self, among: Bools) -> dict[Name, int]:
        """Return how many of some nodes each claim refuses."""
        counts: dict[Name, int] = {}
        for at, nodes in enumerate(np.bincount(self._claim[among] + 1, minlength=1).tolist()[1:]):
            if nodes:
                counts[self._claims[at]] = counts.get(self._claims[at], 0) + nodes
        return counts


class PodVolumes:
    """The nodes where all unbound claims of a pod can get volumes.

    It is valid until an object or the ledger changes.
    """

    def __init__(
        self,
        nodes: NodeLabels,
        classes: NodeClasses,
        refused: _Refused,
        *,
        matched: Sequence[_Matched],
        provisioned: Sequence[_Provisioned],
        assumed: Sequence[ClaimPlan],
    ) -> None:
        # The refusals by node row.
        self._by_row = refused
        self._refused = np.where(nodes.alive, refused.verdict, _VolumeVerdict.NO_NODE)
        self._nodes = nodes
        self._classes = classes
        self._matched = matched
        self._provisioned = provisioned
        self._assumed = assumed

    @property
    def feasible(self) -> Bools:
        """The node rows that pass."""
        passes: Bools = self._refused == _VolumeVerdict.NONE
        return passes

    def reason(self, row: int) -> str | None:
        """Return kube-scheduler's reason against a node row, None if it passes."""
        return REASONS.get(_VolumeVerdict(self._refused.item(row)))

    def refused_rows(self) -> Iterator[tuple[str, Bools]]:
        """Yield the rows that each reason refuses."""
        for refusal, reason in REASONS.items():
            rows = self._refused == refusal
            if rows.any():
                yield reason, rows

    def refusing_claims(self) -> dict[Name, int]:
        """Return the claims that refuse nodes, each with the number of nodes."""
        return self._by_row.by_claim(self._nodes.alive)

    def plan(self, node: str) -> VolumePlan:
        """Return what is written if the pod is placed on a node that passes."""
        at = self._classes.of_row.item(self._nodes.row[node])
        bound = [
            BoundVolume(match.claim.key, match.claim.uid, match.names[match.at.item(at)], not match.named)
            for match in self._matched
            if not match.absent.item(at)
        ]
        bound += [volume for volume in self._assumed if isinstance(volume, BoundVolume)]
        provisioned = [volume.planned(node, at) for volume in self._provisioned if volume.needed.item(at)]
        provisioned += [volume for volume in self._assumed if isinstance(volume, ProvisionedVolume)]
        return VolumePlan(tuple(bound), tuple(provisioned))

    def scores(self, shape: CapacityShape = MOST_FREE) -> Int64s:
        """Return by node row the score of StorageCapacityScoring; claims that are assumed do not count.

        The scores of refused rows have no meaning.
        """
        size = self._classes.size
        binds = np.zeros(size, np.bool_)
        demands: dict[str, StorageDemand] = {}
        for match in self._matched:
            binds |= ~match.absent
            demand = demands.setdefault(match.claim.storage_class, StorageDemand(size))
            demand.bind(~match.absent, whole_bytes(match.claim.size or 0), match.sizes[match.at])
        for claim, needed, reserved in self._provisioned:
            if reserved is not None:
                demand = demands.setdefault(claim.storage_class, StorageDemand(size))
                here = needed & ~reserved.absent & ~binds
                demand.provision(here, whole_bytes(claim.size or 0), reserved.capacity)
        return capacity_scores(demands.values(), shape, size)[self._classes.of_row]


class DelayedBinding:
    """The objects that decide about unbound claims, kept in step with a State, and the ledger of plans."""

    def __init__(self, nodes: NodeLabels) -> None:
        self.volumes = BindableVolumes()
        self.provisioning = Provisioning()
        self.ledger = ClaimLedger(self.volumes, self.provisioning)
        self._nodes = nodes
        self._groupings: dict[frozenset[str], NodeClasses] = {}
        self._revision = -1
        self._changes = 0
        self._answers: dict[tuple[tuple[DelayedClaim, ...], bool], PodVolumes] = {}
        # The numbers of changes for which the answers are valid.
        self._version = (-1, -1, -1)

    def apply(self, before: object, after: object) -> None:
        """Apply one change of an object, as an observer of a State; other kinds are ignored."""
        gone = after is None
        self._changes += 1
        match before if gone else after:
            case PersistentVolume() as volume:
                bindable = None if gone else bindable_volume(volume)
                if bindable is None:
                    self.volumes.drop(volume.metadata.name or "")
                else:
                    self.volumes.put(bindable)
            case StorageClass() as storage_class:
                self.provisioning.apply_class(storage_class, gone=gone)
            case CSIDriver() as driver:
                self.provisioning.apply_driver(driver, gone=gone)
            case CSIStorageCapacity() as capacity:
                self.provisioning.apply_capacity(capacity, gone=gone)
            case _:
                pass

    def find(self, claims: tuple[DelayedClaim, ...], *, summed: bool = False) -> PodVolumes:
        """Return where a pod's unbound claims can get volumes; `summed` for a member of a gang."""
        version = self._changes, self.ledger.revision, self._nodes.node_revision
        if version != self._version or len(self._answers) == _ANSWERS:
            self._answers, self._version = {}, version
        volumes = self._answers.get((claims, summed))
        if volumes is None:
            volumes = self._answers[claims, summed] = self._find(claims, summed=summed)
        return volumes

    def _find(self, claims: Iterable[DelayedClaim], *, summed: bool) -> PodVolumes:
        distinct = {claim.key: claim for claim in claims}
        plans = {key: plan for key in distinct if (plan := self.ledger.plan(key)) is not None}
        free = [claim for key, claim in distinct.items() if key not in plans]
        selected = [claim for claim in free if claim.selected_node is not None]
        unbound = sorted((claim for claim in free if claim.selected_node is None), key=_size)
        # By claim: the nodes for which volumes are provisioned, and the terms of nodes that reach them.
        pins = {
            claim.key: claim.selected_node or "" for claim in selected if not (summed and claim.shareable)
        }
        reach: dict[Name, Alternatives] = {}
        elsewhere: list[DelayedClaim] = []
        for key, plan in plans.items():
            if isinstance(plan, BoundVolume):
                volume = self.volumes.volume(plan.volume)
                reach[key] = volume.reach if volume is not None else ()
            elif summed and distinct[key].shareable:
                elsewhere.append(distinct[key])
                reach[key] = plan.segment.reach if plan.segment is not None else EVERYWHERE
            else:
                pins[key] = plan.node
        classes = self._grouped(frozenset(self._keys([*free, *elsewhere], reach.values())))
        refused = _Refused(classes.size)
        for key, alternatives in reach.items():
            refused.refuse(~classes.satisfying(alternatives), _VolumeVerdict.NO_VOLUME, key)
        for claim in elsewhere:
            refused.refuse(~self.provisioning.allowed(claim, classes), _VolumeVerdict.NO_VOLUME, claim.key)
        matched: list[_Matched] = []
        for claim in unbound:
            matched.append(self._match(claim, classes, matched))
        pending = [(claim, np.ones(classes.size, np.bool_)) for claim in selected]
        pending += [(match.claim, match.absent) for match in matched]
        provisioned = self._provision(pending, classes, refused, summed=summed)
        return PodVolumes(
            self._nodes,
            classes,
            self._pinned(refused.of_rows(classes.of_row), pins),
            matched=matched,
            provisioned=provisioned,
            assumed=list(plans.values()),
        )

    def _pinned(self, refused: _Refused, pins: Mapping[Name, str]) -> _Refused:
        """Refuse all node rows but those of the selected nodes."""
        for claim, node in pins.items():
            elsewhere = np.ones(len(self._nodes.alive), np.bool_)
            if node in self._nodes.row:
                elsewhere[self._nodes.row[node]] = False
            refused.refuse(elsewhere, _VolumeVerdict.NO_VOLUME, claim)
        return refused

    def _match(self, claim: DelayedClaim, classes: NodeClasses, earlier: Sequence[_Matched]) -> _Matched:
        """Return the volumes for a claim, other than those for the pod's `earlier` claims."""
        volume = self.volumes.named_for(claim)
        if volume is not None:
            # If a node cannot reach it, no other volume is taken there.
            at = np.where(classes.satisfying(volume.reach), 0, 1)
            return _Matched(claim, (volume.name,), at, volume_sizes([volume]), named=True)
        free = self.volumes.free(claim.storage_class)
        taken = [match.at for match in earlier if match.names is free.names]

        def is_taken(at: Rows) -> Bools:
            clashes = np.zeros(len(at), np.bool_)
            for positions in taken:
                clashes |= at == positions
            return clashes

        at = free.items.first(classes, free.eligible(claim), is_taken, len(taken))
        return _Matched(claim, free.names, at, free.sizes, named=False)

    def _provision(
        self,
        pending: Iterable[tuple[DelayedClaim, Bools]],
        classes: NodeClasses,
        refused: _Refused,
        *,
        summed: bool,
    ) -> list[_Provisioned]:
        """Return where each claim is provisioned; set in `refused` where one cannot be."""
        provisioned: list[_Provisioned] = []
        for claim, needed in pending:
            undecided = needed & (refused.verdict == _VolumeVerdict.NONE)
            if not undecided.any():
                continue
            allowed = self.provisioning.allowed(claim, classes)
            refused.refuse(undecided & ~allowed, _VolumeVerdict.NO_VOLUME, claim.key)
            own = [volume.reserved for volume in provisioned if volume.reserved is not None]
            reserved = self.provisioning.reserve(claim, classes, own, summed=summed)
            if reserved is not None:
                reserved = reserved.where(needed)
                full = undecided & allowed & reserved.absent
                refused.refuse(full, _VolumeVerdict.NO_SPACE, claim.key)
            provisioned.append(_Provisioned(claim, needed, reserved))
        return provisioned

    def _keys(self, claims: Iterable[DelayedClaim], reach: Iterable[Alternatives]) -> Iterator[str]:
        """Yield the label keys that decide about these claims, and about volumes of that reach."""
        for claim in claims:
            yield from self.provisioning.keys(claim)
            if claim.selected_node is None:
                named = self.volumes.named_for(claim)
                free = self.volumes.free(claim.storage_class)
                yield from keys_of(named.reach) if named is not None else free.items.keys
        for alternatives in reach:
            yield from keys_of(alternatives)

    def _grouped(self, keys: frozenset[str]) -> NodeClasses:
        """Return the classes of nodes by label keys."""
        if self._revision != self._nodes.node_revision:
            self._revision = self._nodes.node_revision
            # Most changes of nodes are of taints or of other labels.
            kept = {labels: of for labels, of in self._groupings.items() if of.current(self._nodes)}
            self._groupings = kept
        classes = self._groupings.get(keys)
        if classes is None:
            if len(self._groupings) == _GROUPINGS:
                del self._groupings[next(iter(self._groupings))]
            classes = self._groupings[keys] = NodeClasses(self._nodes, keys)
        return classes


def _size(claim: DelayedClaim) -> int:
    return claim.size or 0
