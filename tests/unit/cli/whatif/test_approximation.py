"""Plans for the pods of other schedulers are marked, and workloads that wait for Kueue are named."""

import pytest
from tests.support.whatif import basis

from podium.answers.assumptions import approximation_line
from podium.cli.render.whatif_words import caveats


@pytest.mark.parametrize("scheduler", ["volcano", "kai-scheduler", "yunikorn", "slurm-bridge", "mine"])
def test_a_plan_for_another_scheduler_is_an_approximation(scheduler: str) -> None:
    marked = basis(unknown=["Node: not in the input"])._replace(approximation=approximation_line(scheduler))
    first, second = caveats(marked)
    assert first.startswith(f"Approximation: the pods are for {scheduler}.")
    assert second == "Not read and left out: Node: not in the input."


def test_a_plan_of_a_known_scheduler_has_no_mark() -> None:
    assert approximation_line("") == ""
    assert caveats(basis()) == []
