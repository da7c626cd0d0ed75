"""The virtual machine of the end-to-end tests: its kernel, modules, command line and scripts."""

import lzma
import subprocess
from pathlib import Path

import pytest
from tools.realnode import vm

from podium.errors import PodiumError

_DEPENDENCIES = """\
kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz
kernel/net/9p/9pnet_virtio.ko.xz: kernel/net/9p/9pnet.ko.xz
kernel/net/9p/9pnet.ko.xz:
kernel/drivers/virtio/virtio-pci.ko.xz:
"""


def _kernels(folder: Path, *versions: str, without_modules: tuple[str, ...] = ()) -> tuple[Path, Path]:
    boot, modules = folder / "boot", folder / "modules"
    boot.mkdir()
    for version in versions:
        (boot / f"vmlinuz-{version}").touch()
        (modules / version).mkdir(parents=True)
        if version not in without_modules:
            (modules / version / "modules.dep").touch()
    return boot, modules


@pytest.mark.parametrize(
    "versions, without_modules, expected",
    [
        pytest.param(("6.1.0-9-amd64", "6.1.0-50-amd64"), (), "6.1.0-50-amd64", id="numbers and not text"),
        pytest.param(("6.8.0-31-generic", "6.14.0-1"), ("6.14.0-1",), "6.8.0-31-generic", id="with modules"),
    ],
)
def test_the_newest_kernel_that_has_modules_is_booted(
    tmp_path: Path, versions: tuple[str, ...], without_modules: tuple[str, ...], expected: str
) -> None:
    boot, modules = _kernels(tmp_path, *versions, without_modules=without_modules)
    assert vm.newest(boot, modules) == vm.Kernel(boot / f"vmlinuz-{expected}", modules / expected)


def test_a_machine_without_kernels_gets_the_package_to_install(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match=r"Install one: linux-image-amd64 \(Debian\)"):
        vm.newest(*_kernels(tmp_path))


@pytest.mark.parametrize(
    "wanted, expected",
    [
        pytest.param(
            ("9pnet_virtio", "9p"), ("9pnet", "9pnet_virtio", "netfs", "9p"), id="needed ones first"
        ),
        pytest.param(("virtio_pci",), ("virtio-pci",), id="a file with a dash"),
        pytest.param(("ext4",), (), id="built in"),
    ],
)
def test_modules_are_loaded_after_those_that_they_need(
    wanted: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    names = [Path(file).name.removesuffix(".ko.xz") for file in vm.loading_order(_DEPENDENCIES, wanted)]
    assert names == list(expected)


@pytest.mark.parametrize(
    "suffix, content", [("ko", b"module"), ("ko.xz", lzma.compress(b"module"))], ids=["plain", "xz"]
)
def test_modules_are_decompressed(tmp_path: Path, suffix: str, content: bytes) -> None:
    (tmp_path / f"a.{suffix}").write_bytes(content)
    assert vm.content(tmp_path / f"a.{suffix}") == b"module"


@pytest.mark.parametrize("emulated, accelerator", [(False, "kvm"), (True, "tcg,thread=multi")])
def test_this_machine_is_shared_read_only(emulated: bool, accelerator: str) -> None:
    argv = vm.arguments(Path("/boot/vmlinuz-1"), Path("/d"), 4, emulated=emulated)
    assert argv[argv.index("-accel") + 1] == accelerator
    assert [argv[at + 1] for at, word in enumerate(argv) if word == "-fsdev"] == [
        "local,id=root,path=/,security_model=none,multidevs=remap,readonly=on",
        "local,id=share,path=/d/share,security_model=none,multidevs=remap",
    ]


def test_the_first_process_leaves_the_root_of_the_only_hierarchy() -> None:
    lines = vm.init(Path("/home/me/.cache/podium")).splitlines()
    assert [each for each in lines if "cgroup" in each and not each.startswith("#")] == [
        "mount -t cgroup2 -o nsdelegate,memory_recursiveprot cgroup2 /new/sys/fs/cgroup",
        "mkdir /new/sys/fs/cgroup/init",
        "echo $$ > /new/sys/fs/cgroup/init/cgroup.procs",
    ]
    assert "mount -t ext4 /dev/vda /new/home/me/.cache/podium" in lines
    assert lines[-1] == "exec switch_root /new /bin/sh /share/run"


def test_the_scripts_are_valid_for_a_shell() -> None:
    for script in (vm.init(Path("/a b")), vm.run(["true", "a'b"], Path("/a b"), {"HOME": "/a b"})):
        subprocess.run(["sh", "-n", "-c", script], check=True)


def test_the_tests_get_settings_and_no_other_variable() -> None:
    """The variables of a developer may hold secrets, and the script is a file."""
    environ = {
        "HOME": "/root",
        "GOPROXY": "direct",
        "PODIUM_DIFFERENTIAL": "full",
        "AWS_SECRET": "a",
        "PS1": "",
    }
    lines = vm.run(["true"], Path("/"), environ).splitlines()
    assert [each for each in lines if each.startswith("export")] == [
        "export GOPROXY=direct",
        "export HOME=/root",
        "export PODIUM_DIFFERENTIAL=full",
    ]
