"""The clusters of real nodes that the tests here share, two of each release, and Podium installed in each.

Most of the time goes to leases, grace periods and rollouts. So the clusters run side by side, each with the
tests of a worker. The tests run if they are asked for by `-m e2e`, as `make e2e` does: they need root and
minutes.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.integration.webhooks.test_lifecycle_servers import registered
from tests.support.e2e.cluster import Nodes, leader, reserve, running, wait_ready
from tests.support.e2e.work import PodWatch, Space, watching
from tests.support.faults.writing import new_class
from tests.support.install.scene import apply, settled
from tests.support.waiting import until
from tests.unit.manifests.test_modes import rendered
from tools.devcluster.controlplane.releases import RELEASES, Release
from tools.devcluster.realnode import image, network

from podium.api.groups import RESERVED
from podium.version import VERSION

# A kubelet takes a minute or more to bring a changed ConfigMap into a pod.
ENFORCING = """\
apiVersion: config.podium.dev/v1
kind: SchedulerConfiguration
preemption: enforce
"""
_RESERVING = f"{ENFORCING}reservedNodes: {RESERVED}\n"
_BUILD_SECONDS = 3600
# The modules whose tests share one cluster of each release; those of the others share another one.
_OUTAGES = ("test_day", "test_losses", "test_planned", "test_resourceclaims")
# The last one is that of the rendered YAML.
_INOTIFY, _WATCHERS = Path("/proc/sys/fs/inotify/max_user_instances"), 1_024
# The writes a second that two processors carry in one cluster alone, or in each of two beside two others.
RATE = 40 if "PYTEST_XDIST_WORKER" in os.environ else 200
IMAGE, NEXT_IMAGE, RELEASED_IMAGE = "podium:dev", "podium:next", f"podium:{VERSION}"


Measured = Callable[[str], None]


class Installed(NamedTuple):
    """A cluster with Podium, and its objects before that."""

    nodes: Nodes
    before: dict[str, Any]


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave this folder out of every run that does not ask for it."""
    return None if "e2e" in config.option.markexpr else True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test that needs a cluster one of each release."""
    if "nodes" in metafunc.fixturenames:
        part = "outages" if metafunc.definition.path.stem in _OUTAGES else "work"
        ids = [f"{minor}-{part}" for minor in RELEASES]
        metafunc.parametrize("nodes", ids, ids=ids, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the time of a cold build, which the first one of a release may have to wait for."""
    for item in items:
        if item.get_closest_marker("e2e") is not None:
            item.add_marker(pytest.mark.timeout(_BUILD_SECONDS))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures of all tests."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for _, figure in report.user_properties if report.when == "call" else ():
            terminalreporter.write_line(f"{report.nodeid.partition('::')[2]}: {figure}")


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Measured:
    """Return a function that records a figure for the summary."""
    return partial(record_property, "measured")


@pytest.fixture
def watch(space: Space) -> Iterator[PodWatch]:
    """Yield a watch of the pods of the test's namespace, which is a fixture of its module or folder."""
    with watching(space) as started:
        yield started


@pytest.fixture(scope="session")
def archive() -> Path:
    """Return the archive of this checkout's image."""
    return image.build(tag=IMAGE)


def _allow_watchers() -> None:
    """Raise the machine's limit of inotify instances: the kubelets and proxies of four clusters need more."""
    if int(_INOTIFY.read_text(encoding="ascii")) < _WATCHERS:
        _INOTIFY.write_text(str(_WATCHERS), encoding="ascii")


@pytest.fixture(scope="session")
def nodes(request: pytest.FixtureRequest, archive: Path) -> Iterator[Nodes]:
    """Yield a cluster of the release and the part that the parameter names."""
    _allow_watchers()
    minor, _, part = request.param.partition("-")
    with started(RELEASES[minor], archive, part) as cluster:
        yield cluster


@contextlib.contextmanager
def started(release: Release, archive: Path, name: str) -> Iterator[Nodes]:
    """Yield a cluster with the image in every node under all of its names."""
    with running(release, name) as cluster:
        cluster.load(archive)
        for node in network.node_names(cluster.state.settings.real_nodes):
            full = (f"docker.io/library/{name}" for name in (IMAGE, NEXT_IMAGE, RELEASED_IMAGE))
            cluster.on(node, "ctr", "--namespace=k8s.io", "images", "tag", *full)
        yield cluster


@pytest.fixture(scope="session")
def installed(nodes: Nodes) -> Installed:
    """Install Podium, and reserve a node for gangs."""
    before = settled(nodes.server)
    reserve(nodes)
    install(nodes, _RESERVING)
    return Installed(nodes, before)


def install(nodes: Nodes, scheduler: str) -> None:
    """Install Podium with its scheduler and the scheduler's configuration."""
    apply(nodes.server, documents(IMAGE, scheduler))
    wait_ready(nodes)
    until(lambda: bool(leader(nodes, "scheduler")), "a scheduler leads")
    until(lambda: registered(nodes.server) == ["Fail"] * 2, "the registration is closed")


def documents(image_name: str, scheduler: str = _RESERVING) -> list[dict[str, Any]]:
    """Return the manifests with an image and a configuration of the scheduler, as an overlay would."""
    made = rendered("scheduler")
    for each in made:
        if each["kind"] == "Deployment":
            for container in each["spec"]["template"]["spec"]["containers"]:
                container["image"] = image_name
        if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", "podium-scheduler"):
            each["data"] = {"scheduler.yaml": scheduler}
    return made


@pytest.fixture(scope="session")
def podium_nodes(installed: Installed) -> Nodes:
    """Return the cluster with Podium, and the class of the writers."""
    new_class(installed.nodes.server)
    return installed.nodes
