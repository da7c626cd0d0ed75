"""Upstream's table of the allocator, case by case: the same allocations or error as the incubating code.

Each case was recorded twice by upstream's code of both releases: with the gates of the case, and with the
gates of kube-scheduler. A few records differ from their case by their form only. The lister of the table
names no class that it does not find. A quantity of 10^21 has no JSON form: a server prints it as 1. An
interrupted search is not an answer here: the deadline of the caller has passed.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.allocation.asking import Question
from tests.support.allocation.selecting import selecting
from tests.support.devices import recording
from tools.devcluster.controlplane.releases import RELEASES

from podium.planner.deadline import NEVER, Deadline, DecisionTimeoutError
from podium.planner.plugins.devices.gates import Gates, default_gates

_GATES = {
    "AdminAccess": "admin_access",
    "PrioritizedList": "prioritized_list",
    "PartitionableDevices": "partitionable_devices",
    "DeviceTaints": "device_taints",
    "DeviceBindingAndStatus": "binding_conditions",
    "ConsumableCapacity": "consumable_capacity",
    "FractionalCapacityRange": "fractional_range",
}
_RECORDED_ONCE = ("no-classes", "unknown-class", "consumable-capacity-requests-are-not-modified")
_INTERRUPTED = "filter operation aborted"
_PASSED = Deadline(lambda: 0.0, 0.0)
_CEL = re.compile(r"CEL (compile|runtime) error: (.*)", re.DOTALL)


def _cases() -> Iterator[Any]:
    for minor in RELEASES:
        for case in recording.read("table", minor):
            yield pytest.param(case, int(minor.split(".")[1]), id=f"{minor}-{case['name']}")


def _gates(case: recording.Case, minor: int) -> Gates:
    return Gates(minor, **{name: bool(case["features"].get(gate)) for gate, name in _GATES.items()})


@pytest.mark.parametrize(("case", "minor"), list(_cases()))
@pytest.mark.parametrize("answer", ["answer", "scheduler"])
def test_the_allocator_answers_as_upstream(case: recording.Case, minor: int, answer: str) -> None:
    gates = _gates(case, minor) if answer == "answer" else default_gates(minor)
    expected = case["scheduler" if case["name"] in _RECORDED_ONCE else answer]
    error = expected.get("error", "")
    texts = dict(_CEL.findall(error))
    select = selecting(texts.get("compile", ""), texts.get("runtime", ""), lists=gates.latest)
    question = Question(case, select, gates)
    if error.startswith(_INTERRUPTED):
        with pytest.raises(DecisionTimeoutError):
            question.answer(_PASSED)
        return
    for allocation in expected.get("allocations") or ():
        # Go leaves out an empty list.
        allocation["devices"].setdefault("results", [])
    assert question.answer(NEVER) == expected
