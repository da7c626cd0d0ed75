"""kube-scheduler 1.37 and the reconciler on the same groups leave each other's conditions unchanged."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection.cluster import NATIVE, create_class
from tests.support.controllers.history import History
from tests.support.controllers.running import POLICY, PRIORITY, Place, Space, conditions, running
from tests.support.servers import Server
from tests.support.waiting import until

from podium.api.groups import NATIVE_GROUP

pytestmark = pytest.mark.server

THEIRS = "PodGroupInitiallyScheduled"
SAME_PRIORITY = "same priority as the pod group's priority"
NAMES = [f"gang-{number}" for number in range(8)]
# The resources of a node of the cluster.
FITS: dict[str, Any] = {
    "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "10m"}}}],
    "tolerations": [{"operator": "Exists"}],
}


@pytest.fixture
def space(cluster_137: Server, namespace: str, tmp_path: Path) -> Iterator[Space]:
    """Yield a namespace in which pods can be created, with a leading reconciler."""
    made = Space(Place(cluster_137, f"{NATIVE_GROUP}/{NATIVE['1.37'][0]}"), namespace)
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    until(lambda: cluster_137.request("GET", account)[0] == 200, "the namespace's account")
    with running(cluster_137, tmp_path / "controller"):
        yield made


@pytest.fixture
def classes(cluster_137: Server) -> Iterator[tuple[str, str]]:
    """Yield two classes, the higher one first."""
    made = create_class(cluster_137, 1000), create_class(cluster_137, 100)
    yield made
    for name in made:
        cluster_137.request("DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")


def test_neither_overwrites_the_other(space: Space, classes: tuple[str, str]) -> None:
    """Refused groups are corrected and placed, then diverge repeatedly, all at the same time."""
    high, low = classes
    with History(space).running() as history:
        for name in NAMES:
            space.pod(f"{name}-high", name, high, **FITS)
            space.pod(f"{name}-low", name, low, **FITS)
            space.group(name, high)
        for name in NAMES:
            space.expect(name, "True", "PriorityMismatch")
            # Before kube-scheduler sees both pods and a node, it gives another message.
            space.expect(name, "False", "SchedulerError", SAME_PRIORITY, axis=THEIRS)
        for name in NAMES:
            space.end(f"{name}-low")
            space.pod(f"{name}-late", name, high, **FITS)
        for name in NAMES:
            space.expect(name, "False", "PrioritiesMatch")
            space.expect(name, "True", "Scheduled", axis=THEIRS)
        for turn in range(3):
            for name in NAMES:
                space.pod(f"{name}-{turn}", name, low, **FITS)
            for name in NAMES:
                space.expect(name, "True", "PriorityMismatch")
                space.end(f"{name}-{turn}")
            for name in NAMES:
                space.expect(name, "False", "PrioritiesMatch")
        assert history.problems() == []
        for name in NAMES:
            assert history.statuses(name) == ["True", "False"] * 4
            assert history.statuses(name, THEIRS) == ["False", "True"]
        _one_writer_at_a_time(history)


def _one_writer_at_a_time(history: History) -> None:
    """Assert that no version of a group lost a condition, or changed both schedulers' conditions at once."""
    before: dict[str, dict[str, Any]] = {}
    for each in history.groups:
        was, now = before.get(each.uid, {}), dict(conditions(each.object))
        before[each.uid] = now
        assert was.keys() <= now.keys(), each
        changed = {kind for kind in now if now[kind] != was.get(kind)}
        assert not changed or changed <= {PRIORITY, POLICY} or changed == {THEIRS}, each
