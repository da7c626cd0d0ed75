"""Auto groups in whole clusters without the Workload API: webhook and controller as processes, real pods.

Jobs and StatefulSets have the real controllers. JobSet and LeaderWorkerSet are resources of their shape, and
the tests create the Jobs and StatefulSets that their controllers would create.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.autogroups import ASKING, GROUP_LABEL, TREE, Document
from tests.support.controllers import running as controller
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tests.support.webhooks import running as webhook
from tests.support.webhooks.recorder import send
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.findings import group_of

pytestmark = pytest.mark.server

MERGE = "application/merge-patch+json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LETS = {"scheduling.podium.dev/auto-groups": "true"}
SCHEDULED = {**LETS, "scheduling.podium.dev/scheduler": "podium-scheduler"}
FOREIGN = {"JobSet": "jobset.x-k8s.io/v1alpha2", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1"}
DISRUPTION = "scheduling.podium.dev/gang-disruption"
REQUIRED, PREFERRED = (f"scheduling.podium.dev/{each}-topology" for each in ("required", "preferred"))
CONTAINER = {"name": "c", "image": "i"}


def template(labels: Document | None = None, **spec: Any) -> Document:
    """Return a pod template that asks for a gang."""
    return {
        "metadata": {"labels": {**ASKING, **(labels or {})}},
        "spec": {"containers": [CONTAINER], "restartPolicy": "Never", **spec},
    }


def definition(kind: str) -> Document:
    """Return a custom resource with any schema; the tests choose the objects' shape."""
    group, _, version = FOREIGN[kind].rpartition("/")
    plural = f"{kind.lower()}s"
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group_of(FOREIGN[kind]),
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": anything}],
        },
    }


class Space:
    """A namespace whose pods may request groups, or may not."""

    def __init__(self, server: Server, labels: Document) -> None:
        self._server = server
        body = {"metadata": {"generateName": "gangs-", "labels": labels}}
        self.name: str = self._ask("POST", "/api/v1/namespaces", body)["metadata"]["name"]

    def _ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Document:
        code, answer = self._server.request(method, path, body, kind)
        assert code in (200, 201, 202), answer
        assert isinstance(answer, dict)
        return answer

    def path(self, api_version: str, kind: str, name: str = "") -> str:
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        return f"{root}/namespaces/{self.name}/{kind.lower()}s/{name}".rstrip("/")

    def make(self, api_version: str, kind: str, name: str, spec: Document, **metadata: Any) -> Document:
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
        made = self._ask("POST", self.path(api_version, kind), body)
        return {"apiVersion": api_version, "kind": kind, **made}

    def job(self, name: str, pod: Document, **rest: Any) -> Document:
        """Make a Job of two parallel pods, unless the `rest` of its spec differs."""
        owners = rest.pop("ownerReferences", [])
        spec = {"parallelism": 2, "template": pod, **rest}
        return self.make("batch/v1", "Job", name, spec, ownerReferences=owners)

    def jobs(self) -> list[Document]:
        listed: list[Document] = self._ask("GET", self.path("batch/v1", "Job"))["items"]
        return listed

    def job_status(self, name: str) -> Document:
        status: Document = self._ask("GET", self.path("batch/v1", "Job", name))["status"]
        return status

    def change(self, api_version: str, kind: str, name: str, spec: Document) -> None:
        self._ask("PATCH", self.path(api_version, kind, name), {"spec": spec}, MERGE)

    def delete(self, api_version: str, kind: str, name: str) -> None:
        background = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        self._ask("DELETE", self.path(api_version, kind, name), background)

    def pods(self) -> dict[str, Document]:
        listed = self._ask("GET", self.path("v1", "Pod"))["items"]
        return {pod["metadata"]["name"]: pod for pod in listed}

    def wait_pods(self, count: int) -> dict[str, Document]:
        """Wait for this number of pods that are not terminating; return them."""
        found: dict[str, Document] = {}

        def there() -> bool:
            found.clear()
            alive = {
                name: pod for name, pod in self.pods().items() if "deletionTimestamp" not in pod["metadata"]
            }
            found.update(alive)
            return len(found) == count

        until(there, f"{count} pods in {self.name}")
        return found

    def members(self) -> dict[str, set[str]]:
        """Return the pods by their group, with an empty text for none."""
        named: dict[str, set[str]] = {}
        for name, pod in self.pods().items():
            named.setdefault(pod["metadata"]["labels"].get(GROUP_LABEL, ""), set()).add(name)
        return named

    def groups(self, kind: str = "PodGroup") -> dict[str, Document]:
        listed = self._ask("GET", self.path("scheduling.podium.dev/v1beta1", kind))["items"]
        return {group["metadata"]["name"]: group for group in listed}

    def wait_root(self, name: str, owner: Document) -> Document:
        """Wait for the composite group of an owner; return it."""

        def there() -> bool:
            found = self.groups("CompositePodGroup").get(name)
            return found is not None and found["metadata"]["ownerReferences"] == controlled(owner)

        until(there, f"composite group {name} in {self.name}")
        return self.groups("CompositePodGroup")[name]

    def wait_group(self, name: str, reached: Callable[[Document], bool] = bool) -> Document:
        """Wait for a group with these fields; return it."""
        until(lambda: reached(self.groups().get(name, {})), f"group {name} in {self.name}")
        return self.groups()[name]


