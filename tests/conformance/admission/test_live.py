"""A fresh sample put to real servers: other objects every run, and the same again with PODIUM_SEED."""

import pytest
from tests.support.admission import driver, recording
from tests.support.admission.compare import compared
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL, exclusive

from podium.controlplane.releases import RELEASES, Release

pytestmark = pytest.mark.server

_SAMPLE = 300
_SAMPLE_WITHOUT = 100


@pytest.mark.parametrize("workload_api", [True, False], ids=["workload-api", "without"])
@pytest.mark.parametrize("release", RELEASES.values(), ids=[item.version for item in RELEASES.values()])
def test_the_rules_answer_as_a_server_does(release: Release, *, workload_api: bool) -> None:
    """Random creates, updates and status updates have the same answer from both, or an explained one."""
    seed = new_seed()
    operations = (recording.OPERATIONS if FULL else _SAMPLE) if workload_api else _SAMPLE_WITHOUT
    # An exclusive server: a default PriorityClass changes every answer.
    with exclusive(release, workload_api=workload_api) as server:
        recorded = driver.record(server, release.minor, seed, operations, workload_api=workload_api)
    wrong = [
        f"{scenario.namespace}: {one}"
        for scenario in recorded.scenarios
        for one in compared(recorded.header, scenario)
        if one.unexplained
    ]
    assert not wrong, f"Kubernetes {release.version}, PODIUM_SEED={seed}:\n" + "\n".join(wrong)
