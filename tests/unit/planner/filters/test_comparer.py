"""The comparer finds every array that was changed without an event, and nothing else."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.filters.builders import NS, claim, node, pod, volume
from tests.support.preemption.clusters import NOW
from tests.support.preemption.scene import HOST, group
from tests.unit.planner.preemption.test_inflight import live, row

from podium.api.schedulable import Schedulable
from podium.cluster.reader import Name
from podium.cluster.state import ClusterState
from podium.errors import PodiumError
from podium.planner.comparer import PODS_A_NODE, Comparer, compare_node, compare_pod
from podium.planner.overlay import PENDING
from podium.planner.plugins.volumes.index import Volumes
from podium.planner.plugins.volumes.plugin import VolumesPlugin
from podium.planner.settings import Settings
from podium.schedulerplugin.scheduling.live_engine import LiveEngine

GPU = "example.com/gpu"
ZONE = "topology.kubernetes.io/zone"
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOST}
        ]
    }
}


def known(scene: Any) -> Volumes:
    """Return the storage objects that the engine knows."""
    engine: LiveEngine = scene.engine
    return engine.snapshot.plugin(VolumesPlugin).known


PORTS = [{"name": "main", "resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}]


def round_of(engine: LiveEngine, binding: Mapping[Name, str] | None = None) -> list[str]:
    """Compare everything once."""
    comparer = Comparer(engine, lambda: binding or {})
    assert comparer.step(1) == []
    return comparer.step(1000)


def scene() -> LiveEngine:
    _, engine = live(
        node("n", {GPU: "8"}, labels={HOST: "n", ZONE: "a"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
        node("m", labels={HOST: "m"}),
        claim("c", "v"),
        volume("v", csi={"driver": "d", "volumeHandle": "h"}),
        pod(
            "a",
            {"cpu": "1", GPU: "2"},
            node="n",
            priority=3,
            start="2026-01-01T00:00:00Z",
            labels={"app": "x"},
        ),
        pod("b", node="n", containers=PORTS, affinity=APART),
        pod(
            "c", {"cpu": "1"}, node="m", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]
        ),
        pod("waits", {"cpu": "2"}, status={"nominatedNodeName": "m"}),
    )
    with engine.snapshot.trial():
        engine.placer.place_many([row(engine, "b")])
    for key in (HOST, ZONE):
        engine.snapshot.columns.column(key)
    return engine


def set_in(array: Any, at: Any, value: Any) -> None:
    assert array[at] != value
    array[at] = value


def used(engine: LiveEngine, name: str) -> Any:
    return engine.snapshot.used[engine.snapshot.resource[name]]


class Scene(NamedTuple):
    """The engine of `scene`, with the rows of node n and of pod a."""

    engine: LiveEngine
    n: int
    a: int


# A corruption, and a part of the message about it.
CORRUPTIONS: dict[str, tuple[Callable[[Scene], Any], str]] = {
    "sum": (lambda s: set_in(used(s.engine, GPU), s.n, 3), "node n: used example.com/gpu is 3, expected 2"),
    "score": (lambda s: set_in(s.engine.snapshot.scored[0], s.n, 1), "node n: used cpu for scores"),
    "room": (
        lambda s: set_in(s.engine.snapshot.allocatable[s.engine.snapshot.resource["cpu"]], s.n, 1),
        "allocatable cpu",
    ),
    "lost resource": (lambda s: s.engine.snapshot._sums.resource.pop(GPU), "allocatable example.com"),
    "alive": (lambda s: set_in(s.engine.snapshot.alive, s.n, False), "row is another node's"),
    "name": (lambda s: set_in(s.engine.snapshot.names, s.n, "x"), "row is another node's"),
    "node object": (lambda s: set_in(s.engine.snapshot.objects, s.n, node("n")), "node n: another version"),
    "cordon": (lambda s: set_in(s.engine.snapshot.unschedulable, s.n, True), "unschedulable is True"),
    "label": (lambda s: set_in(s.engine.snapshot.columns.column(ZONE), s.n, -1), f"node n: label {ZONE}"),
    "label id": (
        lambda s: set_in(s.engine.snapshot.columns.values(HOST).of, "n", 7),
        f"node n: label {HOST}",
    ),
    "taints": (lambda s: set_in(s.engine.snapshot.columns.taints.rows, s.n, 0), "node n: taints"),
    "features": (lambda s: set_in(s.engine.snapshot.columns.features.rows, s.n, 7), "node n: features"),
    "lost node": (lambda s: s.engine.snapshot.row.pop("n"), "node n: no row"),
    "place": (lambda s: set_in(s.engine.snapshot.node, s.a, s.n + 1), f"pod {NS}/a: node"),
    "home": (lambda s: set_in(s.engine.snapshot.home, s.a, PENDING), f"pod {NS}/a: home"),
    "index": (lambda s: s.engine.snapshot._on[s.n].discard(s.a), "node n: index of pods"),
    "shape": (
        lambda s: set_in(s.engine.snapshot.shape, s.a, s.engine.snapshot.shape.item(row(s.engine, "b"))),
        "/a: shape",
    ),
    "request": (
        lambda s: set_in(s.engine.snapshot.requests[s.engine.snapshot.resource["cpu"]], s.a, 7),
        "/a: requests cpu",
    ),
    "score request": (lambda s: set_in(s.engine.snapshot.requests[1], s.a, 7), "/a: requests for scores"),
    "uid": (lambda s: set_in(s.engine.snapshot.uids, s.a, "x"), "/a: uid"),
    "priority": (lambda s: set_in(s.engine.snapshot.priority, s.a, 4), "/a: priority is 4, expected 3"),
    "start": (lambda s: set_in(s.engine.snapshot.start, s.a, 4), "/a: start"),
    "terminating": (lambda s: set_in(s.engine.snapshot.terminating, s.a, True), "/a: terminating"),
    "pod object": (lambda s: set_in(s.engine.snapshot.pods, s.a, pod("a")), "/a: another version"),
    "lost pod": (lambda s: s.engine.snapshot.pod_row.pop((NS, "a")), f"pod {NS}/a: no row"),
    "claim": (lambda s: known(s).claims.pop((NS, "c")), "/c: another version of claim c"),
    "volume": (lambda s: known(s).volumes.pop("v"), "/c: another version of claim c"),
    "ports": (lambda s: counter(s.engine, 0).rows.pop(s.n), "node n: counters"),
    "attached": (lambda s: counter(s.engine, 2).rows.update({s.n: 2}), "node n: counters"),
    "terms": (lambda s: counter(s.engine, 5).rows.update({s.n: 2}), "node n: counters"),
    "questions": (lambda s: counter(s.engine, 3).rows.pop(s.n), "node n: counters"),
    "nomination": (lambda s: s.engine.nominations._names.pop(row(s.engine, "waits")), "/waits: nomination"),
    "nominated priority": (lambda s: set_in(s.engine.nominations._priority, 0, 9), "node m: nominations"),
    "assumed": (lambda s: s.engine.snapshot.assume(row(s.engine, "waits"), s.n), "/waits: node is"),
}


def counter(engine: LiveEngine, which: int) -> Any:
    counters: Any = engine.placer.chain.counters[which]
    (found, *_) = counters._counters.values()
    return found


@pytest.mark.parametrize(("corrupt", "text"), CORRUPTIONS.values(), ids=CORRUPTIONS)
def test_a_changed_array_is_a_difference(corrupt: Callable[[Scene], Any], text: str) -> None:
    engine = scene()
    assert round_of(engine) == []
    corrupt(Scene(engine, engine.snapshot.row["n"], row(engine, "a")))
    found = round_of(engine)
    assert any(text in each for each in found), found


def test_a_pod_that_no_longer_exists_is_a_difference() -> None:
    """The event of its deletion was lost: it would count on its node for ever."""
    engine = scene()
    gone = pod("a")
    engine.view.pods.pop((NS, "a"))  # type: ignore[attr-defined]
    found = round_of(engine)
    assert f"pod {NS}/{gone.metadata.name}: no object" in found
    assert any("a pod that does not exist counts" in each for each in found)


def test_a_bind_in_flight_counts_on_its_node() -> None:
    """It is a difference if the arrays lack it there, or have it there without a bind."""
    engine = scene()
    key, n = (NS, "waits"), engine.snapshot.row["n"]
    assert compare_pod(engine, key, "n") == [f"pod {NS}/waits: node is -1, expected {n}"]
    engine.assume(row(engine, "waits"), n)
    assert round_of(engine, {key: "n"}) == []
    assert compare_pod(engine, key) == [f"pod {NS}/waits: node is {n}, expected -1"]
    assert compare_pod(engine, key, "m") != []


def test_a_step_compares_so_many_and_a_round_everything() -> None:
    """Of 7 nodes two are compared at a step, and of 50 pods as many as belong to two nodes."""
    _, engine = live(*(node(f"n{at}") for at in range(7)), *(pod(f"p{at}") for at in range(50)))
    engine.snapshot.alive[:] = False
    engine.snapshot.priority[:] = 1
    comparer = Comparer(engine, dict)
    assert comparer.step(2) == []
    found = [comparer.step(2) for _ in range(4)]
    assert [sum(text.startswith("node") for text in step) for step in found] == [2, 2, 2, 1]
    more = 2 * PODS_A_NODE
    assert [sum(text.startswith("pod") for text in step) for step in found] == [
        more,
        more,
        50 - 2 * more,
        more,
    ]
    assert {text.split(":")[0] for step in found for text in step} == (
        {f"node n{at}" for at in range(7)} | {f"pod {NS}/p{at}" for at in range(50)}
    )


def test_missing_objects_are_no_difference() -> None:
    engine = scene()
    assert compare_node(engine, "nowhere") == []
    assert compare_pod(engine, (NS, "nobody")) == []
    engine.view.pods[NS, "done"] = pod("done", phase="Succeeded")  # type: ignore[index]
    assert compare_pod(engine, (NS, "done")) == []


NODES, PODS = ("n1", "n2", "n3"), ("a", "b", "c", "d", "e")
_POD = st.fixed_dictionaries(
    {
        "requests": st.sampled_from([None, {"cpu": "1"}, {GPU: "1"}, {"cpu": "5P"}, {"memory": "x"}]),
        "labels": st.sampled_from([None, {"app": "x"}, {"app": "y"}]),
        "node": st.sampled_from([None, None, *NODES, "nowhere"]),
        "priority": st.sampled_from([None, 0, 10]),
        "start": st.sampled_from([None, "2026-01-01T00:00:00Z", "never"]),
        "uid": st.sampled_from(["1", "1", "1", "2"]),
        "terminating": st.booleans(),
        "phase": st.sampled_from([None, None, None, "Succeeded"]),
        "group": st.sampled_from(["", "g"]),
        "affinity": st.sampled_from([None, APART]),
        "volumes": st.sampled_from([None, [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]]),
        "status": st.sampled_from([None, {"nominatedNodeName": "n1"}, {"nominatedNodeName": "nowhere"}]),
    }
)
_NODE = st.fixed_dictionaries(
    {
        "allocatable": st.sampled_from([{}, {GPU: "4"}, {"cpu": "-1"}]),
        "labels": st.dictionaries(st.sampled_from([HOST, ZONE]), st.sampled_from("ab")),
        "taints": st.sampled_from([None, [{"key": "k", "effect": "NoSchedule"}]]),
        "unschedulable": st.booleans(),
    }
)


class AnyEvents(RuleBasedStateMachine):
    """Objects are added, changed and removed; pods are bound, nominated, marked, and decided."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState(native_served=True)
        self.engine = LiveEngine(self.state, Settings())
        self.state.observe(self.engine.apply)
        self.binding: dict[Name, str] = {}

    def settle(self, key: Name) -> None:
        """End a bind whose end the server has shown: the pod is gone, bound, or another."""
        pod = self.state.pods.get(key)
        if not isinstance(pod, Schedulable) or pod.finished or pod.spec.nodeName:
            self.binding.pop(key, None)

    @rule(name=st.sampled_from(NODES), fields=_NODE)
    def put_node(self, name: str, fields: Any) -> None:
        new = name not in self.state.nodes
        self.state.apply(node(name, **fields))
        for key in [key for key, at in self.binding.items() if at == name and new]:
            self.engine.assume(self.engine.snapshot.pod_row[key], self.engine.snapshot.row[name])

    @rule(name=st.sampled_from(PODS), fields=_POD)
    def put_pod(self, name: str, fields: Any) -> None:
        key, before = (NS, name), self.state.pods.get((NS, name))
        made = pod(name, **fields)
        if before is not None and before.metadata.uid != made.metadata.uid:
            self.binding.pop(key, None)
        self.state.apply(made)
        self.settle(key)

    @rule(priority=st.sampled_from([None, 5]), whole=st.booleans())
    def put_group(self, priority: int | None, whole: bool) -> None:
        self.state.apply(group("g", priority, whole=whole))

    @rule(bound=st.sampled_from([None, "v"]))
    def put_claim(self, bound: str | None) -> None:
        self.state.apply(claim("c", bound))

    @rule(zone=st.sampled_from("ab"))
    def put_volume(self, zone: str) -> None:
        self.state.apply(volume("v", labels={ZONE: zone}))

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        state = self.state
        indices = (state.nodes, state.pods, state.groups, state.claims, state.volumes)
        objects: list[Any] = [each for index in indices for each in index.values()]
        if objects:
            gone = data.draw(st.sampled_from(objects))
            state.remove(gone)
            self.settle((NS, gone.metadata.name or ""))

    def pending(self, data: st.DataObject) -> Name | None:
        """Return a waiting pod without a bind in flight."""
        snapshot = self.engine.snapshot
        keys = [key for key, at in snapshot.pod_row.items() if snapshot.home.item(at) == PENDING]
        found = [key for key in sorted(keys) if key not in self.binding]
        return data.draw(st.sampled_from(found)) if found else None

    @rule(data=st.data())
    @precondition(lambda self: self.state.nodes)
    def bind(self, data: st.DataObject) -> None:
        key, snapshot = self.pending(data), self.engine.snapshot
        if key is not None:
            self.binding[key] = data.draw(st.sampled_from(sorted(snapshot.row)))
            self.engine.assume(snapshot.pod_row[key], snapshot.row[self.binding[key]])

    @rule(data=st.data(), reserve=st.booleans())
    @precondition(lambda self: self.binding)
    def fail(self, data: st.DataObject, reserve: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.binding)))
        at = self.binding.pop(key)
        self.engine.forget_pod(self.engine.snapshot.pod_row[key])
        if reserve:
            self.engine.nominate(key, at)

    @rule(data=st.data(), where=st.sampled_from(["", *NODES]))
    def nominate(self, data: st.DataObject, where: str) -> None:
        key = self.pending(data)
        if key is not None:
            self.engine.nominate(key, where)

    @rule(data=st.data(), doom=st.booleans())
    def evict(self, data: st.DataObject, doom: bool) -> None:
        rows = sorted(self.engine.snapshot.pod_row.values())
        some = data.draw(st.sets(st.sampled_from(rows))) if rows else set()
        (self.engine.mark_for_deletion if doom else self.engine.unmark)(sorted(some))

    @rule(data=st.data())
    def decide(self, data: st.DataObject) -> None:
        key = self.pending(data)
        if key is not None:
            with contextlib.suppress(PodiumError):
                self.engine.decide(key, NOW)

    @invariant()
    def nothing_differs(self) -> None:
        assert round_of(self.engine, self.binding) == []


TestAnyEvents = AnyEvents.TestCase
TestAnyEvents.settings = settings(max_examples=60, stateful_step_count=30)
