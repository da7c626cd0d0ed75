"""The file system of a node: the shared Debian root below an overlay of the node's own, and its mounts.

kubelet requires some sysctls of the whole machine. The node sees files with the required values in their
place, so kubelet writes none.
"""

from pathlib import Path
from typing import NamedTuple

from podium.realnode import cgroups
from podium.realnode.cgroups import Hierarchy
from podium.realnode.network import line

# By kubelet's --protect-kernel-defaults=false, it sets those that differ.
SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# Paths below a node's folder.
UPPER = "upper"
_SYSCTL = "sysctl"
# On the machine's disk: an overlay cannot hold the overlays of containers.
_STORED = {
    "containerd": "var/lib/containerd",
    "kubelet": "var/lib/kubelet",
    "pods": "var/log/pods",
}


class Programs(NamedTuple):
    """The folders in the cache of what nodes run."""

    root: Path  # Debian, shared by all nodes
    kubernetes: Path
    containerd: Path
    toolbox: Path  # the program
    sandbox: Path  # the archive of its image

    def path(self, name: str) -> Path:
        """Return one of a node's programs."""
        return (self.containerd if name == "containerd" else self.kubernetes) / name


def sysctl_files() -> dict[str, str]:
    """Return the files that take the place of sysctls: path below a node's folder, and text."""
    return {_sysctl(name): f"{value}\n" for name, value in SYSCTLS.items()}


def _sysctl(name: str) -> str:
    return f"{_SYSCTL}/{name.replace('/', '.')}"


def mounts(folder: Path, programs: Programs, mounted: list[Hierarchy]) -> list[str]:
    """Return the commands, in a new node's namespaces, that make its file system and change to it."""
    root = folder / "root"

    def bind(source: Path, target: str) -> list[str]:
        return [
            line("mkdir", "-p", f"{root}/{target}"),
            line("mount", "--bind", str(source), f"{root}/{target}"),
        ]

    made = [folder / each for each in ("root", UPPER, "work", *_STORED)]
    layers = f"lowerdir={programs.root},upperdir={folder / UPPER},workdir={folder / 'work'}"
    return [
        line("mkdir", "-p", *map(str, made)),
        line("mount", "-t", "overlay", "overlay", "-o", layers, str(root)),
        *bind(programs.kubernetes, "podium/kubernetes"),
        *bind(programs.containerd, "podium/containerd"),
        *(each for name, target in _STORED.items() for each in bind(folder / name, target)),
        line("mount", "-t", "proc", "proc", f"{root}/proc"),
        *(
            line("mount", "--bind", str(folder / _sysctl(name)), f"{root}/proc/sys/{name}")
            for name in SYSCTLS
        ),
        line("mount", "--rbind", "/dev", f"{root}/dev"),
        line("mount", "--make-rslave", f"{root}/dev"),
        line("mount", "-t", "sysfs", "sysfs", f"{root}/sys"),
        *cgroups.mounts(mounted, f"{root}/sys/fs/cgroup"),
        line("mount", "-t", "tmpfs", "tmpfs", f"{root}/run"),
        line("mount", "-t", "tmpfs", "tmpfs", f"{root}/tmp"),  # noqa: S108 - a node's own
        line("mkdir", f"{root}/old"),
        line("cd", str(root)),
        line("pivot_root", ".", "old"),
        line("cd", "/"),
        line("umount", "-l", "/old"),
        # kubelet's volumes have to reach the mount namespaces of containers.
        line("mount", "--make-rshared", "/"),
    ]
