"""The metrics of the running processes are those of the reference, the alerts and the dashboard."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.schedulerplugin.scheduling import test_process as scheduler
from tests.support.connection.cluster import CONTAINER
from tests.support.controllers import running as reconciler
from tests.support.docs.pages import commands, pages
from tests.support.servers import Server, exclusive
from tests.support.waiting import until
from tests.support.webhooks import running as webhook
from tests.unit.manifests.test_modes import rendered
from tools.devcluster.controlplane.releases import NEWEST
from tools.manifests import metrics
from tools.manifests.render import MANIFESTS

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Yield a server with Podium's kinds."""
    with exclusive(NEWEST) as made:
        reconciler.install(made)
        yield made


def _launch(process: str, server: Server, folder: Path) -> webhook.Running:
    """Start a process by its command without waiting."""
    if process == "webhook":
        return webhook.launch(server, folder)
    if process == "controller":
        return reconciler.launch(server.kubeconfig, folder, ("default", "metrics"))
    return scheduler.launch(server.kubeconfig, folder, "--lease=default/metrics")


@pytest.mark.parametrize("process", metrics.exposed())
def test_a_scrape_has_what_is_written_of_it(process: str, server: Server, tmp_path: Path) -> None:
    """The exposed metrics are exactly the documented ones, with their types and labels.

    The first scrape has each series that a query may take a rate of.
    """
    started = _launch(process, server, tmp_path / process)
    with webhook.ending(started):
        started.wait_ready()
        families = list(text_string_to_metric_families(started.get("/metrics")[1]))
    ours = [family for family in families if family.name.startswith("podium_")]
    written = metrics.exposed()[process]
    assert sorted((each.name, each.type) for each in ours) == [(each.name, each.kind) for each in written]
    labels = {name: names for each in written for name, names in each.samples.items()}
    samples = [sample for family in ours for sample in family.samples]
    assert samples
    for sample in samples:
        assert sample.labels.keys() == labels[sample.name], sample.name
    begun = [sample for family in metrics.registries()[process].collect() for sample in family.samples]
    assert _series(each for each in begun if each.name in labels) <= _series(samples)


def _series(samples: Iterable[Any]) -> set[tuple[Any, ...]]:
    """Return the names and labels of samples."""
    return {(sample.name, *sorted(sample.labels.items())) for sample in samples}


def test_the_service_has_each_process_by_its_own_port(cluster: Server, namespace: str) -> None:
    """A port is resolved by name in every pod, so one Service is enough for all of them."""
    service, _ = yaml.safe_load_all(
        (MANIFESTS / "components" / "monitoring" / "monitor.yaml").read_text(encoding="utf-8")
    )
    service["metadata"]["namespace"] = namespace
    cluster.kubectl("create", "--filename=-", stdin=service)
    want = set()
    for deployment in rendered("scheduler", "Deployment"):
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        pod = {
            "metadata": {"generateName": "process-", "labels": labels},
            "spec": {"containers": [{**CONTAINER, "ports": container["ports"]}]},
        }
        code, made = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
        assert code == 201, made
        (number,) = (port["containerPort"] for port in container["ports"] if port["name"] == "metrics")
        want.add((made["metadata"]["name"], "metrics", number))

    def found() -> set[tuple[str, str, int]]:
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        return {
            (endpoint["targetRef"]["name"], port["name"], port["port"])
            for each in cluster.request("GET", slices)[1]["items"]
            for endpoint in each["endpoints"] or ()
            for port in each["ports"]
        }

    until(lambda: found() == want, "each pod is there with its port")


def test_the_commands_of_the_page_run(server: Server) -> None:
    """The labels in the query for each process's logs are those of its pods."""
    selected = []
    for each in commands(pages()["monitoring"]):
        if " logs " not in each.text:
            continue
        arguments = each.text.split()[1:]
        server.kubectl(*arguments)
        selected.append(dict(label.split("=") for label in arguments[-1].split(",")))
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in rendered("scheduler", "Deployment")]
    assert sorted(pods, key=str) == sorted(selected, key=str)
