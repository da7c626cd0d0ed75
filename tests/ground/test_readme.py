"""Every command that the README shows is run, and what it shows of output is what comes."""

import re
from pathlib import Path

import pytest
from tests.fixtures.servers import Server
from tests.fixtures.shell import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
# A block of `sh` is one session, run as it stands.
SESSIONS = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.removeprefix("$ ") for block in BLOCKS for line in block.splitlines() if line.startswith("$ ")
]
# The targets that set up and test the whole checkout cannot run inside the suite that they run: .ci/run is
# their test, and tests/ground/test_make.py runs `make demo` in a fresh copy.
ELSEWHERE = ("make ", "git ")
FILES = re.compile(r" (-f|--diff) ")
OFFLINE = [line for line in COMMANDS if not line.startswith(ELSEWHERE) and FILES.search(line)]
LIVE = [line for line in COMMANDS if not line.startswith(ELSEWHERE) and line not in OFFLINE]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the examples in it, for commands that write files."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    return tmp_path


@pytest.mark.parametrize("line", OFFLINE)
def test_offline_command_runs(line: str, checkout: Path) -> None:
    """A command on files ends with 0 or 3 (findings), and prints."""
    done = run(line, checkout)
    assert done.returncode in (0, 3), done.stderr
    assert done.stdout + done.stderr


def test_the_readme_has_commands() -> None:
    """The patterns above find something to run."""
    assert OFFLINE


@pytest.mark.server
def test_live_commands_run(server_137: Server, checkout: Path) -> None:
    """The commands on a cluster run in the order of the README, the local cluster's from up to down."""
    assert LIVE
    environ = {"KUBECONFIG": str(server_137.kubeconfig), "XDG_STATE_HOME": str(checkout / "state")}
    try:
        for line in LIVE:
            done = run(line, checkout, **environ)
            assert done.returncode in (0, 3), f"{line}: {done.stderr}"
    finally:
        run("podium cluster down", checkout, **environ)


def played(session: str, server: Server, folder: Path) -> str:
    """Run a session to its end and give what it printed."""
    environ = {"XDG_STATE_HOME": str(folder / "state"), "EXTRA": str(server.program("kubectl").parent)}
    try:
        done = run(f"set -eu; PATH=$PATH:$EXTRA\n{session}", folder, **environ)
    finally:
        run("podium cluster down", folder, **environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.server
def test_the_session_with_the_webhooks_runs(server_137: Server, checkout: Path) -> None:
    """The group gets its class's integer, and the pod its group's class."""
    rows = [line.split() for line in played(SESSIONS[0], server_137, checkout).splitlines()]
    assert ["train", "research", "1000"] in rows
    assert ["train-0", "research", "1000"] in rows


@pytest.mark.server
def test_the_session_with_the_reconciler_runs(server_137: Server, checkout: Path) -> None:
    """The Job gets a group of its size and class, and the pod that differs is told of."""
    printed = played(SESSIONS[1], server_137, checkout)
    assert ["train-job", "2", "1000"] in [line.split() for line in printed.splitlines()]
    assert "does not have priority 1000: 0 (helper)" in printed


@pytest.mark.server
def test_the_session_with_the_scheduler_runs(server_137: Server, checkout: Path) -> None:
    """The gang that runs is told for whom it goes, in kube-scheduler's words."""
    (session,) = SESSIONS[2:]
    printed = played(session, server_137, checkout)
    assert "preempting to accommodate a higher priority podgroup (UID " in printed
