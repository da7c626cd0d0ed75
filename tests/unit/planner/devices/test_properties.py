"""Properties of the allocator on generated clusters: nothing twice, nothing lost, and no solution missed."""

import copy
import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.allocation.asking import Question
from tests.support.allocation.clusters import cluster, countable
from tests.support.allocation.selecting import selecting

from podium.api.devices import Allocation
from podium.planner.deadline import NEVER
from podium.planner.plugins.devices import allocator as entry
from podium.planner.plugins.devices.allocator import CountOutcome
from podium.planner.plugins.devices.chosendevices import DeviceTrial, NodeView
from podium.planner.plugins.devices.gates import AllocationError, Gates, default_gates
from podium.planner.plugins.devices.inventory import PoolID
from podium.planner.plugins.devices.requests import Demand, DeviceNeed
from podium.planner.plugins.devices.usage import DeviceUsage

_CASES = st.integers(0, 2**32).map(lambda seed: cluster(Random(seed)))
_COUNTABLE = st.integers(0, 2**32).map(lambda seed: countable(Random(seed)))
_ALL = st.one_of(_CASES, _COUNTABLE)
_GATES = st.sampled_from([default_gates(36), default_gates(37)])


def _question(case: dict[str, Any], gates: Gates) -> Question:
    return Question(case, selecting(), gates)


def _allocations(question: Question) -> list[Allocation] | None:
    try:
        return question.allocator.allocate(
            question.name, question.labels, question.demand, question.usage, NEVER
        )
    except AllocationError:
        return None


@settings(max_examples=300)
@given(_CASES, _GATES)
def test_no_device_is_allocated_twice(case: dict[str, Any], gates: Gates) -> None:
    question = _question(case, gates)
    exclusive = [
        (each.driver, each.pool, each.device)
        for allocation in _allocations(question) or ()
        for each in allocation.devices.results or ()
        if each.shareID is None and not each.adminAccess
    ]
    assert len(exclusive) == len(set(exclusive))
    for driver, pool, device in exclusive:
        used = question.usage.pool(PoolID(driver, pool))
        assert used is None or device not in used.devices


@settings(max_examples=300)
@given(_CASES, _GATES)
def test_an_allocation_leaves_its_inputs_unchanged(case: dict[str, Any], gates: Gates) -> None:
    question = _question(case, gates)
    before = _question(case, gates)
    _allocations(question)
    assert question.usage == before.usage
    claims = [each.record for each in question.demand.claims]
    assert msgspec.json.encode(claims) == msgspec.json.encode([each.record for each in before.demand.claims])


@settings(max_examples=200)
@given(_CASES)
def test_devices_are_free_again_after_their_removal(case: dict[str, Any]) -> None:
    question = _question(case, default_gates(37))
    before = copy.deepcopy(question.usage)
    found = _allocations(question) or []
    for each in found:
        question.usage.add(each)
    for each in reversed(found):
        question.usage.remove(each)
    assert question.usage == before


@settings(max_examples=300)
@given(_CASES, st.randoms(use_true_random=False))
def test_undo_restores_the_trial_and_counters_never_go_below_zero(
    case: dict[str, Any], random: Random
) -> None:
    question = _question(case, default_gates(37))
    if any(each.error for each in question.demand.requirements):
        return
    node = question.allocator.view(question.name, question.labels)
    trial = DeviceTrial(node, question.demand, question.usage, default_gates(37))
    steps = [(each, at) for each in question.demand.requirements for at in range(len(node.devices))]
    random.shuffle(steps)
    placed: list[tuple[int, dict[str, Any]]] = []
    for requirement, at in steps[:12]:
        before = _state(trial, node)
        if _placed(trial, requirement, at):
            placed.append((requirement.claim, before))
            _check_counters(trial, node, question.usage)
        else:
            assert _state(trial, node) == before
    for claim, before in reversed(placed):
        trial.undo(claim)
        assert _state(trial, node) == before


def _placed(trial: DeviceTrial, requirement: DeviceNeed, at: int) -> bool:
    try:
        suitable = trial.available(requirement, at) and trial.suitable(requirement, at)
    except AllocationError:
        return False
    return suitable and trial.take_device(requirement, at)


def _state(trial: DeviceTrial, node: NodeView) -> dict[str, Any]:
    """Return what can be seen of a trial."""
    requirements = trial.demand.requirements
    return {
        "chosen": copy.deepcopy([[each.at for each in one] for one in trial.chosen]),
        "available": [trial.available(each, at) for each in requirements for at in range(len(node.devices))],
        "counters": [dict(trial.counters.left(pool)) for pool in node.pools],
    }


def _check_counters(trial: DeviceTrial, node: NodeView, usage: DeviceUsage) -> None:
    for pool in node.pools:
        used = usage.pool(pool.id)
        taken = [
            amounts
            for name in (used.allocated_names() if used is not None else ())
            for each in pool.consumers.get(name, ())
            for amounts in each.items()
        ]
        for counter, amount in trial.counters.left(pool).items():
            overdrawn = pool.counters[counter] < sum(each for name, each in taken if name == counter)
            assert amount >= 0 or overdrawn


@settings(max_examples=500)
@given(_ALL, _GATES)
def test_counting_finds_the_solution_of_the_search(case: dict[str, Any], gates: Gates) -> None:
    counted = _question(case, gates).answer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry, "count_devices", lambda *_: CountOutcome.UNDECIDED)
        assert _question(case, gates).answer() == counted


@settings(max_examples=500)
@given(_ALL, _GATES)
def test_twins_do_not_change_the_solution(case: dict[str, Any], gates: Gates) -> None:
    found = _question(case, gates).answer()
    other = _question(case, gates)
    other.demand = other.demand._replace(symmetric=False)
    assert other.answer() == found


@settings(max_examples=200)
@given(_ALL)
def test_brute_force_finds_a_solution_if_and_only_if_the_search_does(case: dict[str, Any]) -> None:
    case["claims"] = case["claims"][:2]
    question = _question(case, default_gates(37))
    demand = question.demand
    answer = question.answer()
    small = sum(each.count for each in demand.requirements) <= 4 and not any(
        each.every for each in demand.requirements
    )
    if "error" in answer or not small:
        return
    assert (answer["allocations"] is not None) == _exists(question, demand)


def _exists(question: Question, demand: Demand) -> bool:
    """Return whether any assignment of devices to requests is a solution."""
    node = question.allocator.view(question.name, question.labels)
    requests = [request for claim in demand.claims for request in claim.requests]
    return any(
        _assignable(question, node, chosen)
        for chosen in itertools.product(*(request.alternatives for request in requests))
    )


def _assignable(question: Question, node: NodeView, chosen: tuple[DeviceNeed, ...]) -> bool:
    needed = [each for each in chosen for _ in range(each.count)]
    return any(_works(question, node, needed, devices) for devices in _tuples(node, needed))


def _tuples(node: NodeView, needed: list[DeviceNeed]) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(len(node.devices)), repeat=len(needed))


def _works(question: Question, node: NodeView, needed: list[DeviceNeed], devices: tuple[int, ...]) -> bool:
    pairs = list(zip([each.number for each in needed], devices, strict=True))
    if len(set(pairs)) < len(pairs):
        return False
    trial = DeviceTrial(node, question.demand, question.usage, default_gates(37))
    return all(_placed(trial, requirement, at) for requirement, at in zip(needed, devices, strict=True))
