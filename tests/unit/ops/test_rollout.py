"""The causes of a rollout in statuses as kubelets and controllers write them."""

from typing import Any, NamedTuple

import pytest
from tests.support.rollout import (
    CONTAINER,
    NAME,
    POD,
    REFUSED,
    SET,
    WAITING,
    Document,
    container,
    crashing,
    deployment,
    event,
    exited,
    pod,
    progressing,
    refused,
    replica_set,
    running,
    unscheduled,
    waiting,
)

from podium.ops.rollout import Cause, CauseKind, ContainerLog, Rollout, lacking, rollout

_NO_NODE = (
    "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption "
    "victims found for incoming pod."
)
_CRASHED = f"Pod {POD}: CrashLoopBackOff: container webhook exited 3 times, last with code"
_PROBE = "Readiness probe failed: HTTP probe failed with statuscode: 503"
_MOUNT = 'MountVolume.SetUp failed for volume "configuration" : configmap "podium-webhook" not found'
_OLD_SET = f"{NAME}-66d9c8b5f4"
_DEADLINE = f'ReplicaSet "{SET}" has timed out progressing.'


class Case(NamedTuple):
    """The pods, conditions and Events of an incomplete rollout, and its causes in words with their kinds."""

    title: str
    pods: list[Document]
    causes: list[tuple[CauseKind, str]]
    events: tuple[Document, ...] = ()
    conditions: tuple[Document, ...] = ()
    logs: tuple[ContainerLog, ...] = ()


