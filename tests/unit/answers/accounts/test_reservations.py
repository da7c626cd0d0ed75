"""A preemption that lasts: its overdue victims, a stale nomination, and room that is kept for another."""

from typing import Any, NamedTuple

import pytest
from tests.support.calling import Podium
from tests.support.why import (
    condition,
    disrupted,
    event,
    file,
    group,
    named,
    node,
    pod,
    podium,
    priority_class,
    uid_of,
    unbound_claim,
)

from podium.api.saving import LONGEST_WAIT_FOR_ROOM, RUN_TIME

__all__ = ["podium"]

DUE = "2026-11-21T08:10:30Z"
# The newest time of most inputs: an event that repeats, as kube-scheduler's FailedScheduling does.
NEWEST = "2026-11-21T09:30:00Z"
REPEATED = named(
    "v1",
    "Event",
    "x.1",
    involvedObject={"kind": "Pod", "namespace": "a", "name": "x"},
    reason="FailedScheduling",
    lastTimestamp=NEWEST,
)
FULL = "0/2 nodes are available: 2 Insufficient cpu."
CHECK = "check the kubelet of node n1; once nothing of the pods runs: "
SILENT = "if node n1 will not come back, so that nothing of the pods runs: "
FORCE = "kubectl delete pod low -n a --force --grace-period=0"
WAIT = "wait until the victims terminate, at most their grace periods"
BEGUN = "a preemption for it is in progress: node n1 is reserved"
STALE = "node n1 is reserved for it, but no pod is leaving: the nomination is stale"
ENDS = (
    "the scheduler ends it when it tries again; if it stays, free the room: kubectl patch pod x -n a "
    """--subresource=status --type=merge -p '{"status":{"nominatedNodeName":null}}'"""
)


def waiting(name: str = "x", at: str = "n1", **rest: Any) -> dict[str, Any]:
    """Make a pod that waits with a nominated node."""
    nominated = {"nominatedNodeName": at} if at else {}
    return pod(
        name, **{"priority": 9, "cpu": "4", "scheduler": "default-scheduler", **rest}, status=nominated
    )


def leaving(
    name: str = "low", *conditions: dict[str, Any], at: str = "n1", due: str = DUE, **rest: Any
) -> dict[str, Any]:
    """Make a pod that is being deleted, with 30 seconds of grace."""
    metadata = {"deletionTimestamp": due, "deletionGracePeriodSeconds": 30} | rest.pop("metadata", {})
    return pod(name, *conditions, **{"node": at, "cpu": "4", **rest}, metadata=metadata)


def ready(name: str, status: str, time: str = DUE) -> dict[str, Any]:
    """Make a node with the condition Ready."""
    made = node(name)
    made["status"]["conditions"] = [condition("Ready", status, "KubeletReady", time=time)]
    return made


def tainted(name: str) -> dict[str, Any]:
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    return {**node(name), "spec": {"taints": [taint]}}


def preempting(name: str) -> dict[str, Any]:
    message = f"podium-scheduler: preempting to accommodate a higher priority pod (UID {uid_of(name)})"
    return disrupted("PreemptionByScheduler", message)


RING = [
    group("ring", priority=9),
    *(waiting(f"x-{number}", at=f"n{number}", group="ring") for number in (1, 2)),
]


WAITING = [
    *(waiting(scheduler="podium-scheduler", priorityClassName="patient"), node(), REPEATED),
    priority_class("patient", 9, metadata={"annotations": {LONGEST_WAIT_FOR_ROOM: "10m"}}),
]


def of_job(namespace: str = "a") -> list[dict[str, Any]]:
    """Make a Job that started at nine with a deadline of 35 minutes, and its pod."""
    started = {"startTime": "2026-11-21T09:00:00Z"}
    job = named("batch/v1", "Job", "eval", namespace=namespace, status=started)
    job["spec"] = {"activeDeadlineSeconds": 35 * 60}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "eval", "uid": uid_of("eval")}
    metadata = {"ownerReferences": [{**owner, "controller": True}]}
    return [job, pod("low", node="n1", cpu="4", status=started, namespace=namespace, metadata=metadata)]


class Case(NamedTuple):
    """A cluster, whose pod a/x or group a/ring waits, and its first reason."""

    objects: list[dict[str, Any]]
    cause: str
    message: str
    fix: str
    name: str = "pod a/x"


