"""Real API servers store objects that are very large or deeply nested, and the three processes read on."""

import json
import ssl
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.connection.cluster import NATIVE
from tests.support.controllers.running import Controller, install, new_class, spawn
from tests.support.controllers.running import running as controlling
from tests.support.informer.hostile import DEEP
from tests.support.servers import Server, exclusive, in_turn
from tests.support.webhooks.running import Running, ending
from tests.support.webhooks.running import running as judging
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.core import PODIUM_SCHEDULER
from podium.cli.kubeoptions import KubeOptions
from podium.cli.live import load_live

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]

_PODIUM = Path(sys.executable).with_name("podium")
# Go's encoder writes each as six bytes.
_LARGE = "<" * 1_200_000
_PODS = ("large-listed", "deep-listed", "large-watched", "deep-watched")
_FIELDS = '{"f:a":' * DEEP + "{}" + "}" * DEEP


@pytest.fixture(scope="module", params=in_turn(__name__))
def own(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server for this module with Podium's resources, because every process reads all of it."""
    with exclusive(RELEASES[request.param]) as server:
        install(server)
        new_class(server, "gold", 1000)
        yield server


def _ask(server: Server, method: str, path: str, body: bytes | None = None) -> bytes:
    """Send a request, and return the undecoded text of the answer."""
    headers = {"Authorization": f"Bearer {server.access.token}", "Content-Type": "application/json"}
    trust = ssl.create_default_context(cafile=str(server.access.authority))
    request = urllib.request.Request(server.url + path, body, headers, method=method)
    with urllib.request.urlopen(request, context=trust) as response:
        answer: bytes = response.read()
        return answer


def _create(server: Server, path: str, body: dict[str, Any]) -> None:
    """Create an object with deeply nested managed fields at the marked place."""
    made = _ask(server, "POST", path, json.dumps(body).replace('"@fields"', _FIELDS).encode())
    if "managedFields" in body["metadata"]:
        assert made.count(b"f:a") == DEEP


def _managed(name: str, api_version: str, **metadata: Any) -> dict[str, Any]:
    entry = {"manager": "m", "operation": "Update", "apiVersion": api_version, "fieldsType": "FieldsV1"}
    return {"name": name, "managedFields": [{**entry, "fieldsV1": "@fields"}], **metadata}


def _create_pods(server: Server, namespace: str, when: str) -> None:
    """Create a large pod and a deeply nested one, both members of the group with another class."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    spec = {
        "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": _LARGE}]}],
        "schedulerName": PODIUM_SCHEDULER,
        "schedulingGroup": {"podGroupName": "train"},
    }
    _create(server, path, {"metadata": {"name": f"large-{when}"}, "spec": spec})
    spec = {**spec, "containers": [{"name": "c", "image": "i"}]}
    _create(server, path, {"metadata": _managed(f"deep-{when}", "v1"), "spec": spec})


def _create_class(server: Server, when: str) -> None:
    api_version = "scheduling.k8s.io/v1"
    body = {"metadata": _managed(f"deep-{when}", api_version), "value": 1}
    _create(server, f"/apis/{api_version}/priorityclasses", body)


def _value(process: Running, name: str, **labels: str) -> float:
    """Return the value of a series, summed over the labels that are not given."""
    families = text_string_to_metric_families(process.get("/metrics")[1])
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def test_large_and_deep_objects_are_read_by_all_processes(own: Server, tmp_path: Path) -> None:
    """The list and the watch after it deliver the objects; none ends the watch or counts as undecodable."""
    namespace = own.new_namespace()
    version, _ = NATIVE[own.release.minor]
    api_version = f"scheduling.k8s.io/{version}"
    groups = f"/apis/{api_version}/namespaces/{namespace}/podgroups"
    spec: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
    train = {**spec, "priorityClassName": "gold"}
    _create(own, groups, {"metadata": _managed("train", api_version), "spec": train})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "<" * 800_000, "uid": "u"}
    _create(own, groups, {"metadata": {"name": "large", "ownerReferences": [owner]}, "spec": spec})
    _create_pods(own, namespace, "listed")
    _create_class(own, "listed")
    with ExitStack() as stack:
        webhook = stack.enter_context(judging(own, tmp_path / "webhook"))
        controller = stack.enter_context(controlling(own, tmp_path / "controller"))
        scheduler = stack.enter_context(_scheduling(own, tmp_path / "scheduler"))
        _create_pods(own, namespace, "watched")
        _create_class(own, "watched")

        def counted() -> bool:
            return _value(controller, "podium_divergent_pods", namespace=namespace) == 4

        def judged() -> bool:
            paths = [f"/api/v1/namespaces/{namespace}/pods/{pod}" for pod in _PODS]
            return all(b'"PodScheduled"' in _ask(own, "GET", path) for path in paths)

        controller.until(counted, "it has counted all four pods")
        scheduler.until(judged, "it has said of all four pods that no node takes them")
        # A divergent member gets a warning; a webhook that cannot read the object gives none.
        warned = {each.get("name") for each in webhook.events if each["event"] == "warned"}
        assert {"large-watched", "deep-watched"} <= warned
        # The answer to a write on a deep group is as deep.
        assert _value(controller, "podium_writes_total", what="conditions", result="written") >= 1
        assert _value(controller, "podium_reconcile_errors_total") == 0
        listed = load_live(KubeOptions(kubeconfig=str(own.kubeconfig), namespace=namespace))
        assert {name for _, name in listed.state.pods} == set(_PODS)
        for process in (webhook, controller, scheduler):
            assert process.ready
            assert _value(process, "podium_undecodable_reads_total") == 0
            # A server with new definitions may refuse to list their kinds for a moment.
            failed = {each["resource"] for each in process.events if each["event"] == "watch failed"}
            kinds = ("podgroups", "compositepodgroups", "workloads")
            assert failed <= {f"{kind}.scheduling.podium.dev" for kind in kinds}


@contextmanager
def _scheduling(server: Server, folder: Path) -> Iterator[Controller]:
    lease = f"--lease={server.new_namespace('lease-')}/scheduler"
    line = [str(_PODIUM), "scheduler", f"--kubeconfig={server.kubeconfig}", lease]
    started = spawn([*line, "--metrics-port=0", "--log-format=json"], folder)
    with ending(started):
        started.wait_ready()
        yield started
