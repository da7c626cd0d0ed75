"""PodGroups of other projects: members and minMember are read, and the scheduler that holds them is named."""

from typing import Any, NamedTuple

import pytest
from tests.support.calling import Podium
from tests.support.why import file, named, node, pod, podium, unscheduled

__all__ = ["podium"]

NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


def foreign(api_version: str, least: int | None = 5, name: str = "ring") -> dict[str, Any]:
    return named(api_version, "PodGroup", name, spec={} if least is None else {"minMember": least})


def member(name: str, key: str, scheduler: str, field: str = "labels") -> dict[str, Any]:
    return pod(name, unscheduled(NO_ROOM), scheduler=scheduler, metadata={field: {key: "ring"}})


class Case(NamedTuple):
    """The version of the group, how its pods name it, their scheduler, and what holds them back."""

    api_version: str
    key: str
    scheduler: str
    holder: str
    project: str
    field: str = "labels"


COSCHEDULING = "scheduling.x-k8s.io/v1alpha1"
LABEL = "scheduling.x-k8s.io/pod-group"
PLUGIN = "the coscheduling plugin of sched"
CASES = {
    # ray-project/kuberay#5205
    "coscheduling": Case(COSCHEDULING, LABEL, "sched", PLUGIN, "coscheduling"),
    "coscheduling in the default scheduler": Case(
        COSCHEDULING,
        LABEL,
        "default-scheduler",
        "the coscheduling plugin of default-scheduler, if it has that plugin,",
        "coscheduling",
    ),
    "coscheduling, by the older label": Case(
        COSCHEDULING, "pod-group.scheduling.sigs.k8s.io", "sched", PLUGIN, "coscheduling"
    ),
    "Koordinator": Case(
        "scheduling.sigs.k8s.io/v1alpha1",
        "pod-group.scheduling.sigs.k8s.io",
        "koord-scheduler",
        "the coscheduling plugin of koord-scheduler",
        "coscheduling",
    ),
    "Volcano": Case(
        "scheduling.volcano.sh/v1beta1",
        "scheduling.k8s.io/group-name",
        "volcano",
        "Volcano (volcano)",
        "Volcano",
        "annotations",
    ),
    "Volcano, by its own annotation": Case(
        "scheduling.volcano.sh/v1beta1",
        "scheduling.volcano.sh/group-name",
        "volcano",
        "Volcano (volcano)",
        "Volcano",
        "annotations",
    ),
    "KAI": Case(
        "scheduling.run.ai/v2alpha2",
        "pod-group-name",
        "kai-scheduler",
        "KAI (kai-scheduler)",
        "KAI",
        "annotations",
    ),
}


@pytest.mark.parametrize("name", ["pod a/x", "group a/ring", "group ring"])
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_group_that_is_short_of_pods(podium: Podium, case: Case, name: str) -> None:
    members = [member(each, case.key, case.scheduler, case.field) for each in ("x", "y")]
    run = podium(*name.split(), "-f", file([foreign(case.api_version), *members, node()]), "-o", "json")
    assert run.code == 0, run.stderr
    report = run.json
    first = report["waiting"][0]
    assert first["cause"] == "TooFew"
    assert first["message"] == (
        f"2 pods of PodGroup a/ring exist, and minMember is 5: {case.holder} places none that waits"
    )
    group = case.api_version.partition("/")[0]
    assert first["fix"] == (
        f"create the missing pods, or lower minMember: kubectl patch podgroup.{group} ring -n a "
        """--type=merge -p '{"spec":{"minMember":2}}'"""
    )
    assert report["prospect"] is None
    about = "; ".join(report["object"]["about"])
    if name == "pod a/x":
        assert f"member of PodGroup a/ring of {case.project} ({group}, minMember 5; 2 pods)" in about
        assert report["priority"]["rule"] == (
            f"its PodGroup is of {case.project}: for kube-scheduler and Podium its own priority counts"
        )
    else:
        assert (
            about
            == f"2 pods: 2 wait; scheduled by {case.scheduler}; of {case.project} ({group}, minMember 5)"
        )


@pytest.mark.parametrize("name", ["pod a/x", "group a/ring"])
@pytest.mark.parametrize("least", [None, 2])
def test_a_group_with_enough_pods_waits_for_its_scheduler(
    podium: Podium, name: str, least: int | None
) -> None:
    objects = [foreign(COSCHEDULING, least), *(member(each, LABEL, "sched") for each in ("x", "y")), node()]
    report = podium(*name.split(), "-f", file(objects), "-o", "json").json
    assert [each["cause"] for each in report["waiting"]] == ["SchedulerSays"]
    # Plans do not know such a group, so none is attempted.
    assert [each for each in report["unknown"] if each.startswith("plan not made")] == []


def test_a_group_that_was_not_read_is_named(podium: Podium) -> None:
    """Neither the pod is in no group, nor does its group not exist."""
    run = podium("pod", "a/x", "-f", file([member("x", LABEL, "sched"), node()]), "-o", "json")
    assert (
        "member of PodGroup a/ring of coscheduling (scheduling.x-k8s.io, not in the input; 1 pod)"
        in run.json["object"]["about"]
    )
    assert "ForeignPodGroup: not in the input" in run.json["unknown"]
    other = foreign(COSCHEDULING, name="other")
    run = podium("group", "a/ring", "-f", file([member("x", LABEL, "sched"), other, node()]), "-o", "json")
    assert run.json["object"]["about"][-1] == "of coscheduling (scheduling.x-k8s.io, which does not exist)"


def test_a_scheduler_that_does_not_read_the_group_is_not_said_to_hold_it(podium: Podium) -> None:
    """Volcano holds the pods of its own scheduler only, and Podium's scheduler reads none of these groups."""
    for scheduler in ("podium-scheduler", "default-scheduler"):
        waiting = member("x", "scheduling.k8s.io/group-name", scheduler, "annotations")
        objects = [foreign("scheduling.volcano.sh/v1beta1"), waiting, node()]
        report = podium("pod", "a/x", "-f", file(objects), "-o", "json").json
        assert [each["cause"] for each in report["waiting"]] == ["SchedulerSays"]


def test_a_group_of_the_workload_api_comes_first(podium: Podium) -> None:
    waiting = pod("x", group="ring", scheduler="sched", metadata={"annotations": {"pod-group-name": "other"}})
    report = podium("pod", "a/x", "-f", file([waiting, node()]), "-o", "json").json
    assert "member of PodGroup a/ring (was not read)" in report["object"]["about"]


def test_a_group_without_pods_and_an_unknown_name(podium: Podium) -> None:
    objects = file([foreign(COSCHEDULING), pod("z"), node()])
    run = podium("group", "a/ring", "-f", objects, "-o", "json")
    assert (run.json["state"], run.json["summary"]) == ("Empty", "PodGroup a/ring has no pods.")
    assert podium("group", "a/none", "-f", objects).code == 1
