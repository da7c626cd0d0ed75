"""Processes that outlive the command that started them, and are only ever stopped when they are still ours.

A process id alone is not an identity: after a crash or a reboot the number may belong to a stranger. A
process is therefore remembered together with the time the kernel says it started, and nothing is signalled
unless both still agree.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

_POLL_SECONDS = 0.03

# The shell puts the program in the background and ends, so that init adopts it: the caller has no child to
# reap, and its own end takes nothing down. `$!` is the program itself, for the shell's fork becomes it.
_DETACH = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'


class Process(msgspec.Struct, frozen=True):
    """A process's identity: its id, and when the kernel started it in the kernel's own words."""

    pid: int
    started: str


def spawn(argv: Sequence[str], *, folder: Path, log: Path) -> Process:
    """Start a program in its own session with `folder` as working folder, appending its output to `log`.

    It sees nothing of our environment: etcd and client-go take settings from variables, and an API server
    the proxy through which it would look for its webhooks; none is meant here.
    """
    shell = subprocess.run(  # noqa: S603 - the caller's program, its arguments passed as they are
        ["/bin/sh", "-c", _DETACH, "sh", str(log), *argv],
        cwd=folder,
        env={"PATH": os.defpath, "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=True,
    )
    pid = int(shell.stdout)
    # A process that is already gone has no start time; "" matches no process, so it is simply not alive.
    return Process(pid, start_time(pid) or "")


def capture(argv: Sequence[str], environ: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a short command to its end, without input; OSError when there is no such program."""
    return subprocess.run(  # noqa: S603 - the caller's program, its arguments passed as they are
        argv, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def alive(process: Process) -> bool:
    """Whether this very process still runs; one that ended and waits to be reaped does not."""
    return bool(process.started) and start_time(process.pid) == process.started


def stop(processes: Iterable[Process], *, grace: float) -> None:
    """Ask every process to end and wait; kill those that still run after `grace` seconds."""
    running = [process for process in processes if alive(process)]
    _signal(running, signal.SIGTERM)
    wait_until(lambda: not any(map(alive, running)), seconds=grace)
    _signal(running, signal.SIGKILL)
    wait_until(lambda: not any(map(alive, running)), seconds=grace)


def wait_until(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Poll a condition until it holds; False when it still does not after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def start_time(pid: int) -> str | None:
    """When the kernel started `pid`, unique across reboots; None for no process or one that has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None if os.path.exists("/proc/self") else _start_time_from_ps(pid)  # noqa: PTH110 - one stat
    except ProcessLookupError:
        return None
    return parse_stat(stat, boot)


def parse_stat(stat: str, boot: str) -> str | None:
    """The start time in a line of /proc/PID/stat (proc(5): field 3 is the state, 22 the start in ticks)."""
    # The name in field 2 may hold spaces and brackets of its own; the last bracket closes it.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else f"{boot}/{fields[19]}"


def _start_time_from_ps(pid: int) -> str | None:
    """The same where there is no /proc (macOS); to the second."""
    ps = capture(["ps", "-o", "state=,lstart=", "-p", str(pid)], os.environ)
    state, _, started = ps.stdout.strip().partition(" ")
    return started.strip() if state and not state.startswith("Z") else None


def _signal(processes: Iterable[Process], number: signal.Signals) -> None:
    for process in processes:
        if alive(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
