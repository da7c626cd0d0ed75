"""The preemptors that the report names evict a unit in the engine's plan, and no others do."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.preemption import scene
from tests.support.preemption.clusters import NOW, NS, state_of
from tests.support.preemption.scene import SECONDS, gang, group, node, of, pod, priority_class, scheduled

from podium.api.core import PodDisruptionBudget
from podium.cli.render.threat import shield_line
from podium.errors import PodiumError
from podium.planner.engine import Engine
from podium.planner.semantics import Semantics
from podium.planner.settings import Budgets, Settings
from podium.planner.threat import BudgetCharge, ExemptPod, Threat, threat

HOST = "kubernetes.io/hostname"


def threatened(*objects: Any, victim: Any = "low", **settings: Any) -> Threat:
    target = (NS, victim) if isinstance(victim, str) else victim
    return threat(scene.engine_of(*objects, **settings), target, NOW)


def budget(name: str, allowed: int, app: str = "web") -> PodDisruptionBudget:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": NS},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        },
        PodDisruptionBudget,
    )


def test_a_lone_pod_is_evicted_one_priority_above_its_own() -> None:
    """The priority is the pod's plus one; the room is the free room and the pod's own."""
    found = threatened(node(cpu=4), pod("low", 3, 7, node="n1", ago=60))
    assert (found.minimal, found.later, found.protection) == (8, 8, "")
    (room,) = found.rooms
    assert (room.node, room.spared["cpu"], room.without["cpu"], room.frees["cpu"]) == ("n1", 1000, 1000, 3000)
    assert (found.kind, found.one_by_one, [each.name for each in found.pods]) == ("Pod", 0, ["low"])


SPARED = {Semantics.KEP: (4000, 6000), Semantics.V1_37: (5000, 5000)}


@pytest.mark.parametrize(("semantics", "cpu"), SPARED.items(), ids=[str(each) for each in SPARED])
def test_other_units_go_first(semantics: Semantics, cpu: tuple[int, int]) -> None:
    """Pods of lower priority are evicted first; under a release's rules also those that started later."""
    found = threatened(
        node(cpu=9),
        pod("low", 2, 5, node="n1", ago=60),
        pod("later", 1, 5, node="n1", ago=30),
        pod("lower", 3, 4, node="n1", ago=90),
        pod("earlier", 1, 5, node="n1", ago=90),
        pod("higher", 1, 6, node="n1", ago=10),
        semantics=semantics,
    )
    (room,) = found.rooms
    assert (room.spared["cpu"], room.without["cpu"]) == cpu


def test_a_group_is_evicted_as_a_whole() -> None:
    """For the group and for a member, the unit is the group on all of its nodes."""
    objects = [
        node("n1"),
        node("n2"),
        group("ring", 5, whole=True),
        gang("ring", ["n1", "n2"], 2, priority=1, ago=9),
    ]
    for victim in (of("ring"), "ring-1"):
        found = threatened(objects, victim=victim)
        assert (found.kind, found.name, found.priority, found.minimal) == ("PodGroup", "ring", 5, 6)
        assert [(each.name, each.node) for each in found.pods] == [("ring-0", "n1"), ("ring-1", "n2")]
        assert [room.node for room in found.rooms] == ["n1", "n2"]


def test_a_protected_member_is_not_in_its_groups_report() -> None:
    """The report on the group is about the group; that on the member names its protection."""
    objects = [
        node("n1"),
        group("ring", 5, whole=True),
        gang("ring", ["n1", "n1"], 1, priority=1, schedulerName="podium-scheduler"),
        pod("helper", 1, 1, node="n1", group="ring", ago=1, schedulerName="other"),
    ]
    found = threatened(objects, victim=of("ring"), evict_only="podium-scheduler")
    assert (found.kind, found.name, found.minimal, found.one_by_one) == ("PodGroup", "ring", 6, 0)
    assert [each.name for each in found.pods] == ["ring-0", "ring-1"]
    assert found.rooms[0].frees == {"cpu": 2000, "pods": 2}
    alone = threatened(objects, victim="helper", evict_only="podium-scheduler")
    assert (alone.kind, alone.name, alone.minimal) == ("Pod", "helper", None)
    assert alone.protection == "it belongs to other, and only pods of podium-scheduler are evicted"


