"""Run the end-to-end tests in a virtual machine whose only hierarchy of cgroups is that of version 2.

QEMU boots the newest kernel in /boot. The virtual machine sees this machine's files read-only, below an
overlay in its memory. Only the cache is on a disk, because an overlay cannot hold the overlays of nodes. The
disk is a copy that is made for each run. The virtual machine has no network, so missing programs are built
here first.

It needs root, as these builds do. `python -m tools.realnode.vm [--emulated] PYTEST-ARGUMENT...` exits as
pytest does.
"""

import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.helm.program import HELM
from tools.neighbours import images
from tools.realnode import image

from podium.controlplane import folders
from podium.controlplane import programs as controlplane_programs
from podium.controlplane.releases import RELEASES
from podium.errors import PodiumError
from podium.realnode import programs, requirements
from podium.realnode.network import line
from podium.realnode.start import CONTROL_PLANE

_NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "mkfs.ext4": "e2fsprogs",
    "zstd": "zstd",
}
_KVM = Path("/dev/kvm")
_MEMORY_MIB = 10 * 1024
_DISK_BYTES = 40 << 30  # of a sparse file
# Of the shared files, of the disk, and what an overlay needs. Kernels differ in which are built in.
_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_blk", "crc32c_generic", "ext4")
# In the virtual machine, a folder that both machines write: the script of the tests, and their exit code.
_SHARE = "/share"
_VARIABLES = re.compile(r"HOME|PATH|LANG|(GO|HYPOTHESIS_|KUBEBUILDER_|PODIUM_|PYTHON|TEST_ASSET_|XDG_)\w*")


class Kernel(NamedTuple):
    """An installed kernel: its file and the folder of its modules."""

    file: Path
    modules: Path


def newest(boot: Path, modules: Path) -> Kernel:
    """Return the newest kernel in `boot` that has a folder in `modules`.

    Raises PodiumError if there is none.
    """
    found = {
        file.name.removeprefix("vmlinuz-"): file
        for file in boot.glob("vmlinuz-*")
        if (modules / file.name.removeprefix("vmlinuz-") / "modules.dep").exists()
    }
    if not found:
        raise PodiumError(
            f"no kernel in {boot} has modules in {modules}. Install one: linux-image-amd64 (Debian) or"
            " linux-image-generic (Ubuntu)"
        )
    version = max(found, key=lambda each: [int(part) for part in re.findall(r"\d+", each)])
    return Kernel(found[version], modules / version)


def loading_order(dependencies: str, wanted: Iterable[str]) -> list[str]:
    """Return the files of modules and of those that they need; a module that is built in has none.

    By depmod(8), a line of modules.dep is "FILE: FILE...", and the last file is loaded first.
    """
    files = {}
    for text in dependencies.splitlines():
        file, _, needed = text.partition(":")
        files[_module(file)] = [*needed.split()[::-1], file]
    return list(dict.fromkeys(file for name in wanted for file in files.get(name, ())))


def _module(file: str) -> str:
    return Path(file).name.partition(".")[0].replace("-", "_")


def arguments(kernel: Path, folder: Path, processors: int, *, emulated: bool) -> list[str]:
    """Return the command of the virtual machine, whose first file system and disk are in `folder`."""
    shared = (("root", "/", ",readonly=on"), ("share", str(folder / "share"), ""))
    return [
        "qemu-system-x86_64",
        *(("-accel", "tcg,thread=multi", "-cpu", "max") if emulated else ("-accel", "kvm", "-cpu", "host")),
        *("-m", str(_MEMORY_MIB), "-smp", str(processors)),
        *("-display", "none", "-serial", "stdio", "-monitor", "none", "-nic", "none", "-no-reboot"),
        *(
            "-kernel",
            str(kernel),
            "-initrd",
            str(folder / "initrd"),
            "-append",
            "console=ttyS0 quiet panic=-1",
        ),
        *("-drive", f"file={folder / 'disk'},format=raw,if=virtio,cache=unsafe"),
        *(
            word
            for tag, path, mode in shared
            for word in (
                "-fsdev",
                f"local,id={tag},path={path},security_model=none,multidevs=remap{mode}",
                "-device",
                f"virtio-9p-pci,fsdev={tag},mount_tag={tag}",
            )
        ),
    ]


def init(cache: Path) -> str:
    """Return the script of the first process, which makes the root file system and then runs the tests'."""
    options = "trans=virtio,version=9p2000.L,msize=512000"
    new = Path("/new")
    return "\n".join(
        (
            "#!/bin/busybox sh",
            "set -e",
            "/bin/busybox --install -s /bin",
            "export PATH=/bin",
            "mkdir -p /proc /dev /lower /upper /new",
            "mount -t devtmpfs dev /dev",
            'for module in /modules/*; do insmod "$module"; done',
            f"mount -t 9p -o ro,{options},cache=loose root /lower",
            "mount -t tmpfs tmpfs /upper",
            "mkdir /upper/files /upper/work",
            "mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /new",
            line("mount", "-t", "ext4", "/dev/vda", f"{new}{cache}"),
            f"mkdir {new}{_SHARE}",
            f"mount -t 9p -o {options} share {new}{_SHARE}",
            "mount -t proc proc /new/proc",
            "mount -t sysfs sys /new/sys",
            # As on a machine with systemd, no process of a user is in the root of the hierarchy.
            "mount -t cgroup2 -o nsdelegate,memory_recursiveprot cgroup2 /new/sys/fs/cgroup",
            "mkdir /new/sys/fs/cgroup/init",
            "echo $$ > /new/sys/fs/cgroup/init/cgroup.procs",
            "mount -t devtmpfs dev /new/dev",
            "mkdir -p /new/dev/pts /new/dev/shm",
            "mount -t devpts devpts /new/dev/pts",
            "mount -t tmpfs tmpfs /new/dev/shm",
            "mount -t tmpfs tmpfs /new/run",
            f"exec switch_root /new /bin/sh {_SHARE}/run\n",
        )
    )


