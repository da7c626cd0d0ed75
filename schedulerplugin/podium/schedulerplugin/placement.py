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

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from podium.api.core import Namespace
from podium.schedulerplugin.arrays import Bools, Int64s, Rows
from podium.schedulerplugin.deadline import NEVER, Deadline
from podium.schedulerplugin.filters.brought import Brought
from podium.schedulerplugin.filters.chain import Chain, on_nodes
from podium.schedulerplugin.filters.tallies import Tallies
from podium.schedulerplugin.podscores import PodScores
from podium.schedulerplugin.rejections import Rejections
from podium.schedulerplugin.scores import MAX, UPSTREAM, Scores, Strategy, Weights
from podium.schedulerplugin.shapes import Shape
from podium.schedulerplugin.snapshot import Snapshot
from podium.schedulerplugin.ties import Ties

# The score of a node without room; other scores are never below 0.
_FULL = -1
# Added to the score of a node that pods need not avoid: more than all other scores together.
_WELCOME = 2**20
# From this many changed nodes on, arrays are faster than a loop.
_MANY = 32
# From this many equal pods on, placing them all at once is faster than one by one.
_RUN = 64
# The most answers about single nodes that one call keeps: 80 kinds of pods on 100,000 nodes.
_KEPT = 2**23


class Placer:
    """Places pods on one snapshot, with all filters and scores; `namespaces` may change (`forget`)."""

    def __init__(
        self,
        snapshot: Snapshot,
        namespaces: Mapping[str, Namespace],
        strategy: Strategy = Strategy.LEAST_ALLOCATED,
        reserved: str = "",
        weights: Weights = UPSTREAM,
        *,
        by_hash: bool = False,
    ) -> None:
        """`reserved` is as in Settings; `by_hash` breaks ties by pod and node, not by the node's name."""
        self.chain = Chain(snapshot, namespaces, reserved)
        self.snapshot = snapshot
        self.scores = Scores(snapshot, strategy, weights)
        self.ties = Ties(snapshot) if by_hash else None
        self.rejections = Rejections()
        self.pod_scores = PodScores(self.chain.asked, namespaces, self.chain.node_affinity, self.chain.taints)
        self._wished = Brought(
            snapshot,
            namespaces,
            lambda shape: (*(term for _, term in shape.preferred_pods), *shape.pod_affinity),
        )

    @property
    def tallies(self) -> tuple[Tallies[Any], ...]:
        """All tallies of filters and scores."""
        return (*self.chain.tallies, self.pod_scores.tallies)

    def place(self, shape: Shape, within: Bools | None = None) -> int | None:
        """Return the best node row (of those `within`) for a pod of a shape, None if no node takes it."""
        return _Choice(self, _Room(self, shape, within), shape).best()

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
        self.snapshot.reveal()
        self.expect(pod_rows)
        if nominated:
            return self._place_nominated(pod_rows, within, nominated, deadline)
        shape_of, shapes, placed = self.snapshot.shape, self.snapshot.shapes, dict[int, int]()
        judged = [row for row in pod_rows if not shapes[shape_of.item(row)].missing]
        batch, done = _Batch(self, within, deadline), 0
        while done < len(judged):
            left = len(judged) - done
            if enough is not None:
                if not 0 < enough - len(placed) <= left:
                    break
                left = enough - len(placed)
            run = batch.run(judged, done, done + left)
            placed.update(batch.place(judged[done:run]))
            done = run
        return placed

    def expect(self, pod_rows: Sequence[int] | Rows) -> None:
        """Announce that these pods are about to be placed; call it before any check of them."""
        shape_ids = np.unique(self.snapshot.shape[np.asarray(pod_rows, np.intp)]).tolist()
        self.chain.expect(shape_ids)
        self._wished.expect(shape_ids)

    def settle(self) -> None:
        """Forget the announced pods; call it before a plan is tried."""
        self.chain.settle()
        self._wished.settle()

    def forget(self) -> None:
        """Reload the namespaces: one came, went or changed its labels."""
        self.chain.forget()
        self.pod_scores.forget()

    def wishes(self, shape: Shape) -> bool:
        """Return whether a soft affinity term of a pod of a shape, or of one near it, may matter."""
        return bool(shape.preferred_pods or shape.soft_spread) or self._wished.concern(shape)

    def _place_nominated(
        self,
        pod_rows: Sequence[int],
        within: Bools | None,
        nominated: Mapping[int, int],
        deadline: Deadline,
    ) -> dict[int, int]:
        snapshot, placed = self.snapshot, dict[int, int]()
        for row in pod_rows:
            deadline.check()
            node = nominated.get(row)
            shape = snapshot.shapes[snapshot.shape.item(row)]
            usable = node is not None and (within is None or bool(within[node]))
            if node is not None and usable and not shape.missing and self.chain.fits(shape, node):
                snapshot.assume(row, node)
                placed[row] = node
            else:
                placed.update(self.place_many((row,), within, deadline=deadline))
        return placed


