"""A forked process is like a fresh one, in all that a test can see of it."""

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.support import starting
from tests.support.starting import start
from tests.support.waiting import until

_SCRIPT = textwrap.dedent("""
    import atexit, json, os, signal, sys, threading
    from pathlib import Path
    atexit.register(print, "at exit")
    seen = {
        "name": __name__,
        "arguments": sys.argv,
        "folder": os.getcwd(),
        "environ": dict(os.environ),
        "input": os.read(0, 1).decode(),
        "signals": {each.name: str(signal.getsignal(each)) for each in signal.valid_signals() if each < 32},
        "blocked": [each.name for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        "streams": [os.path.basename(os.readlink(f"/proc/self/fd/{each}")) for each in range(3)],
        "threads": threading.active_count(),
    }
    Path("seen.json").write_text(json.dumps(seen))
    print("to stdout", flush=True)
    print("to stderr", file=sys.stderr)
""")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")


def _seen(folder: Path, end: str, *, fresh: bool, at: int = 0) -> tuple[int, str, dict[str, Any]]:
    """Run the script to an end; return its exit code, its output and what it has seen."""
    folder.mkdir()
    script = folder / "script.py"
    script.write_text(_SCRIPT + end, encoding="utf-8")
    line = [sys.executable, str(script), "--one=1"] if fresh else [str(script), "--one=1"]
    started = start(line, folder / "log", folder=folder, environ={"KEY": "value"}, fresh=fresh)
    if at:
        until(lambda: "to stderr" in (folder / "log").read_text("utf-8"), "it waits")
        assert started.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            started.wait(0.01)
        started.send_signal(at)
    code = started.wait(60.0)
    assert code == started.returncode == started.poll()
    started.kill()  # has no effect on a process that has ended
    seen: dict[str, Any] = json.loads((folder / "seen.json").read_text("utf-8"))
    return code, (folder / "log").read_text("utf-8"), seen


@pytest.mark.parametrize(
    ("end", "at", "code", "last"),
    [
        ("", 0, 0, "at exit\n"),
        ("sys.exit(3)", 0, 3, "at exit\n"),
        ("sys.exit('a reason')", 0, 1, "at exit\n"),
        ("1 / 0", 0, 1, "at exit\n"),
        ("threading.Timer(0.1, print, ['thread'], {'flush': True}).start()", 0, 0, "thread\nat exit\n"),
        ("signal.pause()", signal.SIGTERM, -signal.SIGTERM, "to stderr\n"),
        ("signal.pause()", signal.SIGKILL, -signal.SIGKILL, "to stderr\n"),
        ("signal.signal(15, lambda *_: sys.exit(4)); signal.pause()", signal.SIGTERM, 4, "at exit\n"),
    ],
    ids=["end", "code", "reason", "error", "thread", "told", "killed", "handled"],
)
def test_it_runs_and_ends_as_a_fresh_process(tmp_path: Path, end: str, at: int, code: int, last: str) -> None:
    fresh, forked = (_seen(tmp_path / str(each), end, fresh=each, at=at) for each in (True, False))
    assert fresh[0] == forked[0] == code
    assert fresh[1].endswith(last)
    # The order of the reason and of the last words differs, because one is written later.
    assert _lines(forked[1]) == _lines(fresh[1])
    assert _alike(forked[2]) == _alike(fresh[2])
    assert forked[2]["folder"] == str(tmp_path / "False")


def _alike(seen: dict[str, Any]) -> dict[str, Any]:
    environ = {name: seen["environ"].get(name) for name in ("KEY", "HOME")}
    return {**seen, "environ": environ, "folder": "", "arguments": seen["arguments"][1:]}


def _lines(text: str) -> list[str]:
    """Return the sorted lines without those of a traceback that name a file."""
    return sorted(line for line in text.splitlines() if line.startswith(("to", "at", "a ", "thread", "Zero")))


def test_the_programs_are_imported_already(tmp_path: Path) -> None:
    """An import that fails there would only make every start slow."""
    script = tmp_path / "script.py"
    script.write_text("import sys; print(*sys.modules)", encoding="utf-8")
    assert start([str(script)], tmp_path / "log").wait(60.0) == 0
    there = (tmp_path / "log").read_text("utf-8").split()
    assert set(starting._PROGRAMS) <= set(there)


@pytest.mark.parametrize("program", ["webhook", "controller", "scheduler"])
def test_the_command_fails_as_when_it_is_fresh(tmp_path: Path, program: str) -> None:
    line = [
        str(Path(sys.executable).with_name("podium")),
        program,
        "--kubeconfig=/nowhere",
        "--metrics-port=0",
    ]
    line += ["--register-url=https://127.0.0.1:1", "--cert-dir=certificates"] if program == "webhook" else []
    found = []
    for fresh in (True, False):
        log = tmp_path / f"log-{fresh}"
        code = start(line, log, folder=tmp_path, fresh=fresh).wait(60.0)
        found.append((code, log.read_text("utf-8")))
    assert (
        found[0]
        == found[1]
        == (1, "podium: /nowhere: kubeconfig not found. Name another with --kubeconfig\n")
    )
