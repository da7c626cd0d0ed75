"""Snapshots of objects, and the facts in them by name, so that those with different rows compare equal."""

from collections import Counter
from typing import Any

import numpy as np
from tests.support.filters.builders import NS, empty_snapshot

from podium.api.claims import claim_names
from podium.api.schedulable import Schedulable
from podium.planner.overlay import NO_POD, NO_SHAPE
from podium.planner.plugins.volumes.plugin import VolumesPlugin
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

Tally = Counter[tuple[Shape, bool, str]]


def snapshot_of(*objects: object, **settings: Any) -> Snapshot:
    """Return a snapshot of objects that came in this order."""
    snapshot = empty_snapshot(**settings)
    for obj in objects:
        snapshot.apply(None, obj)
    return snapshot


def row_of(snapshot: Snapshot, name: str) -> int:
    """Return the row of a pod."""
    return snapshot.pod_row[NS, name]


def shape_in(snapshot: Snapshot, name: str) -> Shape:
    """Return the shape of a pod, once shapes follow the claims and selectors."""
    snapshot.catch_up()
    return snapshot.shape_at(row_of(snapshot, name))


def nodes(snapshot: Snapshot, label_keys: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return all facts in the snapshot by node."""
    columns = snapshot.columns
    texts = {
        key: {value_id: value for value, value_id in columns.values(key).of.items()} for key in label_keys
    }
    return {
        name: {
            "alive": snapshot.alive.item(row),
            "unschedulable": snapshot.unschedulable.item(row),
            "allocatable": _amounts(snapshot, snapshot.allocatable, row),
            "used": _amounts(snapshot, snapshot.used, row),
            "scored": tuple(array.item(row) for array in snapshot.scored),
            "labels": {key: texts[key].get(columns.column(key).item(row)) for key in label_keys},
            "taints": columns.taints.of[row],
            "features": columns.features.of[row],
            "pods": sorted(pod_name(snapshot, each) for each in snapshot.pods_on(row).tolist()),
        }
        for name, row in snapshot.row.items()
    }


def pods(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """Return all facts in the snapshot by pod."""
    return {
        pod_name(snapshot, row): {
            "node": _place(snapshot, snapshot.node.item(row)),
            "home": _place(snapshot, snapshot.home.item(row)),
            "shape": snapshot.shapes[snapshot.shape.item(row)],
            "requests": _amounts(snapshot, snapshot.requests, row),
            "uid": snapshot.uids[row],
            "priority": snapshot.priority.item(row),
            "start": snapshot.start.item(row),
            "terminating": snapshot.terminating.item(row),
            "read": snapshot.pods[row],
        }
        for row in snapshot.pod_row.values()
    }


def tally(snapshot: Snapshot) -> Tally:
    """Return the number of pods of each shape on each node, terminating pods apart, from the arrays alone."""
    placed = np.flatnonzero(snapshot.node >= 0)
    return Counter(_counted(snapshot, row, snapshot.node.item(row)) for row in placed.tolist())


class Listener:
    """Keeps the same counts from events, and checks the guarantees for observers at each event."""

    def __init__(self, snapshot: Snapshot, *, many: bool) -> None:
        self.snapshot = snapshot
        self.tally: Tally = Counter()
        self.changed: list[str | None] = []
        snapshot.observe(self.counted, self.node_changed, self.counted_many if many else None)

    def counted(self, pod_row: int, shape_id: int, node_row: int, sign: int) -> None:
        snapshot = self.snapshot
        assert snapshot.shape.item(pod_row) == shape_id
        assert snapshot.alive.item(node_row)
        assert sign == 1 or snapshot.node.item(pod_row) == node_row
        self.tally[_counted(snapshot, pod_row, node_row)] += sign
        self.tally = +self.tally

    def counted_many(self, pod_rows: Any, shape_ids: Any, node_rows: Any, sign: int) -> None:
        for pod_row, shape_id, node_row in zip(pod_rows, shape_ids, node_rows, strict=True):
            self.counted(int(pod_row), int(shape_id), int(node_row), sign)

    def node_changed(self, node_row: int) -> None:
        """Note the name; no pod counts on a node that is added or removed."""
        name = self.snapshot.names[node_row]
        if name is None or name not in self.changed:
            assert not self.snapshot.pods_on(node_row).size
        self.changed.append(name)


def check_free_rows(snapshot: Snapshot) -> None:
    """Assert that rows without an object are empty, and that each shape belongs to a pod."""
    dead = ~snapshot.alive
    assert int(snapshot.alive.sum()) == len(snapshot.row)
    assert not any(snapshot.columns.taints.of[row] for row in np.flatnonzero(dead).tolist())
    for array in (*snapshot.allocatable.values(), *snapshot.used.values()):
        assert not array[dead].any()
    free = snapshot.home == NO_POD
    assert int((~free).sum()) == len(snapshot.pod_row)
    assert (snapshot.node[free] == NO_POD).all()
    assert (snapshot.shape[free] == NO_SHAPE).all()
    for array in snapshot.requests.values():
        assert not array[free].any()
    assert set(snapshot.shapes) == set(snapshot.shape[~free].tolist())
    assert len(set(snapshot.shapes.values())) == len(snapshot.shapes)


def check_indexes(snapshot: Snapshot) -> None:
    """Assert that the indexes contain exactly the snapshot's pods, so they do not grow without bound."""
    rows = snapshot.pod_row.values()
    for node_row, on in enumerate(snapshot._on):
        assert on == {row for row in rows if node_row in (snapshot.node.item(row), snapshot.home.item(row))}
    claims = {name for row in rows for _, name in claim_names(_pod(snapshot, row))}
    known = snapshot.plugin(VolumesPlugin).known
    assert {name for _, name in known._users} == claims
    assert snapshot._needs.keys() == snapshot.shapes.keys()
    assert {at for needs in snapshot._needs.values() for at, _ in needs} <= snapshot.used.keys()
    bound = {claim.spec.volumeName or "" for claim in known.claims.values() if claim.spec}
    assert set(known._claims_of_volume) == bound


def pod_name(snapshot: Snapshot, row: int) -> str:
    return _pod(snapshot, row).metadata.name or ""


def _pod(snapshot: Snapshot, row: int) -> Schedulable:
    pod = snapshot.pods[row]
    assert pod is not None
    return pod


def _counted(snapshot: Snapshot, pod_row: int, node_row: int) -> tuple[Shape, bool, str]:
    shape = snapshot.shapes[snapshot.shape.item(pod_row)]
    return shape, snapshot.terminating.item(pod_row), snapshot.names[node_row] or ""


def _amounts(snapshot: Snapshot, arrays: Any, row: int) -> dict[str, int]:
    return {name: arrays[at].item(row) for name, at in snapshot.resource.items() if arrays[at].item(row)}


def _place(snapshot: Snapshot, row: int) -> str | int | None:
    return snapshot.names[row] if row >= 0 else row
