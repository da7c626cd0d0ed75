"""The scheduler at the end of an installation: pods and groups keep nothing that only it keeps true."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.schedulerplugin.scheduling.test_process import HIGH, LOW, NAME, Gangs, launch
from tests.support.connection.cluster import CONTAINER
from tests.support.controllers.running import Controller, Place, Space, new_class, place, places
from tests.support.webhooks.deployed import NAMESPACE, new_deployment, scale
from tests.support.webhooks.running import ending

pytestmark = pytest.mark.server

_OPTION, _LEASE = f"--deployment={NAMESPACE}/{NAME}", f"--lease={NAMESPACE}/{NAME}"
_MARK = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": f"{NAME}: preempting to accommodate a higher priority pod (UID gone)",
}


@pytest.fixture(scope="module", params=places(__name__))
def where(request: pytest.FixtureRequest) -> Iterator[Place]:
    with place(request.param) as made:
        assert made.server.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})[0] == 201
        new_deployment(made.server, replicas=2, available=2, name=NAME)
        new_class(made.server, LOW, 1)
        new_class(made.server, HIGH, 9)
        yield made


def _marks(space: Space) -> set[tuple[str, str]]:
    """Return the nominations, the marks of victims and the conditions of groups, each with its object."""
    pods = {pod["metadata"]["name"]: pod["status"] for pod in space.ask("GET", space.pods_path())["items"]}
    groups = space.ask("GET", space.groups_path())["items"]
    nominated = {(name, "nominated") for name, status in pods.items() if status.get("nominatedNodeName")}
    marked = {
        (name, _MARK["type"])
        for name, status in pods.items()
        for condition in status.get("conditions", ())
        if (condition["type"], condition["status"]) == (_MARK["type"], "True") and not name.startswith("low-")
    }
    judged = {
        (group["metadata"]["name"], condition["type"])
        for group in groups
        for condition in group.get("status", {}).get("conditions") or ()
    }
    return nominated | marked | judged


def _victims_that_stay_long(gangs: Gangs) -> None:
    """Bind a gang whose pods a kubelet would take minutes to end, on a node that it fills."""
    gangs.space.group("low", LOW)
    container = {**CONTAINER, "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": NAME, "containers": [container], "terminationGracePeriodSeconds": 600}
    for index in range(2):
        gangs.space.pod(f"low-{index}", "low", LOW, nodeSelector={"rights": gangs.space.name}, **spec)


def _preempt(gangs: Gangs, scheduler: Controller) -> None:
    _victims_that_stay_long(gangs)
    scheduler.until(gangs.runs("low"), "the lower gang runs")
    gangs.gang("high", HIGH)
    scheduler.until(lambda: ("high-1", "nominated") in _marks(gangs.space), "the higher gang has its nodes")


def test_a_scheduler_that_is_turned_off_withdraws_what_it_keeps_true(where: Place, tmp_path: Path) -> None:
    """A restart changes nothing; scaled to 0, no nomination, mark or condition of a group is left."""
    scale(where.server, 2, NAME)
    gangs = Gangs(where, "off-native" if where.native else "off-podium")
    kubeconfig = where.server.kubeconfig
    first = launch(kubeconfig, tmp_path / "first", _LEASE, _OPTION)
    with ending(first):
        _preempt(gangs, first)
    kept = _marks(gangs.space)
    assert ("high-0", "nominated") in kept
    assert {name for name, _ in kept} >= {"low", "high"}
    second = launch(kubeconfig, tmp_path / "second", _LEASE, _OPTION)
    with ending(second):
        second.until(lambda: any(event["event"] == "scheduling" for event in second.events), "it schedules")
        alone = {"metadata": {"name": "alone"}, "spec": {"containers": [CONTAINER], "nodeName": gangs.node}}
        gangs.space.ask("POST", gangs.space.pods_path(), alone, code=201)
        path = f"{gangs.space.pods_path('alone')}/status"
        gangs.space.ask("PATCH", path, {"status": {"conditions": [_MARK]}})
        second.until(lambda: ("alone", "DisruptionTarget") in _marks(gangs.space), "a pod is marked")
        scale(where.server, 0, NAME)
        assert second.stop() == 0
        [released] = [event for event in second.events if event["event"] == "pods and groups released"]
        assert (released["objects"] >= len(kept), released["left"]) == (True, 0)
    assert not _marks(gangs.space)
