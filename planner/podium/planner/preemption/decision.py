"""The decision for one preemptor, in rows of the snapshot: an executor carries it out, `explain` reads it.

If preemption makes no room, the decision holds the obstacles: what refuses each node once its victims are
gone. A lone pod's victims are the units of one node, so each node is checked without its own units only. A
pod on another node may be the only obstacle (required anti-affinity, topology spread). Neither KEP-5710 nor
kube-scheduler evicts such a pod, and the reason says so.

Decisions on lone pods are cached while nothing changes: ten thousand equal waiting pods need one decision. A
backlog that does not fit is tried again after every change that might help, pod by pod. Pods of one template
get the same answer, apart from the preemptor's name. A change of anything else that a decision depends on
(the cluster, the scheduler's own decisions, the second) empties the cache. A lack of room lasts as long as
room is only taken. A burst of preemptions does nothing else before its first victim is gone.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from podium.planner.arrays import Bools, Rows
from podium.planner.filters.chain import Chain, Refusals
from podium.planner.preemption.choice import Chosen
from podium.planner.preemption.domain import DomainPlanner
from podium.planner.preemption.domainsearch import RandomChoice
from podium.planner.preemption.outcome import Outcome
from podium.planner.preemption.target import PlacementTarget
from podium.planner.preemption.topology import Domain
from podium.planner.preemption.unitarrays import NO_UNIT
from podium.planner.shapes import Shape
from podium.text import count

# The reason for a node whose plan would violate a budget: no filter refuses the preemptor there.
STRICT_BUDGETS = "node(s) had room only where PodDisruptionBudgets forbid preemption, and budgets are strict"


# Why preemption does not help.
_NOTHING_LOWER = "nothing has a lower priority"
_PROTECTED = "nothing of a lower priority may be preempted"
_EVEN_SO = "even without all that may be preempted"
# kube-scheduler's texts: for no potential victims, and for nodes that no preemption changes.
_NO_VICTIMS = "No preemption victims found for incoming preemptor."
_NOT_HELPFUL = "Preemption is not helpful for scheduling."


class Elsewhere(NamedTuple):
    """The number of `nodes` that take the pod only if units of other nodes are evicted.

    `node` is the row of the first of them by name, `units` are the leads of the units in the way for it.
    """

    nodes: int
    node: int
    units: Rows


class Obstacles(NamedTuple):
    """The refusals of each node without the units that may be preempted for it.

    `victims` says whether there are such units, and `lower` whether a unit has a lower priority.
    `freeing_rule` is the rule of a kube-scheduler that preempts nothing for what refuses a node.
    `unknown_trees` says that units of lower priority are protected, as their composite groups are unknown.
    `refused` is the number of pods of lower priority that the API server does not let go.
    """

    refusals: Refusals
    elsewhere: Elsewhere | None = None
    victims: bool = False
    lower: bool = False
    freeing_rule: str = ""
    unknown_trees: bool = False
    refused: int = 0

    @property
    def why(self) -> str:
        """Why preemption does not help, as the beginning of a sentence; empty if no node could be freed."""
        if self.refusals.unmet.everywhere:
            return ""
        if self.freeing_rule:
            return self.freeing_rule
        if not self.victims:
            return _PROTECTED if self.lower else _NOTHING_LOWER
        return f"{_EVEN_SO}{'' if self.elsewhere is None else ' on the same node'}"

    @property
    def sentence(self) -> str:
        """The sentence of kube-scheduler, and one that counts the nodes blocked by pods of other nodes."""
        if self.elsewhere is None:
            return self.refusals.sentence
        only = "could take the pod only if pods on other nodes were preempted, which is not tried."
        return f"{self.refusals.sentence} {count(self.elsewhere.nodes, 'node')} {only}"

    @property
    def remarks(self) -> str:
        """Sentences on claims without a volume, and on units that are not preempted; empty for none."""
        refused = ""
        if self.refused:
            pods = f"{count(self.refused, 'pod')} {'is' if self.refused == 1 else 'are'}"
            refused = f"{pods} not preempted: the API server refuses the deletion."
        trees = "Pods whose composite groups are unknown are not preempted." if self.unknown_trees else ""
        return " ".join(filter(None, (self.refusals.remark, trees, refused)))

    def message(self, example: str = "") -> str:
        """Return all that a reader learns of the refusal; `example` is a sentence on `elsewhere`."""
        why = f"{self.why}: " if self.why else ""
        whole = self.refusals.explained(f"{why}{self.sentence}{example and f' {example}'}")
        return f"{whole} {self.remarks}".rstrip()

    @property
    def condition(self) -> str:
        """The part of a condition on preemption, in kube-scheduler's words where it has some."""
        if self.refusals.unmet.everywhere:
            why = _NOT_HELPFUL
        elif self.freeing_rule:
            why = f"{self.freeing_rule}."
        else:
            why = f"{self.why}: {self.sentence}" if self.victims else _NO_VICTIMS
        return f"preemption: {why} {self.remarks}".rstrip()


