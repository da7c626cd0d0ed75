"""The cause of a pod's removal is identified, from conditions, events and records, alone and together."""

from typing import Any

import pytest
from tests.support.calling import Podium
from tests.support.why import (
    LATER,
    condition,
    disrupted,
    event,
    file,
    group,
    node,
    party,
    plan,
    pod,
    podium,
    record,
    uid_of,
)

from podium.answers.accounts.disruptions import FIXES
from podium.answers.accounts.model import By
from podium.api.saving import SAVES_ON_NOTICE

__all__ = ["podium"]

GOING = {"deletionTimestamp": LATER}
BY_PODIUM = f"podium-scheduler: preempting to accommodate a higher priority pod (UID {uid_of('high')})"
BY_KUBE = "default-scheduler: preempting to accommodate a higher priority pod"
CRITICAL = "Pod was preempted by Kubelet to accommodate a critical pod."
EVENT_KUBE = f"Preempted by pod {uid_of('high')} on node n1"
KUBELET = "TerminationByKubelet"
SHORT = "The node was low on resource: ephemeral-storage. Container a was using 9Ki, request is 0. "


def ended(reason: str, message: str = "", **status: Any) -> list[dict[str, Any]]:
    """Make a pod that a kubelet evicted."""
    conditions = [disrupted(KUBELET, message)] if message else []
    return [pod("x", *conditions, node="n1", status={"phase": "Failed", "reason": reason, **status})]


