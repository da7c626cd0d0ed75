"""The folder of a built Go program changes with what the program is built from."""

from pathlib import Path

import pytest
from tools.gotools import GoTools


@pytest.fixture
def module(tmp_path: Path) -> Path:
    for name in ("go.mod", "go.sum", "main.go", "other.go"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["go.sum", "main.go", "other.go"])
def test_a_changed_file_changes_the_folder(module: Path, name: str) -> None:
    before = GoTools(module, ("program",), 1).folder
    (module / name).write_text("changed", encoding="utf-8")
    assert GoTools(module, ("program",), 1).folder != before


def test_a_file_of_another_kind_changes_nothing(module: Path) -> None:
    before = GoTools(module, ("program",), 1).folder
    (module / "manifests.yaml").write_text("kind: List", encoding="utf-8")
    assert GoTools(module, ("program",), 1).folder == before


def test_a_tag_changes_the_folder(module: Path) -> None:
    assert GoTools(module, ("program",), 1).folder != GoTools(module, ("program",), 1, tags=("small",)).folder
