"""Jobs and pods that run on real nodes, and a record of what became of each pod."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.support.connection.cluster import NATIVE
from tests.support.controllers.history import Watch
from tests.support.e2e.cluster import GANG_NODE, Nodes
from tests.support.install.scene import MERGE
from tests.support.waiting import until
from tools.devcluster.realnode.nodefiles import SANDBOX_IMAGE

from podium.api.groups import NATIVE_GROUP, RESERVED

SCHEDULER = "podium-scheduler"
_TOLERATIONS = [{"key": RESERVED, "operator": "Exists"}]


class Work(NamedTuple):
    """A workload's lifetime, its time after SIGTERM and its exit code, and the grace period of its pod."""

    lifetime: str = "0s"
    linger: str = "0s"
    exit_code: int = 0
    grace_seconds: int = 1

    def container(self, requests: dict[str, str]) -> dict[str, Any]:
        """Return the container; what it requests it may use, no more of devices than that."""
        arguments = [f"-lifetime={self.lifetime}", f"-grace={self.linger}", f"-exit-code={self.exit_code}"]
        resources: dict[str, Any] = {"requests": requests}
        if limits := {name: amount for name, amount in requests.items() if "/" in name}:
            resources["limits"] = limits
        return {
            "name": "work",
            "image": SANDBOX_IMAGE,
            "imagePullPolicy": "Never",
            "args": arguments,
            "resources": resources,
        }


class Moment(NamedTuple):
    """A pod as one event of a watch has it; `at` is the time of its arrival (time.monotonic)."""

    at: float
    kind: str
    pod: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def node(self) -> str:
        return str(self.pod["spec"].get("nodeName", ""))

    @property
    def phase(self) -> str:
        return str(self.pod["status"].get("phase", ""))

    @property
    def reason(self) -> str:
        return str(self.pod["status"].get("reason", ""))

    @property
    def terminating(self) -> bool:
        return "deletionTimestamp" in self.pod["metadata"]

    @property
    def is_target(self) -> bool:
        """Return whether the pod has DisruptionTarget."""
        return any(each["type"] == "DisruptionTarget" for each in self.pod["status"].get("conditions", ()))

    @property
    def ended(self) -> bool:
        return self.kind == "DELETED" or self.phase in ("Succeeded", "Failed")


@dataclass
class PodWatch(Watch):
    """The events of a new namespace's pods."""

    moments: list[Moment] = field(default_factory=list)

    def _take(self, event: dict[str, Any]) -> None:
        super()._take(event)
        if event["type"] != "BOOKMARK":
            self.moments.append(Moment(time.monotonic(), event["type"], event["object"]))

    def of(self, job: str) -> list[Moment]:
        """Return the events of the pods of a Job, or of the pod of this name."""
        return [
            each
            for each in list(self.moments)
            if each.pod["metadata"].get("labels", {}).get("job-name") == job or each.name == job
        ]

    def bound(self, job: str) -> dict[str, float]:
        """Return when each pod was seen on a node for the first time."""
        return _first(each for each in self.of(job) if each.node)

    def running(self) -> dict[str, str]:
        """Return the UIDs of the pods that run, by name."""
        last = {each.name: each for each in list(self.moments)}
        return {
            name: each.pod["metadata"]["uid"]
            for name, each in last.items()
            if each.phase == "Running" and not each.terminating and not each.ended
        }

    def ended(self, job: str) -> dict[str, float]:
        """Return when each pod was seen to have ended for the first time."""
        return _first(each for each in self.of(job) if each.ended)


@dataclass
class FirstEvent(Watch):
    """A watch that acts at the first event of a kind, on its own thread, so that little time is lost."""

    of: Callable[[dict[str, Any]], bool] = field(kw_only=True)
    act: Callable[[], None] = field(kw_only=True)
    came: bool = False

    def _take(self, event: dict[str, Any]) -> None:
        super()._take(event)
        if not self.came and event["type"] != "BOOKMARK" and self.of(event["object"]):
            self.act()
            self.came = True


def _first(moments: Iterable[Moment]) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in moments:
        found.setdefault(each.name, each.at)
    return found


def advertise(nodes: Nodes, node: str, name: str, count: int) -> None:
    """Give a node devices, and wait until pods can request them."""
    # A kubelet keeps extended resources that it has no plugin for.
    path = f"/api/v1/nodes/{node}"
    code, answer = nodes.server.request(
        "PATCH", f"{path}/status", {"status": {"capacity": {name: str(count)}}}, MERGE
    )
    assert code == 200, answer

    def is_allocatable() -> bool:
        return name in nodes.server.request("GET", path)[1]["status"]["allocatable"]

    until(is_allocatable, f"{name} is allocatable")


def create_classes(nodes: Nodes, values: dict[str, int]) -> None:
    """Create PriorityClasses by name."""
    for name, value in values.items():
        body = {"metadata": {"name": name}, "value": value}
        assert nodes.server.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)[0] == 201


