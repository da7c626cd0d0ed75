"""Trainers on a real kubelet that lose at most a step in a hundred evictions, and one that never saves."""

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
from tests.e2e.conftest import IMAGE, Measured
from tests.support.docs.pages import ROOT
from tests.support.e2e.cluster import GANG_NODE, Nodes, leader, metric
from tests.support.e2e.leaders import killing_leader
from tests.support.e2e.work import Moment, PodWatch, Space, Work, advertise, create_classes, workload
from tests.support.waiting import until

from podium.api.saving import SAVE_REQUESTED, SAVES_ON_NOTICE, SAVES_ON_TERMINATION

pytestmark = pytest.mark.e2e

_LOW, _HIGH = "trainers", "urgent"
_DEVICE, _DEVICES = "example.com/trained", 8
_FOLDER = "/var/lib/trainers"
_PROGRAM = (ROOT / "tests/support/e2e/trainer.py", ROOT / "examples/saving/train_on_notice.py")
# The file systems of a pod.
_MOUNTED = {"work": "/work", "program": "/program", "podinfo": "/etc/podinfo"}
_NOTICE_SECONDS = 20
_DECLARED = {
    "termination": {SAVES_ON_TERMINATION: "5s"},
    "notice": {SAVES_ON_NOTICE: f"{_NOTICE_SECONDS}s"},
    "never": {SAVES_ON_NOTICE: "2s"},
}
# The six units of a round take all devices, so as many preemptors evict all of them.
_ROUNDS = 17
# The scheduler writes after it has waited. After the end of a leader another leads within the second time.
_WRITE_SECONDS, _LEASE_SECONDS = 3.0, 30.0


class Steps(NamedTuple):
    """The last step that a trainer has done, and the last one that it has saved."""

    done: int = 0
    saved: int = 0

    @property
    def lost(self) -> int:
        return self.done - self.saved


class Trainer(NamedTuple):
    """A pod that trains, how it saves, and the gang of its unit, empty for a pod alone."""

    name: str
    way: str
    gang: str = ""
    devices: int = 1


_UNITS = (
    *(Trainer(f"alone-{index}", way) for index, way in enumerate(("termination", "notice") * 2)),
    *(
        Trainer(f"{gang}-{rank}", way, gang)
        for gang, way in (("asked", "notice"), ("told", "termination"))
        for rank in range(2)
    ),
)
# The pods that are asked in a round.
_ASKED = sum(unit.way == "notice" for unit in _UNITS)
_LIAR = Trainer("liar", "never", devices=_DEVICES)


