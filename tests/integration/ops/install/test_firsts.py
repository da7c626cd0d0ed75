"""A new user's first steps work on clusters of each kind; `make bench` measures their duration."""

import sys
from pathlib import Path

import pytest
from tests.support.install.firsts import first_steps
from tests.support.servers import exclusive, in_turn
from tools.devcluster.controlplane.releases import NEWEST, RELEASES

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("minor", "workload_api"), [*((minor, True) for minor in in_turn(__name__)), (NEWEST.minor, False)]
)
def test_an_install_leads_to_a_rule_and_to_a_gang(tmp_path: Path, minor: str, workload_api: bool) -> None:
    with exclusive(RELEASES[minor], workload_api=workload_api, controllers=True) as server:
        moments = first_steps(server, tmp_path, str(Path(sys.executable).with_name("podium")))
    assert 0 < moments.installed < moments.enforced < moments.running
    assert "spec.priorityClassName" in moments.refusal or "PriorityClass" in moments.refusal