def controlled(owner: Document) -> list[Document]:
    """Return the owner reference to an object."""
    metadata = owner["metadata"]
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    return [{**reference, "name": metadata["name"], "uid": metadata["uid"], "controller": True}]


def count(group: Document) -> int:
    found: int = group["spec"]["schedulingPolicy"]["gang"]["minCount"]
    return found


@pytest.fixture(scope="module", params=in_turn(__name__))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a cluster in which only the two processes create PodGroups."""
    folder = tmp_path_factory.mktemp("autogroups")
    with exclusive(RELEASES[request.param], workload_api=False, controllers=True) as cluster:
        for kind in FOREIGN:
            code, answer = cluster.request("POST", CRDS, definition(kind))
            assert code == 201, answer
        paths = [f"/apis/{version}/{kind.lower()}s" for kind, version in FOREIGN.items()]
        until(lambda: all(cluster.request("GET", path)[0] == 200 for path in paths), "they are served")
        controller.new_class(cluster, "gold", 100)
        with (
            webhook.running(cluster, folder / "webhook") as hook,
            controller.running(cluster, folder / "controller") as process,
        ):
            # A new resource answers 429 until its storage is ready.
            path = "/apis/scheduling.podium.dev/v1beta1/compositepodgroups"
            until(lambda: cluster.request("GET", path)[0] == 200, "composite groups are served")
            yield cluster
            assert "Traceback" not in hook.log
            assert "Traceback" not in process.log
            assert "write failed" not in process.log


def test_a_job(server: Server) -> None:
    """The Job's pods get group and scheduler; the group has their class, and is deleted with the Job."""
    space = Space(server, SCHEDULED)
    job = space.job("train", template(priorityClassName="gold"))
    pods = space.wait_pods(2)
    assert space.members() == {"train-job": set(pods)}
    assert {pod["spec"]["schedulerName"] for pod in pods.values()} == {"podium-scheduler"}
    group = space.wait_group("train-job")
    assert count(group) == 2
    assert (group["spec"]["priorityClassName"], group["spec"]["priority"]) == ("gold", 100)
    assert group["metadata"]["ownerReferences"] == controlled(job)
    space.change("batch/v1", "Job", "train", {"parallelism": 3})
    space.wait_group("train-job", lambda found: count(found) == 3)
    assert set(space.members()) == {"train-job"}
    space.delete("batch/v1", "Job", "train")
    until(lambda: space.groups() == {} and space.pods() == {}, "the group is gone with its Job")


