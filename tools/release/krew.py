"""The plugin of kubectl for krew: an archive with the wheel and its locked packages' names, and a manifest.

krew unpacks archives and has no notion of Python, so the archive has a program that installs the wheel at its
first call. That needs Python 3.11 and a package index; the caveats of the manifest say so.
"""

import hashlib
from pathlib import Path

from tools.release import locked
from tools.release.archives import members, tarball
from tools.release.artifacts import ROOT, Release, run
from tools.release.distributions import WHEEL

from podium.documents.yamlwriter import dump_all
from podium.errors import PodiumError
from podium.version import VERSION

ARCHIVE = f"kubectl-podium-{VERSION}.tar.gz"
MANIFEST = "podium.krew.yaml"
PROGRAM = "kubectl-podium"


def build(release: Release) -> str:
    """Write archive and manifest, and return a line about them."""
    runtime = locked.requirements(locked.runtime(locked.packages()))
    files = {
        PROGRAM: Path(__file__).with_name(PROGRAM).read_bytes(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        "requirements.txt": runtime.encode(),
        WHEEL: (release.folder / WHEEL).read_bytes(),
    }
    content = tarball(files, release.epoch, frozenset({PROGRAM}))
    (release.folder / ARCHIVE).write_bytes(content)
    text = dump_all([manifest(release.address, hashlib.sha256(content).hexdigest())])
    (release.folder / MANIFEST).write_text(text, encoding="utf-8")
    return f"{ARCHIVE} {len(content) // 1000} kB"


def manifest(address: str, digest: str) -> dict[str, object]:
    """Return the manifest of the plugin, whose archive has a SHA-256 digest."""
    systems = {"key": "os", "operator": "In", "values": ["linux", "darwin"]}
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "podium"},
        "spec": {
            "version": f"v{VERSION}",
            "homepage": address,
            "shortDescription": "Audit and plan priorities of gangs",
            "description": (
                "Finds groups of pods (PodGroup, Workload) that will not be scheduled because priorities\n"
                "differ, plans preemptions, explains why a pod waits, and installs webhooks and scheduler.\n"
            ),
            "caveats": (
                "The first call installs Podium's Python packages beside the plugin, by hash. It needs\n"
                "Python 3.11 or newer with venv, and a package index.\n"
            ),
            "platforms": [
                {
                    "selector": {"matchExpressions": [systems]},
                    "uri": f"{address}/releases/download/v{VERSION}/{ARCHIVE}",
                    "sha256": digest,
                    "files": [{"from": "*", "to": "."}],
                    "bin": PROGRAM,
                }
            ],
        },
    }


def check(release: Release, minor: str, python: Path) -> str:
    """Unpack the archive and call the program through a link, as krew does. Raises PodiumError."""
    folder = release.work / f"krew-{minor}"
    store = folder / "store" / "podium" / f"v{VERSION}"
    store.mkdir(parents=True)
    for name, content in members(release.folder / ARCHIVE).items():
        (store / name).write_bytes(content)
    (store / PROGRAM).chmod(0o755)
    link = folder / "bin" / PROGRAM
    link.parent.mkdir()
    link.symlink_to(store / PROGRAM)
    environ = {**release.environ, "PYTHON": str(python)}
    told = [run([str(link), "version"], cwd=release.work, environ=environ) for _ in range(2)]
    if not all(VERSION in answer for answer in told):
        raise PodiumError(f"the plugin says {told}")
    return "unpacked and called through a link, the second time without an installation"
