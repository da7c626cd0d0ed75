"""Places pods on the best node that takes them; among equals, on the smallest name or the first by a hash.

kube-scheduler places one pod at a time and evaluates the nodes again for each. Groups have hundreds of equal
pods, and a plan places them many times. So the room and the score of each node are kept during a batch. After
each placement only the changed node is evaluated again. Effects on other nodes (spread, affinity, soft
affinity) are evaluated again for the pods that they concern. Both ways give the same result as placing each
pod alone.

kube-scheduler breaks ties at random and samples a large cluster. This module checks all nodes and gives one
answer, whatever the order in which nodes and pods were read. With `ties` each pod has an order of equal nodes
(see `ties`); pods that are placed all at once share that of the first.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from podium.api.core import Namespace
from podium.planner.arrays import Bools, Int64s, Rows
from podium.planner.deadline import NEVER, Deadline
from podium.planner.filters.chain import Chain, node_constraints
from podium.planner.rejections import Rejections
from podium.planner.scores import UPSTREAM, Scores, Strategy, Ties, Weights
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

# The score of a node without room; other scores are never below 0.
_NO_ROOM = -1
# Added to the score of a node that pods need not avoid: more than all other scores together.
_NOT_AVOIDED = 2**20
# From this many changed nodes on, arrays are faster than a loop.
_MANY = 32
# From this many equal pods on, placing them all at once is faster than one by one.
_RUN = 64
# The most answers about single nodes that one call keeps: 80 kinds of pods on 100,000 nodes.
_KEPT = 2**23


class Ranks(Protocol):
    """Ranks of nodes: a pod takes one of the lowest `rank` (by node row) among those that take it."""

    rank: Int64s

    def refresh(self) -> None:
        """Follow the snapshot: pods may have been placed or taken back."""

    def take(self, node: int) -> None:
        """Follow a pod that is assumed on a node."""


class Placer:
    """Places pods on one snapshot, with all filters and scores; `namespaces` may change.

    `ranks` are those of the nodes in a `ranked` block, None outside.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        namespaces: Mapping[str, Namespace],
        strategy: Strategy = Strategy.LEAST_ALLOCATED,
        reserved: str = "",
        weights: Weights = UPSTREAM,
        *,
        by_hash: bool = False,
        own_rules: bool = True,
        empty_selector: bool = True,
    ) -> None:
        """`reserved`, `own_rules` and `empty_selector` are those of the chain of filters.

        `by_hash` breaks ties by pod and node, not by the node's name.
        """
        self.chain = Chain(snapshot, namespaces, reserved, own_rules=own_rules, empty_selector=empty_selector)
        self.snapshot = snapshot
        self.scores = Scores(snapshot, strategy, weights)
        self.ties = Ties(snapshot) if by_hash else None
        self.rejections = Rejections()
        self.ranks: Ranks | None = None

    @contextmanager
    def ranked(self, ranks: Ranks | None) -> Iterator[None]:
        """Begin a block in which pods go to the nodes of the lowest rank; None for no ranks."""
        before, self.ranks = self.ranks, ranks
        try:
            yield
        finally:
            self.ranks = before

    def place_many(
        self,
        pod_rows: Sequence[int],
        within: Bools | None = None,
        enough: int | None = None,
        nominated: Mapping[int, int] = {},
        deadline: Deadline = NEVER,
    ) -> dict[int, int]:
        """Place pods one after the other, and assume each on its node; return node rows by pod row.

        It ends when `enough` of them are placed, or when that many cannot be placed any more. Pods that
        cannot be evaluated (Shape.missing) are skipped. If some are `nominated`, all are placed, each first
        on the node reserved for it. Call it in a trial of the snapshot. Raises DecisionTimeoutError once the
        deadline has passed.
        """
        self.snapshot.catch_up()
        self.announce(pod_rows)
        if nominated:
            return self._place_nominated(pod_rows, within, nominated, deadline)
        if self.ranks is not None:
            self.ranks.refresh()
        shape_of, shapes, placed = self.snapshot.shape, self.snapshot.shapes, dict[int, int]()
        placeable = [row for row in pod_rows if not shapes[shape_of.item(row)].missing]
        batch, done = _PlacementBatch(self, within, deadline), 0
        while done < len(placeable):
            left = len(placeable) - done
            if enough is not None:
                if not 0 < enough - len(placed) <= left:
                    break
                left = enough - len(placed)
            run = batch.run(placeable, done, done + left)
            placed.update(batch.place(placeable[done:run]))
            done = run
        return placed

    def announce(self, pod_rows: Sequence[int] | Rows) -> None:
        """Announce that these pods are about to be placed; call it before any check of them."""
        self.chain.announce(np.unique(self.snapshot.shape[np.asarray(pod_rows, np.intp)]).tolist())

    def _place_nominated(
        self,
        pod_rows: Sequence[int],
        within: Bools | None,
        nominated: Mapping[int, int],
        deadline: Deadline,
    ) -> dict[int, int]:
        snapshot, placed = self.snapshot, dict[int, int]()
        for row in pod_rows:
            deadline.enforce()
            node = nominated.get(row)
            shape = snapshot.shape_at(row)
            usable = node is not None and (within is None or bool(within[node]))
            if node is not None and usable and not shape.missing and self.chain.fits(shape, node):
                snapshot.assume(row, node)
                placed[row] = node
            else:
                placed.update(self.place_many((row,), within, deadline=deadline))
        return placed


