"""However many devices, selectors and requests there are, an explanation ends, and its lists are short."""

from typing import Any

import pytest
from tests.support.devices.modelled import SAME, exact, model, modelled, spec
from tests.support.devices.scene import claim, device_class, devices_of

from kubecel import CompiledSelector, evaluate_devices, process
from podium.planner.deadline import NEVER
from podium.planner.plugins.devices import shortage
from podium.planner.plugins.devices.gates import AllocationError, default_gates
from podium.planner.plugins.devices.search import TOO_LONG
from podium.planner.plugins.devices.shortage import (
    MAX_NEAREST,
    MAX_POOLS,
    MAX_REASONS,
    MAX_REQUESTS,
    MAX_SEARCHED,
    NOT_EXAMINED,
    DeviceExaminer,
    DeviceNode,
    explain_shortage,
)
from podium.planner.plugins.devices.usage import DeviceUsage

_LATEST = default_gates(37)


def test_the_lists_are_limited() -> None:
    """Every device has a reason of its own, every node a pool, and each node lacks another request."""
    nodes = [f"n{at}" for at in range(10)]
    slices = [
        modelled(node, *(["m"] * 10), taints=[{"key": f"k{at}", "effect": "NoSchedule"}])
        for at, node in enumerate(nodes)
    ]
    broken = [
        devices_of(
            f"{node}-b", 1, nodeName=node, pool={"name": node, "generation": 2, "resourceSliceCount": 9}
        )
        for node in nodes
    ]
    asked = [DeviceNode(node, {}) for node in nodes]
    examiner = DeviceExaminer(slices, [device_class()], _LATEST)
    (short,) = explain_shortage(examiner, [claim("c")], asked, DeviceUsage()).requests
    assert (len(short.tally.excluded), len(short.nearest)) == (MAX_REASONS, MAX_NEAREST)
    assert sum(devices for _, devices in short.tally.excluded) == 100
    examiner = DeviceExaminer(broken, [device_class()], _LATEST)
    found = explain_shortage(examiner, [claim("c")], asked, DeviceUsage())
    assert len(found.pools) == MAX_POOLS + 1
    requests = [exact(f"r{at}", selectors=model(f'!= "m{at}"')) for at in range(10)]
    each_other = [modelled(f"n{at}", f"m{at}") for at in range(10)]
    examiner = DeviceExaminer(each_other, [device_class()], _LATEST)
    found = explain_shortage(examiner, [spec(*requests)], asked, DeviceUsage())
    assert len(found.requests) <= MAX_REQUESTS


class Counting:
    """Counts the evaluations of selectors and the searches that explanations make."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reasons = self.evaluations = self.searches = 0
        reason, evaluate = shortage.DeviceExaminer._reason, CompiledSelector.evaluate
        solves = shortage.DeviceExaminer.solves

        def counted(*args: Any) -> Any:
            self.reasons += 1
            return reason(*args)

        def evaluated(*args: Any) -> Any:
            self.evaluations += 1
            return evaluate(*args)

        def solved(*args: Any) -> Any:
            self.searches += 1
            return solves(*args)

        monkeypatch.setattr(shortage.DeviceExaminer, "_reason", counted)
        monkeypatch.setattr(shortage.DeviceExaminer, "solves", solved)
        monkeypatch.setattr(CompiledSelector, "evaluate", evaluated)
        monkeypatch.setattr(process, "evaluate", evaluate_devices)


def test_the_devices_that_are_examined_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool for all nodes has a thousand devices, which each of a thousand nodes sees."""
    counting = Counting(monkeypatch)
    examiner = DeviceExaminer(
        [devices_of("any", 1000)], [device_class(expression="false")], _LATEST, examined=10_000
    )
    nodes = [DeviceNode(f"n{at}", {}) for at in range(1000)]
    found = explain_shortage(examiner, [claim("c")], nodes, DeviceUsage())
    assert counting.reasons <= 10_000
    assert found.unexamined == 995
    assert found.requests[0].tally.excluded == (("excluded by selector 1 of class gpu", 1000),)


def test_the_cost_of_selectors_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch)
    text = "x" * 1000
    costly = f'"{text}".split("").exists(c, "{text}".contains(c + "y"))'
    examiner = DeviceExaminer(
        [devices_of("any", 500)], [device_class(expression=costly)], _LATEST, effort=200_000
    )
    found = explain_shortage(examiner, [claim("c")], [DeviceNode("n0", {})], DeviceUsage())
    assert 0 < counting.evaluations < 30
    assert (found.unexamined, found.costliest) == (1, "selector 1 of class gpu")


def test_the_searches_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """On no node do the requests have devices together, which only a search can find out."""
    counting = Counting(monkeypatch)
    nodes = [f"n{at}" for at in range(100)]
    examiner = DeviceExaminer([modelled(node, *"ab") for node in nodes], [device_class()], _LATEST)
    claims = [spec(*(exact(f"r{at}") for at in range(32)), **SAME)]
    found = explain_shortage(examiner, claims, [DeviceNode(node, {}) for node in nodes], DeviceUsage())
    assert found.unexamined == 100 - MAX_SEARCHED
    assert counting.searches <= 10 * MAX_SEARCHED


def test_devices_that_are_not_examined_are_no_shortage() -> None:
    examiner = DeviceExaminer([devices_of("n0", 3)], [device_class()], _LATEST, examined=3)
    nodes = [DeviceNode("n0", {}), DeviceNode("n1", {})]
    found = explain_shortage(examiner, [claim("c", count=4)], nodes, DeviceUsage())
    assert (found.requests, found.unexamined) == ((), 2)
    assert NOT_EXAMINED not in str(found)


def test_no_search_begins_without_effort() -> None:
    """A search goes on beyond each device without an answer."""
    examiner = DeviceExaminer([modelled("n0", "a")], [device_class()], _LATEST, effort=0)
    with pytest.raises(AllocationError, match=TOO_LONG):
        examiner.solves(DeviceNode("n0", {}), [claim("c")], DeviceUsage(), NEVER)
