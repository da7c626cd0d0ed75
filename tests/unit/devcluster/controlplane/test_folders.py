"""Building into the cache: complete or not at all, once, and again only after a change.

A quick shell script that can fail replaces Go here; every server test uses the real build.
"""

import io
import threading
from pathlib import Path

import pytest
from tools.devcluster.controlplane import folders, gobuild, programs
from tools.devcluster.controlplane.releases import RELEASES, Release

from podium.errors import PodiumError

RELEASE = RELEASES["1.37"]

# Answers `go env GOVERSION`, and for `go build -o FOLDER ...` records the call and writes the programs.
GO = """#!/bin/sh
[ "$1" = env ] && echo go1.99.0 && exit
echo "$GOTOOLCHAIN $CGO_ENABLED" >> "$CALLS"
{then}
for program in etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok
do echo "$program" > "$3$program"
done
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a cache of its own and the script as the only Go."""
    (tmp_path / "bin").mkdir()
    fake_go(tmp_path, "")
    return {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "CALLS": str(tmp_path / "calls"),
    }


def fake_go(tmp_path: Path, then: str) -> None:
    go = tmp_path / "bin" / "go"
    go.write_text(GO.replace("{then}", then), encoding="ascii")
    go.chmod(0o755)


def calls(tmp_path: Path) -> list[str]:
    path = tmp_path / "calls"
    return path.read_text(encoding="ascii").splitlines() if path.exists() else []


def test_a_build_is_kept_under_its_version(tmp_path: Path, environ: dict[str, str]) -> None:
    """The programs are in the documented folder and a second call finds them without Go."""
    place = programs.build(RELEASE, environ, io.StringIO())
    assert place == tmp_path / "cache" / "podium" / "controlplane" / RELEASE.version
    assert all((place / program).exists() for program in programs.PROGRAMS)
    assert programs.build(RELEASE, environ, io.StringIO()) == place
    assert calls(tmp_path) == ["local 0"]


def test_the_way_to_skip_a_build_is_named_before_it_starts(tmp_path: Path, environ: dict[str, str]) -> None:
    """A user with existing programs gets that remedy before a build of ten minutes."""
    fake_go(tmp_path, "exit 1")
    progress = io.StringIO()
    with pytest.raises(PodiumError):
        programs.build(RELEASE, environ, progress)
    assert "set KUBEBUILDER_ASSETS" in progress.getvalue()


def test_a_changed_stamp_builds_again(tmp_path: Path, environ: dict[str, str]) -> None:
    """Programs from another module are replaced as a whole."""
    place = programs.build(RELEASE, environ, io.StringIO())
    (place / "podium-build").write_text("another digest\n", encoding="ascii")
    (place / "left-over").touch()
    programs.build(RELEASE, environ, io.StringIO())
    assert len(calls(tmp_path)) == 2
    assert not (place / "left-over").exists()


def test_a_failed_build_leaves_nothing_and_says_why(tmp_path: Path, environ: dict[str, str]) -> None:
    """The error is one line with Go's last words and the path of the log; no half-built folder stays."""
    fake_go(tmp_path, "echo first; echo 'pkg/x.go:1: undefined: y'; exit 1")
    with pytest.raises(PodiumError) as failure:
        programs.build(RELEASE, environ, io.StringIO())
    root = tmp_path / "cache" / "podium" / "controlplane"
    log = root / f"{RELEASE.version}.log"
    assert str(failure.value) == (
        f"building Kubernetes {RELEASE.version} failed: first | pkg/x.go:1: undefined: y; all of it: {log}"
    )
    assert sorted(path.name for path in root.iterdir()) == [f"{RELEASE.version}.lock", log.name]


def test_the_draft_of_a_killed_builder_is_removed(environ: dict[str, str], tmp_path: Path) -> None:
    """A draft folder without a running build is removed by the next build, which holds the lock."""
    draft = tmp_path / "cache" / "podium" / "controlplane" / f".{RELEASE.version}.killed"
    draft.mkdir(parents=True)
    programs.build(RELEASE, environ, io.StringIO())
    assert not draft.exists()


def test_a_second_builder_waits_says_so_and_builds_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    """Two concurrent builds make one build."""
    fake_go(
        tmp_path,
        f"cd {tmp_path}; mkfifo started finish; echo > started; cat finish",
    )
    first = threading.Thread(target=programs.build, args=(RELEASE, environ, io.StringIO()))
    first.start()
    while not (tmp_path / "started").exists():
        assert first.is_alive()
    (tmp_path / "started").read_bytes()  # until Go runs

    class LetFinish(io.StringIO):
        """End the first build once the second reports that it waits."""

        def write(self, text: str) -> int:
            if text.startswith("waiting for another build"):
                (tmp_path / "finish").write_bytes(b"")
            return super().write(text)

    progress = LetFinish()
    programs.build(RELEASE, environ, progress)
    first.join()
    assert progress.getvalue() == f"waiting for another build of Kubernetes {RELEASE.version} to end\n"
    assert len(calls(tmp_path)) == 1


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([b"machine", b"go.mod changed", b"go.sum"], id="a file changed"),
        pytest.param([b"machine", b"go.modgo.sum"], id="divided differently"),
        pytest.param([b"machine", b"go.mod", b"go.sum", b""], id="one more part"),
    ],
)
def test_a_digest_differs_for_different_parts(other: list[bytes]) -> None:
    assert folders.digest(other) != folders.digest([b"machine", b"go.mod", b"go.sum"])


def test_the_minors_have_stamps_of_their_own(tmp_path: Path) -> None:
    """The stamp covers the module, so the programs of one minor are never used for the other."""
    module = tmp_path / "module"
    (module / "etcd").mkdir(parents=True)
    for name in ("go.mod", "go.sum", "etcd/main.go"):
        (module / name).write_text(name, encoding="ascii")

    def stamp(release: Release) -> str:
        return gobuild.stamp_of(programs.plan_of(release, module, tmp_path))

    before = stamp(RELEASE)
    assert len({stamp(release) for release in RELEASES.values()}) == 2
    (module / "go.sum").write_text("changed", encoding="ascii")
    assert stamp(RELEASE) != before
