"""Each cause of waiting has a name, its source's message, and a remedy."""

from typing import Any

import pytest
from tests.support.calling import Podium
from tests.support.why import (
    LATER,
    composite,
    condition,
    file,
    group,
    named,
    node,
    pod,
    podium,
    priority_class,
    unbound_claim,
    unscheduled,
)

from podium.answers.accounts import disruptions
from podium.api.core import POD_SCHEDULED
from podium.api.events import EVICTIONS, NOT_EVICTED, PREEMPTED
from podium.api.groups import COMPOSITE_INITIALLY_SCHEDULED, GROUP_SCHEDULED, INITIALLY_SCHEDULED
from podium.ops import sharedfields
from podium.planner.preemption.inflight import DISRUPTION_TARGET

__all__ = ["podium"]

NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."
KUEUE = [{"name": "kueue.x-k8s.io/admission"}]
FULL = pod("full", node="n1", cpu="4", priority=9)
GOING = {"deletionTimestamp": LATER}


def member(of: str = "") -> dict[str, Any]:
    """Make a pod template, which names a group of Podium if one is given."""
    labels = {"scheduling.podium.dev/pod-group": of} if of else {}
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main"}]}}


def job(of: str = "", **spec: Any) -> dict[str, Any]:
    """Make Job train, whose template names a group if one is given."""
    return named("batch/v1", "Job", "train", spec={"completions": 4, "template": member(of), **spec})