def test_of_a_group_of_mode_pod_the_least_important_member_is_reported() -> None:
    """The report is about its least important member, at the group's priority."""
    found = threatened(
        node(cpu=8),
        group("loose", 5),
        pod("old", 2, 1, node="n1", group="loose", ago=90),
        pod("new", 2, 1, node="n1", group="loose", ago=10),
        victim=of("loose"),
    )
    assert (found.kind, found.name, found.priority, found.one_by_one) == ("Pod", "new", 5, 2)


def test_a_toleration_holds_preemptors_back_until_it_ends() -> None:
    """The minimal priority is the class's minimum during the toleration, and the pod's plus one after it."""
    found = threatened(
        node(),
        priority_class("patient", 3, minimum=9, seconds=600),
        pod("low", 1, 3, node="n1", ago=60, status=scheduled(60), priorityClassName="patient", namespace=NS),
    )
    assert (found.minimal, found.later) == (9, 4)
    assert found.tolerations == (ExemptPod("low", 9, SECONDS + 540, scheduled=True),)


TOLERATIONS: dict[str, tuple[dict[str, Any], dict[str, Any], int, ExemptPod | None]] = {
    "permanently": ({"seconds": -1}, scheduled(60), 9, ExemptPod("low", 9, None, scheduled=True)),
    "past any calendar": (
        {"seconds": 9 * 10**18},
        scheduled(60),
        9,
        ExemptPod("low", 9, None, scheduled=True),
    ),
    "over": ({"seconds": 60}, scheduled(60), 4, None),
    "not scheduled": ({"seconds": 0}, {}, 9, ExemptPod("low", 9, None, scheduled=False)),
    "below its own": ({"seconds": -1, "minimum": 2}, scheduled(60), 4, None),
}


@pytest.mark.parametrize(
    ("expected", "status", "minimal", "held"), TOLERATIONS.values(), ids=list(TOLERATIONS)
)
def test_tolerations(
    expected: dict[str, Any], status: dict[str, Any], minimal: int, held: ExemptPod | None
) -> None:
    """Negative seconds never end, nor those of a pod that is not scheduled; a minimum may be too low."""
    patient = priority_class("patient", 3, **{"minimum": 9, **expected})
    found = threatened(
        node(), patient, pod("low", 1, 3, node="n1", ago=60, status=status, priorityClassName="patient")
    )
    assert found.minimal == minimal
    assert found.tolerations == ((held,) if held is not None else ())


def test_a_class_that_never_preempts_is_not_listed() -> None:
    """Classes at or above the priority are listed, lowest first, with system classes, without Never."""
    found = threatened(
        node(),
        priority_class("high", 9),
        priority_class("exact", 4),
        priority_class("equal", 3),
        priority_class("meek", 9, preemptionPolicy="Never"),
        pod("low", 1, 3, node="n1"),
    )
    assert found.classes == (
        ("exact", 4),
        ("high", 9),
        ("system-cluster-critical", 2_000_000_000),
        ("system-node-critical", 2_000_001_000),
    )


def test_a_class_that_is_gone_leaves_the_system_classes() -> None:
    """Only system classes remain until the class is recreated."""
    found = threatened(
        node(), priority_class("high", 9), pod("low", 1, 3, node="n1", priorityClassName="gone")
    )
    assert (found.doubt, found.minimal, found.later) == ("gone does not exist", 1_000_000_001, 4)
    assert [name for name, _ in found.classes] == ["system-cluster-critical", "system-node-critical"]
    assert shield_line(found).startswith(
        "Its PriorityClass gone does not exist, which holds back priorities below 1000000001 permanently"
    )


def test_a_budget_spares_a_unit_as_long_as_others_suffice() -> None:
    """Others of its priority are evicted first, unless they violate a budget too."""
    objects = [
        node(cpu=8),
        pod("low", 2, 5, node="n1", ago=60, labels={"app": "web"}),
        pod("same", 2, 5, node="n1", ago=90),
        pod("other", 2, 5, node="n1", ago=90, labels={"app": "other"}),
    ]
    other = budget("other", 0, app="other")

    def spared(*budgets: PodDisruptionBudget) -> int:
        return threatened(objects, *budgets).rooms[0].spared["cpu"]

    assert spared() == 2000
    found = threatened(objects, budget("web", 0))
    assert found.budgets == (BudgetCharge("web", 0, 1),)
    assert found.budgets[0].violated
    assert found.rooms[0].spared["cpu"] == found.rooms[0].without["cpu"] == 6000
    assert spared(budget("web", 0), other) == 4000
    assert spared(budget("web", 1)) == 2000
    assert not threatened(objects, budget("web", 1)).budgets[0].violated


