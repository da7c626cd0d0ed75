"""Pods of DaemonSets and mirrors of static pods are never victims; a false claim protects no pod."""

from typing import Any

import msgspec
import pytest
from tests.support.preemption.clusters import NOW, NS, state_of
from tests.support.preemption.scene import node, planned, pod, spared, victims

from podium.api.findings import ObjectRef
from podium.api.meta import ObjectMeta, OwnerReference
from podium.api.podkinds.kind import PodOwner
from podium.api.schedulable import Affinity, Schedulable, SchedulableNode
from podium.cluster.state import ClusterState
from podium.planner.engine import Engine
from podium.planner.preemption.protection import DAEMON_SET, is_mirror
from podium.planner.preemption.protection import of_daemon_set as is_of_daemon_set
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings
from podium.schedulerplugin.live.transforms import transform

MIRROR = {"kubernetes.io/config.mirror": "hash"}


def daemon_set(uid: str, namespace: str = NS) -> PodOwner:
    """Make the DaemonSet `agent` of a UID."""
    return PodOwner(
        ref=ObjectRef(*DAEMON_SET, namespace, "agent"),
        metadata=ObjectMeta(name="agent", namespace=namespace, uid=uid),
        templates={},
    )


def of_daemon_set(made: Schedulable, uid: str, **owner: Any) -> Schedulable:
    """Make a running pod of the DaemonSet `agent`, in the form of the DaemonSet controller."""
    reference: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": "agent",
        "uid": uid,
        "controller": True,
    }
    made.metadata.ownerReferences = [OwnerReference(**reference | owner)]
    only = {"key": "metadata.name", "operator": "In", "values": [made.spec.nodeName]}
    return with_affinity(made, [{"matchFields": [only]}])