class Training(Space):
    """A namespace for trainers, whose files are in a folder of the node of gangs."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(nodes)
        self._nodes = nodes
        nodes.on(GANG_NODE, "mkdir", "--parents", f"{_FOLDER}/{self.name}")
        nodes.on(GANG_NODE, "chmod", "777", f"{_FOLDER}/{self.name}")
        kubectl = partial(self.server.kubectl, "-n", self.name, "create")
        kubectl("configmap", "program", *(f"--from-file={file}" for file in _PROGRAM))
        kubectl("serviceaccount", "reports-checkpoints")
        kubectl("role", "reports-checkpoints", "--verb=patch", "--resource=pods")
        account = f"--serviceaccount={self.name}:reports-checkpoints"
        kubectl("rolebinding", "reports-checkpoints", "--role=reports-checkpoints", account)

    def train(self, unit: Trainer) -> None:
        """Make the pod of a trainer."""
        given: dict[str, Any] = {
            "work": {"hostPath": {"path": f"{_FOLDER}/{self.name}"}},
            "program": {"configMap": {"name": "program"}},
            "podinfo": {
                "downwardAPI": {
                    "items": [{"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}]
                }
            },
        }
        container = {
            **Work().container({"cpu": "20m", _DEVICE: str(unit.devices)}),
            "image": f"docker.io/library/{IMAGE}",
            "command": ["python", "/program/trainer.py", f"/work/{unit.name}", unit.way],
            "args": [],
            "volumeMounts": [{"name": name, "mountPath": path} for name, path in _MOUNTED.items()],
        }
        spec: dict[str, Any] = {
            **workload(Work(grace_seconds=10), {}),
            "serviceAccountName": "reports-checkpoints",
            "priorityClassName": _LOW,
            "containers": [container],
            "volumes": [{"name": name, **source} for name, source in given.items()],
        }
        if unit.gang:
            spec["schedulingGroup"] = {"podGroupName": unit.gang}
        metadata = {"name": unit.name, "annotations": _DECLARED[unit.way]}
        self.post(f"/api/v1/namespaces/{self.name}/pods", {"metadata": metadata, "spec": spec})

    def preempt(self, *devices: int) -> None:
        """Make a pod of high priority for each number of devices; delete them when all trainers are gone."""
        names = {f"urgent-{index}": count for index, count in enumerate(devices)}
        for name, count in names.items():
            self.pod(name, Work(), {"cpu": "20m", _DEVICE: str(count)}, priorityClassName=_HIGH)

        def run() -> bool:
            phases = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in self.listed()}
            return phases == dict.fromkeys(names, "Running")

        until(run, "the preemptors run, and no trainer is left")
        for name in names:
            self.delete_pod(name)
        until(lambda: not self.pods(), "the preemptors are gone")

    def steps(self) -> dict[str, Steps]:
        """Return the steps of each trainer."""
        shown = self._nodes.on(GANG_NODE, "sh", "-c", f"cd {_FOLDER}/{self.name} && grep -r . . || true")
        trainers: dict[str, Steps] = {}
        for line in shown.splitlines():
            path, _, number = line.partition(":")
            _, name, kind = path.split("/")
            if kind in Steps._fields:  # else a draft
                trainers[name] = trainers.get(name, _NONE)._replace(**{kind: int(number)})
        return trainers


_NONE = Steps()


def _is_asked(pod: dict[str, Any]) -> bool:
    return SAVE_REQUESTED in pod["metadata"].get("annotations", {})


def _is_evicted(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


# The rounds in which the leader is killed, and the state of a pod at which that happens.
_KILLS = {3: _is_asked, 7: _is_evicted, 11: _is_asked}


@pytest.fixture(scope="module")
def trained_nodes(podium_nodes: Nodes) -> Nodes:
    """Return the cluster, with devices on the node of gangs and two classes."""
    create_classes(podium_nodes, {_LOW: 100, _HIGH: 1000})
    advertise(podium_nodes, GANG_NODE, _DEVICE, _DEVICES)
    return podium_nodes


@pytest.fixture
def space(trained_nodes: Nodes) -> Iterator[Training]:
    """Yield a namespace, whose pods and files are gone at the end."""
    training = Training(trained_nodes)
    yield training
    training.clear()
    trained_nodes.on(GANG_NODE, "rm", "-r", f"{_FOLDER}/{training.name}")


def test_a_hundred_evictions_lose_a_step_at_most(
    trained_nodes: Nodes, space: Training, watch: PodWatch, measured: Measured
) -> None:
    """Pods alone and gangs, by SIGTERM and by notice, with leaders killed in between.

    One of a hundred may lose more. Each trainer goes on from the step that it saved.
    """
    for gang in {unit.gang for unit in _UNITS if unit.gang}:
        space.gang(gang, sum(unit.gang == gang for unit in _UNITS), _LOW)
    lost: list[int] = []
    for number in range(_ROUNDS):
        _train(space, _UNITS)
        with contextlib.ExitStack() as stack:
            if number in _KILLS:
                path = f"/api/v1/namespaces/{space.name}/pods"
                stack.enter_context(killing_leader(trained_nodes, path, _KILLS[number]))
            space.preempt(1, 1, 1, 1, 2, 2)
        steps = space.steps()
        units: dict[str, int] = {}
        for unit in _UNITS:
            name = unit.gang or unit.name
            units[name] = max(units.get(name, 0), steps[unit.name].lost)
        lost += units.values()
    waits = _waits(watch)
    measured(f"{len(lost)} evictions, steps lost: {sorted(lost)[-3:]}, waits: {sorted(waits)[-3:]} s")
    assert len(lost) >= 100
    assert sum(steps > 1 for steps in lost) <= 1
    within = _NOTICE_SECONDS + _WRITE_SECONDS
    assert sum(wait > within for wait in waits) <= _ASKED * len(_KILLS)
    assert max(waits) < within + _LEASE_SECONDS


def test_a_trainer_that_never_saves_loses_trust(
    trained_nodes: Nodes, space: Training, watch: PodWatch
) -> None:
    """Its preemptor waits for the declared time, and the second failure is counted by the leader."""
    for _ in range(2):
        assert _untrusted(trained_nodes) == 0
        _train(space, (_LIAR,))
        space.preempt(_DEVICES)
    until(lambda: _untrusted(trained_nodes) == 1, "it is known")
    assert space.steps()[_LIAR.name].saved == 0


def _train(space: Training, units: tuple[Trainer, ...]) -> None:
    """Make the pods of trainers, and wait until each has done steps after those of its former life."""
    before = space.steps()
    for unit in units:
        space.train(unit)

    def are_on() -> bool:
        steps = space.steps()
        return all(steps.get(unit.name, _NONE).done > before.get(unit.name, _NONE).done + 1 for unit in units)

    until(are_on, "all trainers go on")


def _waits(watch: PodWatch) -> list[float]:
    """Return the seconds from the request to save to the eviction, of each pod that was asked."""
    asked: dict[str, Moment] = {}
    waits: dict[str, float] = {}
    for moment in list(watch.moments):
        uid = moment.pod["metadata"]["uid"]
        if _is_asked(moment.pod):
            asked.setdefault(uid, moment)
        if uid in asked and moment.terminating:
            waits.setdefault(uid, moment.at - asked[uid].at)
    return [round(wait, 1) for wait in waits.values()]


def _untrusted(nodes: Nodes) -> float:
    """Return how many workloads the leading scheduler does not trust."""
    name = leader(nodes, "scheduler")
    pods = nodes.pods("app.kubernetes.io/component=scheduler")
    (pod,) = (pod for pod in pods if pod["metadata"]["name"] == name)
    return metric(nodes, pod, "podium_scheduler_untrusted_workloads")
