"""An engine that follows a cluster plans like a new engine, after any changes in any order."""

from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.filters import builders
from tests.support.preemption.clusters import NOW, NS
from tests.support.preemption.scene import (
    HOST,
    gang,
    group,
    marked_for_deletion,
    node,
    of,
    pod,
    priority_class,
    scheduled,
)
from tests.unit.planner.preemption.test_budgets import budget
from tests.unit.planner.preemption.test_known_ends import job, of_job
from tests.unit.planner.preemption.test_pinned import daemon_set, of_daemon_set

from podium.api.core import Namespace
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.api.saving import LONGEST_WAIT_FOR_ROOM, RUN_TIME, SAVES_ON_NOTICE
from podium.cluster.reader import Name
from podium.cluster.state import ClusterState
from podium.errors import PodiumError
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import Plan
from podium.planner.preemption.units import PREEMPTION_CLASS
from podium.planner.scores import UPSTREAM
from podium.planner.semantics import Semantics
from podium.planner.settings import WEIGHTS, Budgets, DivergencePolicy, Settings

NODES = ("n1", "n2", "n3")
OURS = {"scheduling.podium.dev/pod-group": "ours"}
GROUPS = ("low", "high", "ours")
WAITS = {LONGEST_WAIT_FOR_ROOM: "10m"}
NAMES = tuple(f"p{at}" for at in range(2 * len(NODES)))
PREEMPTORS: tuple[Name | GroupKey, ...] = ((NS, "lone"), of("high"), of("ours", native=False))


def apart(namespaces: dict[str, Any]) -> dict[str, Any]:
    """Return the requirement of a node without app b, in namespaces of these labels."""
    term = {
        "labelSelector": {"matchLabels": {"app": "b"}},
        "namespaceSelector": namespaces,
        "topologyKey": HOST,
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


_seldom = st.sampled_from([False, False, False, True])
pods = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([0, 1, 2, 2, 3]),
        "priority": st.sampled_from([-1, 0, 1, 1, 2, 4]),
        "node": st.sampled_from([None, *NODES, *NODES, *NODES]),
        "ago": st.sampled_from([None, -60, 60, 600]),
        "terminating": _seldom,
        "uid": st.sampled_from("abcdefgh"),
        "labels": st.sampled_from([None, {"app": "a"}, {"app": "b"}, {"app": "b"}, {"app": "a", **OURS}]),
        "group": st.sampled_from(["", "", "", "low", "low", "low", "high"]),
        "status": st.sampled_from(
            [{}, {}, scheduled(30), scheduled(300), marked_for_deletion(), {"nominatedNodeName": "n1"}]
        ),
        "priorityClassName": st.sampled_from([None, "patient", "patient", "gone"]),
        "namespace": st.sampled_from([NS, NS, NS, "kube-system"]),
        "phase": st.sampled_from([*[None] * 6, "Succeeded"]),
        "schedulingGates": st.sampled_from([None, None, None, [{"name": "hold"}]]),
        "affinity": st.sampled_from([None, None, apart({}), apart({"matchLabels": {"team": "x"}})]),
        "schedulerName": st.sampled_from([None, None, None, "other"]),
        "owner": st.sampled_from([None, None, "DaemonSet", "Job"]),
        "activeDeadlineSeconds": st.sampled_from([None, None, 120, 900]),
        "volumes": st.sampled_from(
            [None, None, None, [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]]
        ),
    }
)
_groups = st.fixed_dictionaries(
    {
        "priority": st.sampled_from([None, 0, 2, 4]),
        "least": st.sampled_from([None, 1, 2]),
        "whole": st.booleans(),
        "priority_class_name": st.sampled_from(["", "", "patient"]),
        "preemption_policy": st.sampled_from([None, None, "Never"]),
        "annotations": st.sampled_from(
            [{}, {PREEMPTION_CLASS: "patient"}, {SAVES_ON_NOTICE: "20s"}, {RUN_TIME: "10m"}, WAITS]
        ),
        "composite": st.sampled_from(["", "", "", "all"]),
    }
)
settings_of = st.builds(
    Settings,
    semantics=st.sampled_from([Semantics.KEP, Semantics.KEP, *Semantics]),
    budgets=st.sampled_from(Budgets),
    divergence=st.sampled_from(DivergencePolicy),
    weights=st.sampled_from([WEIGHTS, UPSTREAM]),
    evict_only=st.sampled_from([None, None, "default-scheduler"]),
    preemption_priority=st.booleans(),
    plugins=st.just(()),
    pod_start_seconds=st.sampled_from([0, 300]),
    notice_seconds=st.sampled_from([0, 60]),
)


def answer(ask: Any) -> Plan | str:
    """Return a plan, or the error."""
    try:
        return ask()  # type: ignore[no-any-return]
    except PodiumError as error:
        return str(error)


