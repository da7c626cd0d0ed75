"""The commands of docs/real-nodes.md, in its order, on a cluster of their own."""

import subprocess
from pathlib import Path

import pytest
from tests.support.docs.pages import ROOT, commands, pages

pytestmark = pytest.mark.e2e


def test_real_nodes(tmp_path: Path) -> None:
    """The last command leaves nothing."""
    environ = {
        "PATH": "/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(Path.home()),
        "XDG_STATE_HOME": str(tmp_path),
    }
    shown = []
    for command in commands(pages()["real_nodes"]):
        if "cluster" in command.text:
            done = subprocess.run(
                command.text, shell=True, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command.text}\n{done.stdout}{done.stderr}"
            shown.append(done.stdout)
    kubeconfig, nodes, images, status, _ = shown
    assert kubeconfig == f"{tmp_path}/podium/clusters/podium/kubeconfig\n"
    assert nodes.count(" Ready ") == 2
    assert "localhost/toolbox:1" in images
    assert status.count(" running ") == len(status.splitlines()) - 1
    assert [path.name for path in (tmp_path / "podium" / "clusters").iterdir()] == [".podium.lock"]
    assert not list(Path("/sys/fs/cgroup").glob("**/podium-podium-*"))