@contextlib.contextmanager
def watching(space: "Space") -> Iterator[PodWatch]:
    """Yield a watch of a namespace's pods that goes on while the block runs."""
    watch = PodWatch(space.server, f"/api/v1/namespaces/{space.name}/pods")
    watch.start()
    try:
        yield watch
    finally:
        watch.close()


class Space:
    """A namespace with gangs, Jobs and pods for the node of gangs."""

    def __init__(self, nodes: Nodes) -> None:
        self.server = nodes.server
        self.name = nodes.server.new_namespace("e2e-")
        self._version, self._all = NATIVE[nodes.server.release.minor]

    def gang(self, name: str, count: int, class_name: str) -> None:
        """Make a group that is scheduled and preempted as a whole."""
        spec = {
            "schedulingPolicy": {"gang": {"minCount": count}},
            "disruptionMode": self._all,
            "priorityClassName": class_name,
        }
        self.post(self._groups(), {"metadata": {"name": name}, "spec": spec})

    def delete_gang(self, name: str) -> None:
        """Delete a group; it goes with its last pod."""
        code, answer = self.server.request("DELETE", f"{self._groups()}/{name}")
        assert code == 200, answer

    def job(self, name: str, count: int, class_name: str, work: Work, requests: dict[str, str]) -> None:
        """Make a Job whose pods are the members of the group of its name."""
        template = {
            "spec": {
                **workload(work, requests),
                "priorityClassName": class_name,
                "schedulingGroup": {"podGroupName": name},
            }
        }
        spec = {"parallelism": count, "completions": count, "backoffLimit": 100, "template": template}
        self.post(f"/apis/batch/v1/namespaces/{self.name}/jobs", {"metadata": {"name": name}, "spec": spec})

    def pod(self, name: str, work: Work, requests: dict[str, str], **fields: Any) -> None:
        """Make a pod for the node of gangs; `fields` are further fields of its spec."""
        spec = {**workload(work, requests), "nodeSelector": {"kubernetes.io/hostname": GANG_NODE}, **fields}
        self.post(f"/api/v1/namespaces/{self.name}/pods", {"metadata": {"name": name}, "spec": spec})

    def delete_pod(self, name: str, grace_seconds: int = 1) -> None:
        """Delete a pod."""
        path = f"/api/v1/namespaces/{self.name}/pods/{name}?gracePeriodSeconds={grace_seconds}"
        code, answer = self.server.request("DELETE", path)
        assert code == 200, answer

    def suspend(self, job: str, *, suspended: bool) -> None:
        """Let a Job have no pods, or all of its pods again."""
        path = f"/apis/batch/v1/namespaces/{self.name}/jobs/{job}"
        code, answer = self.server.request("PATCH", path, {"spec": {"suspend": suspended}}, MERGE)
        assert code == 200, answer

    def delete_job(self, name: str) -> None:
        """Delete a Job and its pods."""
        path = f"/apis/batch/v1/namespaces/{self.name}/jobs/{name}?propagationPolicy=Background"
        code, answer = self.server.request("DELETE", path)
        assert code == 200, answer

    def clear(self) -> None:
        """Delete the namespace, and wait until its pods are gone."""
        kubectl = self.server.kubectl
        kubectl("delete", "namespace", self.name, "--wait=false")
        kubectl("-n", self.name, "delete", "pods", "--all", "--grace-period=1", "--wait=false")
        until(lambda: not self.pods(), "its pods are gone")

    def pods(self) -> list[str]:
        """Return the names of the namespace's pods."""
        return [pod["metadata"]["name"] for pod in self.listed()]

    def listed(self) -> list[dict[str, Any]]:
        """Return the namespace's pods."""
        code, answer = self.server.request("GET", f"/api/v1/namespaces/{self.name}/pods")
        assert code == 200, answer
        return list(answer["items"])

    def completed(self, job: str) -> bool:
        """Return whether all pods of a Job have succeeded."""
        code, found = self.server.request("GET", f"/apis/batch/v1/namespaces/{self.name}/jobs/{job}")
        assert code == 200, found
        return bool(found["status"].get("succeeded", 0) == found["spec"]["completions"])

    def _groups(self) -> str:
        return f"/apis/{NATIVE_GROUP}/{self._version}/namespaces/{self.name}/podgroups"

    def post(self, path: str, body: dict[str, Any]) -> None:
        """Create an object, which must be accepted."""
        code, answer = self.server.request("POST", path, body)
        assert code == 201, answer


def workload(work: Work, requests: dict[str, str]) -> dict[str, Any]:
    """Return the spec of a pod that Podium schedules."""
    return {
        "schedulerName": SCHEDULER,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": work.grace_seconds,
        "tolerations": _TOLERATIONS,
        "containers": [work.container(requests)],
    }
