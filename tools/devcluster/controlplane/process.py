"""Processes that outlive the command that started them, and are stopped only if they are still the same.

A process id alone is not an identity: after a crash or a reboot the number may belong to another program. A
process is therefore recorded together with its start time from the kernel, and gets a signal only if both
still agree.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from podium.errors import PodiumError

_POLL_SECONDS = 0.03
# How far the heap grows between two collections, and from which size on that does not count.
_GO_MEMORY = ("GOGC", "GOMEMLIMIT")

# The shell puts the program in the background and exits, so that init adopts it: the caller has no child to
# reap, and the caller's exit stops nothing. `$!` is the program itself, because the shell's fork becomes it.
_DETACH = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'


class Process(msgspec.Struct, frozen=True):
    """A process's identity: its id, and its start time in the kernel's format."""

    pid: int
    started: str


def spawn(argv: Sequence[str], *, folder: Path, log: Path) -> Process:
    """Start a program in its own session in the working directory `folder`, with its output added to `log`.

    It gets the Go runtime's memory settings of our environment and nothing else: etcd and client-go take
    settings from variables, and an API server would take the proxy for its webhooks.
    """
    shell = subprocess.run(
        ["/bin/sh", "-c", _DETACH, "sh", str(log), *argv],
        cwd=folder,
        env={"PATH": os.defpath, "HOME": str(folder)}
        | {name: os.environ[name] for name in _GO_MEMORY if name in os.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=True,
    )
    pid = int(shell.stdout)
    # A process that has already exited has no start time; "" matches no process, so it is not alive.
    return Process(pid, start_time(pid) or "")


def reserve_port(held: contextlib.ExitStack, port: int) -> int:
    """Reserve a loopback port until `held` is closed: this port, or any free one for 0.

    No other user can take it before a program binds it. A socket is bound to it and never listens. The
    program also binds with SO_REUSEPORT (--permit-port-sharing), which the kernel allows to the same user
    only. Connections reach the listening socket.
    """
    reservation = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        reservation.bind(("127.0.0.1", port))
    except OSError as error:
        raise PodiumError(
            f"port {port}, which this cluster had, cannot be used ({error.strerror}):"
            " `make cluster-down` and start a new one"
        ) from None
    chosen: int = reservation.getsockname()[1]
    return chosen


def capture(argv: Sequence[str], environ: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a short command to its end, without input. Raises OSError if there is no such program."""
    return subprocess.run(
        argv, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def alive(process: Process) -> bool:
    """Return whether this same process still runs; a zombie does not."""
    return bool(process.started) and start_time(process.pid) == process.started


def stop(processes: Iterable[Process], *, grace: float) -> None:
    """Send SIGTERM to every process and wait; kill those that still run after `grace` seconds."""
    running = [process for process in processes if alive(process)]
    send_signal(running, signal.SIGTERM)
    wait_until(lambda: not any(map(alive, running)), seconds=grace)
    send_signal(running, signal.SIGKILL)
    wait_until(lambda: not any(map(alive, running)), seconds=grace)


def wait_until(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Poll a condition until it holds; return False if it still does not after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def start_time(pid: int) -> str | None:
    """Return the start time of `pid`, unique across reboots; None if it does not exist or has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None if os.path.exists("/proc/self") else _start_time_from_ps(pid)  # noqa: PTH110 - one stat
    except ProcessLookupError:
        return None
    return parse_stat(stat, boot)


def parse_stat(stat: str, boot: str) -> str | None:
    """Return the start time in a line of /proc/PID/stat.

    By proc(5), field 3 is the state, and field 22 the start in ticks.
    """
    # The name in field 2 may contain spaces and brackets; the last bracket closes it.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else f"{boot}/{fields[19]}"


def _start_time_from_ps(pid: int) -> str | None:
    """Return the start time to the second on systems without /proc (macOS)."""
    ps = capture(["ps", "-o", "state=,lstart=", "-p", str(pid)], os.environ)
    state, _, started = ps.stdout.strip().partition(" ")
    return started.strip() if state and not state.startswith("Z") else None


def send_signal(processes: Iterable[Process], number: signal.Signals) -> None:
    """Send a signal to every process that still runs."""
    for process in processes:
        if alive(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
