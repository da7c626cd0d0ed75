"""The registration by Service over the life of an installation: installed, rolled out, turned off, back.

Clients write groups and pods all the time, and no write is refused.
"""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.controlplane_faults import without_api_server
from tests.support.servers import Server, exclusive, in_turn, is_redefined
from tests.support.waiting import until
from tests.support.webhooks.deployed import (
    DEPLOYMENT,
    NAMESPACE,
    by_service,
    launch_by_service,
    new_deployment,
    report_available,
    scale,
)
from tests.support.webhooks.running import Running, ending
from tools.devcluster.controlplane.releases import RELEASES

from podium.documents.files import folder
from podium.ops.doctor.facts import MUTATING, VALIDATING

pytestmark = pytest.mark.server

GROUPS = "/apis/scheduling.podium.dev/v1beta1/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
SHIPPED = ("apply", "--server-side", "-f", str(folder("manifests") / "chart" / "files" / "webhooks"))


@pytest.fixture(params=in_turn(__name__))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server with the manifests of the webhooks and their Deployment, which has no replica yet."""
    with exclusive(RELEASES[request.param]) as made:
        assert made.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})[0] == 201
        made.kubectl(*SHIPPED)
        new_deployment(made, replicas=2, available=0)
        until(lambda: made.request("GET", GROUPS)[0] == 200, "groups are served")
        yield made


def registered(server: Server) -> list[str]:
    """Return the failure policies of the webhooks of Podium's own kinds."""
    found = [server.request("GET", f"{path}/podium")[1] for path in (MUTATING, VALIDATING)]
    return [
        webhook["failurePolicy"]
        for each in found
        for webhook in each.get("webhooks", ())
        if webhook["name"] == "groups.podium.dev"
    ]


@contextlib.contextmanager
def writing(server: Server, pause: float = 0.05) -> Iterator[list[str]]:
    """Create a group and a pod each `pause` seconds during the block; yield the refusals, which must be none.

    A gate keeps the pods from nodes.
    """
    refusals: list[str] = []
    written: list[int] = []
    over = threading.Event()

    def write() -> None:
        gates = [{"name": "example.com/held"}]
        pod = {"spec": {"containers": [{"name": "c", "image": "i"}], "schedulingGates": gates}}
        group = {
            "apiVersion": "scheduling.podium.dev/v1beta1",
            "kind": "PodGroup",
            "spec": {"schedulingPolicy": {"basic": {}}},
        }
        with contextlib.closing(server.access.client()) as client:
            while not over.is_set():
                for path, body in ((GROUPS, group), (PODS, pod)):
                    generated = {**body, "metadata": {"generateName": "w-"}}
                    code, answer = client.request("POST", path, generated)
                    written.append(code)
                    if code != 201 and not is_redefined(code, answer):
                        refusals.append(str(answer))
                over.wait(pause)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield refusals
        before = len(written)
        until(lambda: len(written) > before + 2 or bool(refusals), "writes are answered")
    finally:
        over.set()
        thread.join()
    assert refusals == []


def stage(server: Server, expected: list[str], webhook: Running) -> None:
    webhook.until(lambda: registered(server) == expected, f"the registration is {expected}")


def test_no_write_is_refused_while_it_comes_and_goes(server: Server, tmp_path: Path) -> None:
    """Open until a replica is available, closed through a rollout, gone after scaling to 0, and back."""
    certificates = f"--cert-dir={tmp_path / 'certificates'}"
    with writing(server):
        assert registered(server) == []
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(by_service(server, tmp_path / "first", certificates))
            stage(server, ["Ignore"] * 2, first)
            report_available(server, 1)
            stage(server, ["Fail"] * 2, first)
            # Another replica starts, and a rollout replaces the first one.
            second = stack.enter_context(by_service(server, tmp_path / "second", certificates))
            server.kubectl(*SHIPPED)
            report_available(server, 0)
            assert first.stop() == 0
            assert registered(server) == ["Fail"] * 2
            report_available(server, 1)
            server.kubectl(*SHIPPED)
            scale(server, 0)
            assert second.stop() == 0
            assert registered(server) == []
            assert "registration removed" in second.log
        scale(server, 2)
        with by_service(server, tmp_path / "third", certificates) as third:
            stage(server, ["Fail"] * 2, third)
            # As `kubectl delete -f` does: the configurations first.
            for path in (MUTATING, VALIDATING):
                assert server.request("DELETE", f"{path}/podium")[0] == 200
            third.until(lambda: "no webhook is registered" in third.log, "the log names the missing objects")
            assert server.request("DELETE", DEPLOYMENT)[0] == 200
        server.kubectl(*SHIPPED)
        assert registered(server) == []


@pytest.mark.parametrize("how", ["scaled to 0", "deleted", "being deleted"])
def test_a_process_that_is_turned_off_removes_its_webhooks(server: Server, tmp_path: Path, how: str) -> None:
    """Those of other programs in the same objects stay."""
    report_available(server, 1)
    with by_service(server, tmp_path) as webhook:
        stage(server, ["Fail"] * 2, webhook)
        found = server.request("GET", f"{MUTATING}/podium")[1]
        foreign = {**found["webhooks"][0], "name": "audit.example.com", "failurePolicy": "Ignore"}
        patch: list[Any] = [{"op": "add", "path": "/webhooks/-", "value": foreign}]
        where = f"{MUTATING}/podium?fieldManager=kubectl-edit"
        assert server.request("PATCH", where, patch, "application/json-patch+json")[0] == 200
        if how == "scaled to 0":
            scale(server, 0)
        else:
            policy = "Background" if how == "deleted" else "Foreground"
            assert server.request("DELETE", f"{DEPLOYMENT}?propagationPolicy={policy}")[0] == 200
        assert webhook.stop() == 0
    names = [each["name"] for each in server.request("GET", f"{MUTATING}/podium")[1]["webhooks"]]
    assert names == ["audit.example.com"]
    assert registered(server) == []


def test_a_process_that_ends_without_an_api_server_warns(server: Server, tmp_path: Path) -> None:
    report_available(server, 1)
    webhook = launch_by_service(server, tmp_path)
    with ending(webhook):
        webhook.wait_ready()
        stage(server, ["Fail"] * 2, webhook)
        with without_api_server(server):
            assert webhook.stop() == 0
        assert "registration not removed" in webhook.log