def obstacles_without_victims(chain: Chain, shape: Shape) -> Obstacles:
    """Return what refuses a pod of a shape while the snapshot is without all units that may be preempted."""
    return Obstacles(_all_refusals(chain, shape, dict(chain.refused_rows(shape, chain.nodes))))


def pod_obstacles(chain: Chain, planner: DomainPlanner) -> Obstacles:
    """Return what refuses a lone pod on each node without the units that may be preempted there."""
    dry_run, snapshot = planner.dry_run, chain.snapshot
    shape, leads = dry_run.shapes[0], np.flatnonzero(planner.potential)
    with dry_run.trial():
        dry_run.remove(leads)
        if dry_run.plain:
            return obstacles_without_victims(chain, shape)
        alone = free = chain.feasible(shape)
        if any(node_filter.LOSES and node_filter.concerns(shape) for node_filter in chain.dynamic):
            # They may refuse the pod because units are gone. Any other current refusal is permanent.
            alone = chain.with_room(shape) & ~_permanently_refused(chain, planner, leads)
        reasons = dict(chain.refused_rows(shape, snapshot.alive & ~alone))
    elsewhere = []
    order = chain.by_name()
    for row in order[alone[order]].tolist():
        dry_run.deadline.enforce()
        for reason in _reasons_without_own(chain, planner, row):
            reasons.setdefault(reason, np.zeros(len(free), np.bool_))[row] = True
            if free[row]:
                elsewhere.append(row)
    return Obstacles(_all_refusals(chain, shape, reasons), _elsewhere(planner, leads, elsewhere))


def _permanently_refused(chain: Chain, planner: DomainPlanner, leads: Rows) -> Bools:
    """Return the node rows where a filter refuses the pod, whichever units are evicted."""
    shapes, snapshot = chain.snapshot.shapes, chain.snapshot
    ids = np.unique(snapshot.shape[planner.units.all_members(leads)]).tolist()
    dry_run = planner.dry_run
    return chain.regardless_of(dry_run.shapes[0], [shapes[shape_id] for shape_id in ids], dry_run.deadline)[1]


def _reasons_without_own(chain: Chain, planner: DomainPlanner, row: int) -> tuple[str, ...]:
    """Return what refuses the pod on a node row without the node's own units."""
    units, dry_run = planner.units, planner.dry_run
    own = units.on_node(row)
    with dry_run.trial():
        dry_run.remove(own[planner.potential[own]])
        return chain.reasons(dry_run.shapes[0], row)


def _elsewhere(planner: DomainPlanner, leads: Rows, nodes: list[int]) -> Elsewhere | None:
    """Return the units of other nodes to evict for the pod to fit on the first of these node rows."""
    if not nodes:
        return None
    dry_run, units, node = planner.dry_run, planner.units, nodes[0]
    # Its own units go in any case.
    gone = leads[~np.isin(leads, units.on_node(node))]
    with dry_run.trial():
        dry_run.remove(leads)
        placed = dry_run.place(Domain("", node))
        assert placed is not None, "the node takes the pod once all are gone"
        back = [NO_UNIT]
        while back:
            # Under a spread constraint a unit may return only after others have.
            back = dry_run.reprieve(units.ordered(gone, planner.now), placed)
            gone = gone[~np.isin(gone, back)]
    return Elsewhere(len(nodes), node, gone)


def _all_refusals(chain: Chain, shape: Shape, reasons: dict[str, Bools]) -> Refusals:
    """Return all refusals; nodes that nothing refuses are blocked by budgets."""
    nodes = chain.nodes
    left = nodes & ~np.logical_or.reduce([np.zeros_like(nodes), *reasons.values()])
    return chain.refusals_of(shape, [*reasons.items(), (STRICT_BUDGETS, left)])


