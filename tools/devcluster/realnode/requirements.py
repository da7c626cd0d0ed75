"""The machine's properties that real nodes need, and the message if one is missing."""

import os
import shutil
import sys
from typing import NamedTuple

from tools.devcluster.controlplane.process import capture
from tools.devcluster.realnode import cgroups
from tools.devcluster.realnode.namespaces import PATH

from podium.errors import PodiumError

_PROGRAMS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "util-linux (package mount)",
    "pivot_root": "util-linux",
    "ip": "iproute2",
    "hostname": "hostname",
}
_BUILDERS = {"apt-get": "apt", "dpkg-deb": "dpkg", "perl": "perl"}


class KernelFeature(NamedTuple):
    """A feature of the kernel, and the shell command that succeeds with it."""

    feature: str
    command: str


_ALONE = "unshare --mount --net --pid --uts --ipc --cgroup --fork --propagation private"
PROBES = (
    KernelFeature("namespaces", f"{_ALONE} true"),
    KernelFeature("network bridges", f"{_ALONE} ip link add probe type bridge"),
    KernelFeature("virtual cables (veth)", f"{_ALONE} ip link add probe type veth peer name other"),
    KernelFeature("overlay file systems", "grep -qw overlay /proc/filesystems || modprobe overlay"),
    # kube-proxy needs it. As a module, it is loaded by its first user.
    KernelFeature("nf_tables", "grep -qs nf_tables /proc/kallsyms || modprobe nf_tables"),
)


def check() -> None:
    """Raise PodiumError if this machine cannot run real nodes, with the reason and what to do."""
    if sys.platform != "linux":
        raise PodiumError("real nodes need Linux. `make cluster` has fake nodes on every system")
    if os.geteuid() != 0:
        raise PodiumError("real nodes need root, for namespaces, mounts and cgroups: run it with sudo")
    missing(_PROGRAMS)
    for probe in PROBES:
        done = capture(["/bin/sh", "-c", probe.command], {"PATH": PATH})
        if done.returncode:
            last = " ".join(done.stderr.strip().splitlines()[-1:]) or f"exit code {done.returncode}"
            raise PodiumError(
                f"real nodes need {probe.feature}, which the kernel refuses: `{probe.command}`: {last}"
            )
    cgroups.check(cgroups.mounted())


def check_builders() -> None:
    """Raise PodiumError if the nodes' file system cannot be made here."""
    missing(_BUILDERS, "The nodes' file system is made from Debian packages. ")


def missing(programs: dict[str, str], reason: str = "") -> None:
    """Raise PodiumError with the programs that are not on PATH; `programs` has the package of each."""
    absent = [f"{name} ({package})" for name, package in programs.items() if not _found(name)]
    if absent:
        raise PodiumError(f"{reason}Missing programs: {', '.join(absent)}")


def _found(name: str) -> bool:
    return shutil.which(name, path=PATH) is not None