def owned(name: str) -> dict[str, Any]:
    """Make a gang that Job train controls."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    return group(name, metadata={"ownerReferences": [owner]})


# Texts of kube-scheduler 1.38.
UNLIKE = 'gang parent "a/root" cannot have basic child "a/leaf"'
NO_QUORUM = "scheduling policy's minimum threshold (2) cannot be satisfied: 1 scheduled, 1 unschedulable"
BY_GROUP = 'parent pod group "leaf" is unschedulable'
BY_ROOT = 'ancestor composite pod group "root" is unschedulable, pod group preemption: No preemption victims'
IN_LEAF: dict[str, Any] = {
    "group": "leaf",
    "native": True,
    "scheduler": "default-scheduler",
    "priority": 5,
}


def initially(message: str, reason: str = "Unschedulable", *, kind: str = "PodGroup") -> dict[str, Any]:
    """Make the condition of a group that was never scheduled."""
    return condition(f"{kind}InitiallyScheduled", "False", reason, message)


def below(name: str, *conditions: dict[str, Any], **policy: Any) -> dict[str, Any]:
    """Make a native group below the composite group root."""
    return group(
        name, *conditions, native=True, least=1, spec={"parentCompositePodGroupName": "root", **policy}
    )


INVALID_TREE = [
    composite("root", initially(UNLIKE, "CompositePodGroupError", kind="CompositePodGroup")),
    below("leaf", initially(UNLIKE, "PodGroupError"), schedulingPolicy={"basic": {}}),
]
FAILED_TREE = [
    composite("root", initially(NO_QUORUM, kind="CompositePodGroup")),
    below("leaf", initially(BY_ROOT)),
    *(below("other", initially(NO_ROOM)), pod("y", unscheduled(NO_ROOM), **{**IN_LEAF, "group": "other"})),
]

Case = tuple[list[dict[str, Any]], str, list[str], str, str]
# The cluster, the target, the causes in order, a part of the first message, and of the remedy.
CASES: dict[str, Case] = {
    "held by a gate": (
        [pod("x", schedulingGates=[{"name": "example.com/quota"}])],
        "pod a/x",
        ["Gated"],
        "held by scheduling gates: example.com/quota",
        "the component that added the gate",
    ),
    "held by Kueue": (
        [pod("x", schedulingGates=KUEUE), pod("y")],
        "pod a/x",
        ["Gated"],
        "kueue.x-k8s.io/admission",
        "Kueue removes the gate",
    ),
    "its group does not exist": (
        [pod("x", group="ring"), group("other")],
        "pod a/x",
        ["GroupMissing"],
        "a/ring, which does not exist",
        "create the PodGroup",
    ),
    "a group that only pods name": (
        [pod("x", group="ring"), pod("y", group="ring"), group("other")],
        "group a/ring",
        ["GroupMissing"],
        "2 pods name it, but the group does not exist",
        "create the PodGroup",
    ),
    "a gang with too few pods": (
        [group("ring", least=4), pod("x", group="ring"), pod("y", group="ring", node="n1")],
        "group a/ring",
        ["TooFew"],
        "1 pod can be placed and 1 run, minCount is 4",
        "a suspended Job",
    ),
    "a gang with too few pods, as others have finished": (
        [
            *(group("ring", least=3), pod("x", group="ring"), pod("y", group="ring", node="n1")),
            pod("z", group="ring", node="n1", status={"phase": "Succeeded"}),
        ],
        "group a/ring",
        ["TooFew"],
        "1 pod can be placed and 1 run, 1 pod has ended and does not count, minCount is 3",
        "lower the group's minCount to 2",
    ),
    "a pod of that gang": (
        [group("ring", least=4), pod("x", group="ring")],
        "pod a/x",
        ["TooFew"],
        "minCount is 4",
        "smaller minCount",
    ),
    "a gang without a pod": (
        [group("ring")],
        "group a/ring",
        ["TooFew"],
        "0 pods can be placed",
        "fewer pods",
    ),
    "a gang whose Job is paused": (
        [owned("ring"), job(parallelism=0)],
        "group a/ring",
        ["TooFew"],
        "Job a/train is paused: its parallelism is 0, so it creates no pods",
        "raise its parallelism",
    ),
    "a gang whose Job is suspended": (
        [group("ring"), job("ring", parallelism=2, suspend=True)],
        "group a/ring",
        ["TooFew"],
        "Job a/train is suspended, so it creates no pods",
        "resume it; if a queue such as Kueue suspended it, wait until the queue resumes it",
    ),
    "a gang whose StatefulSet has no replicas": (
        [
            group("ring"),
            named("apps/v1", "StatefulSet", "web", spec={"replicas": 0, "template": member("ring")}),
        ],
        "group a/ring",
        ["TooFew"],
        "StatefulSet a/web is paused: its number of replicas is 0, so it creates no pods",
        "raise its number of replicas",
    ),
    "a gang of which one of two owners is paused": (
        [
            *(group("ring"), job("ring", parallelism=0)),
            named("apps/v1", "StatefulSet", "web", spec={"replicas": 1, "template": member("ring")}),
        ],
        "group a/ring",
        ["TooFew"],
        "0 pods can be placed",
        "fewer pods",
    ),
    "a gang whose Job has ended": (
        [
            owned("ring"),
            {**job(parallelism=0), "status": {"conditions": [{"type": "Complete", "status": "True"}]}},
        ],
        "group a/ring",
        ["TooFew"],
        "0 pods can be placed",
        "fewer pods",
    ),
    "a gang of which a pod is gated": (
        [group("ring"), pod("x", group="ring"), pod("y", group="ring", schedulingGates=KUEUE)],
        "group a/ring",
        ["Gated"],
        "1 pod held by scheduling gates: kueue",
        "Kueue removes the gate",
    ),
    "pods of one gang with several schedulers": (
        [group("ring"), pod("x", group="ring"), pod("y", group="ring", scheduler="other")],
        "group a/ring",
        ["SeveralSchedulers"],
        "other, podium-scheduler",
        "one schedulerName",
    ),
    "what cannot be judged": (
        [pod("x", tolerations=[{"key": "a", "operator": "Lt", "value": "1"}])],
        "pod a/x",
        ["NotJudged"],
        "cannot be judged",
        "use kube-scheduler",
    ),
    "divergent, which 1.37 refuses": (
        [
            group("ring", native=True, spec={"priority": 5}),
            pod("x", group="ring", native=True, scheduler="default-scheduler", priority=5),
            pod("y", group="ring", native=True, scheduler="default-scheduler", priority=1),
        ],
        "group a/ring",
        ["Divergent"],
        "has priority 5 and pods of it 1",
        "kubectl delete podgroup.scheduling.k8s.io ring -n a --wait=false; delete its pods; recreate both",
    ),
    "divergent, so Podium evicts nothing for it": (
        [
            group("ring"),
            pod("x", unscheduled(NO_ROOM), group="ring", priority=5),
            pod("y", unscheduled(NO_ROOM), group="ring", priority=1),
        ],
        "group a/ring",
        ["SchedulerSays", "MayNotPreempt"],
        NO_ROOM,
        "the scheduler retries",
    ),
    "preemptionPolicy Never": (
        [pod("x", unscheduled(NO_ROOM), preemptionPolicy="Never")],
        "pod a/x",
        ["SchedulerSays", "MayNotPreempt"],
        NO_ROOM,
        "the scheduler retries",
    ),
    "no room, by the scheduler": (
        [pod("x", unscheduled(NO_ROOM), scheduler="default-scheduler")],
        "pod a/x",
        ["SchedulerSays"],
        f"default-scheduler (Unschedulable): {NO_ROOM}",
        "podium whatif",
    ),
    "no room, reported on the group": (
        [
            group("ring", condition("PodGroupInitiallyScheduled", "False", "Unschedulable", NO_ROOM)),
            pod("x", group="ring", priority=5),
            pod("y", group="ring", priority=5),
        ],
        "group a/ring",
        ["SchedulerSays"],
        NO_ROOM,
        "podium whatif",
    ),
    "an invalid tree, asked for the pod": (
        [*INVALID_TREE, pod("x", unscheduled(UNLIKE, "SchedulerError"), **IN_LEAF)],
        "pod a/x",
        ["SchedulerSays"],
        f"default-scheduler (SchedulerError): {UNLIKE}",
        "correct the named problem",
    ),
    "an invalid tree, asked for the group": (
        [*INVALID_TREE, pod("x", unscheduled(UNLIKE, "SchedulerError"), **IN_LEAF)],
        "group a/leaf",
        ["SchedulerSays"],
        f"default-scheduler (PodGroupError): {UNLIKE}",
        "podium audit lists all groups that do not match",
    ),
    "an invalid tree, asked for the root": (
        [*INVALID_TREE, pod("x", unscheduled(UNLIKE, "SchedulerError"), **IN_LEAF)],
        "group a/root",
        ["SchedulerSays"],
        f"default-scheduler (CompositePodGroupError): {UNLIKE}",
        "recreate its groups",
    ),
    "a pod whose message names its group": (
        [
            group("leaf", initially(NO_QUORUM), native=True, least=1),
            pod("x", unscheduled(BY_GROUP), **IN_LEAF),
        ],
        "pod a/x",
        ["SchedulerSays"],
        f"default-scheduler (Unschedulable) on PodGroup a/leaf: {NO_QUORUM}",
        "podium whatif",
    ),
    "a pod below a failed tree": (
        [*FAILED_TREE, pod("x", unscheduled(BY_GROUP), **IN_LEAF)],
        "pod a/x",
        ["SchedulerSays", "SchedulerSays"],
        f"default-scheduler (Unschedulable) on CompositePodGroup a/root: {NO_QUORUM}",
        "podium whatif",
    ),
    "a failed tree, asked for the group": (
        [*FAILED_TREE, pod("x", unscheduled(BY_GROUP), **IN_LEAF)],
        "group a/leaf",
        ["SchedulerSays", "SchedulerSays"],
        f"on CompositePodGroup a/root: {NO_QUORUM}",
        "podium whatif",
    ),
    "a failed tree, asked for the root": (
        [*FAILED_TREE, pod("x", unscheduled(BY_GROUP), **IN_LEAF)],
        "group a/root",
        ["SchedulerSays", "SchedulerSays"],
        f"default-scheduler (Unschedulable): {NO_QUORUM}",
        "podium whatif",
    ),
    "a message that names a group without a reason": (
        [group("leaf", native=True, least=1), pod("x", unscheduled(BY_GROUP), **IN_LEAF)],
        "pod a/x",
        ["SchedulerSays"],
        f"default-scheduler (Unschedulable): {BY_GROUP}",
        "podium whatif",
    ),
    "an error of a group that was scheduled once": (
        [
            group("leaf", condition("PodGroupInitiallyScheduled", "True", "Scheduled"), native=True, least=1),
            pod(
                "x", unscheduled('parent pod group "leaf" encountered an error', "SchedulerError"), **IN_LEAF
            ),
        ],
        "pod a/x",
        ["SchedulerSays"],
        "encountered an error",
        "see podium audit for the named group",
    ),
    "an error of the scheduler's": (
        [pod("x", unscheduled("its claim is gone", "SchedulerError"))],
        "pod a/x",
        ["SchedulerSays"],
        "its claim is gone",
        "correct the named problem",
    ),
    "a dump without messages": (
        [pod("x", unscheduled(""))],
        "pod a/x",
        ["SchedulerSays"],
        "the input does not hold its message",
        "the scheduler retries",
    ),
    "no scheduler tried it": (
        [pod("x", scheduler="typo-scheduler")],
        "pod a/x",
        ["NotTried"],
        "typo-scheduler has not reported on it yet",
        "the spelling of spec.schedulerName",
    ),
    "a volume is being created": (
        [
            pod("x", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}]),
            *unbound_claim("data-0", "n1"),
        ],
        "pod a/x",
        ["ClaimsUnbound"],
        "a volume is awaited for claim data-0 (node n1)",
        "the log of its provisioner",
    ),
    "a preemption under way": (
        [
            pod("x", unscheduled(NO_ROOM), status={"nominatedNodeName": "n1"}),
            pod("low", node="n1", metadata=GOING),
            pod("stays", node="n1"),
        ],
        "pod a/x",
        ["NodeReserved", "SchedulerSays"],
        f"node n1 is reserved until a/low has ended, due at {LATER}",
        "grace periods",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_each_kind_of_waiting(podium: Podium, case: Case) -> None:
    """The causes are in order; the first has its name and a remedy, and the summary agrees."""
    objects, name, causes, message, fix = case
    run = podium(*name.split(), "-f", file([*objects, node()]), "-o", "json")
    assert run.code == 0, run.stderr
    report = run.json
    assert report["state"] == "Waiting"
    assert [each["cause"] for each in report["waiting"]] == causes
    assert message in report["waiting"][0]["message"]
    assert fix in report["waiting"][0]["fix"]
    assert report["waiting"][0]["message"].rstrip(".") in report["summary"]


@pytest.mark.parametrize("target", ["pod a/x", "group a/leaf", "group a/root"])
def test_the_group_that_keeps_a_tree_waiting_is_named(podium: Podium, target: str) -> None:
    """The root's message has counts only, so that of its group without room follows."""
    cluster = file([*FAILED_TREE, pod("x", unscheduled(BY_GROUP), **IN_LEAF), FULL, node()])
    waiting = podium(*target.split(), "-f", cluster, "-o", "json").json["waiting"]
    assert waiting[1]["message"] == f"default-scheduler (Unschedulable) on PodGroup a/other: {NO_ROOM}"


