"""The loops of docs/saving.md save their work and go on from there, and its manifests are admitted."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.support.docs.pages import ROOT
from tests.support.rules.scene import create, profile

from podium.api.saving import SAVE_REQUESTED

_EXAMPLES = ROOT / "examples" / "saving"
# Stand-ins for the libraries, of which one wheel has 800 MB.
_LIBRARIES = ROOT / "tests" / "support" / "trainers"
_PAGE = (ROOT / "docs" / "saving.md").read_text("utf-8")


def _start(example: str, folder: Path, **settings: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(_EXAMPLES / example)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_LIBRARIES), **settings},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("example", ["train_pytorch.py", "train_mpi.py"])
def test_a_loop_saves_on_sigterm_and_goes_on_from_there(example: str, tmp_path: Path) -> None:
    saved = 0
    for _ in range(2):
        with _start(example, tmp_path) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == f"begins at step {saved}\n"
            running.terminate()
            (after,) = re.findall(r"^saved step (\d+)$", running.stdout.read(), re.MULTILINE)
        assert running.returncode == 0
        assert int(after) > saved
        saved = int(after)


def test_a_loop_saves_when_it_is_asked_and_goes_on(tmp_path: Path) -> None:
    """It does no step after the save until the request is taken back, and ends at SIGTERM."""
    podinfo = tmp_path / "annotations"
    podinfo.write_text("", encoding="utf-8")
    saved = 0
    with _start("train_on_notice.py", tmp_path, ANNOTATIONS=str(podinfo)) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begins at step 0\n"
        for minute in range(2):
            podinfo.write_text(f'{SAVE_REQUESTED}="2026-01-31T12:0{minute}:00Z"', encoding="utf-8")
            (after,) = re.findall(r"^saved step (\d+)$", running.stdout.readline())
            assert int(after) > saved
            saved = int(after)
            podinfo.write_text("", encoding="utf-8")
        running.terminate()
        assert running.stdout.read() == ""
    assert running.returncode == 0


def test_ray_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    for begin in (0, 3):
        with _start("train_ray.py", tmp_path, INTERVAL_SECONDS="0", STEPS=str(begin + 3)) as running:
            output, _ = running.communicate()
        assert (running.returncode, output) == (0, f"begins at step {begin}\n")


def test_the_page_names_each_loop_and_its_manifests_are_admitted() -> None:
    for example in _EXAMPLES.iterdir():
        assert example.name in _PAGE
    manifests = re.findall(r"^```yaml\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL)
    assert manifests
    for manifest in manifests:
        assert create(yaml.safe_load(manifest), by=profile(rules="podium")).allowed
