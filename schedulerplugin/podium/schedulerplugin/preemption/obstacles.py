"""Explains why preemption makes no room for a preemptor: what refuses each node once its victims are gone.

A lone pod's victims are the units of one node, so each node is judged without its own units only. A pod on
another node may be the only obstacle (required anti-affinity, topology spread). Neither KEP-5710 nor
kube-scheduler evicts such a pod, and the reason says so.
"""

from typing import NamedTuple

import numpy as np

from podium.schedulerplugin.arrays import Bools, Rows
from podium.schedulerplugin.filters.chain import Chain, Refusals
from podium.schedulerplugin.preemption.domain import DomainPlanner
from podium.schedulerplugin.preemption.stage import Domain
from podium.schedulerplugin.shapes import Shape
from podium.wording import count

# The reason for a node whose plan would violate a budget: no filter refuses the preemptor there.
STRICT = "node(s) had room only where PodDisruptionBudgets forbid preemption, and budgets are strict"


class Elsewhere(NamedTuple):
    """The number of `nodes` that take the pod only if units of other nodes are evicted.

    `node` is the row of the first of them by name, `units` are the leads of the units in the way for it.
    """

    nodes: int
    node: int
    units: Rows


class Obstacles(NamedTuple):
    """The refusals of each node without the units that may be preempted for it."""

    refusals: Refusals
    elsewhere: Elsewhere | None = None

    @property
    def message(self) -> str:
        """The sentence of kube-scheduler, and one that counts the nodes blocked by pods of other nodes."""
        if self.elsewhere is None:
            return self.refusals.message
        nodes = count(self.elsewhere.nodes, "node")
        return (
            f"{self.refusals.message} {nodes} could take the pod only if pods on other nodes were preempted, "
            "which is not tried."
        )


def without_all(chain: Chain, shape: Shape) -> Obstacles:
    """Return what refuses a pod of a shape while the snapshot is without all units that may be preempted."""
    return Obstacles(_told(chain, dict(chain.refused(shape, chain.snapshot.alive))))


def of_pod(chain: Chain, planner: DomainPlanner) -> Obstacles:
    """Return what refuses a lone pod on each node without the units that may be preempted there."""
    stage, snapshot = planner.stage, chain.snapshot
    shape, leads = stage.shapes[0], np.flatnonzero(planner.potential)
    with stage.trial():
        stage.lift(leads)
        if stage.plain:
            return without_all(chain, shape)
        alone = free = chain.mask(shape)
        if shape.spread or shape.pod_affinity:
            # Spread and affinity may refuse the pod because units are gone. Any other current refusal is
            # permanent.
            alone = chain.roomy(shape) & ~_lasting(chain, planner, leads)
        reasons = dict(chain.refused(shape, snapshot.alive & ~alone))
    elsewhere = []
    order = chain.by_name()
    for row in order[alone[order]].tolist():
        stage.deadline.check()
        for reason in _without_own(chain, planner, row):
            reasons.setdefault(reason, np.zeros(len(free), np.bool_))[row] = True
            if free[row]:
                elsewhere.append(row)
    return Obstacles(_told(chain, reasons), _elsewhere(planner, leads, elsewhere))


def _lasting(chain: Chain, planner: DomainPlanner, leads: Rows) -> Bools:
    """Return the node rows where spread or affinity refuses the pod, whichever units are evicted."""
    shapes, snapshot = chain.snapshot.shapes, chain.snapshot
    ids = np.unique(snapshot.shape[planner.units.all_members(leads)]).tolist()
    stage = planner.stage
    return chain.settled(stage.shapes[0], [shapes[each] for each in ids], stage.deadline)[1]


def _without_own(chain: Chain, planner: DomainPlanner, row: int) -> tuple[str, ...]:
    """Return what refuses the pod on a node row without the node's own units."""
    units, stage = planner.units, planner.stage
    own = units.on_node(row)
    with stage.trial():
        stage.lift(own[planner.potential[own]])
        return chain.why(stage.shapes[0], row)


def _elsewhere(planner: DomainPlanner, leads: Rows, nodes: list[int]) -> Elsewhere | None:
    """Return which units of other nodes have to go for the pod to fit on the first of these node rows."""
    if not nodes:
        return None
    stage, units, node = planner.stage, planner.units, nodes[0]
    with stage.trial():
        stage.lift(leads)
        placed = stage.place(Domain("", node))
        assert placed is not None, "the node takes the pod once all are gone"
        back = stage.reprieve(units.ordered(leads, planner.now), placed)
    gone = leads[~np.isin(leads, back)]
    return Elsewhere(len(nodes), node, gone[~np.isin(gone, units.on_node(node))])


def _told(chain: Chain, reasons: dict[str, Bools]) -> Refusals:
    """Return all refusals; nodes that nothing refuses are blocked by budgets."""
    alive = chain.snapshot.alive
    left = alive & ~np.logical_or.reduce([np.zeros_like(alive), *reasons.values()])
    return chain.told(alive, [*reasons.items(), (STRICT, left)])