CASES = {
    "a victim that is not due yet": Case(
        [waiting(), leaving(due="2026-11-21T09:31:00Z"), node(), REPEATED],
        "NodeReserved",
        f"{BEGUN} until a/low has ended, due at 2026-11-21T09:31:00Z",
        WAIT,
    ),
    "several victims that are not due yet": Case(
        [
            *(waiting(), leaving(due="2026-11-21T09:31:00Z", cpu="2"), node(), REPEATED),
            leaving("tiny", due="2026-11-21T09:32:00Z", cpu="2"),
        ],
        "NodeReserved",
        f"{BEGUN} until a/low, a/tiny have ended, the last due at 2026-11-21T09:32:00Z",
        WAIT,
    ),
    "a victim that is not due yet, on a node that is unknown": Case(
        [waiting(), leaving(due="2026-11-21T09:31:00Z"), ready("n1", "Unknown", NEWEST)],
        "NodeReserved",
        f"{BEGUN} until a/low has ended, due at 2026-11-21T09:31:00Z; node n1 does not answer",
        f"{WAIT}; {SILENT}{FORCE}",
    ),
    "a victim within the minute in which a kubelet deletes it": Case(
        [waiting(), leaving(due="2026-11-21T09:29:30Z"), node(), REPEATED],
        "NodeReserved",
        f"{BEGUN} until a/low has ended, due at 2026-11-21T09:29:30Z",
        WAIT,
    ),
    "a victim that is only marked": Case(
        [waiting(), pod("low", preempting("x"), node="n1", cpu="4"), node()],
        "NodeReserved",
        f"{BEGUN} until a/low has ended; the deletion of 1 pod has not begun",
        WAIT,
    ),
    # kubernetes/kubernetes#95752, kubernetes-sigs/kube-scheduler-simulator#271
    "a victim that is overdue": Case(
        [waiting(), leaving(), node(), REPEATED],
        "VictimOverdue",
        f"{BEGUN}, but a/low is overdue since {DUE}",
        f"{CHECK}{FORCE}",
    ),
    "a victim that is overdue, by the deletion of another pod": Case(
        [waiting(), leaving(), node(), node("n2"), leaving("late", at="n2", due="2026-11-21T09:00:00Z")],
        "VictimOverdue",
        f"{BEGUN}, but a/low is overdue since {DUE}",
        f"{CHECK}{FORCE}",
    ),
    "a victim that is overdue, on a node that is unknown": Case(
        [waiting(), leaving(), ready("n1", "Unknown", NEWEST)],
        "VictimOverdue",
        f"{BEGUN}, but a/low is overdue since {DUE}; node n1 does not answer",
        f"{SILENT}{FORCE}",
    ),
    "a victim that is overdue, on an unreachable node": Case(
        [waiting(), leaving(), tainted("n1"), REPEATED],
        "VictimOverdue",
        f"{BEGUN}, but a/low is overdue since {DUE}; node n1 does not answer",
        f"{SILENT}{FORCE}",
    ),
    "a victim that is overdue, on a node that is not ready": Case(
        [waiting(), leaving(), ready("n1", "False"), REPEATED],
        "VictimOverdue",
        f"{BEGUN}, but a/low is overdue since {DUE}; node n1 is not ready",
        f"{SILENT}{FORCE}",
    ),
    "a victim that is overdue, on a node that is gone": Case(
        [waiting(), leaving(), node("n2", cpu="1"), REPEATED],
        "VictimOverdue",
        f"{BEGUN}, but a/low is overdue since {DUE}; node n1 no longer exists",
        f"{SILENT}{FORCE}",
    ),
    "a victim that is overdue, with a finalizer": Case(
        [waiting(), leaving(metadata={"finalizers": ["example.com/keep"]}), ready("n1", "True"), REPEATED],
        "VictimOverdue",
        f"{BEGUN}, but a/low is overdue since {DUE}",
        f"{CHECK}{FORCE}; then remove the finalizers example.com/keep",
    ),
    "victims of two nodes and namespaces, for a group": Case(
        [*RING, leaving(), leaving("other", at="n2", namespace="b"), node(), node("n2"), REPEATED],
        "VictimOverdue",
        "a preemption for it is in progress: nodes n1, n2 are reserved, "
        f"but a/low is overdue since {DUE} and b/other since {DUE}",
        "check the kubelet of nodes n1, n2; once nothing of the pods runs: "
        f"{FORCE}; kubectl delete pod other -n b --force --grace-period=0",
        "group a/ring",
    ),
    "overdue victims of which one node answers": Case(
        [*RING, leaving(), leaving("other", at="n2"), tainted("n1"), node("n2"), REPEATED],
        "VictimOverdue",
        "a preemption for it is in progress: nodes n1, n2 are reserved, "
        f"but a/low is overdue since {DUE} and a/other since {DUE}; node n1 does not answer",
        f"{SILENT}{FORCE}; {CHECK.replace('n1', 'n2')}{FORCE.replace('low', 'other')}",
        "group a/ring",
    ),
    "more victims than are named": Case(
        [
            *(waiting(), node(), REPEATED),
            *(leaving(f"low-{number}", cpu="1", due=f"2026-11-21T08:1{number}:00Z") for number in range(5)),
        ],
        "VictimOverdue",
        f"{BEGUN}, but a/low-0 is overdue since 2026-11-21T08:10:00Z, a/low-1 since 2026-11-21T08:11:00Z, "
        "a/low-2 since 2026-11-21T08:12:00Z and 2 more",
        f"{CHECK}kubectl delete pod low-0 low-1 low-2 ... (2 more) -n a --force --grace-period=0",
    ),
    "a victim on another node, by its mark": Case(
        [waiting(), leaving("low", preempting("x"), at="n2"), node(), node("n2"), REPEATED],
        "VictimOverdue",
        f"{BEGUN}, but a/low is overdue since {DUE}",
        f"check the kubelet of node n2; once nothing of the pods runs: {FORCE}",
    ),
    "a victim without a nomination, by its event": Case(
        [
            *(waiting(at=""), leaving(), node(), REPEATED),
            event("low", "Preempted", f"Preempted by pod {uid_of('x')} on node n1", "default-scheduler"),
        ],
        "VictimOverdue",
        f"a preemption for it is in progress, but a/low is overdue since {DUE}",
        f"{CHECK}{FORCE}",
    ),
    "a finished pod holds no room": Case(
        [
            waiting(),
            leaving(status={"phase": "Failed"}),
            pod("full", node="n1", cpu="4", priority=10),
            node(),
        ],
        "StaleNomination",
        STALE,
        ENDS,
    ),
    # kubernetes/kubernetes#106780
    "a nomination without a leaving pod that no longer fits": Case(
        [waiting(), pod("came", node="n1", cpu="2", priority=10), node()], "StaleNomination", STALE, ENDS
    ),
    "a nomination to a node that is gone": Case(
        [waiting(at="n9"), pod("came", node="n1", cpu="2", priority=10), node()],
        "StaleNomination",
        "node n9 is reserved for it, but node n9 is not in the cluster, and no pod is leaving: "
        "the nomination is stale",
        ENDS,
    ),
    "nominations of a group that no longer fits": Case(
        [*RING, pod("came", node="n1", cpu="2", priority=10), node(), node("n2")],
        "StaleNomination",
        "nodes n1, n2 are reserved for it, but no pod is leaving: the nomination is stale",
        f"{ENDS.replace('pod x ', 'pod x-1 ')}, and for 1 more pod",
        "group a/ring",
    ),
    "a nomination without a leaving pod that fits": Case(
        [waiting(), node()],
        "NodeReserved",
        "node n1 is reserved for it, no pod is leaving, and it fits now",
        "the scheduler places it when it tries again",
    ),
    "a nomination that waits for the end of a pod": Case(
        [
            *WAITING,
            pod(
                "low",
                node="n1",
                cpu="4",
                status={"startTime": "2026-11-21T09:00:00Z"},
                metadata={"annotations": {RUN_TIME: "35m"}},
            ),
        ],
        "NodeReserved",
        "node n1 is reserved for it, and room comes at 2026-11-21T09:35:10Z, by the end of a/low",
        "wait: if a pod outlives its end, the scheduler looks for room again",
    ),
    "a nomination that waits for the deadline of a Job": Case(
        [*WAITING, *of_job()],
        "NodeReserved",
        "node n1 is reserved for it, and room comes at 2026-11-21T09:35:40Z, by the deadline of Job a/eval",
        "wait: if a pod outlives its end, the scheduler looks for room again",
    ),
    "a nomination in an input without nodes": Case([waiting()], "NodeReserved", BEGUN, WAIT),
    "room that is kept for a pod": Case(
        [waiting(at="", cpu="2"), waiting("p1", cpu="3"), node()],
        "RoomKept",
        "3 cpu are kept for a/p1 on node n1",
        "see what the other waits for: podium why pod a/p1; only a pod of higher priority may take the room",
    ),
    "room that is kept for pods of another namespace": Case(
        [
            *(waiting(at="", cpu="2"), node()),
            *(waiting(name, cpu="1500m", namespace="b") for name in ("p1", "p2")),
        ],
        "RoomKept",
        "3 cpu are kept for b/p1, b/p2 on node n1",
        "see what the other waits for: podium why pod b/p1; only a pod of higher priority may take the room",
    ),
    "room that is kept for a group": Case(
        [waiting(at=""), *RING, node(), node("n2")],
        "RoomKept",
        "4 cpu are kept for group a/ring on node n1",
        "see what the other waits for: podium why pod a/x-1; only a pod of higher priority may take the room",
    ),
    "room that is kept from a group": Case(
        [
            *(group("ring", priority=9), node(), node("n2")),
            *(waiting(f"x-{number}", at="", group="ring") for number in (1, 2)),
            *(waiting("p1", at="n1", cpu="1"), waiting("p2", at="n2", cpu="1")),
        ],
        "RoomKept",
        "1 cpu are kept for a/p1 on node n1; 1 cpu are kept for a/p2 on node n2",
        "see what the other waits for: podium why pod a/p1; only a pod of higher priority may take the room",
        "group a/ring",
    ),
    "room that is kept for a pod of lower priority": Case(
        [waiting(at="", cpu="2"), waiting("p1", cpu="3", priority=8), node()],
        "NotTried",
        "default-scheduler has not reported on it yet",
        "check that kube-scheduler runs and keeps up",
    ),
    "a nominated node that no longer suits it": Case(
        [waiting(), leaving(due="2026-11-21T09:31:00Z"), tainted("n1"), node("n2", cpu="1"), REPEATED],
        "StaleNomination",
        "node n1 is nominated for it, and no longer suits it: node(s) had untolerated taint(s)",
        "the scheduler takes another node when it tries again",
    ),
    "a claim whose selected node is full": Case(
        [
            waiting(at="", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
            *(pod("full", node="n1", cpu="4", priority=10), node(), node("n2"), *unbound_claim("data", "n1")),
        ],
        "NodeSelected",
        "claim data keeps it on node n1, where it does not fit "
        "(annotation volume.kubernetes.io/selected-node)",
        "free room there, or let the scheduler select again: "
        "kubectl annotate pvc data -n a volume.kubernetes.io/selected-node-",
    ),
    "room that would not suffice": Case(
        [waiting(at=""), waiting("p1", cpu="1"), pod("full", node="n1", cpu="2", priority=10), node()],
        "NotTried",
        "default-scheduler has not reported on it yet",
        "check that kube-scheduler runs and keeps up",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_reservation_is_explained(podium: Podium, case: Case) -> None:
    run = podium(*case.name.split(), "-f", file(case.objects), "-o", "json")
    assert run.code == 0, run.stderr
    first = run.json["waiting"][0]
    assert (first["cause"], first["message"], first["fix"]) == (case.cause, case.message, case.fix)
    assert case.message in run.json["summary"]


@pytest.mark.parametrize("name", ["pod a/x-1", "pod a/x-2", "group a/ring"])
def test_a_member_of_a_group_has_the_reason_of_the_group(podium: Podium, name: str) -> None:
    """Its own node may have no victim: the group is placed as one."""
    objects = [*RING, leaving(), node(), node("n2"), REPEATED]
    first = podium(*name.split(), "-f", file(objects), "-o", "json").json["waiting"][0]
    assert first["message"] == (
        f"a preemption for it is in progress: nodes n1, n2 are reserved, but a/low is overdue since {DUE}"
    )


def test_a_tenant_reads_uids_of_others(podium: Podium) -> None:
    """The command to end a pod by force is for its owner."""
    objects = [waiting(), leaving("secret", namespace="b"), node(), REPEATED]
    run = podium("pod", "a/x", "-f", file(objects), "--tenant", "a", "-o", "json")
    assert run.json["waiting"][0]["message"] == f"{BEGUN}, but pod uid-of-secret is overdue since {DUE}"
    assert run.json["waiting"][0]["fix"] == f"{CHECK.rstrip(': ')}, an administrator can delete them by force"
    assert "secret" not in run.stdout.replace("uid-of-secret", "")
    run = podium("pod", "a/x", "-f", file([*WAITING, *of_job("b")]), "--tenant", "a", "-o", "json")
    assert run.json["waiting"][0]["message"].endswith("by the deadline of Job uid-of-eval")
    objects = [waiting(at="", cpu="2"), waiting("secret", namespace="b"), node()]
    run = podium("pod", "a/x", "-f", file(objects), "--tenant", "a", "-o", "json")
    assert run.json["waiting"][0]["message"] == "4 cpu are kept for pod uid-of-secret on node n1"
    assert "secret" not in run.stdout.replace("uid-of-secret", "")


def test_times_that_are_none_count_nowhere(podium: Podium) -> None:
    """Times that a tenant wrote into an event or a dump neither fail nor move the time of the plan."""
    broken = {**REPEATED, "lastTimestamp": "soon", "series": {"lastObservedTime": "9" * 400}}
    odd = leaving("odd", at="n2", due="0001-01-01T00:00:00Z", metadata={"deletionGracePeriodSeconds": 2**62})
    run = podium("pod", "a/x", "-f", file([waiting(), leaving(), odd, node(), broken]), "-o", "json")
    assert run.json["waiting"][0]["message"] == f"{BEGUN} until a/low has ended, due at {DUE}"