@pytest.mark.parametrize("kind", ["PodGroup", "CompositePodGroup"])
def test_a_group_that_was_scheduled_once_says_when(podium: Podium, kind: str) -> None:
    """Pods that come later wait for themselves: the condition stays."""
    done = condition(f"{kind}InitiallyScheduled", "True", "Scheduled")
    objects = [
        composite("root", *([done] if kind == "CompositePodGroup" else ())),
        below("leaf", *([done] if kind == "PodGroup" else ())),
        pod("x", unscheduled(NO_ROOM), **IN_LEAF),
    ]
    name = "leaf" if kind == "PodGroup" else "root"
    report = podium("group", f"a/{name}", "-f", file([*objects, FULL, node()]), "-o", "json").json
    assert f"first scheduled at {LATER}" in report["object"]["about"]
    assert report["waiting"][0]["message"].endswith(NO_ROOM)


@pytest.mark.parametrize("name", ["pod a/x", "group a/ring"])
def test_a_group_that_was_not_read_is_not_said_to_be_missing(podium: Podium, name: str) -> None:
    """Missing input allows no conclusion, and is named."""
    objects = [pod("x", unscheduled(NO_ROOM), group="ring", priority=5), node()]
    report = podium(*name.split(), "-f", file(objects), "-o", "json").json
    assert [each["cause"] for each in report["waiting"]] == ["SchedulerSays", "NotRead"]
    assert "PodGroup: not in the input" in report["unknown"]
    assert report["prospect"] is None
    if report["priority"] is not None:
        assert "its group was not read" in report["priority"]["rule"]


