"""A fresh install logs no warning: what is normal while everything starts together is information."""

from pathlib import Path

import pytest
from tests.support.controllers.running import Controller
from tests.support.install.pods import pods
from tests.support.install.scene import podium
from tests.support.servers import exclusive, in_turn
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import RELEASES

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

_PROCESSES = 6
# Of the reconciler and of the scheduler.
_LEADERS = 2


@pytest.mark.parametrize("minor", in_turn(__name__))
def test_a_fresh_install_logs_no_warning(tmp_path: Path, minor: str) -> None:
    """Two replicas of each process start as their Deployment is created, until all are ready and two lead."""
    with (
        exclusive(RELEASES[minor], controllers=True) as server,
        pods(server, tmp_path) as processes,
    ):
        podium(server, "install", "--mode=scheduler")
        until(lambda: len(processes) == _PROCESSES, "all processes have started")
        for each in processes:
            each.wait_ready()
        until(lambda: sum(map(_leads, processes)) == _LEADERS, "each process has a leader")
        lines = [
            (each.folder.parent.name, line)
            for each in processes
            for line in each.log.splitlines()
            if '"level":"info"' not in line.replace(" ", "")
        ]
    assert lines == []


def _leads(process: Controller) -> bool:
    return any(line.endswith("leader 1.0") for line in process.get("/metrics")[1].splitlines())
