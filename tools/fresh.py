"""`python -m tools.fresh` runs commands in an empty Debian, in a clone of this checkout, as a newcomer does.

Root gets the Debian from debootstrap. All mounts and processes are in namespaces of their own, so they end
with the command, also after Ctrl-C. Others need docker or podman. Without either, the exit code is 2; if
a command fails, it is 1. The archive of each Debian stays in ~/.cache/podium/fresh. A clone has no
uncommitted changes.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The oldest Python that pyproject.toml allows in a distribution (3.11.2), and the image's (3.13).
DEBIANS = {"bookworm": "debian:12", "trixie": "debian:13"}
# What README requires, and git for the clone.
PACKAGES = ("ca-certificates", "git", "make", "python3-venv")
COMMANDS = ("make demo", "make test")
# How this machine reaches package registries. The files may be absent.
_FILES = ("etc/resolv.conf", "etc/pip.conf", "usr/local/share/ca-certificates")
_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "GOPROXY", "PIP_INDEX_URL", "UV_DEFAULT_INDEX")
_SETTINGS = (*_NAMES, *(name.lower() for name in _NAMES[:3]), "PODIUM_SEED", "SSL_CERT_FILE")
_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
_MOUNTED = """
mount -t proc proc "$1/proc"
mount -t sysfs -o ro sysfs "$1/sys"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
mount -t tmpfs tmpfs "$1/dev/shm"
exec chroot "$@"
"""
_INSTALLED = f"""
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends {" ".join(PACKAGES)} >/dev/null
git config --global --add safe.directory '*'
git clone --quiet /source /root/podium
"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The last processes of a namespace end some moments after the command was killed.
_REMOVALS = 50


def main() -> int:
    """Run the commands and return the exit code."""
    parser = argparse.ArgumentParser(prog="make fresh")
    parser.add_argument("--debian", action="append", choices=DEBIANS, help="default: all")
    parser.add_argument("--command", action="append", help="default: README's commands")
    parser.add_argument("--prepare", action="store_true", help="only make the archives, with debootstrap")
    chosen = parser.parse_args()
    debians = chosen.debian or list(DEBIANS)
    bootstraps = _has_debootstrap()
    container = shutil.which("docker") or shutil.which("podman")
    if not bootstraps and (chosen.prepare or container is None):
        sys.stderr.write("fresh: not run: needs root and debootstrap, or docker or podman\n")
        return 2
    for debian in debians:
        archive = _archive(debian) if bootstraps else None
        if chosen.prepare:
            continue
        command = " && ".join(("cd /root/podium", *(chosen.command or COMMANDS)))
        print(f"fresh: {debian}: {command}", flush=True)
        code = _run_in(archive, command) if archive else _run_container(str(container), debian, command)
        if code:
            sys.stderr.write(f"fresh: {debian}: exit code {code}\n")
            return 1
    return 0


def _has_debootstrap() -> bool:
    """Return whether debootstrap can run; install it where that is possible."""
    if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    if not shutil.which("debootstrap") and shutil.which("apt-get"):
        for line in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", "debootstrap"]):
            subprocess.run(["apt-get", *line], stdout=subprocess.DEVNULL, check=False)
    return shutil.which("debootstrap") is not None


def _archive(debian: str) -> Path:
    """Return the archive of an empty Debian with the packages, made if it is not in the cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "podium" / "fresh"
    archive = cache / f"{debian}-{sha256(' '.join(PACKAGES).encode()).hexdigest()[:8]}.tar"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        print(f"fresh: {debian}: debootstrap, about 2 minutes", flush=True)
        with _folder(cache) as folder:
            root, draft = folder / "root", folder / "draft.tar"
            options = ["--variant=minbase", f"--include={','.join(PACKAGES)}"]
            log = cache / f"{debian}.log"
            with log.open("wb") as output:
                line = [*_NAMESPACES, "debootstrap", *options, debian, str(root)]
                if subprocess.run(line, stdout=output, stderr=output, check=False).returncode:
                    sys.exit(f"fresh: debootstrap failed; its log is {log}")
            shutil.rmtree(root / "var/cache/apt/archives")
            subprocess.run(["tar", "--one-file-system", "-cf", draft, "-C", root, "."], check=True)
            draft.replace(archive)
    return archive


def _run_in(archive: Path, command: str) -> int:
    """Run a command in a Debian from an archive, and return its exit code."""
    with _folder(archive.parent) as root:
        subprocess.run(["tar", "-xf", archive, "-C", root], check=True)
        for name in _FILES:
            source, target = Path("/", name), root / name
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            elif source.exists():
                shutil.copyfile(source, target)
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, root / "root/podium"], check=True)
        environment = {"HOME": "/root", "LANG": "C.UTF-8", "PATH": _PATH, **_settings(os.environ)}
        inside = ["sh", "-ec", f"update-ca-certificates >/dev/null 2>&1; {command}"]
        line = [*_NAMESPACES, "sh", "-ec", _MOUNTED, "sh", str(root), *inside]
        return subprocess.run(line, env=environment, check=False).returncode


def _run_container(program: str, debian: str, command: str) -> int:
    """Run a command in a container with the packages, and return its exit code."""
    settings = [f"--env={name}={value}" for name, value in _settings(os.environ).items()]
    options = ["--rm", "--init", f"--volume={ROOT}:/source:ro", *settings]
    line: Sequence[str] = [program, "run", *options, DEBIANS[debian], "sh", "-ec", _INSTALLED + command]
    return subprocess.run(line, check=False).returncode


def _settings(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in _SETTINGS if name in environ}


@contextmanager
def _folder(cache: Path) -> Iterator[Path]:
    """Yield a new folder, which is removed at the end."""
    folder = Path(tempfile.mkdtemp(dir=cache))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for left in reversed(range(_REMOVALS)):
            shutil.rmtree(folder, ignore_errors=left > 0)
            if not folder.exists():
                break
            time.sleep(0.1)


if __name__ == "__main__":
    # A shell ignores SIGINT for what it starts in the background.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