CLAIMING: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def test_volumes_that_were_not_read_are_not_said_to_be_missing(podium: Podium) -> None:
    report = podium("pod", "a/x", "-f", file([pod("x", **CLAIMING), node()]), "-o", "json").json
    assert [each["cause"] for each in report["waiting"]] == ["NotTried", "NotRead"]
    assert report["prospect"] is None


def test_other_schedulers_judge_more(podium: Podium) -> None:
    """A field that Podium's engine does not support does not keep a pod of kube-scheduler waiting."""
    unknown: Any = {"tolerations": [{"key": "a", "operator": "Lt", "value": "1"}]}
    waiting = pod("x", unscheduled(NO_ROOM), scheduler="default-scheduler", **unknown)
    report = podium("pod", "a/x", "-f", file([waiting, node()]), "-o", "json").json
    assert [each["cause"] for each in report["waiting"]] == ["SchedulerSays", "NotJudged"]


def test_a_divergence_is_explained_in_the_audits_words(podium: Podium) -> None:
    """The priority names the members that differ and the reason; the integer of the group counts."""
    classes = [priority_class("high", 5), priority_class("low", 1)]
    members = [
        pod("x", group="ring", priority=5, priorityClassName="high"),
        pod("y", group="ring", priority=1, priorityClassName="low"),
    ]
    ring = group("ring", spec={"priorityClassName": "high"})
    run = podium("group", "a/ring", "-f", file([*classes, ring, *members, node()]), "-o", "json")
    priority = run.json["priority"]
    assert (priority["placed"], priority["victim"], priority["own"]) == (5, 5, 5)
    assert "NoPreemption" in priority["rule"]
    assert priority["problems"][0] == "1 of 2 pods does not have priority 5: 1 (y)."
    assert "The class of the pod: low; the group's: high." in priority["problems"]


