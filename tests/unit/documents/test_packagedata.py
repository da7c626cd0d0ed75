"""Package data is found in a checkout first."""

from pathlib import Path

import pytest

from podium.documents import files
from podium.errors import PodiumError

ROOT = Path(__file__).parents[3]


def test_a_checkout_uses_its_own_files() -> None:
    assert files.folder("manifests") == ROOT / "manifests"


def test_an_incomplete_installation_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        files, "__file__", str(tmp_path / "site-packages" / "podium" / "documents" / "files.py")
    )
    with pytest.raises(PodiumError, match=r"podium/data/manifests is missing. Reinstall podium-k8s"):
        files.folder("manifests")
