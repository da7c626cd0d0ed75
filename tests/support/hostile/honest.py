"""An honest tenant: nodes full of cheap pods, and gangs that each preempt two of them."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.support.controllers.running import new_class
from tests.support.servers import Server
from tests.support.waiting import PATIENCE_SECONDS, comes, until

from podium.api.groups import GROUP_LABEL

NAMESPACE = "honest"
SCHEDULER = "podium-scheduler"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
RESERVED = "scheduling.podium.dev/reserved"
# A gang needs two of them: a tenant may occupy the other two for good, for example with pods that never end.
NODES = tuple(f"node-{index}" for index in range(4))
GANG = 2
CPU = 4
LOW, HIGH = "low", "high"
_GROUPS = f"/apis/scheduling.podium.dev/v1beta1/namespaces/{NAMESPACE}/podgroups"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


class Round(NamedTuple):
    """The waits of an honest tenant, in seconds; None if they timed out.

    `judged` is the longest write through the webhook, `plain` a write that no webhook sees.
    """

    judged: float
    plain: float
    bound: float | None


class Honest:
    """The namespace, its nodes, and the gangs to schedule."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._count = 0

    def settle(self) -> None:
        """Create the permanent objects: classes, nodes, the namespace."""
        for name, value in ((LOW, 10), (HIGH, 1000)):
            new_class(self.server, name, value)
        self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name in NODES:
            room = {"cpu": str(CPU), "memory": "64Gi", "pods": "110", "example.com/offered": "8"}
            labels = {HOST: name, ZONE: name[-1:], RESERVED: "yes"}
            status = {"allocatable": room, "capacity": room}
            self._ask(
                "POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status}
            )

    def fill(self) -> None:
        """Create a cheap pod on every node, which fills the node; delete our other pods."""
        self._clear(lambda name: not name.startswith("filler-"))
        there = self._pods()
        for node in NODES:
            if f"filler-{node}" not in there:
                self._ask("POST", _PODS, self._pod(f"filler-{node}", LOW, nodeName=node))

    def drain(self) -> None:
        """Remove all our pods from the nodes."""
        self._clear(lambda name: name != "")

    def round(self, seconds: float) -> Round:
        """Create a gang, wait until its pods are bound, and delete it."""
        self._count += 1
        gang = f"gang-{self._count}"
        plain = self._timed(f"{_MAPS}?dryRun=All", {"metadata": {"name": gang}})
        spec = {"schedulingPolicy": {"gang": {"minCount": GANG}}, "priorityClassName": HIGH}
        group = {
            "apiVersion": "scheduling.podium.dev/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": gang},
        }
        judged = [self._timed(_GROUPS, {**group, "spec": spec})]
        members = [f"{gang}-{index}" for index in range(GANG)]
        label = {GROUP_LABEL: gang}
        judged += [self._timed(_PODS, self._pod(name, HIGH, label)) for name in members]
        began = time.monotonic()
        found = comes(lambda: self._bound(members), seconds)
        bound = time.monotonic() - began
        plain = max(plain, self._timed(f"{_MAPS}?dryRun=All", {"metadata": {"name": gang}}))
        self._clear(lambda name: name in members)
        self._ask("DELETE", f"{_GROUPS}/{gang}", code=200)
        return Round(max(judged), plain, bound if found else None)

    def conditions(self) -> dict[str, str]:
        """Return for each pod its node, or the message of its condition."""
        return {
            name: pod["spec"].get("nodeName") or str(pod["status"].get("conditions", ""))
            for name, pod in self._pods().items()
        }

    def _bound(self, members: Sequence[str]) -> bool:
        there = self._pods()
        return all(there[name]["spec"].get("nodeName") for name in members if name in there) and all(
            name in there for name in members
        )

    def _pods(self) -> dict[str, Any]:
        return {each["metadata"]["name"]: each for each in self._ask("GET", _PODS, code=200)["items"]}

    def _clear(self, chosen: Any) -> None:
        for name in filter(chosen, self._pods()):
            code, answer = self.server.request("DELETE", f"{_PODS}/{name}?gracePeriodSeconds=0")
            assert code in (200, 404), answer
        until(lambda: not any(map(chosen, self._pods())), "our pods are gone", PATIENCE_SECONDS)

    def _timed(self, path: str, body: dict[str, Any]) -> float:
        began = time.monotonic()
        self._ask("POST", path, body)
        return time.monotonic() - began

    def _ask(self, method: str, path: str, body: Any = None, *, code: int = 201) -> Any:
        found, answer = self.server.request(method, path, body)
        assert found == code, answer
        return answer

    @staticmethod
    def _pod(name: str, priority: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(CPU)}}}
        fields = {
            "schedulerName": SCHEDULER,
            "priorityClassName": priority,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"key": RESERVED, "operator": "Exists"}],
            "containers": [container],
            **spec,
        }
        return {"metadata": {"name": name, "labels": labels or {}}, "spec": fields}
