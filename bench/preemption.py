"""The preemption engine on generated clusters: placement, one pod, one gang, and the growth of the times.

Each cluster lives in a process of its own on one processor, as the engine does in a scheduler. `python -m
bench.preemption CASE ARGUMENT ...` measures one and prints its figures as JSON, memory among them. Between
decisions the cluster changes a little, as a real one does: a plan's victims go, and its preemptor is bound.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import msgspec
from bench import rig, scene
from bench.following import Answered, answered, follow, following, timed
from bench.results import Row, Section, quantile, spread

from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey
from podium.api.schedulable import Schedulable
from podium.cluster.reader import Name
from podium.cluster.state import ClusterState
from podium.errors import PodiumError
from podium.planner.engine import Engine
from podium.planner.placement import Placer
from podium.planner.plugins import PLUGINS
from podium.planner.preemption.outcome import Outcome
from podium.planner.series import plan_series
from podium.planner.snapshot import Snapshot

ROUNDS = 5
PLACED, PLACING_NODES = 10_000, 5_000
LONE = 400
REPLICAS = 16_000
GANG = 1_000
RATIO = "time with distinct labels / with pods alike; target at most 1.5 x"
# Nodes, and pods on each.
GROWTH = ((1_000, 10), (10_000, 10), (100_000, 10))
_NOTE = f"""
One process on one processor for each cluster, seed 1. Half of the pods on a node are members of gangs
of {scene.GANG} whose pods are anywhere (one gang in four goes pod by pod), the others of {scene.SHAPES}
shapes, of which half constrain nothing but resources and the rest have tolerations, node affinity, hard
spread or anti-affinity; five priorities; 1,000 budgets over half of all apps, which allow 0 to 19
disruptions. No node has room for what preempts, which asks for 8 cpus. Lone pods: {LONE} of all the
shapes one after another; after each its victims go and it is bound, and the engine follows that (timed
apart). Pods that fit on room that victims left are not counted. Of gangs the same decision is made again, a
pod of the cluster having been replaced in between.
Pods of one shape are alike; with distinct labels each carries one of its own, as those of an Indexed Job do.
Placing is measured on empty nodes. A decision includes the first try without preemption; but for lone
pods figures are of decision and explanation together.
"""


def measure() -> Section:
    """Measure all cases; takes about eight minutes."""
    size = scene.Size()
    rows = [
        *_placing(_run("place", PLACING_NODES, PLACED)),
        *_lone(_run("lone", size.nodes, size.pods_per_node, 0), str(size), "; target under 10 ms"),
        *_lone(_run("lone", *size[:3]), f"{size}, {size.budgets:,} budgets"),
        *_gang(_run("gang", size.nodes, size.pods_per_node, GANG), f"{GANG:,}, {size}"),
        *_numbered(size),
        _replicas(_run("replicas", 5_000, 4, REPLICAS)),
    ]
    grown = [_run("grow", nodes, pods) for nodes, pods in GROWTH]
    return Section("Preemption", [*rows, *_growth(grown)], _NOTE)


def place(nodes: int, pods: int, numbered: int = 0) -> dict[str, Any]:
    """Place pods of all shapes on empty nodes, in turns and shape by shape."""
    snapshot = Snapshot(plugins=PLUGINS)
    state = ClusterState(native_served=True)
    for index in range(nodes):
        snapshot.apply(None, scene.node(index, 10))
    for pod in _labelled(scene.wanted(pods), numbered):
        state.apply(pod)
        snapshot.apply(None, pod)
    mixed = [snapshot.pod_row[name] for name in state.pods]
    by_shape = sorted(mixed, key=snapshot.shape.item)
    figures: dict[str, Any] = {}
    for order, rows in (("mixed", mixed), ("by_shape", by_shape)):
        placer = Placer(snapshot, state.namespaces)
        times = []
        for _ in range(ROUNDS + 1):
            with snapshot.trial():
                took, placed = timed(partial(placer.place_many, rows))
            if len(placed) != pods:
                raise PodiumError(f"{len(placed)} of {pods} pods were placed")
            times.append(took)
        figures[order] = [pods / took for took in times[1:]]
    return figures


def lone(nodes: int, pods: int, budgets: int, numbered: int = 0) -> dict[str, Any]:
    """Let lone pods preempt, each in the cluster that the previous one has left."""
    state = scene.cluster(scene.Size(nodes, pods, budgets, bool(numbered)))
    engine = following(state)
    decisions, plans, follows = [], [], []
    for pod in _labelled(scene.wanted(LONE, cpu=8_000), numbered):
        state.apply(pod)
        answer = answered(engine, (pod.metadata.namespace or "", pod.metadata.name or ""))
        followed = timed(partial(follow, state, answer.plan))[0]
        # A victim may free more room than its preemptor uses, so the next pod needs no victim.
        if answer.plan.victims:
            decisions.append(answer.decided)
            plans.append(answer.decided + answer.worded)
            follows.append(followed)
    return {"decisions": decisions, "plans": plans, "follows": follows}


def gang(nodes: int, pods: int, members: int, numbered: int = 0) -> dict[str, Any]:
    """Let a gang preempt; the same decision repeatedly, with a small change in between."""
    state = scene.cluster(scene.Size(nodes, pods, numbered=bool(numbered)))
    target = gang_in(state, members, numbered)
    engine = following(state)
    times = [again(engine, state, target) for _ in range(ROUNDS + 1)]
    plan = preempting(engine, target).plan
    return {"first": times[0], "plans": times[1:], "victims": sum(len(unit.pods) for unit in plan.victims)}


def grow(nodes: int, pods: int) -> dict[str, Any]:
    """Measure one size: building the cluster, one lone pod, and a gang of a tenth of the nodes."""
    size = scene.Size(nodes, pods)
    generated, state = timed(partial(scene.cluster, size))
    built, engine = timed(partial(following, state))
    pod = scene.wanted(1, cpu=8_000)[0]
    state.apply(pod)
    name = (pod.metadata.namespace or "", pod.metadata.name or "")
    first = timed(partial(preempting, engine, name))[0]
    target = gang_in(state, nodes // 10)
    return {
        "size": str(size),
        "nodes": nodes,
        "made": generated + built,
        "first": first,
        "lone": [again(engine, state, name) for _ in range(ROUNDS)],
        "gang": [again(engine, state, target) for _ in range(ROUNDS)],
    }


def replicas(nodes: int, pods: int, number: int) -> dict[str, Any]:
    """Plan for equal lone pods, which need all room that preemption makes, as `whatif --max` does."""
    state = scene.cluster(scene.Size(nodes, pods))
    engine = following(state)
    (first,) = scene.wanted(1, cpu=3_000)
    source = ObjectRef("apps/v1", "Deployment", first.metadata.namespace or "", "new")
    targets: dict[Name | GroupKey, ObjectRef] = {}
    for at in range(number):
        metadata = msgspec.structs.replace(first.metadata, name=f"new-{at}", uid=f"new-{at}")
        state.apply(msgspec.structs.replace(first, metadata=metadata))
        targets[source.namespace, f"new-{at}"] = source
    took, steps = timed(lambda: list(plan_series(state, targets, scene.NOW, lambda _: engine)))
    return {"seconds": took, "placed": sum(len(step.plan.placements) for step in steps)}


def gang_in(state: ClusterState, members: int, numbered: int = 0) -> GroupKey:
    """Add a pending gang to a cluster."""
    group, pods = scene.gang(members)
    state.apply(group)
    for pod in _labelled(pods, numbered):
        state.apply(pod)
    return GroupKey(True, group.ref.namespace, group.ref.name)


def again(engine: Engine, state: ClusterState, target: Any) -> float:
    """Return the seconds of a plan after a pod of the cluster was replaced."""
    pod = next(pod for pod in state.pods.values() if pod.spec.nodeName)
    state.remove(pod)
    metadata = msgspec.structs.replace(pod.metadata, uid=f"{pod.metadata.uid}-again")
    state.apply(msgspec.structs.replace(pod, metadata=metadata))
    return timed(partial(preempting, engine, target))[0]


def preempting(engine: Engine, target: Any) -> Answered:
    """Return a plan with victims.

    Raises PodiumError for any other result.
    """
    answer = answered(engine, target)
    plan = answer.plan
    if plan.outcome is not Outcome.FITS_AFTER_PREEMPTION or not plan.victims:
        raise PodiumError(f"{target}: {plan.outcome}, {plan.message}")
    return answer


def ratio(numbered: list[float], alike: list[float]) -> str:
    """Return the medians of two series of times as a ratio."""
    return f"{median(numbered) / median(alike):.2f} x"


def _labelled(pods: list[Schedulable], numbered: int) -> list[Schedulable]:
    return [scene.numbered(pod) for pod in pods] if numbered else pods


CASES: dict[str, Callable[..., dict[str, Any]]] = {
    "place": place,
    "lone": lone,
    "gang": gang,
    "grow": grow,
    "replicas": replicas,
}


def _run(case: str, *arguments: int) -> Any:
    return run("bench.preemption", case, *arguments)


def run(module: str, case: str, *arguments: int | str) -> Any:
    """Measure one case of a module in a process of its own, on one processor."""
    argv = [sys.executable, "-m", module, case, *map(str, arguments)]
    with rig.on(rig.SERVER):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PodiumError(f"{module} {case}: {(done.stderr.splitlines() or ['no output'])[-1]}")
    return json.loads(done.stdout)


def _placing(figures: Any) -> list[Row]:
    label = f"place {PLACED:,} pods of {scene.SHAPES} shapes, {PLACING_NODES:,} nodes"
    return [
        Row(f"{label}, shapes in turns; target 5,000 or more", spread(figures["mixed"], "pods/s", 0)),
        Row(f"{label}, shape by shape", spread(figures["by_shape"], "pods/s", 0)),
    ]


def _lone(figures: Any, size: str, target: str = "") -> list[Row]:
    decisions, plans, follows = (sorted(figures[figure]) for figure in ("decisions", "plans", "follows"))
    label = f"lone pod preempts, {size}"
    return [
        Row(f"{label}, p50", f"{quantile(decisions, 0.5) * 1e3:,.2f} ms"),
        Row(f"{label}, p99{target}", f"{quantile(decisions, 0.99) * 1e3:,.2f} ms"),
        Row(f"{label}, and explained, p50", f"{quantile(plans, 0.5) * 1e3:,.2f} ms"),
        Row(f"{label}, and explained, p99", f"{quantile(plans, 0.99) * 1e3:,.2f} ms"),
        Row("the engine follows what comes of such a plan, p99", f"{quantile(follows, 0.99) * 1e3:,.2f} ms"),
    ]


def _gang(figures: Any, label: str) -> list[Row]:
    label = f"gang of {label}, 1,000 budgets, {figures['victims']:,} pods evicted"
    return [
        Row(
            f"{label}; target under 300 ms", spread([seconds * 1e3 for seconds in figures["plans"]], "ms", 0)
        ),
        Row("the first such plan of an engine", f"{figures['first'] * 1e3:,.0f} ms"),
    ]


def _numbered(size: scene.Size) -> list[Row]:
    """Return the rows of pods with distinct labels beside pods alike."""
    rates = [_run("place", PLACING_NODES, PLACED, numbered)["mixed"] for numbered in (0, 1)]
    lone_pods = [_run("lone", *size[:3], numbered)["decisions"] for numbered in (0, 1)]
    gangs = [_run("gang", *size[:2], GANG, numbered)["plans"] for numbered in (0, 1)]
    return [
        Row(f"place {PLACED:,} pods, {RATIO}", ratio(rates[0], rates[1])),
        Row(f"lone pod preempts, {RATIO}", ratio(lone_pods[1], lone_pods[0])),
        Row(f"gang of {GANG:,}, {RATIO}", ratio(gangs[1], gangs[0])),
    ]


def _replicas(figures: Any) -> Row:
    label = f"{REPLICAS:,} equal lone pods, 5,000 nodes, 20,000 pods; {figures['placed']:,} fit"
    return Row(f"{label}; target under 10 s", f"{figures['seconds']:,.1f} s")


def _growth(grown: list[Any]) -> list[Row]:
    rows = []
    for figures in grown:
        size, members = figures["size"], figures["nodes"] // 10
        rows += [
            Row(f"{size}: generated, and the engine built", f"{figures['made']:,.1f} s"),
            Row(f"{size}: first plan for a lone pod", f"{figures['first']:,.3f} s"),
            Row(f"{size}: lone pod", spread([took * 1e3 for took in figures["lone"]], "ms")),
            Row(f"{size}: gang of {members:,}", spread([took * 1e3 for took in figures["gang"]], "ms", 0)),
            Row(f"{size}: peak resident memory", f"{figures['peak']:,.0f} MiB"),
        ]
    return rows


if __name__ == "__main__":
    found = CASES[sys.argv[1]](*map(int, sys.argv[2:]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**found, "peak": peak}))