class Following(RuleBasedStateMachine):
    """Changes a cluster as an API server does, and compares both engines."""

    def __init__(self) -> None:
        super().__init__()
        self.unseen = self.asked = 0

    @initialize(settings=settings_of, crowd=st.lists(pods, min_size=len(NAMES), max_size=len(NAMES)))
    def begin(self, settings: Settings, crowd: list[dict[str, Any]]) -> None:
        """Fill the nodes, so that there are potential victims from the start."""
        self.settings = settings
        self.state = ClusterState(native_served=True)
        self.engine = self.made_anew()
        self.state.observe(self.engine.apply)
        self.now = NOW
        self.state.apply(priority_class("patient", 0))
        for name in NODES:
            self.state.apply(node(name))
        self.state.apply(group("low", 1, 2, whole=True))
        for at, fields in enumerate(crowd):
            self.put_pod(NAMES[at], fields | {"cpu": 2, "node": NODES[at // 2]})
        self.state.apply(pod("lone", 3, 3))
        self.state.apply(group("high", 3, 2))
        self.state.apply(group("ours", 3, 1, native=False))
        for each in (
            *gang("high", [None, None], 2, priority=3),
            *(pod(f"ours-{at}", 2, 3, labels=OURS) for at in range(2)),
        ):
            self.state.apply(each)

    @rule(name=st.sampled_from(NAMES), fields=pods)
    def put_pod(self, name: str, fields: dict[str, Any]) -> None:
        owner = fields["owner"]
        made = pod(
            name, **{key: fields[key] for key in fields if key != "owner"} | {"uid": self.uid(name, **fields)}
        )
        if owner == "DaemonSet" and made.spec.nodeName is not None:
            made = of_daemon_set(made, "d")
        elif owner == "Job":
            made = of_job(made)
        self.state.apply(made)

    @rule(uid=st.sampled_from(["d", "d", "e", None]))
    def put_daemon_set(self, uid: str | None) -> None:
        """Apply the DaemonSet that pods name, another of its name, or its deletion."""
        if uid is None:
            self.state.remove(daemon_set("d"))
        else:
            self.state.apply(daemon_set(uid))

    @rule(uid=st.sampled_from(["j", "j", "k", None]), seconds=st.sampled_from([None, 300, 1200]))
    def put_job(self, uid: str | None, seconds: int | None) -> None:
        """Apply the Job that pods name with a deadline, another of its name, or its deletion."""
        if uid is None:
            self.state.remove(job())
        else:
            self.state.apply(job(uid=uid, activeDeadlineSeconds=seconds))

    @rule(name=st.sampled_from(["lone", "high-0", "high-1"]), where=st.sampled_from([*[None] * 3, *NODES]),
          status=st.sampled_from([{}, {"nominatedNodeName": "n2"}]))  # fmt: skip
    def put_preemptor(self, name: str, where: str | None, status: dict[str, Any]) -> None:
        self.state.apply(
            pod(name, 2, 3, node=where, group="high" if name != "lone" else "", status=status, ago=5)
        )

    @rule(name=st.sampled_from(NODES), cpu=st.integers(3, 4), closed=_seldom)
    def put_node(self, name: str, cpu: int, closed: bool) -> None:
        self.state.apply(node(name, cpu, unschedulable=closed))

    @rule(name=st.sampled_from(GROUPS), fields=_groups)
    def put_group(self, name: str, fields: dict[str, Any]) -> None:
        self.state.apply(group(name, native=name != "ours", **fields))

    @rule(name=st.sampled_from(["x", "y"]), app=st.sampled_from("ab"), allowed=st.sampled_from([None, 0, 1]))
    def put_budget(self, name: str, app: str, allowed: int | None) -> None:
        self.state.apply(budget(name, {"matchLabels": {"app": app}}, allowed))

    @rule(
        minimum=st.sampled_from([4, 4, "much"]),
        seconds=st.sampled_from([-1, -1, 60]),
        value=st.integers(0, 3),
    )
    def put_class(self, minimum: Any, seconds: Any, value: int) -> None:
        self.state.apply(priority_class("patient", value, minimum=minimum, seconds=seconds))

    @rule(labels=st.sampled_from([{}, {"team": "x"}]))
    def put_namespace(self, labels: dict[str, str]) -> None:
        self.state.apply(Namespace(metadata=ObjectMeta(name=NS, labels=labels)))

    @rule(volume=st.sampled_from([None, "v"]), where=st.sampled_from(NODES))
    def put_claim(self, volume: str | None, where: str) -> None:
        """Bind the claim to a volume that only one node reaches, or to none."""
        reached = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [where]}]}]
        self.state.apply(builders.volume("v", terms=reached))
        self.state.apply(builders.claim("data", volume))

    @rule(
        gone=st.one_of(
            st.builds(builders.pod, st.sampled_from(NAMES), namespace=st.sampled_from([NS, "kube-system"])),
            st.builds(node, st.sampled_from(NODES)),
            st.builds(group, st.sampled_from(GROUPS), native=st.booleans()),
            st.builds(budget, st.sampled_from("xy")),
            st.just(priority_class("patient", 0)),
        )
    )
    def remove(self, gone: Any) -> None:
        self.state.remove(gone)

    @rule(served=st.sampled_from([True, True, False]))
    def serve_native(self, served: bool) -> None:
        self.state.serve_native(served)

    @rule(seconds=st.sampled_from([-90, 20, 400]))
    def let_time_pass(self, seconds: int) -> None:
        """Change the time; a clock may be set back."""
        self.now += timedelta(seconds=seconds)

    @rule(changes=st.integers(1, 5))
    def look_away(self, changes: int) -> None:
        """Make several changes before the next comparison."""
        self.unseen = changes

    @invariant()
    def plans_as_one_made_anew(self) -> None:
        if self.unseen:
            self.unseen -= 1
            return
        # One after the other; a missed change stays missed for long.
        self.asked += 1
        self.compare(PREEMPTORS[self.asked % len(PREEMPTORS)])

    def compare(self, preemptor: Name | GroupKey) -> None:
        """Compare the plans of both engines."""
        kept = answer(lambda: self.engine.plan(preemptor, self.now))
        anew = answer(lambda: self.made_anew().plan(preemptor, self.now))
        assert kept == anew, preemptor

    def uid(self, name: str, *, uid: str, **_: Any) -> str:  # noqa: ARG002 - overrides use the name
        """Return a pod's UID; if many pods share one, names must decide."""
        return uid

    def made_anew(self) -> Engine:
        """Return a new engine, which has followed no change."""
        return Engine(self.state, self.settings)


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
