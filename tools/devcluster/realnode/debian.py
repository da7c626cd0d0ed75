"""Debian root file systems, made from packages by mmdebstrap, which itself comes from a package.

Nothing is installed on the machine. The lists of packages are in the cache, too.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import IO, NamedTuple

from tools.devcluster.controlplane import folders
from tools.devcluster.realnode import requirements
from tools.devcluster.realnode.namespaces import PATH

from podium.errors import PodiumError

# Packages of a node in addition to the programs that are built. Tests build images with buildah and netavark,
# and enforce NetworkPolicies with ipset.
NODE = (
    "buildah",
    "ca-certificates",
    "conntrack",
    "containernetworking-plugins",
    "iproute2",
    "ipset",
    "iptables",
    "kmod",
    "libseccomp2",
    "mount",
    "netavark",
    "nftables",
    "procps",
    "runc",
    "util-linux",
)
# Of Debian's releases, the first with Python 3.13. Ubuntu's own keyring does not sign it.
_DEBIAN_SUITE = "trixie"
_KEYRING = Path("/usr/share/keyrings/{}-archive-keyring.gpg")
_UNUSED = ("doc", "man", "locale")


class Distribution(NamedTuple):
    """A source of packages that this machine trusts."""

    suite: str
    mirror: str
    keyring: Path
    components: str


def distribution(os_release: str, targets: str) -> Distribution:
    """Return the source for a machine: its own distribution's mirror.

    `targets` has a line "SITE CODENAME" for each index that apt uses. Raises PodiumError for another
    distribution.
    """
    facts = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', os_release, re.MULTILINE))
    name, codename = facts.get("ID", ""), facts.get("VERSION_CODENAME", "")
    if name not in ("debian", "ubuntu"):
        raise PodiumError(
            f"the nodes' file system is made on Debian and Ubuntu, and this is {name or 'another system'}"
        )
    sites = [site for site, index in map(str.split, targets.splitlines()) if index == codename]
    mirror = next((site for site in sites if site.rstrip("/").endswith(name)), "")
    if not mirror:
        raise PodiumError(f"apt has no source of {name} {codename}: run `apt-get update` first")
    is_debian = name == "debian"
    return Distribution(
        suite=_DEBIAN_SUITE if is_debian else codename,
        mirror=mirror,
        keyring=Path(str(_KEYRING).format(name)),
        components="main" if is_debian else "main,universe",
    )


def root(cache: Path, name: str, packages: tuple[str, ...], progress: IO[str]) -> Path:
    """Return a root file system with these packages, made first if missing.

    Raises PodiumError if it cannot be made.
    """
    stamp = folders.digest([name.encode(), _DEBIAN_SUITE.encode(), *map(str.encode, packages)])
    # Other packages get another folder: a running cluster has its own below its nodes' file systems.
    place = cache / f"{name}-{stamp[:16]}"

    def make(draft: Path) -> None:
        requirements.check_builders()
        source = _source()
        print(f"making the file system {name} of {source.suite}: a minute", file=progress, flush=True)
        bootstrap = _mmdebstrap(cache)
        _run(command(bootstrap, source, packages, draft / "root"), f"{PATH}:{bootstrap.parent}")

    return folders.ensure(place, stamp, f"the file system {name}", progress, make) / "root"


def command(
    mmdebstrap: Path, source: Distribution, packages: tuple[str, ...], place: Path
) -> tuple[str, ...]:
    """Return the command that makes a root file system at `place`."""
    return (
        str(mmdebstrap),
        "--quiet",
        "--mode=root",
        "--variant=essential",
        f"--include={','.join(packages)}",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in _UNUSED),
        f"--keyring={source.keyring}",
        f"--components={source.components}",
        source.suite,
        str(place),
        source.mirror,
    )


def _source() -> Distribution:
    targets = _run(("apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)"), PATH)
    return distribution(Path("/etc/os-release").read_text(encoding="utf-8"), targets)


def _mmdebstrap(cache: Path) -> Path:
    """Return the path of mmdebstrap: this machine's, or one that is unpacked in the cache."""
    installed = shutil.which("mmdebstrap", path=PATH)
    place = cache / "mmdebstrap"
    program = place / "usr" / "bin" / "mmdebstrap"
    if installed is not None or program.exists():
        return Path(installed or program)
    lists, downloads = place / "lists", place / "downloads"
    for folder in (lists / "partial", downloads):
        folder.mkdir(parents=True, exist_ok=True)
    apt = ("apt-get", "--quiet=2", "-o", f"Dir::State::Lists={lists}", "-o", "APT::Sandbox::User=root")
    _run((*apt, "update"), PATH)
    _run((*apt, "download", "mmdebstrap"), PATH, downloads)
    (package,) = downloads.glob("mmdebstrap_*.deb")
    _run(("dpkg-deb", "--extract", str(package), str(place)), PATH)
    return program


def _run(argv: tuple[str, ...], path: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        argv,
        cwd=folder,
        env={**os.environ, "PATH": path, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PodiumError(f"`{argv[0]}` failed: {' | '.join(done.stderr.strip().splitlines()[-3:])}")
    return done.stdout
