"""`python -m tools.release` builds a release into out/release and checks it: `make release-check`.

Nothing is published. The workflow `release` runs the same command with --strict, signs what it builds, and
publishes it. Without --strict the check goes on if this machine lacks a Python or an advisory service, and
says so.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tools.devcluster.controlplane import folders
from tools.devcluster.controlplane.releases import NEWEST
from tools.release import artifacts, bom, charts, distributions, krew, oci, scan, signing
from tools.release.artifacts import ROOT, Image, Release
from tools.release.programs import program

from podium.errors import PodiumError

Step = tuple[str, Callable[[], str]]

_CHART_TESTS = (
    "tests/integration/manifests/test_chart.py",
    "tests/integration/manifests/test_chart_configuration.py",
    "tests/integration/manifests/test_fresh.py",
)


def steps(release: Release, pythons: dict[str, Path]) -> Iterator[Step]:
    """Yield each step and its name, in order."""
    minors = list(pythons)
    yield "wheel and sdist", partial(distributions.build, release)
    yield "contents", partial(distributions.contents, release)
    yield "metadata", partial(_metadata, release)
    for minor, python in pythons.items():
        yield (
            f"Python {minor}",
            partial(distributions.install, release, minor, python),
        )
    yield "chart", partial(charts.build, release)
    yield "chart's package", partial(charts.check, release)
    yield "chart's tests", _tests
    yield "rendered YAML", partial(charts.rendered, release)
    yield "krew", partial(krew.build, release)
    # The lock has other versions of packages for the oldest Python.
    for minor in dict.fromkeys((minors[0], minors[-1])):
        yield f"krew, Python {minor}", partial(krew.check, release, minor, pythons[minor])
    yield "image", partial(oci.build, release)
    # The image's Python.
    yield "SBOM and licences", partial(bom.build, release, pythons.get("3.13", pythons[minors[-1]]))
    yield "checksums", partial(signing.sums, release)
    yield "signature", partial(signing.check, release)


def _metadata(release: Release) -> str:
    files = [str(release.folder / name) for name in (distributions.WHEEL, distributions.SDIST)]
    artifacts.run([program(release, "twine"), "check", "--strict", *files])
    return "accepted by twine"


def _tests() -> str:
    """Run the tests of the chart, of which none may be skipped: values, and equality with kustomize."""
    pytest = [sys.executable, "-m", "pytest", "-q"]
    environ = dict(os.environ)
    kubectl = shutil.which("kubectl")
    # Any kubectl has kustomize. Without one, that of the control plane is built.
    if kubectl and not (folders.cache(environ) / NEWEST.version / "kubectl").exists():
        environ.setdefault("TEST_ASSET_KUBECTL", kubectl)
    told = artifacts.run([*pytest, *_CHART_TESTS], cwd=ROOT, environ=environ).splitlines()[-1]
    if "skipped" in told:
        raise PodiumError(f"tests of the chart were skipped: {told}")
    return told


def main() -> int:
    """Run all steps and return the exit code."""
    parser = argparse.ArgumentParser(prog="make release-check", description="Build a release and check it.")
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "release", help="of the artifacts")
    parser.add_argument("--address", default=artifacts.ADDRESS, help="of the repository")
    parser.add_argument("--image", default="example.com/podium", help="repository of the image")
    parser.add_argument("--digest", default="", help="of the published image, sha256:...")
    parser.add_argument("--strict", action="store_true", help="every Python and the scan are required")
    asked = parser.parse_args()
    release = artifacts.new(asked.folder, asked.address, Image(asked.image, asked.digest))
    pythons = {minor: distributions.interpreter(minor) for minor in distributions.minors()}
    absent = [minor for minor, python in pythons.items() if python is None]
    left = [f"Python {', '.join(absent)}: not on this machine"] if absent else []
    try:
        for name, step in steps(
            release, {minor: path for minor, path in pythons.items() if path is not None}
        ):
            _say(name, step())
        scanned = scan.check(release)
    except PodiumError as error:
        _say("failed", str(error))
        return 1
    _say("vulnerabilities", scanned)
    if scanned.startswith("not scanned"):
        left.append(f"vulnerabilities: {scanned}")
    for line in left:
        _say("not checked", line)
    return 1 if left and asked.strict else 0


def _say(name: str, line: str) -> None:
    print(f"{name:18} {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
