"""Real servers accept our status writes to pods and to native groups.

Only a server knows which fields it drops or refuses, and which conditions remain with another manager's.
"""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.support.scheduling.statuses import FULL, NOTHING, PREEMPTOR, LoggedEvent, statuses_of
from tests.support.servers import Server
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.schedulerplugin.scheduling.test_conditions import INITIALLY

from podium.api.core import UNSCHEDULABLE
from podium.api.events import EventDraft
from podium.api.membership import GroupKey
from podium.api.schedulable import SCHEDULING_READS
from podium.cluster.state import ClusterState
from podium.kube.connection import connect
from podium.schedulerplugin.live.writes import Writes
from podium.schedulerplugin.scheduling.effects import Evict, PodRef, ReportPending, Unit

THEIRS = {
    "type": "PodsNotMatchingPriority",
    "status": "False",
    "reason": "PrioritiesMatch",
    "message": "",
    "lastTransitionTime": "2026-11-21T16:00:00Z",
}


class Stored:
    """A native group with another manager's condition and one pod, and a state that watches them."""

    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        older = server.release.minor == "1.36"
        version = f"scheduling.k8s.io/{'v1alpha2' if older else 'v1beta1'}"
        self.scheduled = "PodGroupScheduled" if older else INITIALLY
        self.state = ClusterState(native_served=True)
        self.key = GroupKey(True, namespace, "train")
        self._group = version, f"/apis/{version}/namespaces/{namespace}/podgroups"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self.generation, self.pod = self._make(namespace)

    def _make(self, namespace: str) -> tuple[int, PodRef]:
        version, groups = self._group
        metadata = {"name": self.key.name}
        policy = {"gang": {"minCount": 1}}
        self._ask(201, "POST", groups, {"metadata": metadata, "spec": {"schedulingPolicy": policy}})
        spec = {
            "schedulerName": "podium-scheduler",
            "schedulingGroup": {"podGroupName": self.key.name},
            "containers": [{"name": "c", "image": "none"}],
        }
        made = self._ask(201, "POST", self._pods, {"metadata": {"name": "a"}, "spec": spec})["metadata"]
        document = {"apiVersion": version, "kind": "PodGroup", "metadata": metadata}
        status = f"{groups}/{self.key.name}/status?fieldManager=podium-controller&force=true"
        body = {**document, "status": {"conditions": [THEIRS]}}
        self._ask(200, "PATCH", status, body, "application/apply-patch+yaml")
        return made["generation"], PodRef(namespace, "a", made["uid"])

    def read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Update the state; return the conditions of the group and the pod, by type, and the pod's `node`."""
        version, groups = self._group
        group = self._read(f"{groups}/{self.key.name}", version, "PodGroup")
        pod = self._read(f"{self._pods}/a", "v1", "Pod")
        return _conditions(group), {**_conditions(pod), "node": pod["status"].get("nominatedNodeName")}

    def unit(self) -> Unit:
        """Return the unit of the group."""
        uid = self.state.groups[self.key].metadata.uid or ""
        return Unit("PodGroup", self.key.namespace, self.key.name, uid, 0, (self.pod,))

    def _read(self, path: str, version: str, kind: str) -> dict[str, Any]:
        stored = self._ask(200, "GET", path)
        how = SCHEDULING_READS[version, kind]
        self.state.apply(how.neutral(msgspec.convert(stored, how.type)))
        return stored

    def _ask(self, expected: int, method: str, path: str, *body: Any) -> dict[str, Any]:
        code, answer = self._server.request(method, path, *body)
        assert code == expected, answer
        assert isinstance(answer, dict)
        return answer


def _conditions(stored: dict[str, Any]) -> dict[str, Any]:
    return {each["type"]: each for each in stored["status"].get("conditions", ())}


@pytest.mark.server
async def test_real_servers_take_it(server: Server, namespace: str) -> None:
    """Our conditions of pods and native groups do not change another manager's."""
    stored = Stored(server, namespace)
    key, a = stored.key, stored.pod
    counted: list[tuple[str, str]] = []
    notes: list[EventDraft] = []
    logged: list[LoggedEvent] = []
    async with connect(str(server.kubeconfig), None) as connection:
        writes = Writes(
            connection,
            lambda: 60.0,
            sleep=asyncio.sleep,
            random=lambda: 0.0,
            counted=lambda what, how: counted.append((what, how)),
        )
        clock = asyncio.get_running_loop().time
        statuses = statuses_of(stored.state, writes, notes, logged, clock=clock, sleep=asyncio.sleep)
        task = asyncio.create_task(statuses.run())

        async def written(number: int) -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while statuses.depth or len(counted) < number:  # noqa: ASYNC110 - writes count into a list
                    await asyncio.sleep(0.01)

        stored.read()
        statuses.submit(ReportPending(key, (a,), UNSCHEDULABLE, FULL, ((a, "node-1"),)))
        await written(2)
        group, pod = stored.read()
        condition = group[stored.scheduled]
        assert (condition["status"], condition["message"]) == ("False", FULL)
        assert pod["PodScheduled"]["reason"] == UNSCHEDULABLE
        assert pod["PodScheduled"]["observedGeneration"] == stored.generation
        assert pod["node"] == "node-1"
        statuses.submit(ReportPending(key, (a,), UNSCHEDULABLE, FULL))
        statuses.began(Evict(key, PREEMPTOR, (), (stored.unit(),), "cluster", FULL), NOTHING)
        await written(4)
        group, pod = stored.read()
        assert pod["node"] is None
        assert group["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        statuses.placed([key], "all of them")
        await written(5)
        group, _ = stored.read()
        assert group.keys() == {THEIRS["type"], stored.scheduled}
        assert group[stored.scheduled]["status"] == "True"
        task.cancel()
        await asyncio.wait({task})
    assert (logged, {how for _, how in counted}) == ([], {"written"})
    assert [note.text for note in notes] == [FULL]
