"""The witness answers with upstream's code, and picks the allocator that kube-scheduler picks."""

from typing import Any

import pytest
from tests.support.devices import recording
from tests.support.devices.record import answered
from tests.support.devices.witness import Witness

pytestmark = pytest.mark.server

_GPU = {
    "name": "gpu-0",
    "attributes": {"model": {"string": "A100"}},
    "capacity": {"memory": {"value": "40Gi"}},
}


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("device.attributes['gpu.example.com'].model == 'A100'", {"matches": True}),
        ("device.capacity['gpu.example.com'].memory.isLessThan(quantity('10Gi'))", {"matches": False}),
        ("device.driver", {"compileError": "must evaluate to bool or the unknown type, not string"}),
    ],
)
def test_an_expression_is_evaluated(witness: Witness, expression: str, answer: dict[str, Any]) -> None:
    found = witness.select(expression, "gpu.example.com", _GPU)
    found.pop("cost", None)
    assert found == answer


def test_a_missing_attribute_is_an_error_with_the_text_of_the_minor(witness: Witness) -> None:
    found = witness.select("device.attributes['gpu.example.com'].family == 'x'", "gpu.example.com", _GPU)
    assert found["runtimeError"].startswith("no such key: family")
    assert ("consider using CEL optional chaining" in found["runtimeError"]) == (witness.minor == "1.37")


def test_devices_are_allocated_by_the_incubating_allocator(witness: Witness) -> None:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    case = {
        "node": {"metadata": {"name": "node-0"}},
        "classes": [{"metadata": {"name": "gpu"}}],
        "slices": [
            {
                "metadata": {"name": "slice-0"},
                "spec": {
                    "driver": "gpu.example.com",
                    "nodeName": "node-0",
                    "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
                },
            }
        ],
        "claims": [
            {
                "metadata": {"name": "claim-0"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
            }
        ],
        "allocated": {"devices": [{"driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}]},
    }
    found = witness.allocate(case)
    assert found["channel"] == "incubating"
    (allocation,) = found["allocations"]
    assert [one["device"] for one in allocation["devices"]["results"]] == ["gpu-1"]
    assert witness.allocate({**case, "slices": []})["allocations"] is None


@pytest.mark.parametrize("what", ["table", "random"])
def test_the_recorded_answers_are_those_of_the_witness(witness: Witness, what: recording.What) -> None:
    cases = recording.read(what, witness.minor)
    assert len(cases) > 200
    wrong = [case["name"] for case in cases if answered(witness, case) != case["scheduler"]]
    assert not wrong, "record them again: python -m tests.support.devices.record"