class _NodesWithRoom:
    """The nodes with room for pods with equal constraints, in order of names, and their scores.

    `score` is the score that depends on the node alone, and _NO_ROOM if there is no room. Nodes that rejected
    such pods come after all others.
    """

    def __init__(self, placer: Placer, shape: Shape, within: Bools | None, changes: int = 0) -> None:
        chain, self._placer, self._shape = placer.chain, placer, shape
        open_rows = chain.with_room(shape)
        if within is not None:
            open_rows &= within
        order = chain.by_name()
        self.rows: Rows = order[open_rows[order]]
        self._at = np.full(len(open_rows), -1, np.int32)
        self._at[self.rows] = np.arange(len(self.rows), dtype=np.int32)
        avoided = [chain.snapshot.row.get(name) for name in placer.rejections.nodes(shape)]
        # By node row; None if no node is avoided.
        self._avoidance: Int64s | None = None
        if avoided:
            self._avoidance = np.full(len(open_rows), _NOT_AVOIDED, np.int64)
            self._avoidance[[row for row in avoided if row is not None]] = 0
        self.score = self._allocation(self.rows)
        # A filter with the same score on all nodes has so in every smaller choice, and decides nothing.
        self.scoring = [node_filter for node_filter in chain.fixed if node_filter.differs(shape, self.rows)]
        self._changes_seen = changes
        self._fits_at = chain.room.fits_at(shape)
        self._score_at = placer.scores.allocation_at(shape)

    def update(self, changed: list[int]) -> None:
        """Evaluate again the rows that changed since the last call."""
        changed_rows, self._changes_seen = set(changed[self._changes_seen :]), len(changed)
        if len(changed_rows) >= _MANY:
            self._update_many(np.fromiter(changed_rows, np.intp, len(changed_rows)))
            return
        for row in changed_rows:
            at = self._at.item(row)
            if at < 0:
                continue
            if self._fits_at(row):
                avoidance = 0 if self._avoidance is None else self._avoidance.item(row)
                self.score[at] = self._score_at(row) + avoidance
            else:
                self.score[at] = _NO_ROOM
                self._at[row] = -1

    def assign(self, number: int, pod_row: int) -> Rows:
        """Return the best row for each of `number` pods, placed one after the other; fewer if the room ends.

        Of equals it is the first in the order of a pod, if each pod has one.

        With each pod more, the score of a row may fall or rise. A row that was taken at its least score is
        taken again while its score is higher. So each next pod on a row counts with the least score of the
        row up to then. One-by-one placement takes the largest of these numbers of all rows.
        """
        rows, scores_now = self.rows, self.score
        if not len(rows):
            # Possibly no node offers a requested resource.
            return rows
        if self._placer.ties is not None:
            order = self._placer.ties.order(pod_row, rows)
            rows, scores_now = rows[order], scores_now[order]
        width, top = len(rows), int(scores_now.max(initial=_NO_ROOM))
        at = np.argsort(-scores_now, kind="stable")[:number]
        at = at[scores_now[at] != _NO_ROOM]
        least, spare = scores_now[at], np.zeros(width, np.int64)
        spare[at] = self._placer.chain.room.spare(self._shape, rows[at])
        # The score of a row for its next pod, the row, and its number of pods: in one number, best first.
        keys, first = np.zeros(0, np.int64), 0
        while len(at) and first < number:
            copies = np.arange(first, min(first + number // len(at), number))
            here = np.repeat(rows[at], len(copies)), np.tile(copies, len(at))
            score = self._allocation(*here).reshape(len(at), len(copies))
            score[copies >= spare[at][:, None]] = _NO_ROOM
            score = np.minimum.accumulate(np.minimum(score, least[:, None]), axis=1)
            new = ((top - score) * width + at[:, None]) * number + copies
            keys, first = (
                np.sort(np.concatenate((keys, new[score != _NO_ROOM])))[:number],
                first + len(copies),
            )
            # Rows that are not among the best with that many pods are not with more.
            deepest = keys[keys % number == copies[-1]] // number
            at, least = deepest % width, top - deepest // width
        taken: Rows = rows[keys // number % width]
        return taken

    def _update_many(self, rows: Rows) -> None:
        rows = rows[self._at[rows] >= 0]
        at = self._at[rows]
        room = self._placer.chain.with_room(self._shape)[rows]
        self.score[at] = np.where(room, self._allocation(rows), _NO_ROOM)
        self._at[rows[~room]] = -1

    def _allocation(self, rows: Rows, copies: Int64s | int = 0) -> Int64s:
        """Return the scores of rows by the node alone, with `copies` of the pod already there."""
        score = self._placer.scores.allocation(self._shape, rows, copies)
        return score if self._avoidance is None else score + self._avoidance[rows]


class _NodeChoice:
    """The nodes for pods of one shape."""

    def __init__(self, placer: Placer, room: _NodesWithRoom, shape: Shape) -> None:
        self._placer = placer
        self.room = room
        self._shape = shape
        self._resources_only = placer.chain.resources_only(shape)
        self._scoring = list(room.scoring)
        self._scoring += (node_filter for node_filter in placer.chain.dynamic if node_filter.prefers(shape))
        # Whether nothing but the room of each node decides, so that one placement changes one node.
        self.by_room_only = self._resources_only and not self._scoring

    def best(self, pod_row: int | None = None) -> int | None:
        """Return the best row for a pod; without its own order of ties, the smallest name among equals."""
        room = self.room
        if not len(room.rows):
            return None
        ranks = self._placer.ranks
        if self.by_room_only and ranks is None:
            at = self._best_place(room.score, room.rows, pod_row)
            return None if room.score.item(at) == _NO_ROOM else room.rows.item(at)
        choice = room.score != _NO_ROOM
        if not self._resources_only:
            choice &= self._placer.chain.neighbours(self._shape)[room.rows]
        if ranks is not None and choice.any():
            rank = ranks.rank[room.rows]
            choice &= rank == rank[choice].min()
        rows = room.rows[choice]
        if not len(rows):
            return None
        score: Int64s = room.score[choice]
        for node_filter in self._scoring:
            score += node_filter.scores(self._shape, rows)
        best: int = rows.item(self._best_place(score, rows, pod_row))
        return best

    def _best_place(self, score: Int64s, rows: Rows, pod_row: int | None) -> int:
        """Return the place of the largest score; among equals, of the first in the pod's order."""
        at, ties = int(score.argmax()), self._placer.ties
        if ties is None or pod_row is None:
            return at
        equal = np.flatnonzero(score == score.item(at))
        return at if len(equal) == 1 else equal.item(ties.first(pod_row, rows[equal]))


class _PlacementBatch:
    """The data kept while pods are placed one after the other; only their own placements change anything."""

    def __init__(self, placer: Placer, within: Bools | None, deadline: Deadline) -> None:
        self._placer = placer
        self._within = within
        self._deadline = deadline
        # The rows that pods were placed on, in order.
        self._changed: list[int] = []
        self._rooms: dict[tuple[object, ...], _NodesWithRoom] = {}
        self._choices: dict[int, _NodeChoice] = {}

    def run(self, pod_rows: Sequence[int], start: int, end: int) -> int:
        """Return the end of the run from `start` on: pods that only the same room decides, or one pod."""
        first = self._choice(pod_rows[start])
        if not first.by_room_only:
            return start + 1
        for at in range(start + 1, end):
            choice = self._choice(pod_rows[at])
            if choice.room is not first.room or not choice.by_room_only:
                return at
        return end

    def place(self, run: Sequence[int]) -> dict[int, int]:
        """Place a run of pods, and assume them."""
        snapshot, choice = self._placer.snapshot, self._choice(run[0])
        choice.room.update(self._changed)
        ranks = self._placer.ranks
        if ranks is None and choice.by_room_only and len(run) >= _RUN:
            taken = choice.room.assign(len(run), run[0])
            rows = np.array(run[: len(taken)], np.intp)
            snapshot.assume_many(rows, taken.astype(np.int32))
            self._changed += taken.tolist()
            return dict(zip(rows.tolist(), taken.tolist(), strict=True))
        placed = {}
        for pod_row in run:
            self._deadline.enforce()
            choice.room.update(self._changed)
            node_row = choice.best(pod_row)
            if node_row is not None:
                snapshot.assume(pod_row, node_row)
                if ranks is not None:
                    ranks.take(node_row)
                self._changed.append(node_row)
                placed[pod_row] = node_row
        return placed

    def _choice(self, pod_row: int) -> _NodeChoice:
        snapshot = self._placer.snapshot
        shape_id = snapshot.shape.item(pod_row)
        choice = self._choices.get(shape_id)
        if choice is None:
            self._deadline.enforce()
            shape = snapshot.shapes[shape_id]
            choice = self._choices[shape_id] = _NodeChoice(self._placer, self._room(shape), shape)
        return choice

    def _room(self, shape: Shape) -> _NodesWithRoom:
        preferences = tuple(need.node_preferences for need in shape.needs)
        asks = (shape.namespace, shape.requests, shape.scored, preferences, *node_constraints(shape))
        room = self._rooms.get(asks)
        if room is None:
            if len(self._rooms) * len(self._placer.snapshot.alive) >= _KEPT:
                self._rooms, self._choices = {}, {}
            room = self._rooms[asks] = _NodesWithRoom(self._placer, shape, self._within, len(self._changed))
        return room
