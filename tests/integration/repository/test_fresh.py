"""`make fresh`: commands run in an empty Debian, of which nothing is left, or one line says why not."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
FRESH = (sys.executable, "-m", "tools.fresh")
LINE = "fresh: not run: needs root and debootstrap, or docker or podman\n"


def without_debootstrap(path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run it with a PATH of one folder, so that it finds no debootstrap."""
    return subprocess.run(
        [*FRESH, *arguments],
        cwd=ROOT,
        env={"PATH": str(path), "PODIUM_SEED": "7"},
        capture_output=True,
        text=True,
        check=False,
    )


def fake_docker(folder: Path) -> None:
    """Write a program that prints its arguments, and fails for Debian 13."""
    docker = folder / "docker"
    docker.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\ncase "$*" in *debian:13*) exit 7 ;; esac\n')
    docker.chmod(0o755)


def test_without_root_and_without_a_container_one_line_says_so(tmp_path: Path) -> None:
    done = without_debootstrap(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", LINE)


def test_an_archive_needs_debootstrap(tmp_path: Path) -> None:
    fake_docker(tmp_path)
    done = without_debootstrap(tmp_path, "--prepare")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", LINE)


def test_without_root_a_container_runs_readmes_commands(tmp_path: Path) -> None:
    """The packages are README's, the seed is the same, and the first failure is the result."""
    fake_docker(tmp_path)
    done = without_debootstrap(tmp_path)
    assert done.returncode == 1
    assert done.stderr == "fresh: trixie: exit code 7\n"
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("debian:")] == ["debian:12", "debian:13"]
    assert lines.count("cd /root/podium && make demo && make test") == 2
    assert f"--volume={ROOT}:/source:ro" in lines
    assert "--env=PODIUM_SEED=7" in lines
    assert any("ca-certificates git make python3-venv" in line for line in lines)


@pytest.mark.checkout
@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("debootstrap"),
    reason="needs root and debootstrap",
)
@pytest.mark.parametrize(
    ("command", "stop", "code"),
    [
        ("python3 -c 'import pty; pty.openpty()' && python3 -V; exit 3", None, 1),
        ("trap '' INT; echo begun; sleep 1000", signal.SIGINT, 130),
    ],
)
def test_nothing_is_left_of_a_debian(
    tmp_path: Path, command: str, stop: signal.Signals | None, code: int
) -> None:
    """No mount, no folder and no process, whatever ended the command."""
    cache = tmp_path / "podium" / "fresh"
    cache.mkdir(parents=True)
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "podium" / "fresh"
    for archive in usual.glob("*.tar"):
        (cache / archive.name).symlink_to(archive)
    with subprocess.Popen(
        [*FRESH, "--debian", "bookworm", "--command", command],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        if stop is not None:
            while process.stdout.readline() != "begun\n":
                assert process.poll() is None
            os.killpg(process.pid, stop)
        # It ends when the last process that holds it has ended.
        output = process.stdout.read()
        assert process.wait(PATIENCE_SECONDS) == code
    assert stop is not None or "Python 3.11.2\n" in output
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text("utf-8")
    assert [path.name for path in cache.iterdir() if path.is_dir()] == []