class _Room:
    """The nodes with room for pods with equal constraints, in order of names, and their scores.

    `worth` is the score that depends on the node alone, and _FULL if there is no room. Nodes that rejected
    such pods come after all others.
    """

    def __init__(self, placer: Placer, shape: Shape, within: Bools | None, changes: int = 0) -> None:
        chain, self._placer, self._shape = placer.chain, placer, shape
        open_rows = chain.roomy(shape)
        if within is not None:
            open_rows &= within
        order = chain.by_name()
        self.rows: Rows = order[open_rows[order]]
        self._at = np.full(len(open_rows), -1, np.int32)
        self._at[self.rows] = np.arange(len(self.rows), dtype=np.int32)
        avoided = [chain.snapshot.row.get(name) for name in placer.rejections.nodes(shape)]
        # By node row; None if no node is avoided.
        self._welcome: Int64s | None = None
        if avoided:
            self._welcome = np.full(len(open_rows), _WELCOME, np.int64)
            self._welcome[[row for row in avoided if row is not None]] = 0
        self.worth = self._allocation(self.rows)
        taints = placer.scores.taints(shape, self.rows)
        # Preferences with the same score on all nodes have so in every smaller choice, and decide nothing.
        self.wishes = bool(shape.node_preferred) or taints.min(initial=MAX) < taints.max(initial=0)
        self._seen = changes
        self._fits_at = chain.resources.fits_at(shape)
        self._worth_at = placer.scores.allocation_at(shape)

    def follow(self, changed: list[int]) -> None:
        """Evaluate again the rows that changed since the last call."""
        news, self._seen = set(changed[self._seen :]), len(changed)
        if len(news) >= _MANY:
            self._follow_many(np.fromiter(news, np.intp, len(news)))
            return
        for row in news:
            at = self._at.item(row)
            if at < 0:
                continue
            if self._fits_at(row):
                welcome = 0 if self._welcome is None else self._welcome.item(row)
                self.worth[at] = self._worth_at(row) + welcome
            else:
                self.worth[at] = _FULL
                self._at[row] = -1

    def take(self, number: int, pod_row: int) -> Rows:
        """Return the best row for each of `number` pods, placed one after the other; fewer if the room ends.

        Of equals it is the first in the order of a pod, if each pod has one.

        With each pod more, the score of a row may fall or rise. A row that was taken at its least score is
        taken again while its score is higher. So each next pod on a row counts with the least score of the
        row up to then. One-by-one placement takes the largest of these numbers of all rows.
        """
        rows, worth_now = self.rows, self.worth
        if not len(rows):
            # Possibly no node offers a requested resource.
            return rows
        if self._placer.ties is not None:
            order = self._placer.ties.order(pod_row, rows)
            rows, worth_now = rows[order], worth_now[order]
        width, top = len(rows), int(worth_now.max(initial=_FULL))
        at = np.argsort(-worth_now, kind="stable")[:number]
        at = at[worth_now[at] != _FULL]
        least, spare = worth_now[at], np.zeros(width, np.int64)
        spare[at] = self._placer.chain.resources.spare(self._shape, rows[at])
        # The score of a row for its next pod, the row, and its number of pods: in one number, best first.
        keys, first = np.zeros(0, np.int64), 0
        while len(at) and first < number:
            copies = np.arange(first, min(first + number // len(at), number))
            here = np.repeat(rows[at], len(copies)), np.tile(copies, len(at))
            worth = self._allocation(*here).reshape(len(at), len(copies))
            worth[copies >= spare[at][:, None]] = _FULL
            worth = np.minimum.accumulate(np.minimum(worth, least[:, None]), axis=1)
            new = ((top - worth) * width + at[:, None]) * number + copies
            keys, first = np.sort(np.concatenate((keys, new[worth != _FULL])))[:number], first + len(copies)
            # Rows that are not among the best with that many pods are not with more.
            deepest = keys[keys % number == copies[-1]] // number
            at, least = deepest % width, top - deepest // width
        taken: Rows = rows[keys // number % width]
        return taken

    def _follow_many(self, rows: Rows) -> None:
        rows = rows[self._at[rows] >= 0]
        at = self._at[rows]
        room = self._placer.chain.roomy(self._shape)[rows]
        self.worth[at] = np.where(room, self._allocation(rows), _FULL)
        self._at[rows[~room]] = -1

    def _allocation(self, rows: Rows, copies: Int64s | int = 0) -> Int64s:
        """Return the scores of rows by the node alone, with `copies` of the pod already there."""
        worth = self._placer.scores.allocation(self._shape, rows, copies)
        return worth if self._welcome is None else worth + self._welcome[rows]


class _Choice:
    """The nodes for pods of one shape."""

    def __init__(self, placer: Placer, room: _Room, shape: Shape) -> None:
        self._placer = placer
        self.room = room
        self._shape = shape
        self._plain = placer.chain.plain(shape)
        self._company = placer.wishes(shape)
        # Whether nothing but the room of each node decides, so that one placement changes one node.
        self.by_room = self._plain and not self._company and not room.wishes

    def best(self, pod_row: int | None = None) -> int | None:
        """Return the best row for a pod; without its own order of ties, the smallest name among equals."""
        room = self.room
        if not len(room.rows):
            return None
        if self.by_room:
            at = self._first(room.worth, room.rows, pod_row)
            return None if room.worth.item(at) == _FULL else room.rows.item(at)
        choice = room.worth != _FULL
        if not self._plain:
            choice &= self._placer.chain.neighbours(self._shape)[room.rows]
        rows = room.rows[choice]
        if not len(rows):
            return None
        worth: Int64s = room.worth[choice]
        if room.wishes:
            worth += self._placer.scores.wishes(self._shape, rows)
        if self._company:
            worth += self._placer.pod_scores.total(self._shape, rows)
        best: int = rows.item(self._first(worth, rows, pod_row))
        return best

    def _first(self, worth: Int64s, rows: Rows, pod_row: int | None) -> int:
        """Return the place of the largest score; among equals, of the first in the pod's order."""
        at, ties = int(worth.argmax()), self._placer.ties
        if ties is None or pod_row is None:
            return at
        equal = np.flatnonzero(worth == worth.item(at))
        return at if len(equal) == 1 else equal.item(ties.first(pod_row, rows[equal]))


class _Batch:
    """The data kept while pods are placed one after the other; only their own placements change anything."""

    def __init__(self, placer: Placer, within: Bools | None, deadline: Deadline) -> None:
        self._placer = placer
        self._within = within
        self._deadline = deadline
        # The rows that pods were placed on, in order.
        self._changed: list[int] = []
        self._rooms: dict[tuple[object, ...], _Room] = {}
        self._choices: dict[int, _Choice] = {}

    def run(self, pod_rows: Sequence[int], start: int, end: int) -> int:
        """Return the end of the run from `start` on: pods that only the same room decides, or one pod."""
        first = self._choice(pod_rows[start])
        if not first.by_room:
            return start + 1
        for at in range(start + 1, end):
            choice = self._choice(pod_rows[at])
            if choice.room is not first.room or not choice.by_room:
                return at
        return end

    def place(self, run: Sequence[int]) -> dict[int, int]:
        """Place a run of pods, and assume them."""
        snapshot, choice = self._placer.snapshot, self._choice(run[0])
        choice.room.follow(self._changed)
        if choice.by_room and len(run) >= _RUN:
            taken = choice.room.take(len(run), run[0])
            rows = np.array(run[: len(taken)], np.intp)
            snapshot.assume_many(rows, taken.astype(np.int32))
            self._changed += taken.tolist()
            return dict(zip(rows.tolist(), taken.tolist(), strict=True))
        placed = {}
        for pod_row in run:
            self._deadline.check()
            choice.room.follow(self._changed)
            node_row = choice.best(pod_row)
            if node_row is not None:
                snapshot.assume(pod_row, node_row)
                self._changed.append(node_row)
                placed[pod_row] = node_row
        return placed

    def _choice(self, pod_row: int) -> _Choice:
        snapshot = self._placer.snapshot
        shape_id = snapshot.shape.item(pod_row)
        choice = self._choices.get(shape_id)
        if choice is None:
            self._deadline.check()
            shape = snapshot.shapes[shape_id]
            choice = self._choices[shape_id] = _Choice(self._placer, self._room(shape), shape)
        return choice

    def _room(self, shape: Shape) -> _Room:
        asks = (shape.namespace, shape.requests, shape.scored, shape.node_preferred, *on_nodes(shape))
        room = self._rooms.get(asks)
        if room is None:
            if len(self._rooms) * len(self._placer.snapshot.alive) >= _KEPT:
                self._rooms, self._choices = {}, {}
            room = self._rooms[asks] = _Room(self._placer, shape, self._within, len(self._changed))
        return room
