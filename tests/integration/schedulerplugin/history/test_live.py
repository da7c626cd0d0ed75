"""The history of a running scheduler: its own preemptions, carried out and observed."""

import json
from collections.abc import Callable, Iterator

import msgspec
import pytest
from click.testing import CliRunner
from tests.support.history import RECORDS
from tests.support.scheduling.world import Sandbox, World
from tests.support.waiting import until

from podium.api.records import PreemptionRecord, RecordedPlan
from podium.cli.main import command

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def records_namespace(recorded: World) -> Iterator[str]:
    """Yield a running scheduler's location of its history."""
    namespace = recorded.server.new_namespace("records-")
    with recorded.scheduling(recordsNamespace=namespace):
        yield namespace


@pytest.fixture
def sandbox(recorded: World, records_namespace: str) -> Iterator[Sandbox]:
    """Yield a sandbox for one test, under that scheduler."""
    with recorded.sandbox() as made:
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


def test_whatif_and_the_loop_agree_on_the_harm_of_a_gang(recorded: World) -> None:
    """The observed plan of the loop equals that of `whatif` for the same second of the same cluster."""
    name, namespace = "podium-observed", recorded.server.new_namespace("records-")
    observing = recorded.scheduling(schedulerName=name, preemption="observe", recordsNamespace=namespace)
    with observing, recorded.sandbox(name) as sandbox:
        sandbox.nodes(4)
        sandbox.running_gang("low", ["n0", "n1"], 2, 1, whole=True)
        for index, node in enumerate(("n0", "n1", "n2", "n2", "n3")):
            sandbox.pod(f"lone-{index}", 2, 1 if node == "n2" else 3, node=node)
        sandbox.pod("high", 2, 9, node="n3")
        sandbox.gang("gang", 2, 4, 5)
        planned = written(sandbox, lambda plan: plan.mode == "Observed")
        line = ["whatif", "--group", f"{sandbox.name}/gang", "--semantics", "kep", "--now", planned.time]
        answer = CliRunner().invoke(
            command, [*line, "-o", "json", "--kubeconfig", str(recorded.server.kubeconfig)]
        )
    found = json.loads(answer.stdout)
    assert {unit.name for unit in planned.units} == {unit["name"] for unit in found["victims"]}
    levels = found["harm"]["levels"]
    assert [(each["priority"], each["units"], each["pods"]) for each in levels] == [(3, 1, 1), (1, 3, 4)]
    assert (planned.unitCount, planned.podCount) == (4, 5)
    assert (planned.violations or 0, planned.acceleratorSeconds or 0) == (
        found["harm"]["violations"],
        found["harm"]["acceleratorSeconds"],
    )