def with_affinity(made: Schedulable, terms: list[Any]) -> Schedulable:
    """Add required node affinity of these terms to a pod."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = msgspec.convert({"nodeAffinity": required}, Affinity)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, affinity=affinity))


def agent(uid: str = "d", name: str = "agent-x", **owner: Any) -> Schedulable:
    return of_daemon_set(pod(name, 2, 0, node="n1"), uid, **owner)


def with_uid(name: str, uid: str) -> SchedulableNode:
    made = node(name)
    made.metadata.uid = uid
    return made


def mirror(
    uid: str = "uid-n1", annotations: dict[str, str] | None = MIRROR, on: str = "n1", **owner: Any
) -> Schedulable:
    made = pod(f"static-{on}", 2, 0, node=on)
    made.metadata.annotations = annotations
    reference: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": on,
        "uid": uid,
        "controller": True,
    }
    made.metadata.ownerReferences = [OwnerReference(**reference | owner)]
    return made


LIVE = Settings(evict_only=None, spares_system=True)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(evict_only="default-scheduler"),
        *(LIVE._replace(semantics=each) for each in Semantics),
    ],
)
def test_pinned_pods_are_no_victims_under_any_setting(settings: Settings) -> None:
    """Under `kep`, and in a scheduler under any other semantics."""
    objects = [with_uid("n1", "uid-n1"), daemon_set("d"), agent(), mirror(), pod("high", 4, 5)]
    assert victims(planned(*objects, **settings._asdict())) == []
    low = pod("low", 2, 0, node="n2", ago=10)
    assert victims(planned(*objects, node("n2", 4), low, **settings._asdict())) == ["low"]


def test_the_plan_says_why_pinned_pods_stay() -> None:
    plan = planned(with_uid("n1", "uid-n1"), daemon_set("d"), agent(), mirror(), pod("high", 4, 5))
    assert spared(plan) == {
        "agent-x": "a DaemonSet made it for its node, and would make it again there",
        "static-n1": "it is the mirror of a static pod, which its node would make again",
    }


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37, Semantics.PODS])
def test_under_kube_schedulers_rules_pinned_pods_are_potential_victims(semantics: Semantics) -> None:
    """`whatif` reports what a release does."""
    objects = [with_uid("n1", "uid-n1"), daemon_set("d"), agent(), mirror()]
    plan = planned(*objects, pod("high", 4, 5), semantics=semantics)
    assert sorted(victims(plan)) == ["agent-x", "static-n1"]
    again = {unit.name for unit in plan.victims if "its DaemonSet creates it again" in unit.reason}
    assert again == {"agent-x"}


@pytest.mark.parametrize(
    ("claim", "there"),
    [
        pytest.param(agent(), None, id="a DaemonSet that does not exist"),
        pytest.param(agent("other"), daemon_set("d"), id="another UID, as of one that was made again"),
        pytest.param(agent(), daemon_set("d", "elsewhere"), id="one of another namespace"),
        pytest.param(agent(controller=None), daemon_set("d"), id="an owner that does not control it"),
        pytest.param(agent(apiVersion="example.com/v1"), daemon_set("d"), id="another group"),
        pytest.param(agent(kind="ReplicaSet"), daemon_set("d"), id="another kind"),
        pytest.param(with_affinity(agent(), []), daemon_set("d"), id="no node of its own"),
        pytest.param(
            with_affinity(
                agent(), [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]
            ),
            daemon_set("d"),
            id="another node",
        ),
    ],
)
def test_a_claim_to_be_of_a_daemon_set_is_checked(claim: Schedulable, there: PodOwner | None) -> None:
    state = state_of([each for each in (node("n1"), there, claim) if each is not None])  # type: ignore[misc]
    assert not is_of_daemon_set(claim, state)


def test_if_daemon_sets_could_not_be_read_the_claim_counts() -> None:
    """A missing victim is safer than a wrong one."""
    assert is_of_daemon_set(agent(), ClusterState(native_served=True, unread={"Owner": "forbidden"}))


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(mirror("other"), id="another node's UID"),
        pytest.param(mirror(annotations=None), id="no annotation"),
        pytest.param(mirror(annotations={"a": "b"}), id="another annotation"),
        pytest.param(mirror(name="n2"), id="another node"),
        pytest.param(mirror(kind="Pod"), id="another kind"),
        pytest.param(mirror(controller=None), id="an owner that does not control it"),
    ],
)
def test_a_claim_to_be_a_mirror_pod_is_checked(claim: Schedulable) -> None:
    """Any tenant may write the annotation; the UID of a node proves its kubelet."""
    state = state_of([with_uid("n1", "uid-n1"), with_uid("n2", "uid-n1"), claim])
    assert is_mirror(mirror(), state)
    assert not is_mirror(claim, state)


def test_the_daemon_set_may_come_and_go_after_its_pods() -> None:
    state = state_of([node("n1"), agent(), pod("high", 4, 5)])
    engine = Engine(state)
    state.observe(engine.apply)
    for there, expected in ((True, []), (False, ["agent-x"]), (True, [])):
        (state.apply if there else state.remove)(daemon_set("d"))
        assert victims(engine.plan((NS, "high"), NOW)) == expected
    state.apply(daemon_set("e"))
    assert victims(engine.plan((NS, "high"), NOW)) == ["agent-x"]


def test_the_transform_keeps_what_identifies_pinned_pods() -> None:
    """The transform keeps one annotation of a pod, and the existence of a DaemonSet."""
    found = mirror(annotations={**MIRROR, "other": "x" * 1000})
    kept = transform(found)
    assert isinstance(kept, Schedulable)
    assert is_mirror(kept, state_of([with_uid("n1", "uid-n1")]))
    assert list(kept.metadata.annotations or {}) == list(MIRROR)
    owner = transform(msgspec.structs.replace(daemon_set("d"), templates={"spec.template": None}))
    assert isinstance(owner, PodOwner)
    assert (owner.ref, owner.metadata.uid, owner.templates) == (daemon_set("d").ref, "d", {})


def test_the_transform_keeps_the_deadline_of_a_job() -> None:
    owner = transform(msgspec.structs.replace(daemon_set("d"), deadline=5))
    assert isinstance(owner, PodOwner)
    assert owner.deadline == 5
