"""JobSets and LeaderWorkerSets whose pods ask for a group, in a namespace that permits it."""

from typing import Any

from tests.support.autogroups import ASKING
from tests.support.e2e.cluster import Nodes
from tests.support.e2e.work import Space, Work, workload
from tests.support.servers import Server
from tests.support.waiting import until

from podium.api.groups import PODIUM_GROUP

CLASSES = {"e2e-batch": 100, "e2e-research": 1000}
LOW, HIGH = CLASSES
DEVICE = "example.com/accelerator"
# Every pod of a gang uses two of the four devices of a node.
DEVICES, EACH = 4, 2
_REQUESTS = {"cpu": "20m", DEVICE: str(EACH)}
_PERMISSION = (f"{PODIUM_GROUP}/auto-groups=true", f"{PODIUM_GROUP}/scheduler=podium-scheduler")
_ERROR = 500  # the API server did not reach a webhook
_JOBSETS = "jobset.x-k8s.io/v1alpha2"
_SETS = "leaderworkerset.x-k8s.io/v1"


class GangSpace(Space):
    """A namespace whose pods may ask for a gang, all scheduled by Podium."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(nodes)
        self.server.kubectl("label", "namespace", self.name, *_PERMISSION)

    def jobset(
        self, name: str, class_name: str, work: Work, workers: int, labels: dict[str, str] | None = None
    ) -> None:
        """Make a JobSet of a driver and workers, whose Jobs do not count an eviction as a failure."""
        roles = [_role(role, pods, class_name, work) for role, pods in (("driver", 1), ("worker", workers))]
        self.make(_JOBSETS, "JobSet", name, {"replicatedJobs": roles}, labels=labels or {})

    def leaderworkerset(self, name: str, class_name: str, work: Work, replicas: int, size: int) -> None:
        """Make a LeaderWorkerSet, which recreates a replica as a whole."""
        template = {**_template(class_name, work), "restartPolicy": "Always"}
        spec = {
            "replicas": replicas,
            "leaderWorkerTemplate": {
                "size": size,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "workerTemplate": {"metadata": {"labels": ASKING}, "spec": template},
            },
        }
        self.make(_SETS, "LeaderWorkerSet", name, spec)

    def delete_leaderworkerset(self, name: str) -> None:
        """Delete a LeaderWorkerSet and its pods."""
        self.server.kubectl("-n", self.name, "delete", "leaderworkerset", name, "--wait=false")

    def make(self, version: str, kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> None:
        """Create a custom resource in the namespace."""
        path = f"/apis/{version}/namespaces/{self.name}/{plural(kind)}"
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
        create(self.server, path, body)

    def get(self, version: str, kind: str, name: str) -> dict[str, Any]:
        """Return a custom resource, which must exist."""
        path = f"/apis/{version}/namespaces/{self.name}/{plural(kind)}/{name}"
        code, found = self.server.request("GET", path)
        assert code == 200, found
        return dict(found)

    def group(self, name: str) -> dict[str, Any]:
        """Return the spec of a group of Podium's, which must exist."""
        return dict(self.get(f"{PODIUM_GROUP}/v1beta1", "PodGroup", name)["spec"])

    def jobset_state(self, name: str) -> tuple[str, int]:
        """Return a JobSet's final state, empty before that, and how often it was restarted."""
        status = self.get(_JOBSETS, "JobSet", name).get("status", {})
        return status.get("terminalState", ""), status.get("restarts", 0)


def create(server: Server, path: str, body: dict[str, Any]) -> None:
    """Create an object as soon as the webhook of its project answers; it must be accepted."""
    answers: list[tuple[int, Any]] = []

    def is_answered() -> bool:
        answers.append(server.request("POST", path, body))
        return answers[-1][0] < _ERROR

    until(is_answered, f"{body['kind']} {body['metadata']['name']} is answered")
    code, answer = answers[-1]
    assert code == 201, answer


def plural(kind: str) -> str:
    """Return the name of a kind in a path."""
    return f"{kind.lower()}s"


def _role(name: str, pods: int, class_name: str, work: Work) -> dict[str, Any]:
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    spec = {
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [ignored]},
        "template": {"metadata": {"labels": ASKING}, "spec": _template(class_name, work)},
    }
    return {"name": name, "replicas": 1, "template": {"spec": spec}}


def _template(class_name: str, work: Work) -> dict[str, Any]:
    spec = workload(work, _REQUESTS)
    del spec["schedulerName"]  # the namespace's label chooses
    return {**spec, "priorityClassName": class_name}
