"""`make cluster-down` leaves nothing of a cluster of real nodes, whatever part of it was killed before."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.waiting import until
from tools.devcluster.controlplane import folders
from tools.devcluster.controlplane.cluster import WantedCluster
from tools.devcluster.controlplane.state import load
from tools.devcluster.realnode import cgroups, cluster

pytestmark = pytest.mark.e2e

_DEVCLUSTER = (sys.executable, "-m", "tools.devcluster")
_ROOT = Path(__file__).parents[2]
_INTERFACES = Path("/sys/class/net")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield the folder of a cluster that is ended in any case."""
    place = folders.nodes_cache() / "e2e" / "down"
    cluster.down(place, sys.stderr)
    yield place
    cluster.down(place, sys.stderr)


@pytest.mark.parametrize("killed", ["world", "node-0", "containerd-node-0", "gateway"])
def test_nothing_is_left_after_a_part_was_killed(folder: Path, killed: str) -> None:
    interfaces = sorted(_INTERFACES.iterdir())
    state, _ = cluster.up(folder, WantedCluster(real_nodes=1), os.environ, sys.stderr)
    os.kill(state.components[killed].process.pid, signal.SIGKILL)
    assert cluster.down(folder, sys.stderr)
    _assert_nothing_is_left(folder)
    assert sorted(_INTERFACES.iterdir()) == interfaces


def test_nothing_is_left_after_the_start_was_killed(folder: Path) -> None:
    environ = {**os.environ, "XDG_STATE_HOME": str(folder)}
    line = [*_DEVCLUSTER, "up", "--real", "--nodes=1", "--name=half"]
    place = folders.clusters(environ) / "half"
    with subprocess.Popen(line, cwd=_ROOT, env=environ, stdout=subprocess.DEVNULL) as process:
        until(lambda: _has(place, "etcd"), "etcd was started")
        process.kill()
    down = [*_DEVCLUSTER, "down", "--name=half"]
    done = subprocess.run(down, cwd=_ROOT, env=environ, check=False)
    assert done.returncode == 0
    _assert_nothing_is_left(place)


def _has(folder: Path, component: str) -> bool:
    state = load(folder)
    return state is not None and component in state.components


def _assert_nothing_is_left(folder: Path) -> None:
    name = cluster.cgroup(folder)
    assert not folder.exists()
    assert cgroups.members(cgroups.mounted(), name) == set()
    assert [each for each in cgroups.folders(cgroups.mounted(), name, "") if each.exists()] == []
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    assert str(folder) not in mounts