def run(argv: Sequence[str], folder: Path, environ: Mapping[str, str]) -> str:
    """Return the script that runs a command in a folder, stores its exit code and turns the machine off."""
    kept = {name: value for name, value in environ.items() if _VARIABLES.fullmatch(name)}
    return "\n".join(
        (
            *(f"export {line(f'{name}={value}')}" for name, value in sorted(kept.items())),
            "hostname vm",
            "ip link set lo up",
            line("cd", str(folder)),
            line(*argv),
            f"echo $? > {_SHARE}/code",
            "sync",
            "echo o > /proc/sysrq-trigger",
            # The end of the first process would be a panic.
            "while :; do sleep 1; done\n",
        )
    )


def main() -> None:
    words = sys.argv[1:]
    emulated = words[:1] == ["--emulated"]
    try:
        sys.exit(_tests(words[emulated:], emulated=emulated))
    except PodiumError as error:
        sys.exit(f"python -m tools.realnode.vm: {error}")


def _tests(words: list[str], *, emulated: bool) -> int:
    """Run pytest in a virtual machine and return its exit code."""
    requirements.missing(_NEEDED)
    if not emulated and not os.access(_KVM, os.R_OK | os.W_OK):
        raise PodiumError(
            f"{_KVM} cannot be used. Load the module kvm_intel or kvm_amd, or use --emulated (EMULATED=1),"
            " which takes about ten times as long"
        )
    kernel = newest(Path("/boot"), Path("/lib/modules"))
    _build()
    cache = folders.cache().parent
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="podium-vm-") as name:
        folder = Path(name)
        share = folder / "share"
        share.mkdir()
        script = run([sys.executable, "-m", "pytest", *words], image.ROOT, os.environ)
        (share / "run").write_text(script, encoding="utf-8")
        _initrd(folder, kernel, init(cache))
        print(f"copying {cache} for the virtual machine", file=sys.stderr, flush=True)
        with (folder / "disk").open("wb") as disk:
            disk.truncate(_DISK_BYTES)
        _checked(["mkfs.ext4", "-q", "-m", "0", "-d", str(cache), str(folder / "disk")])
        machine = arguments(kernel.file, folder, os.cpu_count() or 1, emulated=emulated)
        done = subprocess.run(machine, stdin=subprocess.DEVNULL, check=False)
        code = share / "code"
        if not code.exists():
            raise PodiumError(f"the virtual machine ended before the tests, with exit code {done.returncode}")
        return int(code.read_text(encoding="ascii"))


def _build() -> None:
    """Build what the tests run and the cache lacks."""
    for release in RELEASES.values():
        controlplane_programs.find(release, (*CONTROL_PLANE, "kubectl"), os.environ, sys.stderr)
        programs.find(release, os.environ, sys.stderr)
    image.build()
    for each in (images.CSI_DRIVER, images.CSI_PROVISIONER, images.DRA_DRIVER):
        each.archive()
    for tools in (HELM, images.KUBE_ROUTER):
        tools.programs()


def _initrd(folder: Path, kernel: Kernel, script: str) -> None:
    """Write the first file system: busybox, its script, and the modules by the order of their names."""
    place = folder / "first"
    (place / "bin").mkdir(parents=True)
    (place / "modules").mkdir()
    shutil.copy(shutil.which("busybox") or "", place / "bin" / "busybox")
    (place / "init").write_text(script, encoding="utf-8")
    (place / "init").chmod(0o755)
    dependencies = (kernel.modules / "modules.dep").read_text(encoding="utf-8")
    for at, file in enumerate(loading_order(dependencies, _MODULES)):
        (place / "modules" / f"{at:02}-{_module(file)}").write_bytes(content(kernel.modules / file))
    files = "\n".join(str(path.relative_to(place)) for path in sorted(place.rglob("*")))
    archive = subprocess.run(
        ["busybox", "cpio", "-o", "-H", "newc"],
        cwd=place,
        input=files.encode(),
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        raise PodiumError(f"`busybox cpio` failed: {archive.stderr.decode().strip()}")
    (folder / "initrd").write_bytes(archive.stdout)


def content(file: Path) -> bytes:
    """Return a module, which distributions compress in their own ways."""
    if file.suffix == ".zst":
        return _checked(["zstd", "-dqc", str(file)])
    content = file.read_bytes()
    return lzma.decompress(content) if file.suffix == ".xz" else content


def _checked(argv: list[str]) -> bytes:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise PodiumError(f"`{shlex.join(argv)}` failed: {done.stderr.decode().strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
