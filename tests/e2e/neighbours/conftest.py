"""A cluster of real nodes with Podium, in which controllers of other projects run (`make neighbours`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import ENFORCING, install, started
from tests.support.e2e import neighbours
from tests.support.e2e.cluster import Nodes
from tests.support.e2e.gangs import CLASSES, DEVICE, DEVICES, GangSpace
from tests.support.e2e.work import advertise, create_classes
from tools.devcluster.controlplane.releases import NEWEST
from tools.neighbours.images import JOBSET, LWS


@pytest.fixture(scope="session")
def neighbourhood(archive: Path) -> Iterator[Nodes]:
    """Yield a cluster of the newest release with Podium, two classes, and devices on two of its nodes."""
    with started(NEWEST, archive, "neighbours") as nodes:
        install(nodes, ENFORCING)
        create_classes(nodes, CLASSES)
        for node in ("node-1", "node-2"):
            advertise(nodes, node, DEVICE, DEVICES)
        yield nodes


@pytest.fixture(scope="session")
def jobset_nodes(neighbourhood: Nodes) -> Nodes:
    """Return the cluster with the controller of JobSet."""
    neighbours.add(neighbourhood, JOBSET)
    return neighbourhood


@pytest.fixture(scope="session")
def lws_nodes(jobset_nodes: Nodes) -> Nodes:
    """Return the cluster with the controllers of JobSet and LeaderWorkerSet."""
    neighbours.add(jobset_nodes, LWS)
    return jobset_nodes


@pytest.fixture
def space(neighbourhood: Nodes) -> Iterator[GangSpace]:
    """Yield a namespace, whose pods are gone at the end."""
    made = GangSpace(neighbourhood)
    yield made
    made.clear()
