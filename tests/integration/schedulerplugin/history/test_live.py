"""The history of a running scheduler: its own preemptions, and a shadow of kube-scheduler."""

import json
from collections.abc import Callable, Iterator

import msgspec
import pytest
from bench.kubescheduler import scheduling
from click.testing import CliRunner
from tests.support.history.store import RECORDS
from tests.support.scheduling.world import NAME, Sandbox, World
from tests.support.waiting import until

from podium.api.records import Agreement, PreemptionRecord, RecordedPlan
from podium.cli.main import command

pytestmark = pytest.mark.server

OTHER = "default-scheduler"


@pytest.fixture(scope="module")
def both(recorded: World) -> Iterator[World]:
    """Yield the world with kube-scheduler."""
    with scheduling(recorded.server):
        yield recorded


@pytest.fixture(scope="module")
def records_namespace(both: World) -> Iterator[str]:
    """Yield a scheduler with a shadow, and the location of its history."""
    namespace = both.server.new_namespace("records-")
    with both.scheduling(shadow=True, recordsNamespace=namespace):
        yield namespace


@pytest.fixture
def sandbox(both: World, records_namespace: str) -> Iterator[Sandbox]:
    """Yield a sandbox for one test, under that scheduler."""
    with both.sandbox() as made:
        yield made


def plans(sandbox: Sandbox) -> list[RecordedPlan]:
    """Return the recorded plans of a sandbox."""
    code, read = sandbox.server.request("GET", RECORDS)
    assert code == 200, read
    records = msgspec.convert(read["items"], list[PreemptionRecord])
    return [plan for record in records for plan in record.plans if plan.preemptor.namespace == sandbox.name]


def written(sandbox: Sandbox, reached: Callable[[RecordedPlan], bool]) -> RecordedPlan:
    """Wait for a plan that meets a condition; return it."""
    until(lambda: any(map(reached, plans(sandbox))), "it is written down")
    return next(plan for plan in plans(sandbox) if reached(plan))


def test_a_preemption_of_our_own(sandbox: Sandbox) -> None:
    """A gang needs a whole group's room: one plan records its preemptor and its victims."""
    sandbox.nodes(2)
    sandbox.running_gang("low", ["n0", "n1"], 4, 1, whole=True)
    sandbox.until_bound(sandbox.gang("high", 2, 4, 5))
    plan = written(sandbox, lambda plan: plan.mode == "Enforced")
    assert (plan.result, plan.domain, plan.unitCount, plan.podCount) == ("Evicted", "cluster", 1, 2)
    assert (plan.preemptor.kind, plan.preemptor.name, plan.preemptor.priority) == ("PodGroup", "high", 5)
    (unit,) = plan.units
    assert (unit.kind, unit.name, unit.priority, unit.pods) == ("PodGroup", "low", 1, 2)


def test_kube_scheduler_preempts_and_the_shadow_agrees(sandbox: Sandbox) -> None:
    """There is only one plan, and kube-scheduler is fast: the shadow plans on the earlier cluster."""
    sandbox.nodes(2)
    sandbox.pod("low", 4, 1, schedulerName=OTHER)
    sandbox.pod("middle", 4, 5, schedulerName=OTHER)
    sandbox.until_bound(["low", "middle"])
    sandbox.pod("high", 4, 9, schedulerName=OTHER)
    sandbox.until_bound(["high"])
    plan = written(sandbox, lambda plan: plan.mode == "Shadow")
    assert (plan.agreement, plan.theirPods) == (Agreement.SAME, 1)
    assert (plan.preemptor.name, [unit.name for unit in plan.units]) == ("high", ["low"])
    assert sandbox.touched() == [], f"{NAME} itself does nothing about it"


def test_whatif_and_the_loop_agree_on_the_harm_of_a_gang(both: World) -> None:
    """The observed plan of the loop equals that of `whatif` for the same second of the same cluster."""
    name, namespace = "podium-observed", both.server.new_namespace("records-")
    observing = both.scheduling(schedulerName=name, preemption="observe", recordsNamespace=namespace)
    with observing, both.sandbox(name) as sandbox:
        sandbox.nodes(4)
        sandbox.running_gang("low", ["n0", "n1"], 2, 1, whole=True)
        for index, node in enumerate(("n0", "n1", "n2", "n2", "n3")):
            sandbox.pod(f"lone-{index}", 2, 1 if node == "n2" else 3, node=node)
        sandbox.pod("high", 2, 9, node="n3")
        sandbox.gang("gang", 2, 4, 5)
        recorded = written(sandbox, lambda plan: plan.mode == "Observed")
        line = ["whatif", "--group", f"{sandbox.name}/gang", "--semantics", "kep", "--now", recorded.time]
        answer = CliRunner().invoke(
            command, [*line, "-o", "json", "--kubeconfig", str(both.server.kubeconfig)]
        )
    found = json.loads(answer.stdout)
    assert {unit.name for unit in recorded.units} == {unit["name"] for unit in found["victims"]}
    levels = found["harm"]["levels"]
    assert [(each["priority"], each["units"], each["pods"]) for each in levels] == [(3, 1, 1), (1, 3, 4)]
    assert (recorded.unitCount, recorded.podCount) == (4, 5)
    assert (recorded.violations or 0, recorded.acceleratorSeconds or 0) == (
        found["harm"]["violations"],
        found["harm"]["acceleratorSeconds"],
    )
