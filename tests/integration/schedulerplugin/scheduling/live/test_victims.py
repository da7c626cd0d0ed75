"""The choice of victims, its time and its reason in a changing cluster, on real servers."""

from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from tests.support.controllers.running import drop_class, new_class
from tests.support.proxy import Hold
from tests.support.scheduling.ledger import is_marked
from tests.support.scheduling.world import NAME, Sandbox, tolerant_class
from tests.support.waiting import until

pytestmark = pytest.mark.server

STAYS = {"finalizers": ["example.com/stays"]}
# The mark of such a pod is written before its delete, for podFailurePolicy.
OF_A_JOB = {
    "ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": str(uuid4()), "controller": True}
    ]
}


def test_a_jobs_pods_are_told_why_before_the_first_is_deleted(sandbox: Sandbox) -> None:
    """The order is that of KEP-4832; the condition has the preemptor's UID and name."""
    sandbox.nodes(1)
    for index in range(4):
        sandbox.pod(f"low-{index}", 1, 1, node="n0", metadata=OF_A_JOB)
    made = sandbox.pod("high", 4, 5)
    sandbox.until_bound(["high"])
    marks = sandbox.calls("PATCH", "/status", "DisruptionTarget")
    calls = [call for call in sandbox.calls(end="(/status)?") if call.method == "DELETE" or call in marks]
    assert [call.method for call in calls] == ["PATCH"] * 4 + ["DELETE"] * 4
    uid = made["metadata"]["uid"]
    text = f"{NAME}: preempting to accommodate a higher priority pod (UID {uid}), {sandbox.name}/high"
    assert all(text in call.body.decode() for call in marks)


def test_the_nomination_is_in_the_status_while_the_victims_go(sandbox: Sandbox) -> None:
    sandbox.nodes(1)
    sandbox.pod("low", 4, 1, node="n0", metadata=STAYS)
    sandbox.pod("high", 4, 5)
    sandbox.until_nominated("high", "n0")
    sandbox.free("low")
    sandbox.until_bound(["high"])


def test_a_victim_that_takes_its_time(sandbox: Sandbox) -> None:
    """The room is reserved and no other pod is evicted; later preemptors wait."""
    sandbox.nodes(2)
    sandbox.pod("low-0", 4, 1, node="n0", metadata=STAYS)
    sandbox.pod("mid", 4, 3, node="n1", metadata=STAYS)
    sandbox.pod("high", 4, 5)
    sandbox.until_nominated("high", "n0")
    sandbox.until(lambda: sandbox.evicted() == ["low-0"], "low-0 is deleted")
    # After a change that could help, the pod is decided again, and the preemption in flight is sufficient.
    sandbox.node("n2", 3)
    sandbox.pod("small", 3, 5)
    sandbox.until_bound(["small"])
    sandbox.pod("other", 4, 3)
    sandbox.until_message("other", "nodes are available")
    sandbox.wait_for_decisions()
    assert sandbox.evicted() == ["low-0"]
    sandbox.free("low-0")
    assert sandbox.until_bound(["high"]) == {"high": "n0"}
    assert sandbox.evicted() == ["low-0"]


def test_room_elsewhere_is_taken_while_the_victim_goes(sandbox: Sandbox) -> None:
    """With delayed preemption, a better placement may be used, and the nomination ends."""
    sandbox.nodes(1)
    sandbox.pod("low", 4, 1, node="n0", metadata=STAYS)
    sandbox.pod("high", 4, 5)
    sandbox.until(lambda: sandbox.evicted() == ["low"], "low is deleted")
    sandbox.node("n1")
    assert sandbox.until_bound(["high"]) == {"high": "n1"}


def test_a_gang_waits_for_the_slowest_of_its_victims(sandbox: Sandbox) -> None:
    sandbox.nodes(2)
    sandbox.pod("low-0", 4, 1, node="n0")
    sandbox.pod("low-1", 4, 1, node="n1", metadata=STAYS)
    names = sandbox.gang("gang", 2)
    sandbox.until(lambda: "low-0" not in sandbox.pods(), "low-0 is gone")
    sandbox.pod("other", 4, 5)
    sandbox.until_message("other", "nodes are available")
    sandbox.wait_for_decisions()
    assert [sandbox.where(sandbox.pods()[name]) for name in names] == ["", ""]
    sandbox.free("low-1")
    sandbox.until_bound(names)


def test_a_gang_goes_without_a_pod_of_another_scheduler(sandbox: Sandbox) -> None:
    """It was created as a member of the gang, and may not be evicted: it protects only itself."""
    sandbox.nodes(1, 5)
    low = sandbox.running_gang("low", ["n0", "n0"], 2, 1, whole=True)
    sandbox.pod("helper", 1, 1, node="n0", group="low", schedulerName="default-scheduler")
    sandbox.pod("high", 4, 5)
    sandbox.until_bound(["high"])
    assert sorted(sandbox.evicted()) == low
    assert "helper" not in sandbox.touched()


