"""The guarantees of the server fixtures for all other tests."""

import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support import recycling
from tests.support.servers import ROOT, Server, exclusive, take_down
from tests.support.waiting import comes
from tools.devcluster.controlplane import process
from tools.devcluster.controlplane.releases import NEWEST
from tools.devcluster.controlplane.state import load

pytestmark = pytest.mark.server

VERSIONS = {"1.36": ["v1", "v1alpha2"], "1.37": ["v1", "v1alpha3", "v1beta1"]}
TOY = {"apiVersion": "example.com/v1", "kind": "Toy"}
TOYS = "/apis/example.com/v1/namespaces/default/toys"
# Objects that change how the API server treats others.
WRITTEN: dict[str, Any] = {
    "/apis/scheduling.k8s.io/v1/priorityclasses": {
        "metadata": {"name": "high"},
        "value": 5,
        "globalDefault": True,
    },
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "toys", "kind": "Toy"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    },
}
STORED = {"1.36": "scheduling.k8s.io/v1alpha2", "1.37": "scheduling.k8s.io/v1beta1"}


def served(server: Server) -> list[str]:
    """The versions of scheduling.k8s.io in discovery."""
    _, group = server.request("GET", "/apis/scheduling.k8s.io")
    return sorted(entry["version"] for entry in group["versions"])


def test_each_minor_serves_its_workload_api(server: Server) -> None:
    _, version = server.request("GET", "/version")
    assert version["gitVersion"] == f"v{server.release.version}"
    assert served(server) == VERSIONS[server.release.minor]


def test_without_the_workload_api_only_priority_classes_are_served(server_without: Server) -> None:
    assert served(server_without) == ["v1"]


def test_kubectl_and_requests_see_the_same(server: Server, namespace: str) -> None:
    """A pod created with kubectl is visible to a request; admission needs no controllers."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": containers()}
    server.kubectl("create", "-n", namespace, "-f", "-", stdin=pod)
    code, stored = server.request("GET", f"/api/v1/namespaces/{namespace}/pods/a")
    assert code == 200
    assert stored["spec"]["priority"] == 0


def test_a_refusal_is_an_answer(server: Server, namespace: str) -> None:
    """Refused and malformed requests return their code and Status, not an exception."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    code, status = server.request("POST", path, {"metadata": {"name": "a"}, "spec": {}})
    assert (code, status["reason"]) == (422, "Invalid")
    code, status = server.request("POST", path, b"{")
    assert (code, status["reason"]) == (400, "BadRequest")


def test_a_cluster_schedules_a_gang_and_guards_its_group(cluster: Server, namespace: str) -> None:
    """The gates are on in scheduler and controllers too: half a gang waits, and a group outlives its pods."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    groups = f"/apis/{STORED[cluster.release.minor]}/namespaces/{namespace}/podgroups"

    def make(path: str, name: str, spec: dict[str, Any]) -> None:
        code, answer = cluster.request("POST", path, {"metadata": {"name": name}, "spec": spec})
        assert code == 201, answer

    def phases() -> dict[str, str]:
        _, answer = cluster.request("GET", pods)
        return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in answer["items"]}

    member = {**containers(), "schedulingGroup": {"podGroupName": "gang"}}
    make(groups, "gang", {"schedulingPolicy": {"gang": {"minCount": 2}}})
    make(pods, "one", member)
    make(pods, "alone", containers())
    assert comes(lambda: phases()["alone"] == "Running")
    assert phases()["one"] == "Pending"
    make(pods, "two", member)
    assert comes(lambda: set(phases().values()) == {"Running"})

    cluster.request("DELETE", f"{groups}/gang")
    _, group = cluster.request("GET", f"{groups}/gang")
    assert group["metadata"]["deletionTimestamp"]
    cluster.request("DELETE", pods)
    assert comes(lambda: cluster.request("GET", f"{groups}/gang")[0] == 404)
    assert comes(lambda: phases() == {})


def test_an_exclusive_server_is_unseen_by_others(server_137: Server) -> None:
    with exclusive(server_137.release) as own:
        name = own.new_namespace("own-")
        assert server_137.request("GET", f"/api/v1/namespaces/{name}")[0] == 404


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Yield the folder of a run of its own, in which no other worker takes a server."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)
        take_down(Path(path))


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which `exclusive` keeps its servers."""
    monkeypatch.setenv(ROOT, str(folder))
    return folder


def is_paused(run: Path, server: Server) -> bool:
    """Return whether the processes of a server are stopped, once it may be paused."""
    recycling.pause(run)
    state = load(server.folder)
    assert state is not None
    processes = [component.process.pid for component in state.components.values()]
    return all(
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T" for pid in processes
    )


def test_a_used_server_is_as_new(run: Path) -> None:
    """The next test gets the same API server, and nothing that the last one wrote is in its way."""
    with exclusive(NEWEST) as used:
        for path, document in WRITTEN.items():
            code, answer = used.request("POST", path, document)
            assert code == 201, answer
        assert comes(lambda: used.request("POST", TOYS, {**TOY, "metadata": {"name": "a"}})[0] == 201)
        assert used.request("DELETE", "/api/v1/namespaces/kube-node-lease")[0] == 200
        used.kubectl("get", "toys")
    assert comes(partial(is_paused, run, used))
    with exclusive(NEWEST) as again:
        assert again.url == used.url
        assert again.request("GET", TOYS)[0] == 404
        assert again.request("GET", "/api/v1/namespaces/kube-node-lease")[1]["status"] == {"phase": "Active"}
        assert not (again.folder / "kubectl-cache").exists()
        for path, document in WRITTEN.items():
            code, answer = again.request("POST", path, document)
            assert code == 201, answer
        assert comes(lambda: again.request("GET", TOYS)[0] == 200)
        assert again.request("GET", TOYS)[1]["items"] == []


@pytest.mark.parametrize(
    "how", [pytest.param("stopped", id="a stopped one"), pytest.param("failed", id="one of a failed test")]
)
def test_no_other_server_is_used_again(run: Path, how: str) -> None:
    failure = pytest.raises(ZeroDivisionError) if how == "failed" else nullcontext()
    with failure, exclusive(NEWEST) as used:
        state = load(used.folder)
        assert state is not None
        if how == "failed":
            raise ZeroDivisionError
        process.stop([state.components["kube-apiserver"].process], grace=0.0)
    assert not any(map(state.runs, state.components))
    assert not used.folder.exists()
    assert str(used.folder) not in "".join(offer.read_text() for offer in run.glob("idle-*"))


def containers() -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "none"}]}
