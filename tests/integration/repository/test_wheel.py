"""The wheel: Podium and kubecel with their data, and nothing else of the checkout."""

import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[3]
_DATA = PurePosixPath("podium/data")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[PurePosixPath, bytes]:
    """Return the files of the checkout's wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    line = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or done.stdout
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        return {PurePosixPath(each): archive.read(each) for each in archive.namelist()}


def test_the_wheel_has_no_tools_and_no_tests(wheel: dict[PurePosixPath, bytes]) -> None:
    """The control planes of a checkout are not installed either."""
    folders = {path.parts[0] for path in wheel}
    assert {each for each in folders if not each.endswith(".dist-info")} == {"kubecel", "podium"}
    assert {path.parts[2] for path in wheel if path.is_relative_to(_DATA)} == {"docs", "manifests"}


def test_the_data_is_that_of_the_checkout(wheel: dict[PurePosixPath, bytes]) -> None:
    rendered = ROOT / "manifests" / "rendered"
    files = [path for path in rendered.rglob("*") if path.is_file()]
    assert files
    for file in (*files, ROOT / "docs" / "glossary.md"):
        assert wheel[_DATA / file.relative_to(ROOT).as_posix()] == file.read_bytes()