# The stored objects, the actor, and a part of the summary.
HANDS: dict[str, tuple[list[dict[str, Any]], By, str]] = {
    "Podium": (
        [pod("x", disrupted("PreemptionByScheduler", BY_PODIUM), node="n1")],
        By.PODIUM,
        f"is terminating: Podium's scheduler preempted it at {LATER} for Pod uid-of-high",
    ),
    "Podium under another name": (
        [pod("x", disrupted("PreemptionByScheduler", BY_PODIUM.replace("podium-", "our-")), node="n1")],
        By.PODIUM,
        "Podium's scheduler preempted it",
    ),
    "Podium, for a preemptor of its namespace": (
        [pod("x", disrupted("PreemptionByScheduler", f"{BY_PODIUM}, a/high"), node="n1")],
        By.PODIUM,
        f"Podium's scheduler preempted it at {LATER} for Pod a/high.",
    ),
    "Podium, by an event for a preemptor of its namespace": (
        [event("x", "Preempted", f"{EVENT_KUBE}, 2 pods in 1 unit, a/high", "podium-scheduler")],
        By.PODIUM,
        f"Podium's scheduler preempted it at {LATER} for Pod a/high.",
    ),
    "kube-scheduler": (
        [pod("x", disrupted("PreemptionByScheduler", BY_KUBE), node="n1")],
        By.KUBE_SCHEDULER,
        "kube-scheduler preempted it",
    ),
    "another scheduler": (
        [pod("x", disrupted("PreemptionByScheduler", BY_KUBE.replace("default", "own")), node="n1")],
        By.SCHEDULER,
        "scheduler own-scheduler preempted it",
    ),
    "some scheduler, in a dump without messages": (
        [pod("x", disrupted("PreemptionByScheduler"), node="n1")],
        By.SCHEDULER,
        "a scheduler preempted it",
    ),
    "the eviction API": (
        [pod("x", disrupted("EvictionByEvictionAPI", "Eviction API: evicting"), node="n1", metadata=GOING)],
        By.EVICTION_API,
        "evicted through the eviction API",
    ),
    "a kubelet under pressure": (
        ended("Evicted", "The node was low on resource: memory."),
        By.KUBELET_PRESSURE,
        "has ended: the kubelet evicted it because its node ran short",
    ),
    "a kubelet that says of what the node ran short": (
        ended(
            "Evicted", message="The node was low on resource: ephemeral-storage. Container a was using 9Ki."
        ),
        By.KUBELET_PRESSURE,
        'ran short of a resource ("The node was low on resource: ephemeral-storage")',
    ),
    "a kubelet that says so in the status only": (
        [pod("x", node="n1", status={"phase": "Failed", "reason": "Evicted", "message": SHORT})],
        By.KUBELET_PRESSURE,
        'ran short of a resource ("The node was low on resource: ephemeral-storage")',
    ),
    "a kubelet whose condition lost its message": (
        [
            pod(
                "x",
                disrupted(KUBELET),
                node="n1",
                status={"phase": "Failed", "reason": "Evicted", "message": SHORT},
            )
        ],
        By.KUBELET_PRESSURE,
        'ran short of a resource ("The node was low on resource: ephemeral-storage")',
    ),
    **{
        f"a kubelet at a limit: {text}": (
            [pod("x", node="n1", status={"phase": "Failed", "reason": "Evicted", "message": f"{text}. "})],
            By.KUBELET_LIMIT,
            f'it used more storage than its limit ("{text}")',
        )
        for text in (
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi",
            'Container a exceeded its local ephemeral storage limit "1Gi"',
            'Usage of EmptyDir volume "tmp" exceeds the limit "1Gi"',
        )
    },
    "a kubelet for a critical pod": (
        ended("Preempting", CRITICAL),
        By.KUBELET_CRITICAL,
        "for a critical pod",
    ),
    "a kubelet that shuts down": (
        ended("Terminated", "Pod was terminated in response to imminent node shutdown."),
        By.KUBELET_SHUTDOWN,
        "its node shut down",
    ),
    "a kubelet, without a reason": (ended("", "went"), By.KUBELET, "the kubelet terminated it"),
    "a kubelet without conditions": (ended("Evicted"), By.KUBELET_PRESSURE, "the kubelet evicted it"),
    "the taint manager": (
        [
            pod(
                "x",
                disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
                node="n1",
                metadata=GOING,
            )
        ],
        By.TAINT_MANAGER,
        "the taint manager deleted it",
    ),
    "the garbage collector": (
        [pod("x", disrupted("DeletionByPodGC", "PodGC: node no longer exists"), node="n1")],
        By.POD_GC,
        "garbage collector",
    ),
    "an unknown reason": (
        [pod("x", disrupted("StoppedByQueue"), node="n1")],
        By.OTHER,
        "it was disrupted",
    ),
    "deleted by a user": (
        [pod("x", node="n1", metadata=GOING)],
        By.DELETED,
        f"it was deleted; its grace period is running at {LATER}",
    ),
    "kube-scheduler, of which only the event is left": (
        [event("x", "Preempted", EVENT_KUBE, "default-scheduler")],
        By.KUBE_SCHEDULER,
        "no longer exists: kube-scheduler preempted it",
    ),
    "a kubelet, of which only the event is left": (
        [event("x", "Preempting", "Preempted in order to admit critical pod", "kubelet")],
        By.KUBELET_CRITICAL,
        "for a critical pod",
    ),
    "the taint manager, of which only the event is left": (
        [event("x", "TaintManagerEviction", "Marking for deletion Pod a/x", "taint-eviction-controller")],
        By.TAINT_MANAGER,
        "the taint manager deleted it",
    ),
    "Podium, of which only the record is left": (
        [record(plan(party("Pod", "a", "high", priority=9), party("Pod", "a", "x")))],
        By.PODIUM,
        f"no longer exists: Podium's scheduler preempted it at {LATER} for Pod a/high",
    ),
}


