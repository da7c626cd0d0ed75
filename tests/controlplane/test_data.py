"""Package data is found in a checkout first."""

from pathlib import Path

import pytest

from podium import data
from podium.errors import PodiumError

ROOT = Path(__file__).parents[2]


def test_a_checkout_uses_its_own_files() -> None:
    assert data.folder("controlplane") == ROOT / "tools" / "controlplane"


def test_an_incomplete_installation_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "__file__", str(tmp_path / "site-packages" / "podium" / "data.py"))
    with pytest.raises(
        PodiumError, match=r"podium/data/manifests is missing: this installation is incomplete"
    ):
        data.folder("manifests")
