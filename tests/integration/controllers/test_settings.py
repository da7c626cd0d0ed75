"""The effects of the file and the command line on existing groups, one process after another."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.controllers.running import (
    POLICY,
    PRIORITY,
    Place,
    Space,
    configuration,
    launch,
    new_class,
    place,
    running,
)
from tests.support.webhooks.running import ending
from tools.devcluster.controlplane.releases import NEWEST

pytestmark = pytest.mark.server

LOW, HIGH, TIMID = "settings-low", "settings-high", "settings-timid"


@pytest.fixture(scope="module")
def where() -> Iterator[Place]:
    """Yield a server with classes for this module."""
    with place(NEWEST.minor) as made:
        new_class(made.server, LOW, 100)
        new_class(made.server, HIGH, 1000)
        new_class(made.server, TIMID, 1000, preemptionPolicy="Never")
        yield made


@pytest.fixture
def space(where: Place) -> Space:
    """Return a namespace with a divergent group, one that agrees and one without members."""
    made = Space(where)
    for name in ("divided", "calm", "empty"):
        made.group(name, HIGH)
    made.pod("other", "divided", LOW)
    made.pod("timid", "divided", TIMID)
    made.pod("same", "calm", HIGH)
    return made


def test_always_writes_what_is_well_too(space: Space, tmp_path: Path) -> None:
    """A process that returns to the default finds those conditions, and maintains them."""
    always = configuration(tmp_path, writeConditions="always", preemptionPolicyCondition=True)
    with running(space.server, tmp_path / "always", always):
        space.expect("divided", "True", "PriorityMismatch")
        space.expect("divided", "True", "PreemptionPolicyMismatch", axis=POLICY)
        space.expect("calm", "False", "PrioritiesMatch")
        space.expect("empty", "False", "NoMembers")
        space.expect("empty", "False", "NoMembers", axis=POLICY)
    divergent = configuration(tmp_path, preemptionPolicyCondition=True)
    with running(space.server, tmp_path / "divergent", divergent):
        space.pod("late", "empty", HIGH)
        space.expect("empty", "False", "PrioritiesMatch")


def test_an_axis_that_is_turned_off_takes_its_condition_along(space: Space, tmp_path: Path) -> None:
    """A condition that no process maintains would soon be false, so it is removed."""
    on = configuration(tmp_path, preemptionPolicyCondition=True)
    with running(space.server, tmp_path / "on", on):
        found = space.expect("divided", "True", "PriorityMismatch")
        space.expect("divided", "True", "PreemptionPolicyMismatch", axis=POLICY)
    with running(space.server, tmp_path / "off") as controller:
        controller.until(lambda: POLICY not in space.conditions("divided"), "it is taken away")
        assert space.conditions("divided") == {PRIORITY: found}


def test_a_single_process_needs_no_lease(space: Space, tmp_path: Path) -> None:
    """Without leader election no Lease is created."""
    started = launch(space.server.kubeconfig, tmp_path / "alone", None, "--no-leader-elect")
    with ending(started):
        started.wait_ready()
        space.expect("divided", "True", "PriorityMismatch")
        assert started.leads()
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/podium-controller"
    assert space.server.request("GET", lease)[0] == 404
