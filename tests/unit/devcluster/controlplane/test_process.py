"""A process that reuses a pid is not mistaken for the old one, and processes end when stopped."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import comes
from tools.devcluster.controlplane import process
from tools.devcluster.controlplane.process import Process

# Twenty fields from the state (3) to the start time (22) of proc(5).
FIELDS = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 23 24"


@pytest.mark.parametrize(
    ("stat", "started"),
    [
        pytest.param(f"12 (etcd) {FIELDS}", "boot/4711", id="plain"),
        pytest.param(f"12 (a b) c) {FIELDS}", "boot/4711", id="a name with spaces and brackets"),
        pytest.param(f"12 (etcd) {FIELDS.replace('S', 'Z')}", None, id="ended, not reaped"),
        pytest.param(f"12 (etcd) {FIELDS.replace('S', 'X')}", None, id="dead"),
    ],
)
def test_parse_stat(stat: str, started: str | None) -> None:
    assert process.parse_stat(stat, "boot") == started


# etcd listens there, and an API server would call its webhooks there.
_NOT_MEANT = ("ETCD_LISTEN_CLIENT_URLS", "HTTPS_PROXY", "https_proxy")


def start(folder: Path, script: str) -> Process:
    return process.spawn(["/bin/sh", "-c", script], folder=folder, log=folder / "log")


def test_a_process_outlives_its_starter_in_its_folder_without_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program gets its arguments, the folder, the log, and Go's memory settings from our variables."""
    monkeypatch.setenv("GOGC", "300")
    for name in _NOT_MEANT:
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    started = process.spawn(
        ["/bin/sh", "-c", 'pwd; env; echo "$1"; exec sleep 60', "sh", "two words $HOME"],
        folder=tmp_path,
        log=tmp_path / "log",
    )
    assert comes(lambda: "two words $HOME\n" in (tmp_path / "log").read_text())
    assert process.alive(started)
    assert os.getsid(started.pid) != os.getsid(0)
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0] == str(tmp_path)
    assert not {line.partition("=")[0] for line in lines}.intersection(_NOT_MEANT)
    assert "GOGC=300" in lines
    process.stop([started], grace=10)
    assert not process.alive(started)


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    started = start(tmp_path, "trap '' TERM; echo ready; while :; do sleep 1; done")
    assert comes(lambda: "ready" in (tmp_path / "log").read_text())
    process.stop([started], grace=0.1)
    assert comes(lambda: not process.alive(started))


def test_a_program_that_does_not_exist_is_not_alive(tmp_path: Path) -> None:
    started = process.spawn([str(tmp_path / "nothing")], folder=tmp_path, log=tmp_path / "log")
    assert comes(lambda: not process.alive(started))
    assert "nothing" in (tmp_path / "log").read_text()


def test_a_stranger_with_the_same_number_is_left_alone() -> None:
    """A stored process whose number belongs to another now is not alive and gets no signal."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        remembered = Process(stranger.pid, "another boot/1")
        assert not process.alive(remembered)
        process.stop([remembered], grace=0.1)
        assert stranger.poll() is None
        stranger.communicate(b"\n")
    assert stranger.returncode == 0


def test_a_process_without_a_start_time_is_never_alive() -> None:
    assert not process.alive(Process(os.getpid(), ""))


@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps on PATH (procps)")
def test_where_there_is_no_proc_ps_tells_processes_apart(tmp_path: Path) -> None:
    """The fallback for macOS returns a constant value during a process's life, and none afterwards."""
    started = start(tmp_path, "exec sleep 60")
    first = process._start_time_from_ps(started.pid)
    assert first
    assert process._start_time_from_ps(started.pid) == first
    os.kill(started.pid, signal.SIGKILL)
    assert comes(lambda: process._start_time_from_ps(started.pid) is None)
