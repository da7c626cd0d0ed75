"""Converts a decision, which consists of rows, to values that last: a preemption, or what an entry waits for.

Rows belong to the snapshot and may be another pod's later, while an eviction takes minutes. So everything
that an eviction needs is recorded by UID when it is decided, and nothing is looked up again.
"""

from collections.abc import Iterator, Mapping, Sequence

from podium.api.records import CLUSTER
from podium.api.schedulable import Schedulable
from podium.planner.engine import Engine
from podium.planner.preemption.decision import Decision
from podium.planner.preemption.target import PlacementTarget
from podium.planner.preemption.units import Units
from podium.schedulerplugin.scheduling.effects import Evict, Key, PodRef, Preemptor, Unit
from podium.schedulerplugin.scheduling.queueinghints import Place, Waiting


def pod_ref(pod: Schedulable) -> PodRef:
    """Return the reference of a pod."""
    return PodRef(pod.metadata.namespace or "", pod.metadata.name or "", pod.metadata.uid or "")


def ref_at(engine: Engine, row: int) -> PodRef:
    """Return the reference of the pod of a row."""
    return pod_ref(engine.snapshot.pod_at(row))


def placements(engine: Engine, placed: Mapping[int, int]) -> tuple[tuple[PodRef, str], ...]:
    """Return the pods (rows) that are placed on nodes (rows), in this order, with the names of the nodes."""
    return tuple((ref_at(engine, row), engine.snapshot.node_name(node)) for row, node in placed.items())


def eviction(engine: Engine, key: Key, decision: Decision, now: int, message: str) -> Evict:
    """Return the preemption of a decision; `now` is the time of the decision in seconds."""
    target, chosen = decision.target, decision.chosen
    assert target is not None
    assert chosen is not None
    units, _ = engine.units(for_group=target.group is not None, now=now)
    plan = chosen.plan
    harm = engine.harm(chosen, units, now)
    return Evict(
        key=key,
        preemptor=preemptor(engine, target),
        nominations=placements(engine, decision.placed),
        units=tuple(_unit(engine, units, lead) for lead in plan.victims.tolist()),
        domain=CLUSTER if plan.domain.node is None else plan.domain.name,
        message=message,
        cleared=tuple(ref_at(engine, row) for row in outranked(engine, target, decision)),
        violations=harm.violations,
        work=harm.lost_seconds,
    )


def preemptor(engine: Engine, target: PlacementTarget) -> Preemptor:
    """Return the pod or group to be placed."""
    group = target.group
    if group is not None:
        ref = group.ref
        uid = group.metadata.uid or ""
        return Preemptor(ref.kind.lower(), ref.namespace, ref.name, uid, target.priority)
    pod = ref_at(engine, target.rows[0])
    return Preemptor("pod", pod.namespace, pod.name, pod.uid, target.priority)


def outranked(engine: Engine, target: PlacementTarget, decision: Decision) -> Iterator[int]:
    """Yield the pending pods of lower priority with a reservation on one of the nodes; they lose it.

    Only pods of the same scheduler: another scheduler withdraws its own reservations.
    """
    own, ours = set(target.rows), engine.snapshot.pod_at(target.rows[0]).scheduler
    for node in set(decision.placed.values()):
        for row in engine.nominated_on(node):
            lower = row not in own and engine.priority_of(row) < target.priority
            if lower and engine.snapshot.pod_at(row).scheduler == ours:
                yield row


def waiting(
    engine: Engine,
    rows: Sequence[int],
    priority: int,
    *,
    awaited: frozenset[str] = frozenset(),
    may_preempt: bool = True,
) -> Waiting:
    """Return the changes that could help pods (rows) that found no place; `awaited` are UIDs of victims."""
    snapshot = engine.snapshot
    shapes = {snapshot.shape.item(row): None for row in rows}
    return Waiting(
        shapes=tuple(snapshot.shapes[shape_id] for shape_id in shapes),
        priority=priority,
        may_preempt=may_preempt,
        awaited=awaited,
        reserved=tuple(
            Place(row, snapshot.shape_at(row), node)
            for row in rows
            if (node := snapshot.row.get(engine.nomination(row))) is not None
        ),
    )


def _unit(engine: Engine, units: Units, lead: int) -> Unit:
    kind, namespace, name = units.object_of(lead)
    pods = tuple(ref_at(engine, row) for row in units.members(lead).tolist())
    whole = units.whole_of(lead)
    uid = pods[0].uid if whole is None else whole.metadata.uid or ""
    return Unit(kind, namespace, name, uid, units.priority.item(lead), pods)
