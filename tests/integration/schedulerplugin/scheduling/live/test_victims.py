"""The choice of victims, its time and its reason in a changing cluster, on real servers."""

from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from tests.support.controllers.running import drop_class, new_class
from tests.support.proxy import Hold
from tests.support.scheduling.ledger import is_marked
from tests.support.scheduling.world import NAME, Yard, tolerant_class
from tests.support.waiting import until

pytestmark = pytest.mark.server

STAYS = {"finalizers": ["example.com/stays"]}
# The mark of such a pod is written before its delete, for podFailurePolicy.
OF_A_JOB = {
    "ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": str(uuid4()), "controller": True}
    ]
}


def test_a_jobs_pods_are_told_why_before_the_first_is_deleted(yard: Yard) -> None:
    """The order is that of KEP-4832; the condition has the preemptor's UID."""
    yard.nodes(1)
    for index in range(4):
        yard.pod(f"low-{index}", 1, 1, node="n0", metadata=OF_A_JOB)
    made = yard.pod("high", 4, 5)
    yard.until_bound(["high"])
    marks = yard.calls("PATCH", "/status", "DisruptionTarget")
    calls = [call for call in yard.calls(end="(/status)?") if call.method == "DELETE" or call in marks]
    assert [call.method for call in calls] == ["PATCH"] * 4 + ["DELETE"] * 4
    uid = made["metadata"]["uid"]
    text = f"{NAME}: preempting to accommodate a higher priority pod (UID {uid})"
    assert all(text in call.body.decode() for call in marks)


def test_the_nomination_is_in_the_status_while_the_victims_go(yard: Yard) -> None:
    yard.nodes(1)
    yard.pod("low", 4, 1, node="n0", metadata=STAYS)
    yard.pod("high", 4, 5)
    yard.until_nominated("high", "n0")
    yard.free("low")
    yard.until_bound(["high"])


def test_a_victim_that_takes_its_time(yard: Yard) -> None:
    """The room is reserved and no other pod is evicted; later preemptors wait."""
    yard.nodes(2)
    yard.pod("low-0", 4, 1, node="n0", metadata=STAYS)
    yard.pod("mid", 4, 3, node="n1", metadata=STAYS)
    yard.pod("high", 4, 5)
    yard.until_nominated("high", "n0")
    yard.until(lambda: yard.evicted() == ["low-0"], "low-0 is deleted")
    # After a change that could help, the pod is decided again, and the preemption in flight is sufficient.
    yard.node("n2", 3)
    yard.pod("small", 3, 5)
    yard.until_bound(["small"])
    yard.pod("other", 4, 3)
    yard.until_message("other", "nodes are available")
    yard.witness()
    assert yard.evicted() == ["low-0"]
    yard.free("low-0")
    assert yard.until_bound(["high"]) == {"high": "n0"}
    assert yard.evicted() == ["low-0"]


def test_room_elsewhere_is_taken_while_the_victim_goes(yard: Yard) -> None:
    """With delayed preemption, a better placement may be used, and the nomination ends."""
    yard.nodes(1)
    yard.pod("low", 4, 1, node="n0", metadata=STAYS)
    yard.pod("high", 4, 5)
    yard.until(lambda: yard.evicted() == ["low"], "low is deleted")
    yard.node("n1")
    assert yard.until_bound(["high"]) == {"high": "n1"}


def test_a_gang_waits_for_the_slowest_of_its_victims(yard: Yard) -> None:
    yard.nodes(2)
    yard.pod("low-0", 4, 1, node="n0")
    yard.pod("low-1", 4, 1, node="n1", metadata=STAYS)
    names = yard.gang("gang", 2)
    yard.until(lambda: "low-0" not in yard.pods(), "low-0 is gone")
    yard.pod("other", 4, 5)
    yard.until_message("other", "nodes are available")
    yard.witness()
    assert [yard.where(yard.pods()[name]) for name in names] == ["", ""]
    yard.free("low-1")
    yard.until_bound(names)


def test_a_gang_goes_without_a_pod_of_another_scheduler(yard: Yard) -> None:
    """It was created as a member of the gang, and may not be evicted: it protects only itself."""
    yard.nodes(1, 5)
    low = yard.running_gang("low", ["n0", "n0"], 2, 1, whole=True)
    yard.pod("helper", 1, 1, node="n0", group="low", schedulerName="default-scheduler")
    yard.pod("high", 4, 5)
    yard.until_bound(["high"])
    assert sorted(yard.evicted()) == low
    assert "helper" not in yard.touched()


