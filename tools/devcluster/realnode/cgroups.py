"""The cgroups of a cluster: a folder, and in it one for the control plane and one for each node.

Every process of a cluster is in one of them from its start, so the kernel itself knows what `down` must end.
A node sees its own folder as the root of the hierarchy, in a cgroup namespace.

In version 1 each controller has a hierarchy of its own, and a process is moved in each of them. In version 2
there is one hierarchy, and a cgroup with processes can have no children with controllers. There a node's own
programs are in its child `init`, and kubelet's pods beside it.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.devcluster.realnode.network import line

from podium.errors import PodiumError

ROOT = Path("/sys/fs/cgroup")
WORLD = "world"
_INIT = "init"
# Of version 2, those by which kubelet limits pods.
_NEEDED = ("cpu", "cpuset", "memory", "pids")


class Hierarchy(NamedTuple):
    """A mounted hierarchy of cgroups; `options` is its controllers or name, empty for version 2."""

    folder: Path
    options: str

    @property
    def unified(self) -> bool:
        """Return whether this is the hierarchy of version 2."""
        return not self.options


def hierarchies(mountinfo: str) -> list[Hierarchy]:
    """Return the hierarchies in /proc/PID/mountinfo: those of version 1 if there are any, else version 2's.

    A machine with both ("hybrid") has its controllers in version 1. By proc(5), field 5 is the mount point,
    and after the dash come the type, the source and the options of the file system.
    """
    by_type: dict[str, list[Hierarchy]] = {"cgroup": [], "cgroup2": []}
    for text in mountinfo.splitlines():
        mount, _, kind = text.partition(" - ")
        fields, (file_system, _, options) = mount.split(), kind.split(" ", 2)
        if file_system in by_type:
            by_type[file_system].append(Hierarchy(Path(fields[4]), _controllers(file_system, options)))
    chosen = by_type["cgroup"] or by_type["cgroup2"]
    if not chosen:
        raise PodiumError(f"no cgroups are mounted at {ROOT}: nodes need them for their pods")
    # A hierarchy that is mounted twice is one.
    return list({hierarchy.options: hierarchy for hierarchy in reversed(chosen)}.values())[::-1]


def mounted() -> list[Hierarchy]:
    """Return the hierarchies of this machine."""
    return hierarchies(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))


def check(every: Iterable[Hierarchy]) -> None:
    """Raise PodiumError if the hierarchy of version 2 gives its children no controllers.

    By cgroups(7), a cgroup with processes gives none, except the root, which alone has no cgroup.type. A
    container sees another cgroup as its root.
    """
    for folder in (hierarchy.folder for hierarchy in every if hierarchy.unified):
        offered = (folder / "cgroup.controllers").read_text(encoding="ascii").split()
        absent = [name for name in _NEEDED if name not in offered]
        if absent:
            raise PodiumError(f"{folder} lacks controllers that kubelet needs: {', '.join(absent)}")
        if (folder / "cgroup.type").exists() and (folder / "cgroup.procs").read_text(encoding="ascii"):
            raise PodiumError(
                f"{folder} has processes, so it gives its children no controllers. In a container, move them"
                f" into a child: mkdir {folder}/{_INIT}, and write each line of {folder}/cgroup.procs to"
                f" {folder}/{_INIT}/cgroup.procs"
            )


def _controllers(file_system: str, options: str) -> str:
    """Return what identifies a hierarchy of version 1 among the options of its mount."""
    named = {"rw", "ro", "xattr", "clone_children", "noprefix"}
    kept = (option for option in options.split(",") if option not in named and "release_agent" not in option)
    return ",".join(kept) if file_system == "cgroup" else ""


def folders(every: Iterable[Hierarchy], cluster: str, part: str) -> list[Path]:
    """Return the folder of a part of a cluster, WORLD or a node, in every hierarchy."""
    return [hierarchy.folder / cluster / part for hierarchy in every]


def homes(every: Iterable[Hierarchy], cluster: str, part: str) -> list[Path]:
    """Return the folders that the part's own programs are in."""
    inner = "" if part == WORLD else _INIT
    return [hierarchy.folder / cluster / part / (inner if hierarchy.unified else "") for hierarchy in every]