# --- plans ----------------------------------------------------------------------------------------------

PLANS: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "it fits": ([pod("x", priority=5), node()], "Fits", "fits on node n1"),
    "by preemption": (
        [pod("x", priority=5, cpu="3"), pod("low", node="n1", cpu="3"), node()],
        "FitsAfterPreemption",
        "after preempting 1 pod",
    ),
    "not at all": (
        [pod("x", priority=5, cpu="3"), FULL, node()],
        "DoesNotFit",
        "nothing has a lower priority",
    ),
}


@pytest.mark.parametrize(("objects", "outcome", "message"), PLANS.values(), ids=list(PLANS))
def test_the_plan_for_a_waiting_preemptor_is_whatifs(
    podium: Podium, objects: list[dict[str, Any]], outcome: str, message: str
) -> None:
    """The plan is that of `podium whatif`, for a preemptor that waits for room only."""
    report = podium("pod", "a/x", "-f", file(objects), "-o", "json").json
    assert report["prospect"]["outcome"] == outcome
    assert message in report["prospect"]["message"]


def test_a_pod_that_waits_for_something_else_has_no_plan(podium: Podium) -> None:
    report = podium("pod", "a/x", "-f", file([pod("x", schedulingGates=KUEUE), node()]), "-o", "json").json
    assert report["prospect"] is None


def test_no_plan_without_nodes_is_said(podium: Podium) -> None:
    report = podium("pod", "a/x", "-f", file([pod("x")]), "-o", "json").json
    assert report["prospect"] is None
    assert any("the input has no nodes" in each for each in report["unknown"])


# --- the origin of an integer ---------------------------------------------------------------------------

SOURCES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str]] = {
    "a class": (
        {"priority": 7, "priorityClassName": "p"},
        [priority_class("p", 7)],
        "7 from PriorityClass p",
    ),
    "the default": (
        {"priority": 7, "priorityClassName": "p"},
        [priority_class("p", 7, globalDefault=True)],
        "7 from PriorityClass p, the cluster's default",
    ),
    "a recreated class": (
        {"priority": 7, "priorityClassName": "p"},
        [priority_class("p", 9)],
        "7 from PriorityClass p, which was recreated since and now has 9; the stored value counts",
    ),
    "a class that is gone": (
        {"priority": 7, "priorityClassName": "p"},
        [priority_class("q", 9)],
        "7 from PriorityClass p, which no longer exists",
    ),
    "classes that were not read": (
        {"priority": 7, "priorityClassName": "p"},
        [],
        "7 from PriorityClass p",
    ),
    "built-in": (
        {"priority": 2_000_000_000, "priorityClassName": "system-cluster-critical"},
        [priority_class("q", 9)],
        "2000000000 from PriorityClass system-cluster-critical, a built-in class",
    ),
    "never stored": (
        {"priority": None, "priorityClassName": "p"},
        [priority_class("p", 9)],
        "PriorityClass p is named, but no priority was ever stored: it counts as 0",
    ),
    "no class": ({}, [priority_class("q", 9)], "no PriorityClass: 0"),
    "a default that came later": (
        {},
        [priority_class("q", 9, globalDefault=True)],
        "no PriorityClass: 0; q became the default later",
    ),
    "an integer alone": ({"priority": 3}, [], "3 was set without a PriorityClass"),
}


@pytest.mark.parametrize(("spec", "classes", "source"), SOURCES.values(), ids=list(SOURCES))
def test_where_the_integer_comes_from(
    podium: Podium, spec: dict[str, Any], classes: list[dict[str, Any]], source: str
) -> None:
    report = podium("pod", "a/x", "-f", file([pod("x", **spec), *classes, node()]), "-o", "json").json
    assert report["priority"]["source"] == source
    assert report["priority"]["rule"] == "it is in no group: its own priority counts"


def test_conditions_and_events_are_in_every_dump_with_the_past() -> None:
    """A dump keeps the conditions and events that this command reads."""
    groups = {INITIALLY_SCHEDULED, GROUP_SCHEDULED, COMPOSITE_INITIALLY_SCHEDULED}
    assert {POD_SCHEDULED, *groups, DISRUPTION_TARGET} == sharedfields.TELLING
    assert {PREEMPTED, NOT_EVICTED, *disruptions.EVENT_REASONS} == EVICTIONS