# When a member of a marked group was deleted, its grace period, and whether the mark is the reason.
MEMBERS: dict[str, tuple[str, int, list[str]]] = {
    "deleted with the mark": (LATER, 0, ["Podium"]),
    "deleted with the mark, with a grace period": ("2026-11-21T08:10:30Z", 30, ["Podium"]),
    "deleted before the mark": ("2026-11-21T08:10:10Z", 30, ["Deleted", "Podium"]),
    "deleted long after the mark": ("2026-11-21T09:10:00Z", 0, ["Deleted", "Podium"]),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_of_a_preempted_group_was_preempted(podium: Podium, name: str) -> None:
    """The scheduler marks a whole group in place of its pods."""
    ends, grace, expected = MEMBERS[name]
    metadata = {"deletionTimestamp": ends, "deletionGracePeriodSeconds": grace}
    objects = [
        group("ring", disrupted("PreemptionByScheduler", BY_PODIUM)),
        pod("x", node="n1", group="ring", metadata=metadata),
    ]
    run = podium("pod", "a/x", "-f", file([*objects, node()]), "-o", "json")
    assert run.code == 0, run.stderr
    assert sorted({each["by"] for each in run.json["departures"]}) == expected


@pytest.mark.parametrize(("objects", "by", "summary"), HANDS.values(), ids=list(HANDS))
def test_each_hand_is_told_apart(podium: Podium, objects: list[dict[str, Any]], by: By, summary: str) -> None:
    """The report has one departure, by this actor, which the summary names; each has a fix."""
    run = podium("pod", "a/x", "-f", file([*objects, node()]), "-o", "json")
    assert run.code == 0, run.stderr
    report = run.json
    assert [each["by"] for each in report["departures"]] == [by]
    assert summary in report["summary"]
    assert report["departures"][0]["fix"]


AFTER = {
    "": "no controller replaces it: delete it, and create it again; ",
    "ReplicaSet": "its ReplicaSet creates another; if none came, delete this one; ",
    "StatefulSet": "its StatefulSet deletes it and creates another; ",
    "Job": (
        "its Job counts a failure, unless its podFailurePolicy ignores it, and creates another up to its "
        "backoffLimit; "
    ),
    "InstanceSet": "delete it, so that its InstanceSet creates another; ",
}


@pytest.mark.parametrize("kind", AFTER)
def test_a_failed_pod_does_not_start_again(podium: Podium, kind: str) -> None:
    """The advice depends on the kind of its controller (kubernetes/kubernetes#140653)."""
    (failed,) = ended("Preempting", CRITICAL)
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
    failed["metadata"]["ownerReferences"] = [owner] if kind else []
    report = podium("pod", "a/x", "-f", file([failed, node()]), "-o", "json").json
    (departure,) = report["departures"]
    assert departure["fix"] == f"it does not start again: {AFTER[kind]}{FIXES[By.KUBELET_CRITICAL]}"


def test_a_pod_that_is_deleted_needs_no_deletion(podium: Podium) -> None:
    """The advice for the actor remains."""
    (failed,) = ended("Preempting", CRITICAL)
    failed["metadata"] |= GOING
    report = podium("pod", "a/x", "-f", file([failed, node()]), "-o", "json").json
    assert [each["fix"] for each in report["departures"]] == [FIXES[By.KUBELET_CRITICAL]]


def test_several_sources_of_one_eviction_give_one_departure(podium: Podium) -> None:
    """Condition, event and record agree: one departure, with the name that the record has."""
    objects = [
        pod("x", disrupted("PreemptionByScheduler", BY_PODIUM), node="n1", metadata=GOING),
        event("x", "Preempted", f"{EVENT_KUBE}, 1 pod in 1 unit", "podium-scheduler"),
        record(plan(party("Pod", "a", "high", priority=9), party("Pod", "a", "x"), domain="n1")),
    ]
    report = podium("pod", "a/x", "-f", file([*objects, node()]), "-o", "json").json
    (departure,) = report["departures"]
    assert departure["told"] == ["condition", "event", "record"]
    whom = {"kind": "Pod", "namespace": "a", "name": "high", "uid": uid_of("high"), "priority": 9}
    assert (departure["preemptor"], departure["node"]) == (whom, "n1")


def test_a_preemptor_that_was_read_has_its_name(podium: Podium) -> None:
    """kube-scheduler's message has the UID only."""
    objects = [event("x", "Preempted", EVENT_KUBE, "default-scheduler"), pod("high", node="n1", priority=7)]
    report = podium("pod", "a/x", "-f", file([*objects, node()]), "-o", "json").json
    whom = report["departures"][0]["preemptor"]
    assert (whom["namespace"], whom["name"], whom["priority"]) == ("a", "high", 7)


def test_pods_of_a_group_that_went_together_are_one(podium: Podium) -> None:
    """A group that is preempted as a whole is one departure with all its pods."""
    message = BY_PODIUM.replace("pod (", "podgroup (")
    told_in_event = f"Preempted by podgroup {uid_of('high')} on node cluster"
    objects = [
        group("ring", condition("DisruptionTarget", "True", "PreemptionByScheduler", message)),
        *(
            pod(name, disrupted("PreemptionByScheduler", message), node="n1", group="ring", priority=5)
            for name in ("x", "y")
        ),
        event("ring", "Preempted", told_in_event, "podium-scheduler", kind="PodGroup"),
        record(plan(party("PodGroup", "a", "high"), party("PodGroup", "a", "ring"))),
    ]
    (departure,) = podium("group", "a/ring", "-f", file([*objects, node()]), "-o", "json").json["departures"]
    assert (departure["pods"], departure["told"]) == (["x", "y"], ["condition", "event", "record"])
    assert departure["preemptor"]["name"] == "high"
    report = podium("pod", "a/x", "-f", "cluster.json", "-o", "json").json
    assert [(each["of"], each["by"]) for each in report["departures"]] == [("Itself", "Podium")]


def test_a_groups_own_condition_outlives_its_pods(podium: Podium) -> None:
    """The group exists, its pods are gone: the condition names the preemptor."""
    message = BY_PODIUM.replace("pod (", "podgroup (")
    ring = group("ring", condition("DisruptionTarget", "True", "PreemptionByScheduler", message))
    report = podium("group", "a/ring", "-f", file([ring, node()]), "-o", "json").json
    (departure,) = report["departures"]
    assert (departure["by"], departure["preemptor"]["uid"]) == ("Podium", uid_of("high"))
    assert report["waiting"][0]["cause"] == "TooFew"


def test_groups_that_went_twice_are_two(podium: Podium) -> None:
    objects = [
        record(
            plan(party("PodGroup", "a", "high"), party("PodGroup", "a", "ring")),
            plan(party("PodGroup", "a", "more"), party("PodGroup", "a", "ring"), time="2026-11-21T09:00:00Z"),
        )
    ]
    report = podium("group", "a/ring", "-f", file(objects), "-o", "json").json
    assert [each["preemptor"]["name"] for each in report["departures"]] == ["more", "high"]
    assert report["state"] == "Gone"


def test_the_one_before_it_is_told_apart(podium: Podium) -> None:
    """A pod that was recreated under its name, and others of the same Job, are not the pod itself."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}
    job = {"kind": "Job", "name": "train", "uid": "j"}
    objects = [
        pod("x", metadata={"ownerReferences": [owner]}, node="n1"),
        record(
            plan(party("Pod", "a", "high"), party("Pod", "a", "x") | {"uid": "older"}),
            plan(party("Pod", "a", "more"), party("Pod", "a", "other", owner=job)),
            plan(party("Pod", "a", "most"), party("Pod", "b", "x")),
        ),
    ]
    report = podium("pod", "a/x", "-f", file(objects), "-o", "json").json
    assert sorted(each["of"] for each in report["departures"]) == ["Earlier", "Workload"]
    assert report["summary"] == "Pod a/x runs."


@pytest.mark.parametrize(
    ("phase", "state", "pod_summary", "group_summary"),
    [
        ("Running", "Running", "runs.", "runs."),
        (
            "Pending",
            "Starting",
            "has a node and has not started.",
            "has nodes, and some of its pods have not started.",
        ),
    ],
)
def test_a_pod_that_has_a_node_runs_once_it_has_started(
    podium: Podium, phase: str, state: str, pod_summary: str, group_summary: str
) -> None:
    members = [
        pod("x", node="n1", group="g", status={"phase": phase}),
        pod("y", node="n1", group="g", status={"phase": "Running"}),
    ]
    cluster = file([group("g"), *members])
    for target, summary in ((("pod", "a/x"), pod_summary), (("group", "a/g"), group_summary)):
        report = podium(*target, "-f", cluster, "-o", "json").json
        assert report["state"] == state
        assert report["summary"].endswith(summary)


def test_an_observed_preemption_is_no_departure(podium: Podium) -> None:
    """Under preemption: observe no pod was evicted, and a plan of an unknown mode is not shown at all."""
    objects = [
        pod("x", node="n1"),
        record(
            plan(party("Pod", "a", "high"), party("Pod", "a", "x"), mode="Observed"),
            plan(party("Pod", "a", "high"), party("Pod", "a", "x"), mode="Shadow"),
        ),
    ]
    report = podium("pod", "a/x", "-f", file(objects), "-o", "json").json
    assert [each["by"] for each in report["departures"]] == [By.PODIUM_OBSERVED]
    assert report["state"] == "Running"


def test_a_mark_that_was_taken_back_is_no_end(podium: Podium) -> None:
    spared = condition("DisruptionTarget", "False", "PreemptionByScheduler", "given up")
    report = podium("pod", "a/x", "-f", file([pod("x", spared, node="n1")]), "-o", "json").json
    assert (report["departures"], report["state"]) == ([], "Running")


def test_a_taint_that_went_is_no_end(podium: Podium) -> None:
    cancelled = event(
        "x", "TaintManagerEviction", "Cancelling deletion of Pod a/x", "taint-eviction-controller"
    )
    report = podium("pod", "a/x", "-f", file([pod("x", node="n1"), cancelled]), "-o", "json").json
    assert report["departures"] == []


def test_preemptions_for_a_group_are_counted(podium: Podium) -> None:
    """The records give numbers, without names."""
    objects = [
        group("ring", least=1),
        pod("x", group="ring", node="n1", priority=5),
        record(
            plan(party("PodGroup", "a", "ring"), party("Pod", "b", "secret"), party("Pod", "b", "hidden"))
        ),
    ]
    run = podium("pod", "a/x", "-f", file(objects), "-o", "json")
    (gain,) = run.json["gains"]
    assert (gain["result"], gain["units"], gain["pods"]) == ("Evicted", 2, 2)
    assert "secret" not in run.stdout


ASKED: dict[str, Any] = {
    "acceleratorSeconds": 60,
    "acceleratorSecondsSaved": 7_200,
    "askedPods": 2,
    "savedPods": 1,
}


def _saving(*answers: str, **metadata: Any) -> list[dict[str, Any]]:
    """Make a pod of a Job, and a preemption of it for each answer to a request to save."""
    job = {"kind": "Job", "name": "train", "uid": uid_of("train")}
    victims = [party("Pod", "a", "x", saving=answer, owner=job) for answer in answers]
    owner = {"apiVersion": "batch/v1", **job, "controller": True}
    running = pod("x", node="n1", metadata={"ownerReferences": [owner], **metadata})
    plans = [plan(party("Pod", "a", f"high-{at}"), victim, **ASKED) for at, victim in enumerate(victims)]
    return [running, node(), record(*plans)]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("Saved", "; it was asked to save its work, and did"),
        ("Failed", "; it was asked to save its work, and did not in its time"),
        ("", ""),
    ],
)
def test_an_eviction_says_whether_the_work_was_saved(podium: Podium, answer: str, words: str) -> None:
    run = podium("pod", "a/x", "-f", file(_saving(answer)))
    assert f"preempted it for Pod a/high-0 (priority 0){words} source: record" in " ".join(run.stdout.split())
    (departure,) = podium("pod", "a/x", "-f", "cluster.json", "-o", "json").json["departures"]
    assert departure["saving"] == answer


def test_a_preemption_says_what_its_victims_lost_and_saved(podium: Podium) -> None:
    run = podium("pod", "a/high-0", "-f", file(_saving("Failed")))
    words = (
        "(60 accelerator-seconds of work lost, 2.0 accelerator-hours saved, "
        "2 pods asked to save, 1 did, waited"
    )
    assert words in " ".join(run.stdout.split())


@pytest.mark.parametrize(
    ("answers", "declares", "named"),
    [
        (("Failed", "Failed"), True, True),
        (("Failed", "Failed", "Saved"), True, False),
        (("Failed",), True, False),
        (("Failed", "Failed"), False, False),
    ],
    ids=["twice", "twice, and then it saved", "once", "it declares nothing"],
)
def test_a_workload_that_is_not_trusted_is_named(
    podium: Podium, answers: tuple[str, ...], declares: bool, named: bool
) -> None:
    annotations = {SAVES_ON_NOTICE: "30s"} if declares else {}
    run = podium("pod", "a/x", "-f", file(_saving(*answers, annotations=annotations)))
    assert (
        "declares to save its work, but failed to 2 times in a row" in " ".join(run.stdout.split())
    ) is named


REFUSES = "cannot be evicted: the API server refuses its deletion: a policy denies it"


def _failed(message: str) -> dict[str, Any]:
    """Record a preemption of a pod of each of two namespaces that failed."""
    victims = party("Pod", "a", "x"), party("Pod", "b", "secret")
    return record(plan(party("Pod", "a", "high"), *victims, result="Failed", message=message))


@pytest.mark.parametrize(
    "told",
    [
        event("x", "CannotEvict", f"C{REFUSES[1:]}", "podium-scheduler"),
        _failed(f"pod a/x {REFUSES}"),
    ],
    ids=["event", "record"],
)
def test_a_pod_that_cannot_be_evicted_says_why(podium: Podium, told: dict[str, Any]) -> None:
    run = podium("pod", "a/x", "-f", file([pod("x", node="n1"), node(), told]))
    assert REFUSES[1:] in " ".join(run.stdout.split())


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (f"pod b/secret {REFUSES}", "a pod cannot be evicted: the API server refuses its deletion"),
        (
            "https://api: DELETE /api/v1/namespaces/b/pods/secret: 500",
            "the API server did not take all of it",
        ),
        ("its priority is lower now", "its priority is lower now"),
    ],
    ids=["refused", "in trouble", "unwanted"],
)
def test_a_preemptor_of_a_failed_preemption_learns_no_names(podium: Podium, message: str, why: str) -> None:
    objects = [pod("high", priority=9), node(), _failed(message)]
    run = podium("pod", "a/high", "-f", file(objects), "-o", "json")
    (gain,) = run.json["gains"]
    assert gain["message"] == why
    assert "secret" not in run.stdout
    (departure,) = podium("pod", "a/x", "-f", "cluster.json", "-o", "json").json["departures"]
    assert departure["message"] == "the preemption failed before its end, so the pod may still run"


# --- objects that do not exist ------------------------------------------------------------------------------

MISSING: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "a name that is nearly right": ([pod("trainer")], "pod a/trainr", "did you mean trainer?"),
    "a group, asked about as a pod": (
        [group("ring"), pod("z")],
        "pod a/ring",
        "a PodGroup has this name: podium why group a/ring",
    ),
    "a pod, asked about as a group": (
        [pod("x")],
        "group a/x",
        "a pod has this name: podium why pod a/x",
    ),
    "one of another namespace": ([pod("x", namespace="b")], "pod a/x", "found in b"),
    "a pod that does not exist": (
        [pod("x")],
        "pod a/nobody",
        "no record of it (Event: not in the input (podium dump --events); PreemptionRecord: ",
    ),
}


@pytest.mark.parametrize(("objects", "name", "message"), MISSING.values(), ids=list(MISSING))
def test_a_missing_object_is_an_error_with_similar_names(
    podium: Podium, objects: list[dict[str, Any]], name: str, message: str
) -> None:
    """The error is one line, with similar names and the kinds that were not read."""
    run = podium(*name.split(), "-f", file(objects))
    assert (run.code, run.stdout) == (1, "")
    assert run.stderr.count("\n") == 1
    assert message in run.stderr