PROTECTED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "the highest priority there is": ([pod("low", 1, 2**31 - 1, node="n1")], {}, "no priority is higher"),
    "another scheduler": ([pod("low", 1, 0, node="n1")], {"evict_only": "podium-scheduler"}, "only pods of"),
    "a strict budget": (
        [pod("low", 1, 0, node="n1", labels={"app": "web"}), budget("web", 0)],
        {"budgets": Budgets.STRICT},
        "budgets are strict",
    ),
}


@pytest.mark.parametrize(("objects", "settings", "why"), PROTECTED.values(), ids=list(PROTECTED))
def test_units_that_nothing_can_evict(objects: list[Any], settings: dict[str, Any], why: str) -> None:
    """The report has no priority, but the reason."""
    found = threatened(node(), objects, **settings)
    assert (found.minimal, found.later, found.rooms, found.classes) == (None, None, (), ())
    assert why in found.protection


REFUSED: dict[str, tuple[list[Any], Any, str]] = {
    "a pending pod": ([pod("low")], "low", "pod team-a/low runs on no node that is known"),
    "a pod on a node that is gone": ([pod("low", node="gone")], "low", "runs on no node that is known"),
    "a pod that is leaving": ([pod("low", node="n1", terminating=True)], "low", "is leaving already"),
    "a group without pods": ([group("low")], of("low"), "pod group team-a/low runs on no node"),
    "no such node": ([], "low", "pod team-a/low runs on no node"),
}


@pytest.mark.parametrize(("objects", "victim", "why"), REFUSED.values(), ids=list(REFUSED))
def test_a_target_that_does_not_run_is_refused(objects: list[Any], victim: Any, why: str) -> None:
    """The error is one line with the pod and the reason."""
    with pytest.raises(PodiumError, match=why):
        threatened(node(), objects, victim=victim)


def test_releases_ignore_tolerations() -> None:
    """Under the semantics of kube-scheduler a class's annotations have no effect."""
    found = threatened(
        node(),
        priority_class("patient", 3, minimum=9, seconds=-1),
        pod("low", 1, 3, node="n1", status=scheduled(60), priorityClassName="patient"),
        semantics=Semantics.V1_37,
    )
    assert (found.minimal, found.tolerations) == (4, ())


@st.composite
def crowds(draw: st.DrawFn) -> list[Any]:
    """Return two nodes with lone pods, a group of either mode, budgets, tolerations, and pod `unit`."""
    made: list[Any] = [node("n1", 12), node("n2", 12), priority_class("patient", 1, minimum=4, seconds=300)]
    number = draw(st.integers(1, 6))
    whole = draw(st.booleans())
    made.append(group("ring", draw(st.integers(0, 3)), whole=whole))
    for at in range(number):
        member = draw(st.booleans())
        made.append(
            pod(
                "unit" if at == 0 else f"other-{at}",
                draw(st.integers(1, 2)),
                draw(st.integers(0, 3)),
                node=draw(st.sampled_from(["n1", "n1", "n2"])),
                ago=draw(st.sampled_from([None, 10, 20, 400])),
                group="ring" if member else "",
                labels={"app": "web"} if draw(st.booleans()) else None,
                status=scheduled(draw(st.sampled_from([100, 500]))),
                priorityClassName="patient" if draw(st.booleans()) else None,
            )
        )
    if draw(st.booleans()):
        made.append(budget("web", draw(st.integers(0, 2))))
    return made


@given(crowds(), st.sampled_from(list(Semantics)), st.integers(1, 24))
def test_the_engine_agrees_with_the_report(objects: list[Any], semantics: Semantics, ask: int) -> None:
    """A pod of that size and priority preempts the unit; a smaller or less important one does not."""
    settings = Settings(semantics=semantics)
    engine = Engine(state_of(objects), settings)
    found = threat(engine, (NS, "unit"), NOW)
    assert found.minimal is not None
    room = found.rooms[0]
    most = room.without["cpu"] + room.frees["cpu"]
    assert semantics is Semantics.KEP or room.spared == room.without
    names = {each.name for each in found.pods}

    def taken(priority: int) -> bool:
        wants = pod("high", ask, priority, nodeSelector={HOST: room.node})
        made = Engine(state_of([*objects, wants]), settings).plan((NS, "high"), NOW)
        return any(each.name in names for victim in made.victims for each in victim.pods)

    if ask * 1000 <= room.spared["cpu"]:
        assert not taken(found.minimal)
    elif room.without["cpu"] < ask * 1000 <= most:
        assert taken(found.minimal)
    assert not taken(found.minimal - 1)
