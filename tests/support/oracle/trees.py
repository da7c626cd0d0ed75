"""Small clusters with a tree of groups to place, and every way to place it: the oracle for plans of trees."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations, combinations_with_replacement
from random import Random
from typing import Any, NamedTuple

from tests.support.oracle.compare import Compared, harm_of
from tests.support.oracle.problem import Harm, Problem, harm, problem_of
from tests.support.preemption.clusters import NOW
from tests.support.preemption.scene import composite, engine_of, gang, group, node, pod, tree_of

from podium.cluster.reader import name_of

BLOCK, RACK = "block", "rack"
PRIORITY = 10
_TOPOLOGIES = ("", BLOCK, RACK)

Room = dict[str, int]
NodeLabels = Mapping[str, Mapping[str, str]]


class Leaf(NamedTuple):
    """A gang of equal pods that needs `least` of them; `topology` is a label, empty for none."""

    name: str
    pods: int
    cpu: int
    least: int
    topology: str


class Branch(NamedTuple):
    """A composite group that needs `least` of its children."""

    name: str
    children: "tuple[Branch | Leaf, ...]"
    least: int
    topology: str


class TreeCase(NamedTuple):
    """The objects of a cluster with the tree, and the labels of its nodes."""

    objects: list[Any]
    tree: Branch
    labels: dict[str, dict[str, str]]


def tree_case(seed: int) -> TreeCase:
    """Generate a cluster of up to six nodes with a pending tree `tree`."""
    rng = Random(seed)
    labels = {
        f"{block}{rack}-{at}": {BLOCK: block, RACK: f"{block}{rack}"}
        for block in "ab"
        for rack in range(rng.randint(1, 2))
        for at in range(rng.randint(1, 2))
    }
    nodes = {name: rng.randint(2, 6) for name in labels}
    objects: list[Any] = [node(name, cpu, labels=labels[name]) for name, cpu in nodes.items()]
    objects += _work(rng, nodes)
    tree = _branch(rng, "tree", 2)
    return TreeCase([*objects, *_objects(tree, "")], tree, labels)


def _work(rng: Random, nodes: Mapping[str, int]) -> Iterator[Any]:
    """Yield running pods of up to five units: lone pods, gangs and a tree that is evicted as a whole."""
    room, names = dict(nodes), list(nodes)
    kinds = rng.sample(["pod", "pod", "pod", "pod", "gang", "tree"], rng.randint(2, 5))
    for at, kind in enumerate(kinds):
        priority, size = rng.randint(1, 12), 1 if kind == "pod" else 2
        found = []
        for _ in range(size):
            cpu, where = rng.randint(1, 4), rng.choice(names)
            if cpu <= room[where]:
                room[where] -= cpu
                found.append((cpu, where))
        if kind == "pod":
            yield from (pod(f"low{at}", cpu, priority, node=where) for cpu, where in found)
            continue
        if kind == "tree":
            yield composite(f"low{at}", priority, 1, whole=True)
        for each, (cpu, where) in enumerate(found):
            name = f"low{at}-{each}" if kind == "tree" else f"low{at}"
            above = f"low{at}" if kind == "tree" else ""
            yield group(name, priority, 1, whole=kind == "gang", composite=above)
            yield pod(f"{name}-{each}", cpu, priority, node=where, group=name)


def _branch(rng: Random, name: str, depth: int) -> Branch:
    children: list[Branch | Leaf] = []
    for at in range(rng.randint(1, 3 if depth == 2 else 2)):
        if depth > 1 and rng.random() < 0.25:
            children.append(_branch(rng, f"{name}-{at}", depth - 1))
        else:
            pods = rng.randint(1, 2)
            children.append(
                Leaf(f"{name}-{at}", pods, rng.randint(1, 4), rng.randint(1, pods), rng.choice(_TOPOLOGIES))
            )
    return Branch(name, tuple(children), rng.randint(1, len(children)), rng.choice(_TOPOLOGIES))


def _objects(part: Branch | Leaf, parent: str) -> Iterator[Any]:
    if isinstance(part, Leaf):
        yield group(part.name, PRIORITY, part.least, composite=parent, topology=part.topology)
        yield from gang(part.name, [None] * part.pods, part.cpu, priority=PRIORITY)
        return
    yield composite(part.name, PRIORITY, part.least, parent=parent, topology=part.topology)
    for child in part.children:
        yield from _objects(child, part.name)


def compared_tree(seed: int) -> Compared:
    """Return the harm of the plan for the tree of a generated cluster, and the least harm.

    The placement is checked on its own: enough of each group is in one domain, and there is room.
    """
    case = tree_case(seed)
    engine = engine_of(*case.objects)
    problem = problem_of(engine, tree_of("tree"), NOW)
    names = {at: engine.snapshot.node_name(at) for at in problem.free}
    decision = engine.decide(tree_of("tree"), NOW)
    plan = harm_of(engine, problem, decision)
    if plan is not None:
        pods = {name_of(engine.snapshot.pod_at(row))[1]: names[at] for row, at in decision.placed.items()}
        assert _is_right(case.tree, pods, case.labels), (seed, pods)
    return Compared(seed, "tree", plan, least_harm(problem, names, case))


def least_harm(problem: Problem, names: Mapping[int, str], case: TreeCase) -> Harm | None:
    """Return the harm of the cheapest set of units without which the tree fits; None if there is none."""
    free = {names[at]: room["cpu"] // 1000 for at, room in problem.free.items()}
    choices = [units for size in range(len(problem.units) + 1) for units in combinations(problem.units, size)]
    costs = ((harm(problem, [p.row for u in units for p in u.pods]), units) for units in choices)
    ranked = sorted(costs, key=_order)
    for cost, units in ranked:
        room = Counter(free)
        for unit in units:
            for each in unit.pods:
                if each.node in names:
                    room[names[each.node]] += dict(each.amounts)["cpu"] // 1000
        if next(_placements(case.tree, dict(room), case.labels), None) is not None:
            return cost
    return None


def _order(ranked: tuple[Harm, Any]) -> tuple[Any, ...]:
    cost = ranked[0]
    return cost.violations, cost.lost


def _placements(part: Branch | Leaf, room: Room, labels: NodeLabels) -> Iterator[Room]:
    """Yield what is left of the room after each way to place a part."""
    for nodes in _domains(part.topology, room, labels):
        inside = {name: room[name] for name in nodes}
        for left in _in_domain(part, inside, labels):
            yield room | left


def _domains(key: str, room: Room, labels: NodeLabels) -> list[list[str]]:
    if not key:
        return [list(room)]
    values = sorted({labels[name][key] for name in room})
    return [[name for name in room if labels[name][key] == value] for value in values]


def _in_domain(part: Branch | Leaf, room: Room, labels: NodeLabels) -> Iterator[Room]:
    if isinstance(part, Leaf):
        for nodes in combinations_with_replacement(room, part.least):
            used = Counter(nodes)
            if all(part.cpu * pods <= room[name] for name, pods in used.items()):
                yield {name: left - part.cpu * used[name] for name, left in room.items()}
        return
    for children in combinations(part.children, part.least):
        yield from _all(children, room, labels)


def _all(parts: tuple[Branch | Leaf, ...], room: Room, labels: NodeLabels) -> Iterator[Room]:
    if not parts:
        yield room
        return
    for left in _placements(parts[0], room, labels):
        yield from _all(parts[1:], left, labels)


def _cpu(part: Branch | Leaf, name: str) -> int:
    if isinstance(part, Leaf):
        return part.cpu if name.rpartition("-")[0] == part.name else 0
    return sum(_cpu(child, name) for child in part.children)


def _is_right(part: Branch | Leaf, placed: Mapping[str, str], labels: NodeLabels) -> bool:
    """Return whether enough of a part is placed, all of it in one domain."""
    nodes = [where for name, where in placed.items() if _cpu(part, name)]
    if part.topology and len({labels[where][part.topology] for where in nodes}) > 1:
        return False
    if isinstance(part, Leaf):
        return len(nodes) >= part.least
    return sum(_is_right(child, placed, labels) for child in part.children) >= part.least
