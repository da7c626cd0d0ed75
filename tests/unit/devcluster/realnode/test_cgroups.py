"""The cgroups of a cluster: which hierarchies a machine has, and the commands for each version."""

import contextlib
import subprocess
from pathlib import Path

import pytest
from tools.devcluster.realnode import cgroups
from tools.devcluster.realnode.cgroups import Hierarchy

from podium.errors import PodiumError

_ROOT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - "
_V1 = """\
22 28 0:21 / /sys rw,nosuid - sysfs sysfs rw
30 23 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/systemd rw,nosuid shared:10 master:1 - cgroup cgroup rw,xattr,name=systemd
33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 / /sys/fs/cgroup/cpuset rw,nosuid - cgroup cgroup rw,cpuset,clone_children
"""
SYSTEMD = Hierarchy(Path("/sys/fs/cgroup/systemd"), "name=systemd")
CPU = Hierarchy(Path("/sys/fs/cgroup/cpu,cpuacct"), "cpu,cpuacct")
CPUSET = Hierarchy(Path("/sys/fs/cgroup/cpuset"), "cpuset")
UNIFIED = Hierarchy(Path("/sys/fs/cgroup"), "")


@pytest.mark.parametrize(
    "mountinfo, expected",
    [
        pytest.param(_V1, [SYSTEMD, CPU, CPUSET], id="version 1 beside an empty version 2"),
        pytest.param(f"{_ROOT}cgroup2 cgroup2 rw,nsdelegate\n", [UNIFIED], id="version 2"),
        pytest.param(f"{_V1}{_V1}", [SYSTEMD, CPU, CPUSET], id="each mounted twice"),
    ],
)
def test_the_hierarchies_of_a_machine(mountinfo: str, expected: list[Hierarchy]) -> None:
    assert cgroups.hierarchies(mountinfo) == expected


def test_a_machine_without_cgroups_is_refused() -> None:
    with pytest.raises(PodiumError, match=r"no cgroups are mounted at /sys/fs/cgroup"):
        cgroups.hierarchies("22 28 0:21 / /sys rw - sysfs sysfs rw\n")


@pytest.mark.parametrize(
    "files, message",
    [
        pytest.param(
            {"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.procs": "1\n"}, "", id="root"
        ),
        pytest.param(
            {"cgroup.controllers": "cpuset cpu memory pids\n", "cgroup.procs": "", "cgroup.type": "domain\n"},
            "",
            id="a container whose processes are in a child",
        ),
        pytest.param(
            {
                "cgroup.controllers": "cpuset cpu memory pids\n",
                "cgroup.procs": "1\n",
                "cgroup.type": "domain\n",
            },
            "has processes, so it gives its children no controllers",
            id="a container",
        ),
        pytest.param(
            {"cgroup.controllers": "cpu pids\n", "cgroup.procs": ""},
            "lacks controllers that kubelet needs: cpuset, memory",
            id="disabled controllers",
        ),
    ],
)
def test_version_2_has_to_give_controllers(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    refused = pytest.raises(PodiumError, match=message) if message else contextlib.nullcontext()
    with refused:
        cgroups.check([Hierarchy(tmp_path, "")])


def test_version_1_has_a_folder_in_every_hierarchy() -> None:
    """A new cgroup of cpuset has no processor and no memory, so both are copied from its parent."""
    assert cgroups.create([SYSTEMD, CPUSET], "p", "node-1") == [
        "mkdir -p /sys/fs/cgroup/systemd/p",
        "mkdir -p /sys/fs/cgroup/systemd/p/node-1",
        "mkdir -p /sys/fs/cgroup/cpuset/p",
        "cat /sys/fs/cgroup/cpuset/cpuset.cpus > /sys/fs/cgroup/cpuset/p/cpuset.cpus",
        "cat /sys/fs/cgroup/cpuset/cpuset.mems > /sys/fs/cgroup/cpuset/p/cpuset.mems",
        "echo 1 > /sys/fs/cgroup/cpuset/p/cgroup.clone_children",
        "mkdir -p /sys/fs/cgroup/cpuset/p/node-1",
        "cat /sys/fs/cgroup/cpuset/p/cpuset.cpus > /sys/fs/cgroup/cpuset/p/node-1/cpuset.cpus",
        "cat /sys/fs/cgroup/cpuset/p/cpuset.mems > /sys/fs/cgroup/cpuset/p/node-1/cpuset.mems",
        "echo 1 > /sys/fs/cgroup/cpuset/p/node-1/cgroup.clone_children",
        "mkdir -p /sys/fs/cgroup/systemd/p/node-1",
        "mkdir -p /sys/fs/cgroup/cpuset/p/node-1",
    ]
    assert cgroups.delegate([SYSTEMD, CPUSET], "p", "node-1") == []


def test_version_2_keeps_processes_out_of_the_cgroup_with_pods() -> None:
    """A cgroup with processes gives its children no controllers, so a node's programs have their own."""
    home = Path("/sys/fs/cgroup/p/node-1/init")
    assert cgroups.homes([UNIFIED], "p", "node-1") == [home]
    assert cgroups.folders([UNIFIED], "p", "node-1") == [home.parent]
    assert cgroups.create([UNIFIED], "p", "node-1")[-1] == f"mkdir -p {home}"
    assert cgroups.delegate([UNIFIED], "p", "node-1")[-1].endswith(
        "> /sys/fs/cgroup/p/node-1/cgroup.subtree_control"
    )
    assert cgroups.homes([UNIFIED], "p", "world") == [Path("/sys/fs/cgroup/p/world")]


@pytest.mark.parametrize(
    "mounted, expected",
    [
        pytest.param([UNIFIED], ["mount -t cgroup2 cgroup2 /n/cg"], id="version 2"),
        pytest.param(
            [SYSTEMD, CPU],
            [
                "mount -t tmpfs -o mode=755 tmpfs /n/cg",
                "mkdir /n/cg/systemd",
                "mount -t cgroup -o none,name=systemd cgroup /n/cg/systemd",
                "mkdir /n/cg/cpu,cpuacct",
                "mount -t cgroup -o cpu,cpuacct cgroup /n/cg/cpu,cpuacct",
            ],
            id="version 1",
        ),
    ],
)
def test_a_node_mounts_the_hierarchies(mounted: list[Hierarchy], expected: list[str]) -> None:
    assert cgroups.mounts(mounted, "/n/cg") == expected


def test_members_and_removal_reach_every_depth(tmp_path: Path) -> None:
    """Folders behave as cgroups do, except that files keep them from being removed."""
    every = [Hierarchy(tmp_path / name, name) for name in ("cpu", "memory")]
    for at, path in enumerate(("cpu/p/world", "memory/p/node-0/kubepods/pod1", "cpu/other")):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "cgroup.procs").write_text(f"{at + 1}\n{at + 11}\n", encoding="ascii")
    assert cgroups.members(every, "p") == {1, 11, 2, 12}
    assert not cgroups.remove(every, "p")
    for file in tmp_path.glob("**/cgroup.procs"):
        file.unlink()
    assert cgroups.remove(every, "p")
    assert sorted(path.name for path in tmp_path.glob("*/*")) == ["other"]


def test_a_command_enters_its_cgroups_before_it_runs(tmp_path: Path) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    argv = cgroups.entering(places, ("printf", "%s|", "two words", "--"))
    for place in places:
        place.mkdir()
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "two words|--|"
    assert [(place / "cgroup.procs").read_text(encoding="ascii") for place in places] == ["0\n", "0\n"]
