"""The writes that a cluster accepts without a working replica, or with a bug in one.

An API server that cannot call a webhook follows the failurePolicy. Pods fail open; Podium's own kinds fail
closed unless configured otherwise. Requests without a webhook (reads in the stored version, deletes) still
work.
"""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.balancer import Link
from tests.support.faults.replica import BUG
from tests.support.faults.replicas import Fleet, fleet
from tests.support.faults.writing import MERGE, group, member, new_class, webhook_failures
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.groups import PODIUM_GROUP
from podium.crds import definitions

pytestmark = pytest.mark.server

OLDER, NEWER = (f"/apis/{PODIUM_GROUP}/{version}" for version in ("v1alpha2", "v1beta1"))
FAILED = 'failed calling webhook "groups.podium.dev"'


@pytest.fixture(scope="module", params=in_turn(__name__))
def cluster(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a cluster with controllers, which empty deleted namespaces."""
    with exclusive(RELEASES[request.param], workload_api=False, controllers=True) as server:
        new_class(server)
        yield server


@contextlib.contextmanager
def one(cluster: Server, folder: Path, **wanted: Any) -> Iterator[Fleet]:
    """Run one replica with the bug."""
    with fleet(cluster, folder, 1, folder=str(folder / "ca"), bug=True, **wanted) as started:
        yield started


def until_gone(cluster: Server, path: str) -> None:
    """Wait until a deleted object is gone."""
    until(lambda: cluster.request("GET", path)[0] == 404, f"{path} is gone")


def settled(cluster: Server) -> str:
    """Return a new namespace in which pods can be created."""
    name = cluster.new_namespace()
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    until(lambda: cluster.request("GET", account)[0] == 200, "the namespace's account")
    return name


class Space:
    """A namespace, and short methods for requests in it."""

    def __init__(self, cluster: Server) -> None:
        self.cluster = cluster
        self.name = settled(cluster)

    def groups(self, name: str = "", root: str = NEWER) -> str:
        return f"{root}/namespaces/{self.name}/podgroups/{name}".rstrip("/")

    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    def make_group(self, name: str) -> tuple[int, Any]:
        return self.cluster.request("POST", self.groups(), group(name))

    def change_group(self, name: str) -> tuple[int, Any]:
        return self.cluster.request("PATCH", self.groups(name), {"metadata": {"labels": {"a": "b"}}}, MERGE)

    def make_member(self, name: str) -> tuple[int, Any]:
        return self.cluster.request("POST", self.pods(), member(name))


def failures(replica_metrics: str) -> float:
    """Return the exceptions that a replica has counted."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(replica_metrics)
        for sample in family.samples
        if sample.name == "podium_admission_errors_total" and sample.labels == {"why": "exception"}
    )


def test_a_bug_is_an_error_and_never_a_denial(cluster: Server, tmp_path: Path) -> None:
    """A rule that raises gives HTTP 500, counted and logged; pods pass, groups get the error."""
    with one(cluster, tmp_path) as started:
        space, (replica,) = Space(cluster), started.replicas
        assert space.make_group("fine")[0] == 201
        before = failures(replica.get("/metrics")[1])
        code, answer = space.make_group(BUG)
        assert code == 500, answer
        assert FAILED in answer["message"]
        assert "denied" not in answer["message"]
        assert failures(replica.get("/metrics")[1]) == before + 1
        assert space.make_member(BUG)[0] == 201
        assert failures(replica.get("/metrics")[1]) == before + 2
        logged = [event for event in replica.events if event["event"] == "judging failed"]
        assert [event["kind"] for event in logged] == ["PodGroup", "Pod"]
        assert all("a bug in a rule" in event["exception"] for event in logged)
        assert space.make_group("fine-too")[0] == 201


def test_a_network_that_swallows_costs_pods_no_more_than_the_timeout(cluster: Server, tmp_path: Path) -> None:
    """Without an answer or a refusal, the API server follows the failurePolicy after timeoutSeconds."""
    with one(cluster, tmp_path) as started:
        space = Space(cluster)
        assert space.make_group("before")[0] == 201
        started.balancer.set(Link.SILENT)
        assert space.make_member("before")[0] == 201
        code, answer = space.make_group("after")
        assert code == 500, answer
        assert FAILED in answer["message"]


def test_nothing_stands_still_without_replicas(cluster: Server, tmp_path: Path) -> None:
    """If all replicas are down, pods are created, groups are read, and namespaces can be deleted."""
    with one(cluster, tmp_path) as started:
        space, doomed = Space(cluster), Space(cluster)
        for each in (space, doomed):
            assert each.make_group("gang")[0] == 201
            assert each.make_member("gang")[0] == 201
        assert cluster.request("GET", space.groups("gang", OLDER))[0] == 200
        counted = webhook_failures(cluster)
        started.end(started.replicas[0], signal.SIGKILL)

        assert space.make_member("orphan")[0] == 201
        for code, answer in (space.make_group("late"), space.change_group("gang")):
            assert code == 500, answer
            assert FAILED in answer["message"]
        assert webhook_failures(cluster) - counted == {"pods.podium.dev": 1, "groups.podium.dev": 2}
        assert cluster.request("GET", space.groups("gang"))[1]["spec"]["priority"] == 1000
        assert len(cluster.request("GET", space.groups())[1]["items"]) == 1
        code, answer = cluster.request("GET", space.groups("gang", OLDER))
        assert code == 500, answer
        assert "conversion webhook" in answer["message"]
        assert cluster.request("DELETE", space.groups("gang"))[0] == 200

        path = f"/api/v1/namespaces/{doomed.name}"
        assert cluster.request("DELETE", path)[0] == 200
        until_gone(cluster, path)


def test_failing_open_is_a_choice_and_definitions_can_go(cluster: Server, tmp_path: Path) -> None:
    """With podium=Ignore groups are written without a review; Podium can be removed without a replica."""
    with one(cluster, tmp_path, failure={"podium": "Ignore"}) as started:
        space = Space(cluster)
        assert space.make_group("gang")[0] == 201
        started.end(started.replicas[0], signal.SIGKILL)

        code, made = space.make_group("late")
        assert code == 201, made
        assert "priority" not in made["spec"]
        assert space.change_group("gang")[0] == 200

        for definition in definitions.crds():
            name = definition["metadata"]["name"]
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
            assert cluster.request("DELETE", path)[0] == 200
            until_gone(cluster, path)