def test_a_pod_of_a_daemon_set_stays_and_one_that_claims_to_be_goes(yard: Yard) -> None:
    """The gang is evicted although it has the higher priority."""
    yard.nodes(2)
    labels = {"app": "agent"}
    pod = {"containers": [{"name": "main", "image": "none"}], "nodeSelector": {"none": "none"}}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "agent"}, "spec": spec}
    made = yard.ask("POST", f"/apis/apps/v1/namespaces/{yard.name}/daemonsets", body, code=201)
    for node, uid, priority in (("n0", made["metadata"]["uid"], 1), ("n1", str(uuid4()), 3)):
        owner = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "agent",
            "uid": uid,
            "controller": True,
        }
        only = {"key": "metadata.name", "operator": "In", "values": [yard.full(node)]}
        terms = {"nodeSelectorTerms": [{"matchFields": [only]}]}
        yard.pod(
            f"agent-{node}",
            4,
            priority,
            node=node,
            metadata={"ownerReferences": [owner]},
            affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        )
    yard.witness()
    yard.pod("high", 4, 5)
    assert yard.until_bound(["high"]) == {"high": "n1"}
    assert yard.evicted() == ["agent-n1"]


def test_budgets_choose_the_node(yard: Yard) -> None:
    """No budget is violated if there is another plan (the test writes the budget's status)."""
    yard.nodes(2)
    yard.pod("guarded", 4, 1, node="n0", metadata={"labels": {"app": "guarded"}})
    yard.pod("open", 4, 3, node="n1")
    path = f"/apis/policy/v1/namespaces/{yard.name}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    yard.ask("POST", path, {"metadata": {"name": "guard"}, "spec": spec}, code=201)
    status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    yard.ask("PATCH", f"{path}/guard/status", {"status": status})
    yard.witness()
    yard.pod("high", 4, 5)
    assert yard.until_bound(["high"]) == {"high": "n1"}
    assert yard.evicted() == ["open"]


def test_a_toleration_that_expires(yard: Yard) -> None:
    """The victim is protected for three seconds after it was scheduled, and then evicted without an event."""
    name = f"{yard.name}-patient"
    tolerant_class(yard.server, name, 1, minimum=8, seconds=3)
    yard.nodes(1)
    until(lambda: _placed(yard, "low", name), "pods of the class are admitted")
    yard.until_bound(["low"])
    yard.pod("high", 4, 5)
    yard.until_message("high", "nodes are available")
    yard.until_bound(["high"])
    (deleted,) = (
        each.object["metadata"]["deletionTimestamp"]
        for each in yard.world.ledger.pods.seen
        if each.type == "DELETED" and each.object["metadata"]["namespace"] == yard.name
    )
    low = next(
        each.object
        for each in yard.world.ledger.pods.seen
        if each.object["metadata"]["namespace"] == yard.name and _since(each.object)
    )
    # The API server adds the grace period of a second, and both times are whole seconds.
    assert (_time(deleted) - _time(_since(low))).total_seconds() >= 3


def test_a_priority_below_the_minimum_never_preempts_and_one_above_does_at_once(yard: Yard) -> None:
    name = f"{yard.name}-stubborn"
    tolerant_class(yard.server, name, 1, minimum=8, seconds=-1)
    yard.nodes(1)
    until(lambda: _placed(yard, "low", name), "pods of the class are admitted")
    yard.until_bound(["low"])
    yard.pod("high", 4, 7)
    yard.until_message("high", "nodes are available")
    yard.witness()
    assert yard.touched() == []
    yard.pod("higher", 4, 9)
    yard.until_bound(["higher"])
    assert yard.evicted() == ["low"]


def test_a_class_that_is_made_anew(yard: Yard) -> None:
    """The toleration is that of the current class; pods keep the integer of their admission."""
    name = f"{yard.name}-class"
    tolerant_class(yard.server, name, 1, minimum=8, seconds=-1)
    yard.nodes(1)
    until(lambda: _placed(yard, "low", name), "pods of the class are admitted")
    yard.until_bound(["low"])
    yard.pod("high", 4, 5)
    yard.until_message("high", "nodes are available")
    yard.witness()
    drop_class(yard.server, name)
    new_class(yard.server, name, 9)
    yard.until_bound(["high"])
    assert yard.evicted() == ["low"]