@pytest.mark.parametrize(("labels", "mode"), [({}, "all"), ({DISRUPTION: "single"}, "single")])
def test_the_disruption_mode_is_whole_or_what_a_label_says_and_stays(
    server: Server, labels: Document, mode: str
) -> None:
    """The immutable field of a Job does not change, so minCount follows the Job without it."""
    space = Space(server, LETS)
    space.job("train", template(labels))
    assert space.wait_group("train-job")["spec"]["disruptionMode"] == {mode: {}}
    space.change("batch/v1", "Job", "train", {"parallelism": 3})
    space.wait_group("train-job", lambda found: count(found) == 3)
    space.change("batch/v1", "Job", "train", {"parallelism": 4})
    group = space.wait_group("train-job", lambda found: count(found) == 4)
    assert group["spec"]["disruptionMode"] == {mode: {}}


def test_a_job_that_is_made_again(server: Server) -> None:
    """The second Job's pods name the same group, which is created again for the second Job."""
    space = Space(server, LETS)
    space.job("train", template())
    space.wait_group("train-job")
    # A Job that is created again before the Job controller has seen the first one's pods gets no pods for
    # five minutes: expectations are stored by name, and pods of another UID do not count.
    until(lambda: space.job_status("train").get("active") == 2, "the Job controller has seen its pods")
    space.delete("batch/v1", "Job", "train")
    again = space.job("train", template(), parallelism=4)

    def of_the_second(group: Document) -> bool:
        return bool(group) and group["metadata"]["ownerReferences"] == controlled(again)

    group = space.wait_group("train-job", of_the_second)
    assert count(group) == 4
    assert "deletionTimestamp" not in group["metadata"]


def test_without_a_scheduler(server: Server) -> None:
    """Pods of the group are bound and deleted as usual."""
    space = Space(server, LETS)
    space.job("train", template())
    space.wait_group("train-job")
    until(lambda: all(pod["spec"].get("nodeName") for pod in space.wait_pods(2).values()), "they are bound")
    assert space.members() == {"train-job": set(space.pods())}


@pytest.mark.parametrize("labels", [{}, {"scheduling.podium.dev/scheduler": "podium-scheduler"}])
def test_a_namespace_that_does_not_let_its_pods_ask(server: Server, labels: Document) -> None:
    """The request has no effect until the namespace allows it; then its next pods join."""
    space = Space(server, labels)
    space.job("train", template())
    pods = space.wait_pods(2)
    assert space.members() == {"": set(pods)}
    assert {pod["spec"]["schedulerName"] for pod in pods.values()} == {"default-scheduler"}
    assert space.groups() == {}
    code, answer = server.request(
        "PATCH", f"/api/v1/namespaces/{space.name}", {"metadata": {"labels": LETS}}, MERGE
    )
    assert code == 200, answer
    space.job("later", template())
    space.wait_group("later-job")
    assert space.members()[""] == set(pods)


def test_a_jobset(server: Server) -> None:
    """All roles share one group with their total number of pods, owned by the JobSet."""
    space = Space(server, SCHEDULED)
    roles = {"driver": 1, "worker": 2}
    spec = {
        "replicatedJobs": [
            {"name": role, "replicas": replicas, "template": {"spec": {"parallelism": 2, "template": {}}}}
            for role, replicas in roles.items()
        ]
    }
    jobset = space.make(FOREIGN["JobSet"], "JobSet", "train", spec)
    for role, replicas in roles.items():
        for index in range(replicas):
            labels = {
                "jobset.sigs.k8s.io/jobset-name": "train",
                "jobset.sigs.k8s.io/replicatedjob-name": role,
                "jobset.sigs.k8s.io/job-index": str(index),
            }
            space.job(f"train-{role}-{index}", template(labels), ownerReferences=controlled(jobset))
    pods = space.wait_pods(6)
    assert space.members() == {"train-jobset": set(pods)}
    group = space.wait_group("train-jobset")
    assert count(group) == 6
    assert group["metadata"]["ownerReferences"] == controlled(jobset)
    assert set(space.groups()) == {"train-jobset"}