_LOG = ContainerLog(POD, CONTAINER)
_KINDS = {
    "ErrImagePull": CauseKind.PULL,
    "ImagePullBackOff": CauseKind.PULL,
    "RegistryUnavailable": CauseKind.PULL,
    "ImageInspectError": CauseKind.PULL,
    "InvalidImageName": CauseKind.NO_IMAGE,
    "ErrImageNeverPull": CauseKind.NO_IMAGE,
    "CreateContainerConfigError": CauseKind.CONTAINER,
    "CreateContainerError": CauseKind.CONTAINER,
    "RunContainerError": CauseKind.CONTAINER,
}
CASES = [
    *(
        Case(
            f"a container that waits: {reason}",
            [pod(waiting(reason, message))],
            [(_KINDS[reason], f"Pod {POD}: {reason}: {message}")],
        )
        for reason, message in WAITING.items()
    ),
    *(
        Case(
            f"pods refused by {title}",
            [],
            [(CauseKind.REFUSED, f"ReplicaSet {SET}: FailedCreate: {message}")],
            conditions=(refused(message),),
        )
        for title, message in REFUSED.items()
    ),
    Case(
        "pods refused for a new reason, which only an Event has",
        [],
        [(CauseKind.REFUSED, f"ReplicaSet {SET}: FailedCreate: Error creating: {REFUSED['a quota']}")],
        events=(
            event(SET, "FailedCreate", "Error creating: status unknown", "2026-11-26T09:00:00Z"),
            event(SET, "FailedCreate", f"Error creating: {REFUSED['a quota']}", "2026-11-26T09:00:09Z"),
            event(SET, "Other", "no", "2026-11-26T10:00:00Z"),
            event("another", "FailedCreate", "no", "2026-11-26T10:00:00Z"),
        ),
        conditions=(refused("status unknown"),),
    ),
    Case(
        "a pod that no node takes",
        [pod(unscheduled(_NO_NODE))],
        [(CauseKind.UNSCHEDULED, f"Pod {POD}: Unschedulable: {_NO_NODE}")],
    ),
    Case(
        "a gated pod",
        [pod(unscheduled("Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated"))],
        [
            (
                CauseKind.UNSCHEDULED,
                f"Pod {POD}: SchedulingGated: Scheduling is blocked due to non-empty scheduling gates",
            )
        ],
    ),
    Case("a container that is being created", [pod(waiting("ContainerCreating"))], []),
    Case("a pod whose init containers run", [pod(waiting("PodInitializing"))], []),
    Case("a pod that the kubelet has not seen", [pod({"phase": "Pending"})], []),
    Case(
        "a volume that cannot be mounted",
        [pod(waiting("ContainerCreating"))],
        [(CauseKind.STARTING, f"Pod {POD}: FailedMount: {_MOUNT}")],
        events=(event(POD, "FailedMount", _MOUNT),),
    ),
    Case(
        "one crash, not started again yet",
        [pod(container({"terminated": exited()}))],
        [(CauseKind.STARTING, f"Pod {POD}: Exited: container webhook exited 1 time, last with code 1")],
        logs=(_LOG,),
    ),
    Case(
        "one crash, started again",
        [pod(running(restarts=1, last=exited()))],
        [(CauseKind.STARTING, f"Pod {POD}: Restarted: container webhook exited 1 time, last with code 1")],
        logs=(ContainerLog(POD, CONTAINER, previous=True),),
    ),
    Case("one crash, and ready now", [pod(running(restarts=1, last=exited(), ready=True))], []),
    Case(
        "two crashes",
        [pod(crashing(1))],
        [
            (
                CauseKind.STARTING,
                f"Pod {POD}: CrashLoopBackOff: container webhook exited 2 times, last with code 1",
            )
        ],
        logs=(_LOG,),
    ),
    Case(
        "three crashes",
        [pod(crashing(2, exited(137, "OOMKilled")))],
        [
            (
                CauseKind.CRASHED,
                f"{_CRASHED} 137: OOMKilled",
            )
        ],
        logs=(_LOG,),
    ),
    Case(
        "three crashes, running once more",
        [pod(running(restarts=3, last=exited()))],
        [(CauseKind.STARTING, f"Pod {POD}: Restarted: container webhook exited 3 times, last with code 1")],
        logs=(ContainerLog(POD, CONTAINER, previous=True),),
    ),
    Case(
        "a program that the image lacks",
        [pod(crashing(2, exited(128, "StartError", WAITING["RunContainerError"])))],
        [
            (
                CauseKind.CRASHED,
                f"{_CRASHED} 128: StartError: {WAITING['RunContainerError']}",
            )
        ],
        logs=(_LOG,),
    ),
    Case(
        "a server that ends without an error",
        [pod(crashing(2, exited(0, "Completed")))],
        [
            (
                CauseKind.CRASHED,
                f"{_CRASHED} 0: Completed",
            )
        ],
        logs=(_LOG,),
    ),
    Case(
        "a pod that is not ready",
        [pod(running())],
        [(CauseKind.NOT_READY, f"Pod {POD}: running, not ready")],
        logs=(_LOG,),
    ),
    Case(
        "a pod whose probe fails",
        [pod(running())],
        [(CauseKind.NOT_READY, f"Pod {POD}: Unhealthy: {_PROBE}")],
        events=(event(POD, "Unhealthy", _PROBE),),
        logs=(_LOG,),
    ),
    Case(
        "a pod that its node refused",
        [pod({"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no cpu"})],
        [(CauseKind.FAILED, f"Pod {POD}: OutOfcpu: Pod was rejected: no cpu")],
    ),
    Case("a pod that is being deleted", [pod(crashing(9), deletionTimestamp="2026-11-26T09:00:00Z")], []),
    Case("a pod of an older ReplicaSet", [pod(crashing(9), owner=_OLD_SET)], []),
    Case("a pod of another Deployment", [pod(crashing(9), owner="other-66d9c8b5f4")], []),
    Case(
        "two pods, the permanent cause first",
        [pod(unscheduled(_NO_NODE), name="a"), pod(crashing(2), name="b")],
        [
            (
                CauseKind.CRASHED,
                "Pod b: CrashLoopBackOff: container webhook exited 3 times, last with code 1",
            ),
            (CauseKind.UNSCHEDULED, f"Pod a: Unschedulable: {_NO_NODE}"),
        ],
        logs=(ContainerLog("b", CONTAINER),),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[each.title for each in CASES])
def test_causes_are_quoted(case: Case) -> None:
    """The object, its reason and its message, with the log that explains it if the container has run."""
    sets = [replica_set(name=_OLD_SET, revision=1), replica_set(*case.conditions)]
    found = rollout(
        deployment(updatedReplicas=1, replicas=3, availableReplicas=2), sets, case.pods, case.events
    )
    assert found.lacks == "has 1 of 2 new pods"
    assert [(each.kind, str(each)) for each in found.causes] == case.causes
    assert tuple(each.log for each in found.causes if each.log is not None) == case.logs


def test_a_complete_rollout_has_no_cause() -> None:
    """Even if a pod that is not counted waits."""
    whole = deployment(updatedReplicas=2, replicas=2, availableReplicas=2)
    assert rollout(whole, [replica_set()], [pod(crashing(9))], []) == Rollout("", ())


def test_the_pods_of_an_older_spec_are_no_cause() -> None:
    """The repair of a crashing Deployment must not fail for the pods that it replaces."""
    found = rollout(deployment(observedGeneration=1), [replica_set()], [pod(crashing(9))], [])
    assert found == Rollout("was not processed by its controller yet", ())


_QUOTA = 'replicasets.apps "podium-webhook-7c5fdfb9d8" is forbidden: exceeded quota: none'


@pytest.mark.parametrize(
    ("state", "kind", "want"),
    [
        (
            deployment(paused=True),
            CauseKind.PAUSED,
            f"Deployment {NAME}: paused: kubectl rollout resume lets it continue",
        ),
        (
            deployment(progressing("ReplicaSetCreateError", _QUOTA)),
            CauseKind.REFUSED,
            f"Deployment {NAME}: ReplicaSetCreateError: {_QUOTA}",
        ),
        (
            deployment(refused(REFUSED["a quota"])),
            CauseKind.REFUSED,
            f"Deployment {NAME}: FailedCreate: {REFUSED['a quota']}",
        ),
        (
            deployment(progressing("ProgressDeadlineExceeded", _DEADLINE)),
            CauseKind.STARTING,
            f"Deployment {NAME}: ProgressDeadlineExceeded: {_DEADLINE}",
        ),
    ],
)
def test_a_deployment_without_a_readable_replica_set(state: Document, kind: CauseKind, want: str) -> None:
    """Its own conditions are the cause; without the right to list ReplicaSets they are all there is."""
    (cause,) = rollout(state, [], [], []).causes
    assert (cause.kind, str(cause)) == (kind, want)


def test_a_rollback_counts_the_pods_of_the_old_replica_set() -> None:
    """The controller gives the ReplicaSet that it rolls back to the highest revision."""
    sets = [replica_set(), replica_set(name=_OLD_SET, revision=3)]
    pods = [pod(crashing(9), name="new"), pod(waiting("ErrImagePull"), name="old", owner=_OLD_SET)]
    found = rollout(deployment(updatedReplicas=1), sets, pods, [])
    assert [str(each) for each in found.causes] == ["Pod old: ErrImagePull"]


def test_the_first_cause_stands_for_all() -> None:
    causes = [Cause(CauseKind.PULL, f"Pod {name}", "ErrImagePull") for name in "abc"]
    assert Rollout("has 0 of 3 new pods", causes).why == "Pod a: ErrImagePull (and 2 other causes)"
    assert Rollout("has 0 of 3 new pods", causes[:1]).why == "Pod a: ErrImagePull"
    assert Rollout("has 0 of 3 new pods", ()).why == ""


def test_messages_are_one_short_line() -> None:
    text = str(Cause(CauseKind.CONTAINER, "Pod a", "CreateContainerError", "one\n\ttwo " + "x" * 5000))
    assert text.startswith("Pod a: CreateContainerError: one two xxx")
    assert len(text) < 600


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({"observedGeneration": 1}, "was not processed by its controller yet"),
        ({}, "has 0 of 2 new pods"),
        ({"updatedReplicas": 2, "replicas": 3, "availableReplicas": 3}, "has 1 old pods left"),
        ({"updatedReplicas": 2, "replicas": 2, "availableReplicas": 1}, "has 1 of 2 pods available"),
        ({"updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}, ""),
    ],
)
def test_the_rules_are_those_of_kubectl_rollout_status(status: dict[str, Any], want: str) -> None:
    assert lacking(deployment(**status)) == want