def test_a_pod_of_a_daemon_set_stays_and_one_that_claims_to_be_goes(sandbox: Sandbox) -> None:
    """The gang is evicted although it has the higher priority."""
    sandbox.nodes(2)
    labels = {"app": "agent"}
    pod = {"containers": [{"name": "main", "image": "none"}], "nodeSelector": {"none": "none"}}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "agent"}, "spec": spec}
    made = sandbox.ask("POST", f"/apis/apps/v1/namespaces/{sandbox.name}/daemonsets", body, code=201)
    for node, uid, priority in (("n0", made["metadata"]["uid"], 1), ("n1", str(uuid4()), 3)):
        owner = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "agent",
            "uid": uid,
            "controller": True,
        }
        only = {"key": "metadata.name", "operator": "In", "values": [sandbox.full(node)]}
        terms = {"nodeSelectorTerms": [{"matchFields": [only]}]}
        sandbox.pod(
            f"agent-{node}",
            4,
            priority,
            node=node,
            metadata={"ownerReferences": [owner]},
            affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        )
    sandbox.wait_for_decisions()
    sandbox.pod("high", 4, 5)
    assert sandbox.until_bound(["high"]) == {"high": "n1"}
    assert sandbox.evicted() == ["agent-n1"]


def test_budgets_choose_the_node(sandbox: Sandbox) -> None:
    """No budget is violated if there is another plan (the test writes the budget's status)."""
    sandbox.nodes(2)
    sandbox.pod("guarded", 4, 1, node="n0", metadata={"labels": {"app": "guarded"}})
    sandbox.pod("open", 4, 3, node="n1")
    path = f"/apis/policy/v1/namespaces/{sandbox.name}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    sandbox.ask("POST", path, {"metadata": {"name": "guard"}, "spec": spec}, code=201)
    status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    sandbox.ask("PATCH", f"{path}/guard/status", {"status": status})
    sandbox.wait_for_decisions()
    sandbox.pod("high", 4, 5)
    assert sandbox.until_bound(["high"]) == {"high": "n1"}
    assert sandbox.evicted() == ["open"]


def test_a_toleration_that_expires(sandbox: Sandbox) -> None:
    """The victim is protected for three seconds after it was scheduled, and then evicted without an event."""
    name = f"{sandbox.name}-patient"
    tolerant_class(sandbox.server, name, 1, minimum=8, seconds=3)
    sandbox.nodes(1)
    until(lambda: _placed(sandbox, "low", name), "pods of the class are admitted")
    sandbox.until_bound(["low"])
    sandbox.pod("high", 4, 5)
    sandbox.until_message("high", "nodes are available")
    sandbox.until_bound(["high"])
    (deleted,) = (
        each.object["metadata"]["deletionTimestamp"]
        for each in sandbox.world.ledger.pods.seen
        if each.type == "DELETED" and each.object["metadata"]["namespace"] == sandbox.name
    )
    low = next(
        each.object
        for each in sandbox.world.ledger.pods.seen
        if each.object["metadata"]["namespace"] == sandbox.name and _since(each.object)
    )
    # The API server adds the grace period of a second, and both times are whole seconds.
    assert (_time(deleted) - _time(_since(low))).total_seconds() >= 3


def test_a_priority_below_the_minimum_never_preempts_and_one_above_does_at_once(sandbox: Sandbox) -> None:
    name = f"{sandbox.name}-stubborn"
    tolerant_class(sandbox.server, name, 1, minimum=8, seconds=-1)
    sandbox.nodes(1)
    until(lambda: _placed(sandbox, "low", name), "pods of the class are admitted")
    sandbox.until_bound(["low"])
    sandbox.pod("high", 4, 7)
    sandbox.until_message("high", "nodes are available")
    sandbox.wait_for_decisions()
    assert sandbox.touched() == []
    sandbox.pod("higher", 4, 9)
    sandbox.until_bound(["higher"])
    assert sandbox.evicted() == ["low"]


def test_a_class_that_is_made_anew(sandbox: Sandbox) -> None:
    """The toleration is that of the current class; pods keep the integer of their admission."""
    name = f"{sandbox.name}-class"
    tolerant_class(sandbox.server, name, 1, minimum=8, seconds=-1)
    sandbox.nodes(1)
    until(lambda: _placed(sandbox, "low", name), "pods of the class are admitted")
    sandbox.until_bound(["low"])
    sandbox.pod("high", 4, 5)
    sandbox.until_message("high", "nodes are available")
    sandbox.wait_for_decisions()
    drop_class(sandbox.server, name)
    new_class(sandbox.server, name, 9)
    sandbox.until_bound(["high"])
    assert sandbox.evicted() == ["low"]