def create(every: Sequence[Hierarchy], cluster: str, part: str) -> list[str]:
    """Return the shell commands that make the cgroups of a part."""
    made = [
        command
        for hierarchy in every
        for parent, folder in (
            (hierarchy.folder, hierarchy.folder / cluster),
            (hierarchy.folder / cluster, hierarchy.folder / cluster / part),
        )
        for command in (line("mkdir", "-p", str(folder)), *_inherit(hierarchy, parent, folder))
    ]
    return [*made, *(line("mkdir", "-p", str(home)) for home in homes(every, cluster, part))]


def _inherit(hierarchy: Hierarchy, parent: Path, folder: Path) -> list[str]:
    """Return the commands that give a new cgroup the controllers of its parent."""
    if hierarchy.unified:
        return [_enable(parent)]
    if "cpuset" in hierarchy.options.split(","):
        # A new cgroup has no processor and no memory, and takes no process.
        copied = (f"cat {parent}/{name} > {folder}/{name}" for name in ("cpuset.cpus", "cpuset.mems"))
        return [*copied, f"echo 1 > {folder}/cgroup.clone_children"]
    return []


def delegate(every: Iterable[Hierarchy], cluster: str, part: str) -> list[str]:
    """Return the commands, when the part's first process runs, that let kubelet make cgroups beside it."""
    commands = []
    for hierarchy in every:
        if hierarchy.unified and part != WORLD:
            folder = hierarchy.folder / cluster / part
            commands += [
                f"for pid in $(cat {folder}/cgroup.procs)",
                f"do echo $pid > {folder}/{_INIT}/cgroup.procs",
                "done",
                _enable(folder),
            ]
    return commands


def _enable(folder: Path) -> str:
    """Return the command that gives the children of a cgroup of version 2 all controllers that it has."""
    controllers = f"$(sed 's/[^ ]*/+&/g' {folder}/cgroup.controllers)"
    return f'echo "{controllers}" > {folder}/cgroup.subtree_control'


def mounts(every: Sequence[Hierarchy], root: str) -> list[str]:
    """Return the commands that mount the hierarchies below `root`, in a node's cgroup namespace."""
    if all(hierarchy.unified for hierarchy in every):
        return [line("mount", "-t", "cgroup2", "cgroup2", root)]
    commands = [line("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", root)]
    for hierarchy in every:
        folder = f"{root}/{hierarchy.folder.name}"
        # `none` is for a hierarchy that has a name and no controller.
        options = f"none,{hierarchy.options}" if hierarchy.options.startswith("name=") else hierarchy.options
        commands += [line("mkdir", folder), line("mount", "-t", "cgroup", "-o", options, "cgroup", folder)]
    return commands


def entering(places: Iterable[Path], argv: Sequence[str]) -> list[str]:
    """Return a command that moves itself into cgroups and then becomes `argv`."""
    return ["/bin/sh", "-c", _ENTER, "sh", *map(str, places), "--", *argv]


# By cgroups(7), 0 is the writing process itself; `echo` is the shell.
_ENTER = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit; shift; done; shift; exec "$@"'


def members(every: Iterable[Hierarchy], cluster: str) -> set[int]:
    """Return the processes in the cgroups of a cluster, at any depth."""
    processes: set[int] = set()
    for hierarchy in every:
        for folder, _, _ in os.walk(hierarchy.folder / cluster):
            with contextlib.suppress(OSError):  # removed meanwhile
                processes.update(
                    map(int, (Path(folder) / "cgroup.procs").read_text(encoding="ascii").split())
                )
    return processes


def remove(every: Iterable[Hierarchy], cluster: str) -> bool:
    """Remove the cgroups of a cluster, the deepest first; return whether none is left."""
    removed = True
    for hierarchy in every:
        for folder, _, _ in os.walk(hierarchy.folder / cluster, topdown=False):
            try:
                Path(folder).rmdir()
            except FileNotFoundError:
                continue
            except OSError:  # the kernel has not finished with a process that ended
                removed = False
    return removed
