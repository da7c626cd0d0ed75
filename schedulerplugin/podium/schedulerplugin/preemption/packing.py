"""Sorts a preemptor's pods by kind, and packs them: the largest first, on the tightest nodes.

Pods are placed in the order of their priority, age and name, each on the node with the best score. A group
whose members differ may find no place in that order, and one in another order: a small member takes the only
empty node. Then its members are packed (`capacity`), and every filter checks the result.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from podium.schedulerplugin.arrays import Bools, Int64s, Rows
from podium.schedulerplugin.deadline import Deadline
from podium.schedulerplugin.filters.chain import Chain
from podium.schedulerplugin.filters.podaffinity import labels_of
from podium.schedulerplugin.preemption.capacity import Kind, SeveralKinds
from podium.schedulerplugin.shapes import Shape
from podium.schedulerplugin.snapshot import Snapshot

# If a preemptor has more kinds of pods, they are not packed: time grows with the kinds, which a tenant
# chooses.
MOST_KINDS = 32
_HOST = "kubernetes.io/hostname"


class Kinds(NamedTuple):
    """The pods to place by kind: `rows` of each, and the `kinds` over the positions of `nodes` (node rows).

    `resources` are the positions of the resources that any of them requests.
    """

    rows: list[list[int]]
    kinds: list[Kind]
    nodes: Rows
    resources: list[int]

    def free(self, snapshot: Snapshot) -> list[Int64s]:
        """Return the free room of each resource by node, without preemption."""
        return [snapshot.allocatable[at][self.nodes] - snapshot.used[at][self.nodes] for at in self.resources]


def asked(shape: Shape) -> Shape:
    """Return the part of a plain shape that decides where it fits."""
    return shape._replace(labels=(), scored=(0, 0))


def kinds_of(chain: Chain, rows: Sequence[int], needed: int, within: Bools | None) -> Kinds | None:
    """Return the kinds of the `needed` pods with the least requests, first of equals; None for too many."""
    snapshot = chain.snapshot
    by_shape: dict[Shape, list[int]] = {}
    for row in _smallest(snapshot, rows, needed):
        shape = snapshot.shapes[snapshot.shape.item(row)]
        by_shape.setdefault(asked(shape) if chain.plain(shape) else shape, []).append(row)
    if len(by_shape) > MOST_KINDS:
        return None
    masks = [chain.static(snapshot.shapes[snapshot.shape.item(each[0])]) for each in by_shape.values()]
    if within is not None:
        masks = [mask & within for mask in masks]
    nodes = np.flatnonzero(np.logical_or.reduce(masks))
    # A pod that requests a resource that no node offers suits no node.
    names = sorted({name for shape in by_shape for name, _ in shape.requests if name in snapshot.resource})
    kinds = [
        Kind(
            tuple(dict(shape.requests).get(name, 0) for name in names),
            len(mine),
            mask[nodes],
            1 if _alone(chain, shape) else len(mine),
        )
        for (shape, mine), mask in zip(by_shape.items(), masks, strict=True)
    ]
    return Kinds(list(by_shape.values()), kinds, nodes, [snapshot.resource[name] for name in names])


def place_packed(
    chain: Chain, rows: Sequence[int], needed: int, within: Bools | None, deadline: Deadline
) -> dict[int, int]:
    """Pack pods of several kinds, and assume those that every filter accepts; return node rows by pod row."""
    found = kinds_of(chain, rows, needed, within)
    placed: dict[int, int] = {}
    if found is None or len(found.kinds) < 2:
        return placed
    snapshot = chain.snapshot
    left = {id(kind): list(mine) for kind, mine in zip(found.kinds, found.rows, strict=True)}
    for kind, taken in SeveralKinds(found.free(snapshot), found.kinds).packing():
        for at in np.repeat(found.nodes, taken).tolist():
            deadline.check()
            row = left[id(kind)].pop(0)
            if chain.fits(snapshot.shapes[snapshot.shape.item(row)], at):
                snapshot.assume(row, at)
                placed[row] = at
    return placed


def _smallest(snapshot: Snapshot, rows: Sequence[int], needed: int) -> Sequence[int]:
    if needed >= len(rows):
        return rows
    most = {name: int(snapshot.allocatable[at].max(initial=1)) for name, at in snapshot.resource.items()}

    def share(row: int) -> float:
        shape = snapshot.shapes[snapshot.shape.item(row)]
        return max((amount / max(most.get(name, 1), 1) for name, amount in shape.requests), default=0.0)

    return sorted(rows, key=share)[:needed]


def _alone(chain: Chain, shape: Shape) -> bool:
    """Return whether pods of a shape exclude each other from one host."""
    if shape.ports:
        return True
    around = labels_of(chain.namespaces.get(shape.namespace))
    return any(
        term.topology_key == _HOST and term.matches(shape.namespace, around, dict(shape.labels))
        for term in shape.pod_anti_affinity
    )
