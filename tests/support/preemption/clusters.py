"""Small clusters for the plain algorithm and the engine, generated at random, as Podium's objects."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from hypothesis import strategies as st
from tests.support.filters import builders
from tests.support.preemption.plain_cluster import GPU, Budget, Cluster, Group, Node, Patience, Pod, fits

from podium.api.core import PodDisruptionBudget, PriorityClass
from podium.api.findings import ObjectRef
from podium.api.groups import DisruptionMode, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import Condition, ObjectMeta
from podium.api.priority import TOLERATION_PREFIX
from podium.api.schedulable import Schedulable, SchedulableNode
from podium.cluster.reader import Name
from podium.cluster.state import ClusterState
from podium.planner.preemption.inflight import LATE_SECONDS

NS = builders.NS
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
GIB = 2**30
# The preemptors.
GANG, LONE = "gang", "lone"
MOST_PODS = 14
# The scheduler whose pods may be evicted.
OURS = "podium-scheduler"
HOSTNAME = "kubernetes.io/hostname"

_Any = TypeVar("_Any")

Object = Schedulable | SchedulableNode | PodGroup | PodDisruptionBudget | PriorityClass


# --- as Podium's objects ----------------------------------------------------------------------------------


def objects(cluster: Cluster) -> list[Object]:
    """Return a cluster as objects that Podium reads."""
    patience = {each.patience for each in cluster.pods} | {each.patience for each in cluster.groups}
    return [
        *(_node(node) for node in cluster.nodes),
        *(_class(each) for each in patience if each is not None),
        *(_group(group) for group in cluster.groups),
        *(_budget(budget) for budget in cluster.budgets),
        *(_pod(pod) for pod in cluster.pods),
    ]


def state_of(everything: Sequence[Object]) -> ClusterState:
    """Return the state of a cluster whose objects came in this order."""
    state = ClusterState(native_served=True)
    for each in everything:
        state.apply(each)
    return state


def target(name: str) -> Name | GroupKey:
    """Return the preemptor as the engine takes it."""
    return GroupKey(native=True, namespace=NS, name=name) if name == GANG else (NS, name)


def _node(node: Node) -> SchedulableNode:
    room: dict[str, str | int] = dict(node.room) | {"cpu": f"{node.room['cpu']}m"}
    taints = [{"key": "dedicated", "effect": "NoSchedule"}] if node.tainted else None
    return builders.node(node.name, room, labels={HOSTNAME: node.name}, taints=taints)


def _class(patience: Patience) -> PriorityClass:
    settings = {"minimum-preemptable-priority": patience.minimum, "toleration-seconds": patience.seconds}
    annotations = {TOLERATION_PREFIX + key: str(number) for key, number in settings.items()}
    return PriorityClass(metadata=ObjectMeta(name=_class_name(patience), annotations=annotations), value=0)


def _class_name(patience: Patience | None) -> str:
    return "" if patience is None else f"patient-{patience.minimum}-{patience.seconds}".replace("--", "-m")


def _group(group: Group) -> PodGroup:
    return PodGroup(
        ref=ObjectRef("scheduling.k8s.io/v1beta1", "PodGroup", NS, group.name),
        metadata=ObjectMeta(
            name=group.name, namespace=NS, uid=group.uid, creationTimestamp=time_of(group.made)
        ),
        min_count=group.least,
        disruption_mode=DisruptionMode.POD_GROUP if group.whole else DisruptionMode.POD,
        priority_class_name=_class_name(group.patience),
        priority=group.priority,
        preemption_policy="Never" if group.never else None,
        template_ref=None,
        conditions=()
        if group.first is None
        else (Condition("PodGroupInitiallyScheduled", "True", lastTransitionTime=time_of(group.first)),),
    )


def _budget(budget: Budget) -> PodDisruptionBudget:
    return msgspec.convert(
        {
            "metadata": {"name": budget.name, "namespace": budget.namespace},
            "spec": {"selector": {"matchLabels": {"app": budget.app}}},
            "status": {"disruptionsAllowed": budget.allowed},
        },
        PodDisruptionBudget,
    )


def _pod(pod: Pod) -> Schedulable:
    requests: dict[str, str | int] = dict(pod.requests) | {"cpu": f"{pod.requests['cpu']}m"}
    ports = [{"containerPort": port, "hostPort": port} for port in sorted(pod.ports)]
    hated = {"labelSelector": {"matchLabels": {"app": pod.avoids}}, "topologyKey": HOSTNAME}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": time_of(pod.scheduled)}
    made = builders.pod(
        pod.name,
        namespace=pod.namespace,
        labels={"app": pod.app} if pod.app is not None else None,
        node=pod.node,
        priority=pod.priority,
        start=time_of(pod.start),
        group=pod.group or "",
        uid=pod.uid,
        terminating=pod.leaving,
        status={
            "conditions": [scheduled] if pod.scheduled is not None else [],
            "nominatedNodeName": pod.nominated,
        },
        containers=[builders.container(requests, ports=ports)],
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [hated]}}
        if pod.avoids is not None
        else None,
        tolerations=[{"key": "dedicated", "operator": "Exists"}] if pod.tolerates else None,
        priorityClassName=_class_name(pod.patience) or None,
        preemptionPolicy="Never" if pod.never else None,
        schedulerName="other" if pod.kept else OURS,
    )
    if pod.stuck:
        made.metadata.deletionTimestamp = time_of(SECONDS - LATE_SECONDS)
    made.metadata.creationTimestamp = time_of(SECONDS - 3600 + pod.created)
    return made


def time_of(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- at random --------------------------------------------------------------------------------------------


def _seldom(usual: _Any, *others: _Any) -> st.SearchStrategy[_Any]:
    return st.sampled_from([*[usual] * (3 * len(others)), *others])


_priorities = st.sampled_from([0, 0, 0, 0, -1, 1, 2])
# The priorities of preemptors, mostly higher than others.
_high = st.sampled_from([1, 2, 3, 3, 4, 4])
_patience = _seldom(None, Patience(2, -1), Patience(5, 60), Patience(3, 0))
_starts = st.sampled_from([None, SECONDS - 600, SECONDS - 60, SECONDS - 30])
_rarely = st.sampled_from([*[False] * 15, True])
_nodes = st.builds(
    lambda cpu, memory, gpus, pods, tainted: Node(
        "", {"cpu": cpu, "memory": memory * GIB, GPU: gpus, "pods": pods}, tainted
    ),
    st.sampled_from([2000, 3000, 4000]),
    _seldom(8, 4),
    st.integers(0, 2),
    _seldom(110, 2),
    _rarely,
)


def _template(*cpu: int) -> st.SearchStrategy[Pod]:
    """Return the common fields of the pods of one template."""
    return st.builds(
        lambda cpu, memory, gpus, app, avoids, ports, tolerates: Pod(
            "",
            {"cpu": cpu, "memory": memory * GIB} | ({GPU: 1} if gpus else {}),
            app=app,
            avoids=avoids,
            ports=frozenset(ports),
            tolerates=tolerates,
        ),
        st.sampled_from(cpu),
        _seldom(1, 2),
        _rarely,
        st.sampled_from(["a", "b", None]),
        _seldom(None, None, "a", "b"),
        _seldom((), (), (80,), (80, 81)),
        _seldom(True, False),
    )


# UIDs are compared as text, and some differ only at their end.
_prefixes = st.sampled_from(["", "00000000-0000-"])


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Cluster, str]:
    """Return a cluster of up to 6 nodes and 14 pods, and the name of a preemptor in it, a gang or a pod."""
    kinds = st.sampled_from(draw(st.lists(_nodes, min_size=1, max_size=2)))
    number = draw(st.sampled_from([1, 2, 2, 3, 3, 4, 6]))
    nodes = tuple(replace(draw(kinds), name=f"n{at}") for at in range(number))
    # With one priority for all, the further rules decide the order of units.
    priorities = _priorities if draw(st.booleans()) else st.just(0)
    groups = [
        Group(name, draw(priorities), draw(st.integers(1, 3)), draw(st.booleans()),
              patience=draw(_patience), uid=draw(_prefixes) + name,
              made=SECONDS - draw(_seldom(7200, 60)), first=draw(_seldom(None, SECONDS - 120, SECONDS - 10)))
        for name in ("first", "second")
    ]  # fmt: skip
    budgets = tuple(
        Budget(f"budget-{at}", draw(st.sampled_from("ab")), draw(st.integers(0, 2)),
               "kube-system" if draw(_rarely) else NS)
        for at in range(draw(st.integers(0, 3)))
    )  # fmt: skip
    name = draw(st.sampled_from([GANG, LONE]))
    waiting = draw(_gang(groups)) if name == GANG else [draw(_lone())]
    if draw(_rarely):
        waiting.append(replace(draw(_lone()), name="promised"))
    waiting = [replace(pod, nominated=draw(_seldom(None, *(each.name for each in nodes)))) for pod in waiting]
    cluster = Cluster(nodes, tuple(waiting), tuple(groups), budgets, SECONDS)
    return draw(_populated(cluster, priorities)), name


@st.composite
def _lone(draw: st.DrawFn) -> Pod:
    template = draw(_template(1000, 2000))
    return replace(template, name=LONE, priority=draw(_high), never=draw(_rarely))


@st.composite
def _gang(draw: st.DrawFn, groups: list[Group]) -> list[Pod]:
    """Return pending members of a gang, mostly equal, and add the gang to the groups."""
    size = draw(st.integers(1, 5))
    least = draw(st.integers(1, size))
    groups.append(Group(GANG, draw(_high), least, draw(st.booleans()), draw(_rarely)))
    templates = draw(st.lists(_template(500, 1000, 2000), min_size=1, max_size=2))
    return [
        replace(draw(st.sampled_from(templates)), name=f"member-{at}", group=GANG,
                priority=draw(_high), created=draw(st.integers(0, 1)))
        for at in range(size)
    ]  # fmt: skip


@st.composite
def _kind(draw: st.DrawFn, groups: tuple[Group, ...], priorities: st.SearchStrategy[int]) -> Pod:
    """Return the common fields of the running pods of one owner."""
    group = draw(st.sampled_from([None, *groups]))
    return replace(
        draw(_template(500, 1000)),
        group=None if group is None else group.name,
        # A group's own integer counts, whatever its pods have.
        priority=draw(_priorities if group is not None else priorities),
        namespace="kube-system" if group is None and draw(_rarely) else NS,
        scheduled=draw(_seldom(SECONDS - 120, SECONDS - 60, SECONDS - 10, None)),
        patience=draw(_patience) if group is None else None,
        uid=draw(_prefixes),
    )


@st.composite
def _populated(draw: st.DrawFn, cluster: Cluster, priorities: st.SearchStrategy[int]) -> Cluster:
    """Add running pods to a cluster; most of them fit on their nodes."""
    kinds = st.sampled_from(draw(st.lists(_kind(cluster.groups, priorities), min_size=1, max_size=5)))
    starts = _starts if draw(st.booleans()) else st.just(SECONDS - 60)
    crowded = draw(_rarely)
    standing: dict[str, str] = {}
    for at in range(MOST_PODS - len(cluster.pods) - draw(_seldom(0, 3, 8))):
        kind = draw(kinds)
        leaving = draw(_rarely)
        pod = replace(kind, name=f"p{at}", start=draw(starts), uid=f"{kind.uid}{at}",
                      leaving=leaving, stuck=leaving and draw(st.booleans()),
                      # The preemptor's own group is of one scheduler.
                      kept=kind.group != GANG and draw(_rarely))  # fmt: skip
        more = replace(cluster, pods=(*cluster.pods, pod))
        takers = [node.name for node in cluster.nodes if crowded or fits(more, standing, pod, node)]
        if takers:
            standing[pod.name] = there = draw(st.sampled_from(takers))
            cluster = replace(cluster, pods=(*cluster.pods, replace(pod, node=there)))
    return cluster
