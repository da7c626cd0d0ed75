"""The namespaces of a cluster: one set for the control plane, and in it one set for each node.

The first process of a PID namespace adopts what loses its parent there. When it ends, the kernel ends
everything in the namespace, and the mounts and interfaces of the other namespaces go with their last process.
Programs are started from outside, by nsenter. Each set is held by the program `toolbox`, which does nothing
but wait for its children.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.devcluster.controlplane.process import Process, alive, start_time, wait_until

from podium.errors import PodiumError

_HOLDER = "toolbox"
_START_SECONDS = 20.0
_LAST_LINES = 3
# Of the machine, for `ip` and `mount`, and of a node.
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def world(toolbox: Path) -> list[str]:
    """Return the command that makes the namespaces of the control plane; it ends with them."""
    kinds = ("--mount", "--net", "--pid", "--uts", "--ipc")
    return [*_unshare(), *kinds, "--mount-proc", str(toolbox)]


def node(world: int, toolbox: Path, *, network: bool) -> list[str]:
    """Return the command that makes a node's namespaces inside those of process `world`.

    With `network`, the node has a network of its own, else the control plane's.
    """
    kinds = ("--mount", "--pid", "--uts", "--ipc", "--cgroup", *(("--net",) if network else ()))
    inside = enter(world, "mount", "net", "pid", "uts", "ipc")
    return [*inside, *_unshare(), *kinds, str(toolbox)]


def _unshare() -> tuple[str, ...]:
    # Private: no mount of ours is seen outside. The first process dies with the one that made it.
    return ("unshare", "--fork", "--kill-child", "--propagation", "private")


def enter(process: int, *kinds: str) -> list[str]:
    """Return the beginning of a command that runs in some namespaces of a process."""
    return ["nsenter", "--target", str(process), *(f"--{kind}" for kind in kinds), "--"]


def enter_node(process: int) -> list[str]:
    """Return the beginning of a command that runs in a node, with the node's files and programs."""
    inside = enter(process, "mount", "net", "pid", "uts", "ipc", "cgroup")
    return [*inside, "env", "-i", f"PATH=/podium/kubernetes:/podium/containerd:{PATH}", "HOME=/root"]


def holder(started: Process, log: Path) -> Process:
    """Return the process that holds the namespaces which a command has begun to make.

    It is the last of the chain of children below `started`. Raises PodiumError with the log if it does not
    appear.
    """
    last: list[int] = []

    def settled() -> bool:
        last[:] = [_last_child(started.pid)]
        return _name(last[0]) == _HOLDER or not alive(started)

    if not wait_until(settled, seconds=_START_SECONDS) or _name(last[0]) != _HOLDER:
        words = " ".join(log.read_text(encoding="utf-8", errors="replace").split())
        raise PodiumError(f"namespaces cannot be made: {words or 'no message'}")
    return Process(last[0], start_time(last[0]) or "")


def _last_child(pid: int) -> int:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except FileNotFoundError:
        return pid
    return _last_child(int(children[0])) if children else pid


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def run(argv: Sequence[str], commands: Sequence[str], purpose: str) -> None:
    """Run shell commands behind the beginning of a command, until the first that fails.

    Raises PodiumError with the failed command and its message.
    """
    script = "\n".join(("set -ex", f"export PATH={PATH}", *commands))
    done = subprocess.run(
        [*argv, "/bin/sh", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        # With -x, the last line with a plus is the command that failed; its own lines may follow.
        lines = done.stderr.strip().splitlines()
        last = max((at for at, text in enumerate(lines) if text.startswith("+ ")), default=0)
        failed, message = lines[last].removeprefix("+ "), " | ".join(lines[last + 1 :][-_LAST_LINES:])
        raise PodiumError(f"{purpose}: `{failed}` failed: {message or f'exit code {done.returncode}'}")