def test_a_leader_worker_set(server: Server) -> None:
    """Each replica is a group of leader and workers; leaders have no index yet, as before LWS' webhook."""
    space = Space(server, SCHEDULED)
    lws = space.make(
        FOREIGN["LeaderWorkerSet"],
        "LeaderWorkerSet",
        "serve",
        {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": {}}},
    )
    name = {"leaderworkerset.sigs.k8s.io/name": "serve"}
    leads = {**name, "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    _stateful_set(space, "serve", leads, 2, ownerReferences=controlled(lws))
    leaders = space.wait_pods(2)
    for index, (leader, pod) in enumerate(sorted(leaders.items())):
        labels = {**name, "leaderworkerset.sigs.k8s.io/group-index": str(index)}
        owner = {"apiVersion": "v1", "kind": "Pod", **pod}
        _stateful_set(space, leader, labels, 2, start=1, ownerReferences=controlled(owner))
    space.wait_pods(6)
    assert space.members() == {
        f"serve-{index}-lws": {f"serve-{index}", f"serve-{index}-1", f"serve-{index}-2"} for index in (0, 1)
    }
    for index in (0, 1):
        group = space.wait_group(f"serve-{index}-lws")
        assert count(group) == 3
        assert group["metadata"]["ownerReferences"] == controlled(lws)
    space.change(FOREIGN["LeaderWorkerSet"], "LeaderWorkerSet", "serve", {"startupPolicy": "LeaderReady"})
    for index in (0, 1):
        space.wait_group(f"serve-{index}-lws", lambda found: count(found) == 1)


def _jobset_as_tree(space: Space) -> Document:
    """Create a JobSet that asks for a tree, and the two Jobs that its controller would create."""
    asked = {"metadata": {"labels": {**ASKING, **TREE}, "annotations": {REQUIRED: "rack"}}}
    role = {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": asked}}}
    spec = {"replicatedJobs": [role]}
    jobset = space.make(FOREIGN["JobSet"], "JobSet", "train", spec, annotations={PREFERRED: "block"})
    for index in range(2):
        labels = {
            **TREE,
            "jobset.sigs.k8s.io/jobset-name": "train",
            "jobset.sigs.k8s.io/replicatedjob-name": "w",
            "jobset.sigs.k8s.io/job-index": str(index),
        }
        pod = template(labels, priorityClassName="gold")
        space.job(f"train-w-{index}", pod, ownerReferences=controlled(jobset))
    return jobset


def test_a_jobset_as_a_tree(server: Server) -> None:
    """Each Job has a group below the root; a deleted root is created again."""
    space = Space(server, SCHEDULED)
    jobset = _jobset_as_tree(space)
    space.wait_pods(4)
    leaves = {"train-w-0-child", "train-w-1-child"}
    assert {name: len(pods) for name, pods in space.members().items()} == dict.fromkeys(leaves, 2)
    root = space.wait_root("train-jobset", jobset)
    assert root["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}
    assert (root["spec"]["disruptionMode"], root["spec"]["priority"]) == ({"all": {}}, 100)
    assert root["metadata"]["annotations"] == {PREFERRED: "block"}
    for leaf in leaves:
        group = space.wait_group(leaf)
        assert (count(group), group["metadata"]["ownerReferences"]) == (2, controlled(jobset))
        assert group["spec"]["parentCompositePodGroupName"] == "train-jobset"
        assert group["spec"]["schedulingConstraints"] == {"topology": [{"key": "rack"}]}
    assert set(space.groups()) == leaves
    space.delete("scheduling.podium.dev/v1beta1", "CompositePodGroup", "train-jobset")
    assert space.wait_root("train-jobset", jobset)["spec"] == root["spec"]


def test_a_jobset_with_a_tree_that_is_made_again(server: Server) -> None:
    """The tree is deleted with its JobSet, and the next JobSet of the name has its own."""
    space = Space(server, LETS)
    space.wait_root("train-jobset", _jobset_as_tree(space))
    space.wait_pods(4)
    space.delete(FOREIGN["JobSet"], "JobSet", "train")
    until(lambda: not (space.groups("CompositePodGroup") or space.groups() or space.pods()), "all is gone")
    until(lambda: not space.jobs(), "the Jobs are gone")
    again = _jobset_as_tree(space)
    space.wait_root("train-jobset", again)
    for leaf in ("train-w-0-child", "train-w-1-child"):
        assert space.wait_group(leaf)["metadata"]["ownerReferences"] == controlled(again)


def test_a_leader_worker_set_as_a_tree(server: Server) -> None:
    """Its replicas are groups below a root that waits for none of them; later replicas join it."""
    space = Space(server, SCHEDULED)
    pod = {"metadata": template(TREE)["metadata"]}
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": pod}}
    kind = FOREIGN["LeaderWorkerSet"], "LeaderWorkerSet", "serve"
    lws = space.make(*kind, spec, annotations={REQUIRED: "block"})
    labels = {**TREE, "leaderworkerset.sigs.k8s.io/name": "serve"}
    _stateful_set(space, "serve", labels, 1, ownerReferences=controlled(lws))
    root = space.wait_root("serve-lws", lws)
    assert root["spec"]["schedulingPolicy"] == {"basic": {}}
    assert root["spec"]["disruptionMode"] == {"single": {}}
    assert root["spec"]["schedulingConstraints"] == {"topology": [{"key": "block"}]}
    space.change(*kind, {"replicas": 2})
    space.change("apps/v1", "StatefulSet", "serve", {"replicas": 2})
    for name in ("serve-0-lws", "serve-1-lws"):
        group = space.wait_group(name)
        assert count(group) == 1
        assert group["spec"]["parentCompositePodGroupName"] == "serve-lws"


def _stateful_set(
    space: Space, name: str, labels: Document, replicas: int, start: int = 0, **metadata: Any
) -> None:
    spec = {
        "replicas": replicas,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "ordinals": {"start": start},
        "selector": {"matchLabels": labels},
        "template": template(labels, restartPolicy="Always"),
    }
    space.make("apps/v1", "StatefulSet", name, spec, **metadata)


def test_a_group_of_another_owner_is_unchanged(server: Server) -> None:
    """A group of a user stays unchanged, and the pods are its members."""
    space = Space(server, LETS)
    spec = {"schedulingPolicy": {"gang": {"minCount": 7}}}
    theirs = space.make("scheduling.podium.dev/v1beta1", "PodGroup", "train-job", spec)
    space.job("train", template(priorityClassName="gold"))
    space.wait_pods(2)

    def judged(group: Document) -> bool:
        conditions = group.get("status", {}).get("conditions", ())
        return any(each["type"] == "PodsNotMatchingPriority" for each in conditions)

    # The pods' class differs from the group's, so a reported divergence shows that the controller has read
    # it.
    group = space.wait_group("train-job", judged)
    assert group["spec"] == theirs["spec"]
    assert "ownerReferences" not in group["metadata"]


def test_a_pod_without_an_owner_gets_a_warning(server: Server) -> None:
    """The user who creates it gets a warning, and the pod is unchanged."""
    space = Space(server, SCHEDULED)
    body = {"metadata": {"name": "alone", "labels": ASKING}, "spec": {"containers": [CONTAINER]}}
    answer = send(server, "POST", space.path("v1", "Pod"), body)
    assert answer.code == 201, answer
    (warning,) = answer.warnings
    assert warning.endswith("no Job, JobSet or LeaderWorkerSet created this pod, so it joins no group")
    assert space.members() == {"": {"alone"}}
