"""Kueue in front and Podium behind: Kueue admits by quota, Podium places and preempts what was admitted."""

from typing import Any

import pytest
from tests.support.e2e import neighbours
from tests.support.e2e.cluster import Nodes
from tests.support.e2e.gangs import DEVICE, DEVICES, HIGH, LOW, GangSpace, create, plural
from tests.support.e2e.lives import count_running, first_bound, last_ended, lives, preempted
from tests.support.e2e.work import PodWatch, Work
from tests.support.install.scene import NAMESPACE, podium
from tests.support.waiting import until
from tools.neighbours.images import KUEUE

_KUEUE = "kueue.x-k8s.io/v1beta2"
_NAME = "gangs"
# A workload with this label is admitted by the queue.
QUEUED = {"kueue.x-k8s.io/queue-name": _NAME}


def create_cluster_queue(nodes: Nodes, machines: int) -> None:
    """Create a queue whose quota is the devices of some nodes; workloads of lower priority give way."""
    quotas = {"cpu": "10", DEVICE: str(machines * DEVICES)}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
    group = {"coveredResources": list(quotas), "flavors": [{"name": _NAME, "resources": resources}]}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [group],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    for kind, values in (("ResourceFlavor", {}), ("ClusterQueue", spec)):
        body = {"apiVersion": _KUEUE, "kind": kind, "metadata": {"name": _NAME}, "spec": values}
        create(nodes.server, f"/apis/{_KUEUE}/{plural(kind)}", body)


def create_local_queue(space: GangSpace) -> None:
    """Create the queue of a namespace."""
    space.make(_KUEUE, "LocalQueue", _NAME, {"clusterQueue": _NAME})


def conditions(space: GangSpace, owner: str) -> dict[str, str]:
    """Return the conditions of a JobSet's Workload, by type; empty if there is none."""
    path = f"/apis/{_KUEUE}/namespaces/{space.name}/workloads"
    code, found = space.server.request("GET", path)
    assert code == 200, found
    owned = [each for each in found["items"] if _owner(each) == owner]
    listed = [condition for each in owned for condition in each.get("status", {}).get("conditions", ())]
    return {each["type"]: each["status"] for each in listed}


def _owner(workload: dict[str, Any]) -> str:
    (reference,) = workload["metadata"]["ownerReferences"]
    return str(reference["name"])


pytestmark = pytest.mark.e2e

# It does not end at SIGTERM, and the kubelet kills it after its grace period.
_LONG = Work(lifetime="30s", linger="60s", grace_seconds=4)
_SHORT = Work(lifetime="5s")
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
_NOT_PODIUM = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [NAMESPACE]}


@pytest.fixture(scope="module")
def kueue_nodes(jobset_nodes: Nodes) -> Nodes:
    """Return the cluster with Kueue, and a queue for the devices of both nodes."""
    neighbours.add(jobset_nodes, KUEUE)
    create_cluster_queue(jobset_nodes, machines=2)
    return jobset_nodes


@pytest.fixture
def queued(kueue_nodes: Nodes, space: GangSpace) -> GangSpace:
    """Return a namespace with a queue."""
    assert space.server is kueue_nodes.server
    create_local_queue(space)
    return space


def test_a_suspension_by_kueue_makes_room_for_a_gang(queued: GangSpace, watch: PodWatch) -> None:
    """Kueue suspends the JobSet of lower priority, and then Podium places the other as a gang.

    Podium evicts no pod. Kueue admits the suspended JobSet again when the other has ended.
    """
    queued.jobset("nightly", LOW, _LONG, workers=3, labels=QUEUED)
    until(lambda: count_running(watch, "nightly-jobset") == 4, "nightly runs")
    assert conditions(queued, "nightly")["Admitted"] == "True"
    victims = lives(watch, "nightly-jobset").keys()
    queued.jobset("train", HIGH, _SHORT, workers=3, labels=QUEUED)
    until(lambda: queued.jobset_state("train")[0] == "Completed", "train completes")
    train = lives(watch, "train-jobset")
    suspended = {uid: life for uid, life in lives(watch, "nightly-jobset").items() if uid in victims}
    assert len(train) == 4
    assert first_bound(train) >= last_ended(suspended)
    assert preempted(watch, "nightly-jobset") == {}
    until(lambda: queued.jobset_state("nightly")[0] == "Completed", "nightly completes after train")
    again = {uid: life for uid, life in lives(watch, "nightly-jobset").items() if uid not in victims}
    assert len(again) == 4
    assert first_bound(again) >= last_ended(train)


def test_a_gang_waits_at_kueue_until_its_quota_is_free(queued: GangSpace, watch: PodWatch) -> None:
    """A JobSet of equal priority stays suspended: it has no pods and no group, and Podium does not see it."""
    queued.jobset("first", LOW, _LONG, workers=3, labels=QUEUED)
    until(lambda: count_running(watch, "first-jobset") == 4, "first runs")
    queued.jobset("second", LOW, _SHORT, workers=3, labels=QUEUED)
    until(lambda: conditions(queued, "second").get("QuotaReserved") == "False", "second waits for quota")
    assert lives(watch, "second-jobset") == {}
    until(lambda: queued.jobset_state("second")[0] == "Completed", "second completes")
    assert first_bound(lives(watch, "second-jobset")) >= last_ended(lives(watch, "first-jobset"))
    assert preempted(watch, "first-jobset") == {}


def test_podium_evicts_what_kueue_has_admitted(queued: GangSpace, watch: PodWatch) -> None:
    """A JobSet that is not in the queue preempts an admitted one, whose pods wait for room in Podium.

    Kueue takes no part: the Workload stays admitted, and its quota stays reserved.
    """
    queued.jobset("nightly", LOW, _LONG, workers=3, labels=QUEUED)
    until(lambda: count_running(watch, "nightly-jobset") == 4, "nightly runs")
    victims = lives(watch, "nightly-jobset").keys()
    queued.jobset("urgent", HIGH, _SHORT, workers=3)
    until(lambda: queued.jobset_state("urgent")[0] == "Completed", "urgent completes")
    urgent, gone = lives(watch, "urgent-jobset"), preempted(watch, "nightly-jobset")
    assert gone.keys() == victims
    assert first_bound(urgent) >= last_ended(gone)
    found = conditions(queued, "nightly")
    assert (found["Admitted"], found.get("Evicted")) == ("True", None)
    until(lambda: queued.jobset_state("nightly")[0] == "Completed", "nightly completes after urgent")
    again = {uid: life for uid, life in lives(watch, "nightly-jobset").items() if uid not in victims}
    assert first_bound(again) >= last_ended(urgent)
    assert queued.jobset_state("nightly") == ("Completed", 0)


def test_the_doctor_names_the_webhooks_that_can_stop_podium(kueue_nodes: Nodes) -> None:
    """Kueue's webhooks for pods fail closed, also in Podium's namespace, until that is exempt."""
    server = kueue_nodes.server
    assert "mpod.kb.io (kueue-mutating-webhook-configuration)" in podium(server, "doctor").stdout
    for kind in ("mutating", "validating"):
        path = f"{_CONFIGURATIONS}/{kind}webhookconfigurations/kueue-{kind}-webhook-configuration"
        code, found = server.request("GET", path)
        assert code == 200, found
        for each in found["webhooks"]:
            selector = each.setdefault("namespaceSelector", {})
            selector["matchExpressions"] = [*selector.get("matchExpressions", ()), _NOT_PODIUM]
        assert server.request("PUT", path, found)[0] == 200
    assert ".kb.io (kueue-" not in podium(server, "doctor").stdout
