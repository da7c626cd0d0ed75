"""Unbound claims of lone pods on generated clusters: our answer is that of real kube-schedulers."""

import pytest
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL, exclusive
from tests.support.volumes.differential import ask

from podium.controlplane.releases import RELEASES, Release

_CASES = 300 if FULL else 50
_SEED = new_seed()


@pytest.mark.server
@pytest.mark.parametrize("release", RELEASES.values(), ids=[item.version for item in RELEASES.values()])
def test_a_live_kube_scheduler_refuses_and_binds_alike(release: Release) -> None:
    """New cases in every run: the same refusals, or the same volumes and provisioned claims on its node."""
    with exclusive(release) as server:
        cases = ask(server, _SEED, range(_CASES))
    wrong = [each for each in cases if each.server != each.ours]
    assert not wrong, f"PODIUM_SEED={_SEED}: {[(each.name, each.server, each.ours) for each in wrong]}"
    # Agreement is significant only if every kind of answer occurs.
    assert sum(bool(each.server.bound) for each in cases) > _CASES // 20
    assert sum(bool(each.server.provisioned) for each in cases) > _CASES // 20
    assert sum(bool(each.server.refusals) for each in cases) > _CASES // 20
