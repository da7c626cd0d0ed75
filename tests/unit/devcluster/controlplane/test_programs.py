"""The user's own programs replace a build; a fault in them gives one line."""

import io
from pathlib import Path

import pytest
from tools.devcluster.controlplane import programs
from tools.devcluster.controlplane.releases import RELEASES

from podium.errors import PodiumError

RELEASE = RELEASES["1.37"]


def fill(folder: Path, version: str) -> Path:
    """Make a folder as envtest does: three programs that print their version."""
    folder.mkdir(parents=True)
    for name in ("etcd", "kube-apiserver", "kubectl"):
        (folder / name).write_text(f"#!/bin/sh\necho Kubernetes v{version}\n", encoding="ascii")
        (folder / name).chmod(0o755)
    return folder


def test_nothing_is_overridden_by_default() -> None:
    assert programs.overrides(RELEASE, ["etcd"], {}) == {}


def test_an_empty_variable_is_as_none() -> None:
    """An empty KUBEBUILDER_ASSETS counts as unset, as in Makefiles of envtest users."""
    assert programs.overrides(RELEASE, ["etcd"], {"KUBEBUILDER_ASSETS": ""}) == {}


def test_assets_are_a_folder_of_programs(tmp_path: Path) -> None:
    folder = fill(tmp_path / "assets", RELEASE.version)
    environ = {"KUBEBUILDER_ASSETS": str(folder)}
    found = programs.find(RELEASE, ["etcd", "kube-apiserver"], environ, io.StringIO())
    assert found == {"etcd": folder / "etcd", "kube-apiserver": folder / "kube-apiserver"}


def test_assets_may_hold_a_folder_for_each_version(tmp_path: Path) -> None:
    """Podium's own cache has this layout, so one variable works for both minors."""
    for release in RELEASES.values():
        fill(tmp_path / release.version, release.version)
    for release in RELEASES.values():
        found = programs.find(
            release, ["kube-apiserver"], {"KUBEBUILDER_ASSETS": str(tmp_path)}, io.StringIO()
        )
        assert found == {"kube-apiserver": tmp_path / release.version / "kube-apiserver"}


def test_one_program_can_be_named_alone(tmp_path: Path) -> None:
    """TEST_ASSET_* has priority over the folder, as in envtest."""
    folder, other = fill(tmp_path / "assets", RELEASE.version), fill(tmp_path / "other", RELEASE.version)
    environ = {
        "KUBEBUILDER_ASSETS": str(folder),
        "TEST_ASSET_KUBE_APISERVER": str(other / "kube-apiserver"),
    }
    found = programs.overrides(RELEASE, ["etcd", "kube-apiserver"], environ)
    assert found == {"etcd": folder / "etcd", "kube-apiserver": other / "kube-apiserver"}


def test_a_program_that_is_missing_is_named_with_its_variable(tmp_path: Path) -> None:
    folder = fill(tmp_path / "assets", RELEASE.version)
    with pytest.raises(PodiumError) as failure:
        programs.find(RELEASE, ["etcd", "kwok"], {"KUBEBUILDER_ASSETS": str(folder)}, io.StringIO())
    assert str(failure.value) == (
        f"{folder / 'kwok'} does not exist: KUBEBUILDER_ASSETS must name kwok, or be unset to build it"
    )


def test_another_minor_is_refused(tmp_path: Path) -> None:
    """Flags and answers differ between minors, so a program of the wrong one is never started."""
    folder = fill(tmp_path / "assets", "1.35.2")
    with pytest.raises(PodiumError, match=r"is Kubernetes 1\.35\.2, not 1\.37: choose another --kubernetes"):
        programs.find(RELEASE, ["kube-apiserver"], {"KUBEBUILDER_ASSETS": str(folder)}, io.StringIO())


def test_a_file_that_is_no_program_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "etcd").write_text("not a program", encoding="ascii")
    with pytest.raises(PodiumError, match=r"etcd cannot be run: Permission denied$"):
        programs.version(tmp_path / "etcd")