@pytest.mark.parametrize("gone", ["cordoned", "deleted"])
@pytest.mark.parametrize("at", ["marks", "deletes"])
def test_a_node_goes_in_mid_preemption(gone: str, at: str, sandbox: Sandbox) -> None:
    """The preemption is planned elsewhere; victims that are not deleted yet stay, and their marks go."""
    sandbox.nodes(2)
    sandbox.pod("low-0", 4, 1, node="n0", metadata=OF_A_JOB)
    sandbox.pod("mid-1", 4, 3, node="n1", metadata=OF_A_JOB)
    with sandbox.world.proxy.fault(getattr(sandbox, at), Hold(), times=1) as held:
        sandbox.pod("high", 4, 5)
        sandbox.until(lambda: held.hits == 1, f"the {at} begin")
        if gone == "cordoned":
            sandbox.cordon("n0")
        else:
            sandbox.remove_node("n0")
        sandbox.wait_for_decisions()
    assert sandbox.until_bound(["high"]) == {"high": "n1"}
    if at == "deletes":
        assert sandbox.evicted() == ["low-0", "mid-1"]
    else:
        assert sandbox.evicted() == ["mid-1"]
        sandbox.until(lambda: not is_marked(sandbox.pods()["low-0"]), "the mark of low-0 is withdrawn")


def test_a_preemptor_that_is_deleted_in_mid_preemption(sandbox: Sandbox) -> None:
    """If the preemptor is deleted before its first victim, no victim is deleted."""
    sandbox.nodes(1)
    sandbox.pod("low", 4, 1, node="n0", metadata=OF_A_JOB)
    with sandbox.world.proxy.fault(sandbox.marks, Hold(), times=1) as held:
        sandbox.pod("high", 4, 5)
        sandbox.until(lambda: held.hits == 1, "the victim is marked")
        sandbox.end("high")
        sandbox.wait_for_decisions()
    sandbox.until(
        lambda: len(sandbox.world.proxy.writes(sandbox.marks)) > 1 and not is_marked(sandbox.pods()["low"]),
        "the mark of low is withdrawn",
    )
    assert sandbox.evicted() == []


def test_a_mark_that_a_tenant_wrote_frees_no_room_and_evicts_no_pod(sandbox: Sandbox) -> None:
    """A forged condition neither evicts the pod nor frees room."""
    sandbox.nodes(2)
    sandbox.pod("equal", 4, 5, node="n0")
    sandbox.pod("low", 4, 1, node="n1")
    made = sandbox.pod("high", 4, 5, schedulingGates=[{"name": "example.com/wait"}])
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{NAME}: preempting to accommodate a higher priority pod (UID {made['metadata']['uid']})",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    sandbox.ask(
        "PATCH",
        f"{sandbox.pods_path('equal')}/status",
        {"status": {"conditions": [condition]}},
        kind="application/strategic-merge-patch+json",
    )
    sandbox.patch("high", {"spec": {"schedulingGates": []}})
    assert sandbox.until_bound(["high"]) == {"high": "n1"}
    assert sandbox.evicted() == ["low"]


def test_pods_of_others_and_of_equal_priority_are_left_alone(sandbox: Sandbox) -> None:
    sandbox.nodes(3)
    sandbox.pod("foreign", 4, 1, node="n0", schedulerName="default-scheduler")
    sandbox.pod("equal", 4, 5, node="n1")
    sandbox.pod("low", 4, 3, node="n2")
    sandbox.pod("high", 4, 5)
    sandbox.until_bound(["high"])
    assert {*sandbox.touched()} == {"low"}


def test_a_pod_that_never_preempts(sandbox: Sandbox) -> None:
    sandbox.nodes(1)
    sandbox.pod("low", 4, 1, node="n0")
    name = f"{sandbox.name}-never"
    new_class(sandbox.server, name, 5, preemptionPolicy="Never")
    sandbox.pod("high", 4, 5, priorityClassName=name)
    sandbox.until_message("high", "nodes are available")
    sandbox.wait_for_decisions()
    assert sandbox.touched() == []
    sandbox.end("low")
    sandbox.until_bound(["high"])


def _placed(sandbox: Sandbox, name: str, class_name: str) -> bool:
    body = sandbox.pod_body(name, 4, 1, priorityClassName=class_name)
    return sandbox.server.request("POST", sandbox.pods_path(), body)[0] == 201


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
