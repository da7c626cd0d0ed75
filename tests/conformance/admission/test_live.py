"""A new sample of scenarios on real servers in every run; PODIUM_SEED repeats a run."""

from collections.abc import Sequence

import pytest
from tests.support.admission import driver, recording
from tests.support.admission.compare import compared
from tests.support.admission.gated import gate_sets, gated_server
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL, of_run
from tools.devcluster.controlplane.releases import BUILDABLE, Release

pytestmark = pytest.mark.server

_SAMPLE = 300
_SAMPLE_WITHOUT = 100
_GATES = {minor: gates for minor, release in BUILDABLE.items() for gates in gate_sets(release) if gates}


@pytest.mark.parametrize("workload_api", [True, False], ids=["workload-api", "without"])
@pytest.mark.parametrize("minor", of_run())
def test_the_rules_answer_as_a_server_does(minor: str, *, workload_api: bool) -> None:
    """The rules and the server answer random creates and updates alike, or with an explained difference."""
    _compare(BUILDABLE[minor], _SAMPLE if workload_api else _SAMPLE_WITHOUT, (), workload_api=workload_api)


@pytest.mark.parametrize("minor", of_run(_GATES))
def test_the_rules_answer_as_a_server_with_all_gates_does(minor: str) -> None:
    """So do they for composite groups, trees of templates and the fields of other gates."""
    _compare(BUILDABLE[minor], _SAMPLE_WITHOUT, _GATES[minor])


def _compare(release: Release, sample: int, gates: Sequence[str], *, workload_api: bool = True) -> None:
    seed = new_seed()
    operations = recording.OPERATIONS if FULL and workload_api else sample
    # An exclusive server: a default PriorityClass changes every answer.
    with gated_server(release, gates, workload_api=workload_api) as server:
        recorded = driver.record(
            server, release.minor, seed, operations, workload_api=workload_api, gates=gates
        )
    wrong = [
        f"{scenario.namespace}: {one}"
        for scenario in recorded.scenarios
        for one in compared(recorded.header, scenario)
        if one.unexplained
    ]
    assert not wrong, f"Kubernetes {release.version}, PODIUM_SEED={seed}:\n" + "\n".join(wrong)
