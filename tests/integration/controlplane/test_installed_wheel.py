"""`podium cluster` runs from an installed wheel in an empty folder, without the checkout."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from podium.controlplane import programs
from podium.controlplane.releases import NEWEST
from podium.controlplane.state import load

pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[3]


def run(*argv: str | Path, folder: Path) -> str:
    done = subprocess.run(list(map(str, argv)), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout.strip()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the scripts folder of a fresh environment with the wheel and this one's dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", folder=folder)
    python = folder / "venv" / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder))
    # A path file adds the packages of this environment, but not its editable Podium: that is a path file too.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    (wheel,) = folder.glob("*.whl")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", wheel, folder=folder)
    return python.parent


@pytest.fixture
def empty(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield an empty working folder of a user without clusters."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "empty").mkdir()
    yield tmp_path / "empty"
    run(installed / "podium", "cluster", "down", folder=tmp_path)


def test_the_package_brings_its_data(installed: Path, tmp_path: Path) -> None:
    """The data folder is the wheel's own, file for file as in the checkout."""
    code = "from podium.documents import packagedata; print(packagedata.folder('controlplane'))"
    found = Path(run(installed / "python", "-c", code, folder=tmp_path))
    assert found.is_relative_to(installed.parent)
    assert contents(found) == contents(ROOT / "tools" / "controlplane")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_cluster_from_the_wheel(installed: Path, empty: Path, tmp_path: Path) -> None:
    """`up` starts two nodes that kubectl sees ready, and `down` leaves the working folder empty."""
    kubeconfig = run(installed / "podium", "cluster", "up", "--nodes", "2", folder=empty)
    kubectl = programs.find(NEWEST, ["kubectl"], os.environ, sys.stderr)["kubectl"]
    nodes = run(kubectl, "--kubeconfig", kubeconfig, "get", "nodes", "--no-headers", folder=empty)
    assert [line.split()[:2] for line in nodes.splitlines()] == [["node-0", "Ready"], ["node-1", "Ready"]]
    run(installed / "podium", "cluster", "down", folder=empty)
    assert load(tmp_path / "state" / "podium" / "clusters" / "podium") is None
    assert list(empty.iterdir()) == []
