"""Clusters on which plans once did more harm than an integer program: their plans do the least now.

They have nodes of several sizes, gangs, lone pods, budgets and taints. The preemptor is a gang of which each
pod has a zone or a host of its own, or spreads over them, or is one pod.
"""

from pathlib import Path

import pytest

from podium.answers import read, whatif
from podium.planner.preemption.outcome import HarmLevel, PlanHarm

_NOW = "2026-01-31T00:00:00Z"
_MINUTE = 60


@pytest.mark.parametrize(
    ("number", "violations", "minutes", "levels"),
    [
        pytest.param("10", 1, 3_343, [(0, 4, 5)], id="zones, a budget"),
        pytest.param("22", 0, 16_856, [(0, 3, 17)], id="zones, few large gangs"),
        pytest.param(
            "29", 2, 1_823, [(500, 1, 1), (100, 2, 2), (0, 2, 2)], id="five units for one in a budget"
        ),
        pytest.param("59", 6, 6_956, [(500, 4, 7), (100, 4, 9), (0, 8, 8)], id="pods that keep it away"),
        pytest.param("97", 0, 1_032, [(0, 2, 7)], id="a lone pod"),
        pytest.param("142", 1, 42_253, [(100, 4, 4), (0, 10, 23)], id="zones, three priorities"),
        pytest.param("159", 0, 260, [(0, 1, 4)], id="one pod a host"),
    ],
)
def test_the_plan_does_the_least_harm(
    number: str, violations: int, minutes: int, levels: list[tuple[int, int, int]]
) -> None:
    """The least is the answer of an integer program that knows all constraints."""
    dump = Path(__file__).with_name("clusters") / f"{number}.json.gz"
    kind, name = ("pod", "wanted-0") if number == "97" else ("group", "wanted")
    harm = whatif(read(str(dump)), ("default", name), kind, now=_NOW).plan.harm
    least = PlanHarm(violations, tuple(HarmLevel(*level) for level in levels), minutes * _MINUTE)
    assert harm == least
