"""The effort of the search in steps: equal devices are counted, and every step enforces the deadline."""

from itertools import count
from typing import Any

import pytest
from tests.support.allocation.asking import Question
from tests.support.allocation.selecting import selecting

from podium.planner.deadline import Deadline, DecisionTimeoutError
from podium.planner.plugins.devices.gates import default_gates

_DRIVER = "gpu.example.com"


def _question(devices: int, used: int, wanted: list[int], **claim: Any) -> Question:
    """Return a question for devices of two models in turn, of which the first are in use."""
    names = [f"gpu-{at:03}" for at in range(devices)]
    spec = {
        "driver": _DRIVER,
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": name,
                "attributes": {
                    "model": {"string": "ab"[at % 2]},
                    "uuid": {"string": str(at)},
                    "rack": {"int": 1},
                },
            }
            for at, name in enumerate(names)
        ],
    }
    requests = [
        {
            "name": f"r{at}",
            "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": number},
        }
        for at, number in enumerate(wanted)
    ]
    case = {
        "node": {"metadata": {"name": "n"}},
        "slices": [{"metadata": {"name": "s"}, "spec": spec}],
        "classes": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "claims": [{"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests, **claim}}}],
        "allocated": {
            "devices": [{"driver": _DRIVER, "pool": "n", "device": each} for each in names[:used]],
            "shared": [],
            "consumed": [],
        },
    }
    return Question(case, selecting(), default_gates(37))


def _steps(limit: int) -> Deadline:
    """Return a deadline that passes after so many steps."""
    clock = count()
    return Deadline(lambda: float(next(clock)), limit)


def _match(attribute: str) -> list[dict[str, str]]:
    return [{"matchAttribute": f"{_DRIVER}/{attribute}"}]


@pytest.mark.parametrize(
    ("devices", "used", "wanted", "constraints", "steps"),
    [
        (128, 97, [32], [], 3),
        (128, 97, [32], _match("rack"), 700),
        (128, 0, [16, 16], _match("rack"), 50),
        (128, 68, [31], _match("model"), 100),
        (128, 98, [16, 15], _match("rack"), 3000),
    ],
    ids=["counted", "one class", "found at once", "two models", "two requests"],
)
def test_a_request_for_one_device_too_many_ends_soon(
    devices: int, used: int, wanted: list[int], constraints: list[dict[str, str]], steps: int
) -> None:
    question = _question(devices, used, wanted, constraints=constraints)
    fits = devices - used >= sum(wanted) and constraints != _match("model")
    assert (question.answer(_steps(steps))["allocations"] is not None) == fits


def test_a_search_ends_at_its_deadline() -> None:
    # No two devices have one UUID, so no device is a twin of another.
    question = _question(40, 0, [20], constraints=_match("uuid"))
    with pytest.raises(DecisionTimeoutError):
        question.answer(_steps(10))


def test_a_pod_can_have_more_devices_than_python_has_stack() -> None:
    question = _question(2000, 0, [32])
    claims = [question.demand.claims[0].record] * 60
    for each in claims:
        each.spec.devices.constraints = None
    question.demand = question.allocator.demand(claims)._replace(countable=False)
    allocations = question.answer()["allocations"]
    assert sum(len(each["devices"]["results"]) for each in allocations) == 1920