@pytest.mark.parametrize("gone", ["cordoned", "deleted"])
@pytest.mark.parametrize("at", ["marks", "deletes"])
def test_a_node_goes_in_mid_preemption(gone: str, at: str, yard: Yard) -> None:
    """The preemption is planned elsewhere; victims that are not deleted yet stay, and their marks go."""
    yard.nodes(2)
    yard.pod("low-0", 4, 1, node="n0", metadata=OF_A_JOB)
    yard.pod("mid-1", 4, 3, node="n1", metadata=OF_A_JOB)
    with yard.world.proxy.fault(getattr(yard, at), Hold(), times=1) as held:
        yard.pod("high", 4, 5)
        yard.until(lambda: held.hits == 1, f"the {at} begin")
        if gone == "cordoned":
            yard.cordon("n0")
        else:
            yard.remove_node("n0")
        yard.witness()
    assert yard.until_bound(["high"]) == {"high": "n1"}
    if at == "deletes":
        assert yard.evicted() == ["low-0", "mid-1"]
    else:
        assert yard.evicted() == ["mid-1"]
        yard.until(lambda: not is_marked(yard.pods()["low-0"]), "the mark of low-0 is withdrawn")


def test_a_preemptor_that_is_deleted_in_mid_preemption(yard: Yard) -> None:
    """If the preemptor is deleted before its first victim, no victim is deleted."""
    yard.nodes(1)
    yard.pod("low", 4, 1, node="n0", metadata=OF_A_JOB)
    with yard.world.proxy.fault(yard.marks, Hold(), times=1) as held:
        yard.pod("high", 4, 5)
        yard.until(lambda: held.hits == 1, "the victim is marked")
        yard.end("high")
        yard.witness()
    yard.until(
        lambda: len(yard.world.proxy.writes(yard.marks)) > 1 and not is_marked(yard.pods()["low"]),
        "the mark of low is withdrawn",
    )
    assert yard.evicted() == []


def test_a_mark_that_a_tenant_wrote_frees_no_room_and_evicts_no_pod(yard: Yard) -> None:
    """A forged condition neither evicts the pod nor frees room."""
    yard.nodes(2)
    yard.pod("equal", 4, 5, node="n0")
    yard.pod("low", 4, 1, node="n1")
    made = yard.pod("high", 4, 5, schedulingGates=[{"name": "example.com/wait"}])
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{NAME}: preempting to accommodate a higher priority pod (UID {made['metadata']['uid']})",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    yard.ask(
        "PATCH",
        f"{yard.pods_path('equal')}/status",
        {"status": {"conditions": [condition]}},
        kind="application/strategic-merge-patch+json",
    )
    yard.patch("high", {"spec": {"schedulingGates": []}})
    assert yard.until_bound(["high"]) == {"high": "n1"}
    assert yard.evicted() == ["low"]


def test_pods_of_others_and_of_equal_priority_are_left_alone(yard: Yard) -> None:
    yard.nodes(3)
    yard.pod("foreign", 4, 1, node="n0", schedulerName="default-scheduler")
    yard.pod("equal", 4, 5, node="n1")
    yard.pod("low", 4, 3, node="n2")
    yard.pod("high", 4, 5)
    yard.until_bound(["high"])
    assert {*yard.touched()} == {"low"}


def test_a_pod_that_never_preempts(yard: Yard) -> None:
    yard.nodes(1)
    yard.pod("low", 4, 1, node="n0")
    name = f"{yard.name}-never"
    new_class(yard.server, name, 5, preemptionPolicy="Never")
    yard.pod("high", 4, 5, priorityClassName=name)
    yard.until_message("high", "nodes are available")
    yard.witness()
    assert yard.touched() == []
    yard.end("low")
    yard.until_bound(["high"])


def _placed(yard: Yard, name: str, class_name: str) -> bool:
    body = yard.pod_body(name, 4, 1, priorityClassName=class_name)
    return yard.server.request("POST", yard.pods_path(), body)[0] == 201


def _since(pod: dict[str, Any]) -> str:
    """Return when a pod was scheduled; empty before that."""
    found: str = next(
        (
            each["lastTransitionTime"]
            for each in pod["status"].get("conditions", ())
            if each["type"] == "PodScheduled" and each["status"] == "True"
        ),
        "",
    )
    return found


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
