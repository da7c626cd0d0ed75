"""Pods of DaemonSets and mirrors of static pods are never victims, and no pod earns that by a claim."""

from typing import Any

import msgspec
import pytest
from tests.preemption.clusters import NOW, NS, state_of
from tests.preemption.scene import node, planned, pod, spared, victims

from podium.api.foreign import Owner
from podium.api.meta import ObjectMeta, OwnerReference
from podium.api.schedulable import Affinity, Schedulable, SchedulableNode
from podium.findings import ObjectRef
from podium.schedulerplugin.engine import Engine
from podium.schedulerplugin.live.keep import essential
from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.preemption.pinned import DAEMON_SET, is_mirror
from podium.schedulerplugin.preemption.pinned import of_daemon_set as is_of_daemon_set
from podium.schedulerplugin.settings import Settings
from podium.state import State

MIRROR = {"kubernetes.io/config.mirror": "hash"}


def daemon_set(uid: str, namespace: str = NS) -> Owner:
    """Make the DaemonSet `agent` of a UID."""
    return Owner(
        ref=ObjectRef(*DAEMON_SET, namespace, "agent"),
        metadata=ObjectMeta(name="agent", namespace=namespace, uid=uid),
        templates={},
    )


def of_daemon_set(made: Schedulable, uid: str, **owner: Any) -> Schedulable:
    """Have a running pod name the DaemonSet `agent` as its own, as the DaemonSet controller makes pods."""
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
    """Have a pod require nodes of these terms."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = msgspec.convert({"nodeAffinity": required}, Affinity)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, affinity=affinity))


def agent(uid: str = "d", name: str = "agent-x", **owner: Any) -> Schedulable:
    return of_daemon_set(pod(name, 2, 0, node="n1"), uid, **owner)


def with_uid(name: str, uid: str) -> SchedulableNode:
    made = node(name)
    made.metadata.uid = uid
    return made


def mirror(uid: str = "uid-n1", annotations: dict[str, str] | None = MIRROR, **owner: Any) -> Schedulable:
    made = pod("static-n1", 2, 0, node="n1")
    made.metadata.annotations = annotations
    reference: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "n1",
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
def test_they_are_no_victims_under_any_setting(settings: Settings) -> None:
    """In the spec's rule, and in a scheduler that evicts under any other."""
    objects = [with_uid("n1", "uid-n1"), daemon_set("d"), agent(), mirror(), pod("high", 4, 5)]
    assert victims(planned(*objects, **settings._asdict())) == []
    low = pod("low", 2, 0, node="n2", ago=10)
    assert victims(planned(*objects, node("n2", 4), low, **settings._asdict())) == ["low"]


def test_the_plan_says_why_they_stay() -> None:
    plan = planned(with_uid("n1", "uid-n1"), daemon_set("d"), agent(), mirror(), pod("high", 4, 5))
    assert spared(plan) == {
        "agent-x": "a DaemonSet made it for its node, and would make it again there",
        "static-n1": "it is the mirror of a static pod, which its node would make again",
    }


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37, Semantics.PODS])
def test_kube_scheduler_takes_them_for_victims_like_others(semantics: Semantics) -> None:
    """What a release does is told as it is."""
    objects = [with_uid("n1", "uid-n1"), daemon_set("d"), agent(), mirror()]
    plan = planned(*objects, pod("high", 4, 5), semantics=semantics)
    assert sorted(victims(plan)) == ["agent-x", "static-n1"]


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
def test_a_claim_to_be_of_a_daemon_set_is_checked(claim: Schedulable, there: Owner | None) -> None:
    state = state_of([each for each in (node("n1"), there, claim) if each is not None])  # type: ignore[misc]
    assert not is_of_daemon_set(claim, state)


def test_where_daemon_sets_could_not_be_read_the_claim_counts() -> None:
    """Rather one victim fewer."""
    assert is_of_daemon_set(agent(), State(native_served=True, unread={"Owner": "forbidden"}))


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
    """Whoever may create pods may write the annotation; the UID of a node is its kubelet's to name."""
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


def test_what_a_scheduler_keeps_of_them_is_enough() -> None:
    """Of annotations one is kept, and of a DaemonSet that it exists."""
    found = mirror(annotations={**MIRROR, "other": "x" * 1000})
    kept = essential(found)
    assert isinstance(kept, Schedulable)
    assert is_mirror(kept, state_of([with_uid("n1", "uid-n1")]))
    assert list(kept.metadata.annotations or {}) == list(MIRROR)
    owner = essential(msgspec.structs.replace(daemon_set("d"), templates={"spec.template": None}))
    assert isinstance(owner, Owner)
    assert (owner.ref, owner.metadata.uid, owner.templates) == (daemon_set("d").ref, "d", {})
