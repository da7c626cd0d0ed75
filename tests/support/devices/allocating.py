"""Podium's allocator beside upstream's: both answers to a case, and the reason of a difference.

The witness evaluates the selectors for both, so a difference is one of the allocator.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import msgspec
from tests.support.allocation.asking import Question
from tests.support.devices.recording import Answer, Case, settled
from tests.support.devices.witness import Witness

from kubecel import SelectorCompileError, SelectorRuntimeError
from podium.api.devices import Device
from podium.planner.deadline import NEVER, Deadline
from podium.planner.plugins.devices.gates import default_gates

Select = Callable[[str, str, Device], bool]

# The last minor with the fault of `explained`.
_FAULTY = 36


class Compared(NamedTuple):
    """A case with both answers."""

    case: Case
    minor: int
    ours: Answer
    theirs: Answer

    @property
    def agrees(self) -> bool:
        """Return whether the answers are equal."""
        return self.ours == self.theirs

    @property
    def explained(self) -> bool:
        """Return whether a fault of 1.36 that Podium does not have can be the reason of a difference.

        Pools of one name have one state of counters there, although they belong to different drivers.
        """
        counting = {
            (spec["driver"], spec["pool"]["name"])
            for spec in (one["spec"] for one in self.case["slices"])
            if "sharedCounters" in spec
        }
        return self.minor <= _FAULTY and len({name for _, name in counting}) < len(counting)

    def __str__(self) -> str:
        """Return the case and both answers."""
        return f"{self.case['name']} of 1.{self.minor}:\n  ours: {self.ours}\n  theirs: {self.theirs}"


def compared(
    case: Case, minor: int, select: Select, ask: Callable[[Case], Answer], deadline: Deadline = NEVER
) -> Compared:
    """Return both answers to a case, with kube-scheduler's features of the minor.

    `ask` returns upstream's. Raises DecisionTimeoutError before it is asked.
    """
    ours = Question(case, select, default_gates(minor)).answer(deadline)
    return Compared(case, minor, _compact(ours), _compact(settled(ask(case))))


def selecting(witness: Witness) -> Select:
    """Return an evaluator of selectors that asks the witness, once for each device."""

    @cache
    def ask(expression: str, driver: str, device: bytes) -> Answer:
        return witness.select(expression, driver, json.loads(device))

    def select(expression: str, driver: str, device: Device) -> bool:
        answer = ask(expression, driver, msgspec.json.encode(device))
        if "compileError" in answer:
            raise SelectorCompileError(answer["compileError"])
        if "runtimeError" in answer:
            raise SelectorRuntimeError(answer["runtimeError"])
        matches: bool = answer["matches"]
        return matches

    return select


def _compact(answer: Answer) -> Answer:
    """Return an answer without the empty fields of allocations, which Go leaves out."""
    allocations = answer.get("allocations")
    if not allocations:
        return answer
    return {"allocations": [_without_empty(each) for each in allocations]}


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        found = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in found.items() if each not in (None, [], {})}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value