class Decision(NamedTuple):
    """The decision for a preemptor, by rows of the snapshot.

    `placed` gives node rows by pod row. `chosen` is the preemption, None if there is none. `awaited` are
    pods on whose room it counts: they are terminating, or (unless `room_at` is 0) end by that second.
    `refusals` say why it does not fit without preemption, and `obstacles` why preemption does not help. `why`
    is the reason why it is not eligible. `choices` are the random choices of topology domains that
    kube-scheduler makes for the group and for the groups below it.
    """

    outcome: Outcome
    target: PlacementTarget | None
    placed: dict[int, int]
    chosen: Chosen | None = None
    awaited: tuple[int, ...] = ()
    refusals: Refusals | None = None
    obstacles: Obstacles | None = None
    why: str = ""
    choices: tuple[RandomChoice, ...] = ()
    room_at: int = 0


def combined(target: PlacementTarget, decisions: list[Decision]) -> Decision:
    """Return the decisions on single pods, made one after the other, as one decision on all of them."""
    placed = {row: node for decision in decisions for row, node in decision.placed.items()}
    failed = next((decision for decision in decisions if not decision.placed), None)
    plans = [decision.chosen.plan for decision in decisions if decision.chosen is not None]
    chosen = None
    if plans:
        last = plans[-1]
        whole = last._replace(
            victims=np.concatenate([plan.victims for plan in plans]),
            minimal=max(plan.minimal for plan in plans),
            violating=frozenset().union(*(plan.violating for plan in plans)),
            results={lead: result for plan in plans for lead, result in plan.results.items()},
        )
        chosen = Chosen(whole, ())
    if failed is not None:
        refusals, obstacles = failed.refusals, failed.obstacles
        if refusals is not None:
            refusals = refusals.beside_members(len(placed), len(target.rows))
        if obstacles is not None:
            beside = obstacles.refusals.beside_members(len(placed), len(target.rows))
            obstacles = obstacles._replace(refusals=beside)
        return failed._replace(
            target=target, placed=placed, chosen=chosen, refusals=refusals, obstacles=obstacles
        )
    outcome = Outcome.FITS if chosen is None else Outcome.FITS_AFTER_PREEMPTION
    refusals = next((decision.refusals for decision in decisions if decision.refusals is not None), None)
    return Decision(outcome, target, placed, chosen, refusals=refusals)


# The facts of a lone pod that decide: the id of its shape, its priority, and why it may not preempt.
PodKey = tuple[int, int, str]


class DecisionCache:
    """The decisions since the last change, by kind of pod; pods with a reserved node are not among them."""

    def __init__(self) -> None:
        self._second = 0
        self._known: dict[PodKey, Decision] = {}
        # The kinds that do not fit without preemption, and whether only room decides that.
        self._waiting: dict[PodKey, bool] = {}

    def clear(self) -> None:
        """Forget everything, because something changed that decisions depend on."""
        if self._waiting or self._known:
            self._known, self._waiting = {}, {}

    def clear_plans(self) -> None:
        """Forget the decisions, but keep the kinds without room: no room became free."""
        if self._known:
            self._known = {}
            self._waiting = {key: True for key, by_room in self._waiting.items() if by_room}

    def known_not_to_fit(self, key: PodKey) -> bool:
        """Return whether pods of a kind are known not to fit without preemption, at any time."""
        return key in self._waiting

    def get(self, key: PodKey, target: PlacementTarget, second: int) -> Decision | None:
        """Return the decision for a pod of the kind in that second, adapted to this pod."""
        known = self._known.get(key) if second == self._second else None
        if known is None:
            return None
        chosen = known.chosen
        if chosen is not None:
            chosen = chosen._replace(
                plan=chosen.plan._replace(placed=_nodes_by_row(target, chosen.plan.placed))
            )
        return known._replace(target=target, placed=_nodes_by_row(target, known.placed), chosen=chosen)

    def store(self, key: PodKey, decision: Decision, second: int, *, by_room: bool) -> None:
        """Keep the decision for a pod that does not fit without preemption.

        `by_room` says that only the requests of other pods block such pods.
        """
        if second != self._second:
            self._second, self._known = second, {}
        self._known[key] = decision
        self._waiting[key] = by_room


def _nodes_by_row(target: PlacementTarget, placed: Mapping[int, int]) -> dict[int, int]:
    return dict(zip(target.rows, placed.values(), strict=bool(placed)))
