"""What the running processes answer at /metrics is what the reference, the alerts and the dashboard go by."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.fixtures.servers import Server, exclusive
from tests.manifests.test_modes import rendered
from tests.reconciler import running as reconciler
from tests.scheduler import test_process as scheduler
from tests.webhooks import running as webhook
from tools.manifests import metrics

from podium.controlplane.releases import NEWEST

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with Podium's kinds."""
    with exclusive(NEWEST) as made:
        reconciler.install(made)
        yield made


def _launch(process: str, server: Server, folder: Path) -> webhook.Running:
    """Start a process by its command and do not wait."""
    if process == "webhook":
        return webhook.launch(server, folder)
    if process == "controller":
        return reconciler.launch(server.kubeconfig, folder, ("default", "metrics"))
    return scheduler.launch(server.kubeconfig, folder, "--lease=default/metrics")


@pytest.mark.parametrize("process", metrics.exposed())
def test_a_scrape_has_what_is_written_of_it(process: str, server: Server, tmp_path: Path) -> None:
    """Each metric by name and type, and no other of ours; each sample by the labels it is said to have."""
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


def test_the_commands_of_the_page_run(server: Server) -> None:
    """The logs of each process are asked for by labels that its pods have."""
    lines = re.findall(r"^    kubectl (.*)$", metrics.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    selected = []
    for line in lines:
        arguments = line.split()
        server.kubectl(*arguments)
        selected.append(dict(each.split("=") for each in arguments[-1].split(",")))
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in rendered("scheduler", "Deployment")]
    assert sorted(pods, key=str) == sorted(selected, key=str)
